"""The gateway that the skills are followed in, with a sandbox that isolates and a web of this machine's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.flow.conftest import model_process, only_well_formed_requests, person, public_world, telegram_process
from tests.flow.sandboxed import require_bubblewrap
from tests.simulators.process import SimulatorProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.flow.gateway import World

__all__ = ["model_process", "only_well_formed_requests", "person", "public_world", "telegram_process"]


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    """The address of the simulated website, which answers as a SearXNG too."""
    with SimulatorProcess("tests.simulators.web") as process:
        yield f"http://127.0.0.1:{process.port}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(public_world: World, web: str) -> AsyncIterator[World]:
    require_bubblewrap()
    public_world.settings["web"] = {
        "search": {"provider": "searxng", "base_url": web},
        "fetch": {"enabled": True, "allow": [web.removeprefix("http://")]},
    }
    async with public_world:
        yield public_world
