"""/prose and /enhance in a chat: over what is typed behind them, and over the message that they reply to."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from bot.texts.en import EN
from tests.flow.platforms.base import Person, Seen, shows
from tests.flow.platforms.world import PLATFORMS, Everywhere, everywhere, simulators
from tests.simulators.model.client import ModelSimulator
from tests.simulators.model.scripts import Say
from tests.simulators.sandbox.provider import USE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.simulators.process import SimulatorProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")

KNOWN = range(300, 320)
NOTE = b"The deer keeps its antlers until the end of winter."
QUOTES = ("telegram", "feishu", "wecom")
"""Platforms on which a reply says to what; Slack has threads in its place."""
TELLS_FILES = ("telegram", "feishu")
"""Platforms whose replies name a message that a file came with before; WeCom sends the quoted file with the reply."""
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
    long = await shows(platform, person, f"A long text on antlers for {person.number}.")
    await platform.say("!say Something else.", person)
    await shows(platform, person, "Something else.")
    order = f"shorten to {person.number} words"
    await gateway.model.script(order, [Say(text=f"Shorter, {person.number}.")], "contains")
    await platform.answer(long, f"/prose {order}", person)
    await shows(platform, person, f"Shorter, {person.number}.")
    prompt = await asked(gateway, order)
    assert "skill: prose\n" in prompt
    assert f"A long text on antlers for {person.number}." in prompt


@pytest.mark.parametrize("account", TELLS_FILES)
async def test_they_work_on_the_file_that_they_reply_to(gateway: Everywhere, account: str) -> None:
    platform, person = gateway.platforms[account], Person(next(_people))
    sent = await platform.send_file(f"deer-{person.number}.txt", NOTE, person)
    await platform.say("!say I have it.", person)
    await shows(platform, person, "I have it.")
    for number, words in enumerate(("in the same thread", "in another one")):
        order = f"shorten {words} for {person.number}"
        await gateway.model.script(order, [Say(text=f"Shorter {words}, {person.number}.")], "contains")
        await platform.answer(Seen(sent.id, ""), f"/prose {order}", person)
        await shows(platform, person, f"Shorter {words}, {person.number}.")
        prompt = await asked(gateway, order)
        assert "skill: prose\n" in prompt
        assert f"[file deer-{person.number}.txt (" in prompt
        kept = list(gateway.data_dir.rglob(f"uploads/*-deer-{person.number}.txt"))
        assert [path.read_bytes() for path in kept] == [NOTE] * (number + 1), "no file comes twice to one thread"
        await platform.say("/new", person)
        await shows(platform, person, EN.new_thread)
