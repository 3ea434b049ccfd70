"""The sandboxes that the sandbox contract runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.contracts.sandbox_benches import SANDBOX_BENCHES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from sandbox.base import Sandbox, SandboxProvider
    from tests.contracts.sandbox_bench import SandboxBench


@pytest.fixture(params=SANDBOX_BENCHES)
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
