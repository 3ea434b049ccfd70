"""Nobody pays for MCP who has no server: nothing of the SDK is imported."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING

from tests.simulators.process import REPO_ROOT, child_environment

if TYPE_CHECKING:
    import pytest

    from tests.harness.mcp.conftest import Bench

PROGRAM = """
import json, sys
import bot.process.gateway, harness.run.runner
print(json.dumps([name for name in ("mcp", "starlette", "uvicorn", "re2", "jsonschema") if name in sys.modules]))
"""


async def test_nothing_is_imported_without_a_server() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM), cwd=REPO_ROOT, env=child_environment(), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert (process.returncode, json.loads(output)) == (0, [])


async def test_a_client_that_cannot_be_loaded_is_reported(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "harness.mcp.connection", None)
    async with asyncio.timeout(5), bench.pool(play=bench.stdio()) as pool:
        (facts,) = pool.facts
    assert (facts.state, facts.tools) == ("connecting", 0)
    assert "see the log" in facts.detail
    assert "mcp: no server is connected" in caplog.text
