"""/prose and /enhance in a chat: over what is typed behind them, and over the message that they reply to."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.flow.platforms.base import Person, shows
from tests.flow.platforms.world import PLATFORMS, Everywhere, everywhere, simulators
from tests.simulators.model.client import ModelSimulator
from tests.simulators.model.scripts import Say
from tests.simulators.sandbox.provider import USE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.simulators.process import SimulatorProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")

KNOWN = range(300, 320)
QUOTES = ("telegram", "feishu", "wecom")
"""Platforms on which a reply says to what; Slack has threads in its place."""
_people = itertools.count(KNOWN.start)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(
    telegram_process: SimulatorProcess, model_process: SimulatorProcess, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Everywhere]:
    with simulators(telegram_process) as processes:
        async with (
            ModelSimulator(model_process.port) as model,
            everywhere(processes, model, tmp_path_factory.mktemp("gateway")) as world,
        ):
            allow = [world.platforms[account].id(Person(number)) for account in PLATFORMS for number in KNOWN]
            world.settings = {"access": {"dm": "allowlist", "allow": allow}, "sandbox": {"use": USE}}
            async with world:
                yield world


async def asked(gateway: Everywhere, part: str) -> str:
    """What the model was asked with these words."""
    return next(each.last_user_text for each in await gateway.model.completions() if part in each.last_user_text)


@pytest.mark.parametrize("account", PLATFORMS)
async def test_they_work_on_what_is_typed_behind_them(gateway: Everywhere, account: str) -> None:
    platform, person = gateway.platforms[account], Person(next(_people))
    mark = f"the deer of {person.number}"
    await gateway.model.script(mark, [Say(text=f"A clear request about {mark}.")], "contains")
    await platform.say(f"/enhance something about {mark}", person)
    await shows(platform, person, f"A clear request about {mark}.")
    assert "skill: enhance\n" in await asked(gateway, mark)


@pytest.mark.parametrize("account", QUOTES)
async def test_they_work_on_the_message_that_they_reply_to_whoever_wrote_it(gateway: Everywhere, account: str) -> None:
    platform, person = gateway.platforms[account], Person(next(_people))
    await platform.say(f"!say A long text on antlers for {person.number}.", person)
    long = await shows(platform, person, "A long text on antlers")
    await platform.say("!say Something else.", person)
    await shows(platform, person, "Something else.")
    order = f"shorten to {person.number} words"
    await gateway.model.script(order, [Say(text=f"Shorter, {person.number}.")], "contains")
    await platform.answer(long, f"/prose {order}", person)
    await shows(platform, person, f"Shorter, {person.number}.")
    prompt = await asked(gateway, order)
    assert "skill: prose\n" in prompt
    assert f"A long text on antlers for {person.number}." in prompt
