"""A person decides on a tool call, and answers what the agent asks, on every platform alike."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from bot.texts.en import EN
from tests.flow.letters import Letters
from tests.flow.platforms.base import Group, Person, shows
from tests.flow.platforms.world import PLATFORMS, Everywhere, everywhere, simulators
from tests.simulators.model.client import ModelSimulator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.flow.platforms.base import Place, Platform, Seen
    from tests.simulators.process import SimulatorProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")

KNOWN = range(100, 140)
ONCE, CHAT, DENY, WHY, STOP = EN.approval_buttons.values()
NOT_DONE = "the person who was asked did not allow it"

_people = itertools.count(KNOWN.start)


@dataclass
class Here:
    platform: Platform
    ada: Person
    bob: Person
    letters: Letters

    async def shows(self, place: Place, text: str) -> Seen:
        return await shows(self.platform, place, text)

    async def request(self, place: Place, text: str) -> Seen:
        """The buttons of the open request that shows this text; some platforms have them on a message of their own."""
        await self.platform.until(place, lambda seen: text in seen.text and "I need a decision" in seen.text)
        return await self.platform.until(place, lambda seen: WHY in seen.labels)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(
    telegram_process: SimulatorProcess, model_process: SimulatorProcess, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Everywhere]:
    folder = tmp_path_factory.mktemp("gateway")
    with simulators(telegram_process) as processes:
        async with (
            ModelSimulator(model_process.port) as model,
            everywhere(processes, model, folder) as world,
        ):
            accounts = [world.platforms[account] for account in PLATFORMS]
            world.settings = {
                "access": {
                    "allow": [platform.id(Person(number)) for platform in accounts for number in KNOWN],
                    "groups": {"allow": [platform.id(Group(number)) for platform in accounts for number in KNOWN]},
                },
                "sandbox": {"use": "off"},
                "tools": [{"use": "tests.flow.letters:send_letter"}],
                "guardrails": {"rules": [{"tool": "send_letter", "decision": "ask"}]},
            }
            world.environment |= Letters(folder).environment
            async with world:
                yield world


@pytest_asyncio.fixture(loop_scope="module", params=PLATFORMS)
async def here(gateway: Everywhere, request: pytest.FixtureRequest) -> Here:
    await gateway.model.reset()
    letters = Letters(gateway.folder)
    letters.forget()
    return Here(gateway.platforms[request.param], Person(next(_people)), Person(next(_people), "Bob"), letters)


def letter(to: str) -> str:
    return f"!tool send_letter {json.dumps({'to': to})}"


async def test_allowed_denied_and_stopped(here: Here) -> None:
    await here.platform.say(letter("Ann"), here.ada)
    asked = await here.request(here.ada, "to: Ann")
    assert asked.labels == (ONCE, CHAT, DENY, WHY)
    assert here.letters.sent == []
    await here.platform.press(asked, ONCE, here.ada)
    await here.shows(here.ada, "the letter to Ann is sent")
    await here.platform.until(here.ada, lambda seen: "Allowed once" in seen.text and not seen.labels)
    await here.platform.quiet(here.ada)
    assert not any(len(seen.labels) > 1 for seen in await here.platform.seen(here.ada))

    await here.platform.say(letter("Ben"), here.ada)
    await here.platform.press(await here.request(here.ada, "to: Ben"), DENY, here.ada)
    await here.shows(here.ada, NOT_DONE)

    await here.platform.say(letter("Cid"), here.ada)
    await here.request(here.ada, "to: Cid")
    await here.platform.say("/stop", here.ada)
    await here.shows(here.ada, "because the answer was stopped first")
    await here.platform.say("hello again", here.ada)
    await here.shows(here.ada, "You said: hello again")
    assert here.letters.sent == ["Ann"]


@pytest.mark.parametrize("here", ["telegram", "slack", "feishu"], indirect=True)
async def test_nobody_else_in_a_group_decides(here: Here) -> None:
    """On WeCom a card that was pressed, by whomever, is spent where it was pressed."""
    team = Group(here.ada.number)
    await here.platform.say(letter("Ann"), here.ada, team)
    asked = await here.request(team, "to: Ann")
    await here.platform.press(asked, ONCE, here.bob, team)
    await here.platform.say("!say I am not asked", here.bob, team)
    # Where a mention begins a thread it is answered at once, elsewhere it waits.
    await here.platform.until(team, lambda seen: "Queued" in seen.text or "I am not asked" in seen.text)
    assert here.letters.sent == []
    await here.platform.press(asked, ONCE, here.ada, team)
    await here.shows(team, "the letter to Ann is sent")
    await here.shows(team, "I am not asked")
    assert here.letters.sent == ["Ann"]


async def test_what_is_written_meanwhile_waits_with_the_decision_in_reach(here: Here) -> None:
    await here.platform.say(letter("Ann"), here.ada)
    waiting = await here.request(here.ada, "to: Ann")
    await here.platform.say("and the weather?", here.ada)
    await here.shows(here.ada, "First I need your decision")
    if here.platform.account != "wecom":  # there the request has the only buttons, and is the newest card
        waiting = await here.platform.until(here.ada, lambda seen: seen.labels == (ONCE, DENY, STOP))
    await here.platform.press(waiting, ONCE, here.ada)
    await here.shows(here.ada, "the letter to Ann is sent")
    await here.shows(here.ada, "You said: and the weather?")
    assert here.letters.sent == ["Ann"]


async def test_a_denial_with_words(here: Here) -> None:
    await here.platform.say(letter("Ann"), here.ada)
    await here.platform.press(await here.request(here.ada, "to: Ann"), WHY, here.ada)
    await here.shows(here.ada, "Why not?")
    await here.platform.say("she has moved", here.ada)
    await here.shows(here.ada, "They said: she has moved")

    await here.platform.say(letter("Ben"), here.ada)
    await here.platform.press(await here.request(here.ada, "to: Ben"), WHY, here.ada)
    await here.shows(here.ada, "Denied once you have said why")
    await here.platform.quiet(here.ada)  # the question has come too
    await here.platform.say("!say Book a table", here.ada)
    await here.shows(here.ada, "Book a table")
    assert here.letters.sent == []


async def test_a_question_is_answered_by_an_option(here: Here) -> None:
    asked = {"question": "Which year?", "options": ["2024", "2025"]}
    await here.platform.say(f"!tool ask_clarification {json.dumps(asked)}", here.ada)
    await here.shows(here.ada, "Which year?")
    question = await here.platform.until(here.ada, lambda seen: seen.labels == ("2024", "2025"))
    await here.platform.press(question, "2025", here.ada)
    await here.shows(here.ada, "You said: 2025")
