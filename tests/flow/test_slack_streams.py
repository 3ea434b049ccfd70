"""Answers that grow by Slack's own streaming (`streaming: stream`), and everything that can end a stream too early."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.flow.slack_world import SlackWorld, slack_app
from tests.simulators.process import SimulatorProcess
from tests.simulators.slack import client as slack_client
from tests.simulators.slack import faults
from tests.simulators.slack.seen import ALICE, TEAM

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.flow.gateway import World
    from tests.simulators.slack.client import SlackSimulator
    from tests.simulators.slack.seen import Person, Room, SeenMessage

ASK = "!long 900\n!pause half"
"""A text long enough to be seen: a stream holds back what could still become a secret."""
BEGINNING = "## Section 1\n"
END = "and the second half."


@pytest.fixture(scope="module")
def slack_process() -> Iterator[SimulatorProcess]:
    with SimulatorProcess(slack_client.MODULE) as process:
        yield process


@pytest.fixture
async def slack_world(world: World, slack_process: SimulatorProcess) -> AsyncIterator[SlackWorld]:
    async with slack_app(slack_process) as app:
        settings = {"channels": {"slack": {"streaming": "stream"}}}
        yield SlackWorld(world.telegram, world.model, world.folder, settings, slack=app)


def grows(message: SeenMessage) -> bool:
    """A stream shows words of the answer."""
    return message.stream is not None and BEGINNING in message.shown


def is_whole(message: SeenMessage) -> bool:
    return message.shown.endswith(END)


async def only_answer(slack: SlackSimulator, place: Person | Room) -> SeenMessage:
    await slack.wait_idle(place, timeout=30)
    (message,) = await slack.bot_messages(place)
    return message


async def test_the_streams_own_stop_button_stops_the_run(slack_world: SlackWorld) -> None:
    slack = slack_world.slack
    async with slack_world:
        await slack.channel_says("@antler !tokens 2000 20")
        draft = await slack.wait_for_message(
            TEAM, lambda message: message.stream is not None and len(message.shown) > 90
        )
        await slack.stops_stream(draft.ts, chat=TEAM)
        stopped = await slack.wait_for_text(TEAM, "⏹ Stopped.")
        assert stopped.ts == draft.ts
        await only_answer(slack, TEAM)


async def test_the_streams_own_stop_button_is_noticed_while_the_model_says_nothing(slack_world: SlackWorld) -> None:
    slack = slack_world.slack
    async with slack_world:
        await slack.channel_says(f"@antler {ASK}")
        draft = await slack.wait_for_message(TEAM, grows)
        await slack.stops_stream(draft.ts, chat=TEAM)
        stopped = await slack.wait_for_text(TEAM, "⏹ Stopped.")
        assert stopped.ts == draft.ts


async def test_an_answer_in_a_thread_is_a_stream_and_ends_as_a_message(slack_world: SlackWorld) -> None:
    slack = slack_world.slack
    async with slack_world:
        said = await slack.channel_says(f"@antler {ASK}")
        draft = await slack.wait_for_message(TEAM, grows)
        assert (draft.thread, draft.stream and draft.stream["state"]) == (said.ts, "streaming")
        await slack_world.model.release("half")
        answer = await slack.wait_for_message(TEAM, is_whole)
        assert answer.ts == draft.ts
        assert [block["type"] for block in (await only_answer(slack, TEAM)).blocks] == ["markdown"]


async def test_an_assistant_thread_streams_and_says_that_it_works(slack_world: SlackWorld) -> None:
    slack = slack_world.slack
    async with slack_world:
        root = await slack.opens_assistant()
        await slack.user_says(ASK, thread=root.ts)
        draft = await slack.wait_for_message(ALICE, grows)
        assert draft.thread == root.ts
        await slack_world.model.release("half")
        assert (await slack.wait_for_message(ALICE, is_whole)).ts == draft.ts


async def test_a_direct_message_outside_threads_grows_by_edits(slack_world: SlackWorld) -> None:
    slack = slack_world.slack
    async with slack_world:
        await slack.user_says(ASK)
        draft = await slack.wait_for_text(ALICE, BEGINNING)
        assert (draft.stream, draft.thread) == (None, None)
        await slack_world.model.release("half")
        assert (await slack.wait_for_message(ALICE, is_whole)).ts == draft.ts
        await only_answer(slack, ALICE)
        assert await slack.records("chat.startStream") == []


async def test_kill_where_an_answer_grows_by_edits_goes_on_in_the_same_message(slack_world: SlackWorld) -> None:
    slack = slack_world.slack
    async with slack_world:
        await slack.user_says(ASK)
        draft = await slack.wait_for_text(ALICE, BEGINNING)
        await slack_world.kill()
        await slack.set_timing(retry_delays=())
        await slack_world.model.release("half")
        await slack_world.start()
        assert (await slack.wait_for_message(ALICE, is_whole)).ts == draft.ts
        await only_answer(slack, ALICE)


async def test_a_lost_answer_to_the_first_send_in_place_of_a_stream_makes_no_copy(slack_world: SlackWorld) -> None:
    slack = slack_world.slack
    await slack.fail("chat.postMessage", faults.reset(apply=True), chat=ALICE)
    async with slack_world:
        await slack.user_says(ASK)
        await slack.wait_for_text(ALICE, BEGINNING)
        await slack_world.model.release("half")
        await slack.wait_for_message(ALICE, is_whole)
        await only_answer(slack, ALICE)


async def test_the_five_minute_end_does_not_end_the_answer(slack_world: SlackWorld) -> None:
    slack = slack_world.slack
    async with slack_world:
        await slack.channel_says(f"@antler {ASK}")
        draft = await slack.wait_for_message(TEAM, grows)
        await slack.advance(301)
        await slack_world.model.release("half")
        assert (await slack.wait_for_message(TEAM, is_whole)).ts == draft.ts
        await only_answer(slack, TEAM)


async def test_kill_in_mid_stream_goes_on_in_the_same_message(slack_world: SlackWorld) -> None:
    slack = slack_world.slack
    async with slack_world:
        await slack.channel_says(f"@antler {ASK}")
        draft = await slack.wait_for_message(TEAM, grows)
        await slack_world.kill()
        await slack.set_timing(retry_delays=())
        await slack_world.model.release("half")
        await slack_world.start()
        assert (await slack.wait_for_message(TEAM, is_whole)).ts == draft.ts
        await only_answer(slack, TEAM)


@pytest.mark.parametrize("method", ["chat.startStream", "chat.appendStream", "chat.stopStream"])
async def test_a_lost_answer_makes_no_copy_and_repeats_no_words(slack_world: SlackWorld, method: str) -> None:
    slack = slack_world.slack
    await slack.fail(method, faults.reset(apply=True), chat=TEAM)
    async with slack_world:
        await slack.channel_says(f"@antler {ASK}")
        await slack.wait_for_text(TEAM, BEGINNING)
        await slack_world.model.release("half")
        await slack.wait_for_message(TEAM, is_whole)
        assert (await only_answer(slack, TEAM)).shown.count(BEGINNING) == 1


@pytest.mark.parametrize("fault", [faults.ratelimited(30), faults.error("channel_type_not_supported")])
async def test_where_slack_gives_no_stream_the_answer_grows_by_edits(
    slack_world: SlackWorld, fault: faults.Fault
) -> None:
    slack = slack_world.slack
    await slack.fail("chat.startStream", fault, chat=TEAM)
    async with slack_world:
        await slack.channel_says(f"@antler {ASK}")
        draft = await slack.wait_for_text(TEAM, BEGINNING)
        assert draft.stream is None
        await slack_world.model.release("half")
        assert (await slack.wait_for_message(TEAM, is_whole)).ts == draft.ts


async def test_a_limit_on_streams_is_honoured_and_delays_nobody(slack_world: SlackWorld) -> None:
    slack = slack_world.slack
    await slack.fail("chat.startStream", faults.ratelimited(600), chat=TEAM)
    async with slack_world:
        for number in (1, 2):
            await slack.channel_says(f"@antler hello {number}")
            await slack.wait_for_text(TEAM, f"hello {number}")
        await slack.wait_idle(TEAM)
        assert len(await slack.records("chat.startStream")) == 1
