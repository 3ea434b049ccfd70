"""A file that the agent makes reaches the chat byte for byte on every platform, or the answer says why it does not."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.flow.platforms.base import SECONDS, Person, shows
from tests.flow.platforms.world import PLATFORMS, Everywhere, everywhere, simulators
from tests.flow.sandboxed import bash, call, require_bubblewrap
from tests.simulators.model.client import ModelSimulator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.flow.platforms.base import Platform
    from tests.simulators.process import SimulatorProcess

require_bubblewrap()
pytestmark = pytest.mark.asyncio(loop_scope="module")

KNOWN = range(100, 120)
LARGEST = {"feishu": 30, "wecom": 20}
"""Megabytes (of 1 048 576 bytes) of a file from a bot, where that is less than the agent may present."""

_people = itertools.count(KNOWN.start)


@dataclass
class Here:
    platform: Platform
    person: Person


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(
    telegram_process: SimulatorProcess, model_process: SimulatorProcess, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Everywhere]:
    with simulators(telegram_process) as processes:
        async with (
            ModelSimulator(model_process.port) as model,
            everywhere(processes, model, tmp_path_factory.mktemp("gateway")) as world,
        ):
            accounts = [world.platforms[account] for account in PLATFORMS]
            allow = [platform.id(Person(number)) for platform in accounts for number in KNOWN]
            world.settings = {"access": {"dm": "allowlist", "allow": allow}}
            async with world:
                yield world


@pytest_asyncio.fixture(loop_scope="module")
async def here(gateway: Everywhere, request: pytest.FixtureRequest) -> Here:
    await gateway.model.reset()
    return Here(gateway.platforms[request.param], Person(next(_people)))


async def received(here: Here) -> list[tuple[str, str]]:
    """The files that came, as soon as there are any and nothing follows them."""
    async with asyncio.timeout(SECONDS):
        while not await here.platform.files(here.person):
            pass
    await here.platform.quiet(here.person)
    return await here.platform.files(here.person)


@pytest.mark.parametrize("here", PLATFORMS, indirect=True)
async def test_what_the_agent_presents_arrives_byte_for_byte(here: Here) -> None:
    content = bytes(range(256)) * 1000
    make = "python3 -c \"open('/mnt/user-data/outputs/all.dat','wb').write(bytes(range(256))*1000)\""
    present = call("present_files", paths=["/mnt/user-data/outputs/all.dat"])
    await here.platform.say("\n".join([bash(make), present, "!say here it is"]), here.person)
    await shows(here.platform, here.person, "here it is")
    assert await received(here) == [("all.dat", hashlib.sha256(content).hexdigest())]


@pytest.mark.parametrize("here", LARGEST, indirect=True)
async def test_what_is_too_large_for_the_platform_is_named_in_the_answer(here: Here) -> None:
    most = LARGEST[here.platform.account]
    make = f"cd /mnt/user-data/outputs; truncate -s {most * 1024 * 1024 + 1} film.dat; echo small > note.txt"
    paths = [f"/mnt/user-data/outputs/{name}" for name in ("film.dat", "note.txt")]
    await here.platform.say("\n".join([bash(make), call("present_files", paths=paths), "!say two files"]), here.person)
    answer = await shows(here.platform, here.person, "was not sent: this platform accepts files of at most")
    assert answer.text.startswith("two files")
    assert "film.dat" in answer.text
    assert [name for name, _ in await received(here)] == ["note.txt"]
