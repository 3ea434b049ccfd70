"""What people do in a chat, told once and true on every platform: one gateway serves them all."""

from __future__ import annotations

import asyncio
import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from bot.texts.en import EN
from tests.flow.platforms.base import SECONDS, Group, Person, shows
from tests.flow.platforms.world import PLATFORMS, SECOND, Everywhere, everywhere, simulators
from tests.simulators.model.client import ModelSimulator
from tests.simulators.model.scripts import Hang, Pause, Say

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.flow.platforms.base import Place, Platform, Seen
    from tests.simulators.process import SimulatorProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")

ADMIN = Person(1, "Ann")
KNOWN = range(100, 600)
"""Persons and groups that the config lists; others are strangers."""
CODE = re.compile(r"\b[2-9A-Z]{4}-[2-9A-Z]{4}-[2-9A-Z]{4}\b")
ASKED = "!count 100\n!pause half"
BEGUN = "1 2 3 4 5 6 7 8 9 10"
"""What is seen by then: some platforms hold the last few characters back, as they might become a secret."""
WHOLE = "The first half of the answer, and the second half."

_known, _strangers = iter(KNOWN), itertools.count(1000)


@dataclass
class Here:
    """One test's corner of one platform: nobody else uses its persons and groups. ada, bob: the config lists them."""

    gateway: Everywhere
    platform: Platform
    ada: Person
    bob: Person
    team: Group
    topics: Group

    async def shows(self, place: Place, text: str) -> Seen:
        return await shows(self.platform, place, text)

    async def texts(self, place: Place) -> list[str]:
        """What the bot shows, once it is done."""
        await self.platform.quiet(place)
        return [message.text for message in await self.platform.seen(place)]

    async def asked(self) -> list[str]:
        """What the model was given with each question of this test, history and all."""
        return [str(request.body["messages"]) for request in await self.gateway.model.completions()]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(
    telegram_process: SimulatorProcess, model_process: SimulatorProcess, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Everywhere]:
    """Strangers get codes; in groups only those are heard who have access themselves."""
    with simulators(telegram_process) as processes:
        async with (
            ModelSimulator(model_process.port) as model,
            everywhere(processes, model, tmp_path_factory.mktemp("gateway")) as world,
        ):
            accounts = [world.platforms[account] for account in PLATFORMS]
            world.settings = {
                "access": {
                    "admins": [platform.id(ADMIN) for platform in world.platforms.values()],
                    "allow": [platform.id(Person(number)) for platform in accounts for number in KNOWN],
                    "groups": {
                        "allow": [platform.id(Group(number)) for platform in accounts for number in KNOWN],
                        "members": "listed",
                    },
                },
                "conversations": {"busy": "queue"},
            }
            async with world:
                for platform in world.platforms.values():
                    await platform.say("hello", ADMIN)
                    await shows(platform, ADMIN, "You said: hello")
                yield world


@pytest_asyncio.fixture(loop_scope="module", params=PLATFORMS)
async def here(gateway: Everywhere, request: pytest.FixtureRequest) -> Here:
    """The model knows nothing of earlier tests."""
    await gateway.model.reset()
    ada, bob, team, topics = (next(_known) for _ in range(4))
    platform = gateway.platforms[request.param]
    return Here(gateway, platform, Person(ada), Person(bob, "Bob"), Group(team), Group(topics, topics=True))


def stranger() -> Person:
    return Person(next(_strangers), "Eve")


async def test_an_answer_grows_in_one_message(here: Here) -> None:
    await here.platform.say(ASKED, here.ada)
    draft = await here.shows(here.ada, BEGUN)
    assert "second half" not in draft.text
    await here.gateway.model.release("half")
    answer = await here.shows(here.ada, WHOLE)
    assert (answer.id, answer.thread) == (draft.id, "")
    assert len(await here.texts(here.ada)) == 1


async def test_in_a_group_who_is_listed_and_names_the_bot_is_answered(here: Here) -> None:
    await here.platform.say("nobody is asked here", here.bob, here.team, mention=False)
    await here.platform.say("am I heard?", stranger(), here.team)
    said = await here.platform.say("!say hello team", here.ada, here.team)
    answer = await here.shows(here.team, "hello team")
    assert answer.thread == said.thread
    assert len(await here.texts(here.team)) == 1
    (asked,) = await here.asked()
    assert "am I heard?" not in asked


@pytest.mark.parametrize("here", ["slack", "feishu"], indirect=True)
async def test_a_mention_begins_a_thread_which_goes_on_without_one(here: Here) -> None:
    root = await here.platform.say("the word is zebra", here.ada, here.topics)
    first = await here.shows(here.topics, "zebra")
    await here.platform.say("which word?", here.bob, here.topics, mention=False, thread=root)
    second = await here.shows(here.topics, "which word?")
    assert first.thread == second.thread == root.thread != ""
    await here.platform.say("another thread", here.ada, here.topics)
    await here.shows(here.topics, "another thread")
    _, inside, outside = await here.asked()
    assert ("zebra" in inside, "zebra" in outside) == (True, False)


async def test_a_file_is_given_to_the_agent(here: Here) -> None:
    content = f"figures of {here.ada}".encode()
    await here.platform.send_file("report.txt", content, here.ada)
    await here.platform.say("what is in it?", here.ada)
    await here.shows(here.ada, "what is in it?")
    assert "report.txt" in (await here.asked())[-1]
    uploads = here.gateway.data_dir.glob("threads/*/user-data/uploads/*-report.txt")
    assert [path.read_bytes() for path in uploads].count(content) == 1


async def test_a_button_chooses_the_model(here: Here) -> None:
    await here.platform.say("/models", here.ada)
    listed = await here.platform.until(here.ada, lambda message: bool(message.labels))
    assert listed.labels == ("● main", "other")
    await here.platform.press(listed, "other", here.ada)
    await here.platform.until(here.ada, lambda seen: seen.id == listed.id and "other" not in seen.labels)
    await here.platform.say("who answers?", here.ada)
    await here.shows(here.ada, "who answers?")
    assert (await here.gateway.model.completions())[-1].body["model"] == "sim-2"


async def test_stop_ends_the_answer_in_its_message(here: Here) -> None:
    await here.platform.say(ASKED, here.ada)
    draft = await here.shows(here.ada, BEGUN)
    await here.platform.say("/stop", here.ada)
    stopped = await here.shows(here.ada, "Stopped")
    assert stopped.id == draft.id
    assert "unfinished" in stopped.text
    await here.platform.say("still there?", here.ada)
    await here.shows(here.ada, "You said: still there?")


async def test_what_follows_at_once_is_answered_together_and_a_word_stops_it(here: Here) -> None:
    await here.gateway.model.script("and more", [Say(text=BEGUN), Pause(name="both"), Say(text="done")], "contains")
    await here.gateway.model.script("the request", [Hang()], "contains")
    await here.platform.say("the request", here.ada)
    await here.gateway.model.wait_for_request(lambda asked: "the request" in asked.last_user_text)
    await here.platform.say("and more", here.ada)
    await here.shows(here.ada, "1 2 3 4 5")  # a stream keeps the newest words back for a moment
    await here.platform.say("Stop!", here.ada)
    await here.shows(here.ada, "Stopped")
    assert "the request\\nand more" in (await here.asked())[-1]


async def test_new_stops_what_runs_drops_what_waits_and_forgets(here: Here) -> None:
    await here.platform.say("remember the word zebra", here.ada)
    await here.shows(here.ada, "zebra")
    await here.platform.say(ASKED, here.ada)
    await here.shows(here.ada, BEGUN)
    await here.platform.say("waiting for my turn", here.ada)
    await here.shows(here.ada, "Queued, next in line")
    await here.platform.say("/new Holiday plans", here.ada)
    told = await here.shows(here.ada, "Holiday plans")
    assert "stopped" in told.text
    assert "1 waiting" in told.text
    await here.shows(here.ada, "Not answered")
    await here.platform.say("fresh start", here.ada)
    await here.shows(here.ada, "fresh start")
    assert "zebra" not in (await here.asked())[-1]


async def test_status_tells_a_member_of_the_run_and_of_no_other_account(here: Here) -> None:
    await here.platform.say(ASKED, here.ada)
    await here.shows(here.ada, BEGUN)
    await here.platform.say("/status", here.ada)
    status = await here.shows(here.ada, "Antler")
    for expected in ("Connection: connected", "main", "Running: for", "Waiting: 0"):
        assert expected in status.text
    for account in here.gateway.platforms.keys() - {here.platform.account}:
        assert account not in status.text


async def waiting_buttons(here: Here) -> list[tuple[Seen, str]]:
    """(message, label) of Run now and Drop of what waits; where nothing can be changed only /queue has them."""
    labels: tuple[str, ...] = ("Run now", "Drop")
    if here.platform.account == "wecom":
        await here.shows(here.ada, "Queued, next in line")
        await here.platform.say("/queue", here.ada)
        labels = ("1 · Run now", "1 · Drop")
    card = await here.platform.until(here.ada, lambda message: message.labels == labels)
    return [(card, label) for label in labels]


async def test_who_waits_is_told_and_drops_it_or_has_it_run_now(here: Here) -> None:
    await here.platform.say(ASKED, here.ada)
    begun = await here.shows(here.ada, BEGUN)
    await here.platform.say("never mind this one", here.ada)
    waiting = await here.shows(here.ada, "Queued, next in line")
    run_now, drop = await waiting_buttons(here)
    await here.platform.press(*drop, here.ada)
    await here.shows(here.ada, "Dropped.")
    await here.platform.say("rather this one", here.ada)
    run_now, drop = await waiting_buttons(here)
    await here.platform.press(*run_now, here.ada)
    await here.shows(here.ada, "You said: rather this one")
    stopped = await here.shows(here.ada, "another message was moved ahead")
    assert stopped.id == begun.id
    assert waiting.id != begun.id
    assert not any("You said: never mind" in text for text in await here.texts(here.ada))


async def test_a_stranger_gets_a_code_and_is_answered_once_an_admin_has_typed_it(here: Here) -> None:
    eve = stranger()
    await here.platform.say("let me in", eve)
    greeting = await here.shows(eve, "/pair ")
    await here.platform.say("hello? /status", eve)
    (code,) = CODE.findall(greeting.text)[:1]
    assert len(await here.texts(eve)) == 1
    assert await here.asked() == []
    await here.platform.say(f"/pair {code}", ADMIN)
    told = await here.shows(ADMIN, "can talk to me now")
    assert here.platform.id(eve) in told.text
    await here.shows(eve, "An administrator let you in")
    await here.platform.say("thank you", eve)
    await here.shows(eve, "You said: thank you")


async def test_a_stranger_is_let_in_by_the_button_that_an_admin_gets(here: Here) -> None:
    eve = stranger()
    await here.platform.say("hello", ADMIN)
    before = {seen.id for seen in await here.platform.seen(ADMIN)}
    await here.platform.say("let me in", eve)
    await here.shows(ADMIN, here.platform.id(eve))
    asked = await here.platform.until(ADMIN, lambda seen: seen.labels == ("Let in", "Refuse") and seen.id not in before)
    await here.platform.press(asked, "Let in", ADMIN)
    await here.shows(eve, "An administrator let you in")
    await here.platform.say("thank you", eve)
    await here.shows(eve, "You said: thank you")


@pytest.mark.parametrize("here", ["telegram"], indirect=True)
async def test_access_to_one_account_is_none_to_another_of_the_same_platform(here: Here) -> None:
    second = here.gateway.platforms[SECOND]
    await here.platform.say("I am known here", here.ada)
    await here.shows(here.ada, "You said: I am known here")
    await second.say("and here?", here.ada)
    await shows(second, here.ada, "/pair ")
    assert len(await here.asked()) == 1


async def test_an_unknown_group_gets_one_line_until_an_admin_opens_it(here: Here) -> None:
    club = Group(next(_strangers))
    await here.platform.say("nothing for the bot", here.ada, club, mention=False)
    await here.platform.say("hello", here.ada, club)
    line = await here.shows(club, "An administrator can allow it: ")
    assert line.text.endswith("/allow")
    told = await here.shows(ADMIN, here.platform.id(club))
    assert "antler access allow" in told.text
    await here.platform.say("/status", here.ada, club)
    assert await here.texts(club) == [line.text]
    await here.platform.say("/allow", ADMIN, club)
    await here.shows(club, "May I talk in this group")
    asked = await here.platform.until(club, lambda message: "Allow" in message.labels)
    await here.platform.press(asked, "Allow", ADMIN, club)
    await here.shows(club, "I can talk here now")
    await here.platform.say("and now?", here.ada, club)
    await here.shows(club, "You said: and now?")
    assert len(await here.asked()) == 1


@pytest.mark.parametrize("here", ["telegram", "slack"], indirect=True)
async def test_a_message_edited_while_it_waits_is_answered_in_its_new_state(here: Here) -> None:
    await here.platform.say(ASKED, here.ada)
    await here.shows(here.ada, BEGUN)
    waiting = await here.platform.say("the capital of Frence?", here.ada)
    await here.platform.edit(waiting, "the capital of France?", here.ada)
    await here.platform.quiet(here.ada)
    await here.gateway.model.release("half")
    await here.shows(here.ada, "You said: the capital of France?")
    assert len(await here.asked()) == 2
    assert not any("Frence" in asked for asked in await here.asked())


@pytest.mark.parametrize("here", ["slack", "feishu"], indirect=True)
async def test_a_message_taken_back_while_it_waits_is_not_answered(here: Here) -> None:
    await here.platform.say(ASKED, here.ada)
    await here.shows(here.ada, BEGUN)
    waiting = await here.platform.say("no, wrong chat", here.ada)
    await here.shows(here.ada, EN.queued_next)
    await here.platform.recall(waiting, here.ada)
    await here.shows(here.ada, EN.dropped_by["author"])
    await here.gateway.model.release("half")
    await here.shows(here.ada, WHOLE)
    await here.platform.quiet(here.ada)
    assert not any("wrong chat" in asked for asked in await here.asked())


async def test_a_connection_that_breaks_during_an_answer_does_not_harm_it(here: Here) -> None:
    await here.platform.say(ASKED, here.ada)
    draft = await here.shows(here.ada, BEGUN)
    await here.platform.cut()
    if here.platform.keeps:
        await here.platform.say("are you still there?", here.ada)
    await here.platform.connected()
    await here.gateway.model.release("half")
    answer = await here.shows(here.ada, WHOLE)
    assert answer.id == draft.id
    if not here.platform.keeps:
        await here.platform.say("are you still there?", here.ada)
    await here.shows(here.ada, "You said: are you still there?")
    assert len(await here.texts(here.ada)) == 2


async def test_why_as_a_reply_tells_of_the_message_that_it_answers(here: Here) -> None:
    """Each question is another one, so that nothing else reads the same."""
    numbers = []
    answers = []
    for question in (f"{here.ada.number} plus one", f"{here.bob.number} plus two"):
        await here.platform.say(f"what is {question}?", ADMIN)
        answers.append(await here.shows(ADMIN, f"You said: what is {question}?"))
    for answer in (answers[0], answers[1], answers[0]):
        before = len(await told(here))
        await here.platform.answer(answer, "/why", ADMIN)
        await here.platform.until(ADMIN, lambda seen: "Let in by" in seen.text)
        async with asyncio.timeout(SECONDS):
            while len(await told(here)) == before:
                await here.platform.quiet(ADMIN)
        numbers.append((await told(here))[-1])
    assert numbers[0] == numbers[2] < numbers[1]


async def told(here: Here) -> list[int]:
    """The messages of which /why has told the administrator."""
    texts = [message.text.replace("*", "") for message in await here.platform.seen(ADMIN)]
    return [int(found[1]) for text in texts if "Let in by" in text and (found := re.search(r"Message (\d+)", text))]


async def test_a_flood_limit_delays_the_answer_and_nobody_else(here: Here) -> None:
    await here.platform.say(ASKED, here.ada)
    draft = await here.shows(here.ada, BEGUN)
    await here.platform.limit(here.ada)
    await here.gateway.model.release("half")
    refused = await here.platform.limited(here.ada)
    await here.platform.say("Bob is not delayed", here.bob)
    await here.shows(here.bob, "Bob is not delayed")
    assert not any(WHOLE in message.text for message in await here.platform.seen(here.ada))
    answer = await here.shows(here.ada, WHOLE)
    assert answer.id == draft.id
    assert await here.platform.changed(here.ada, after=refused) - refused >= here.platform.retry_after
