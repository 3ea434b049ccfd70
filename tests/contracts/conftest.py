"""The sandboxes that the sandbox contract runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.contracts.sandbox_benches import SANDBOX_BENCHES, WITH_FILES_OF_THEIR_OWN

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from sandbox.base import Sandbox, SandboxProvider
    from tests.contracts.sandbox_bench import SandboxBench


QUICK = ("memory", "bubblewrap", "local files")
"""Benches that `make test` runs; the others repeat the contract on a daemon, a remote service or the bare host."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The contract of files runs once for all providers that share them."""
    if "sandbox_bench" in metafunc.fixturenames:
        own_files = "files_of_its_own" in metafunc.fixturenames
        names = WITH_FILES_OF_THEIR_OWN if own_files else list(SANDBOX_BENCHES)
        rows = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in names]
        metafunc.parametrize("sandbox_bench", rows, indirect=True)


@pytest.fixture
def files_of_its_own() -> None:
    """Who uses it asks for files only, and is spared the providers whose files another bench has too."""


@pytest.fixture
def sandbox_bench(request: pytest.FixtureRequest) -> SandboxBench:
    found = SANDBOX_BENCHES[request.param]
    if missing := found.missing():
        pytest.skip(missing)
    return found


@pytest.fixture
async def sandbox_provider(sandbox_bench: SandboxBench, tmp_path: Path) -> AsyncIterator[SandboxProvider]:
    shared = {place: tmp_path / "skills" / place for place in ("public", "custom")}
    made = sandbox_bench.make(
        lambda thread_id: tmp_path / thread_id / "user-data",
        lambda thread_id: shared | {"mine": tmp_path / "users" / thread_id},
    )
    await made.start()
    yield made
    await made.shutdown()


@pytest.fixture
async def sandbox(sandbox_provider: SandboxProvider) -> Sandbox:
    return await sandbox_provider.acquire("thread")
