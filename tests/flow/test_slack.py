"""The life of a message on Slack, with the real gateway and the real SDK between the simulators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.flow.slack_world import SlackWorld, slack_app
from tests.simulators.process import SimulatorProcess
from tests.simulators.slack import client as slack_client
from tests.simulators.slack import faults
from tests.simulators.slack.seen import ALICE, BOB, SECRET, TEAM, FileSpec, Person, Room

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.flow.gateway import World

FIRST_HALF = "The first half of the answer"
CAROL = Person("U0CAROL", "Carol", locale="zh-CN")
WHOLE = "The first half of the answer, and the second half."


@pytest.fixture(scope="module")
def slack_process() -> Iterator[SimulatorProcess]:
    with SimulatorProcess(slack_client.MODULE) as process:
        yield process


@pytest.fixture
async def slack_world(world: World, slack_process: SimulatorProcess) -> AsyncIterator[SlackWorld]:
    async with slack_app(slack_process) as app:
        yield SlackWorld(world.telegram, world.model, world.folder, slack=app)


async def test_a_mention_begins_a_thread_which_goes_on_without_one(slack_world: SlackWorld) -> None:
    slack = slack_world.slack
    async with slack_world:
        await slack.channel_says("lunch at noon?", user=BOB)
        said = await slack.channel_says("@antler what is the plan?")
        answer = await slack.wait_for_text(TEAM, "what is the plan?")
        assert answer.thread == said.ts
        await slack.channel_says("and in the evening?", user=BOB, thread=said.ts)
        second = await slack.wait_for_text(TEAM, "and in the evening?")
        assert second.thread == said.ts
        await slack.wait_idle(TEAM, timeout=30)
        assert len(await slack.bot_messages(TEAM)) == 2
        first, later = await slack_world.model.completions()
        assert len(later.body["messages"]) > len(first.body["messages"])


async def test_a_mention_is_two_events_and_one_question(slack_world: SlackWorld) -> None:
    slack = slack_world.slack
    async with slack_world:
        said = await slack.channel_says("@antler just once", mention_first=True)
        assert len(said.event_ids) == 2
        for event_id in said.event_ids:
            await slack.wait_acked(event_id)
        await slack.wait_for_text(TEAM, "just once")
        await slack.redeliver(said.event_ids[0])
        await slack.wait_idle(TEAM, timeout=30)
        assert len(await slack.bot_messages(TEAM)) == 1
        assert len(await slack_world.model.completions()) == 1


async def test_a_file_lands_under_the_uploads_of_its_thread(slack_world: SlackWorld) -> None:
    slack = slack_world.slack
    async with slack_world:
        await slack.user_says("what is in it?", files=[FileSpec("notes.txt", "text/plain", b"the cat sat")])
        await slack.wait_for_text(ALICE, "what is in it?")
        (uploaded,) = slack_world.data_dir.glob("threads/*/user-data/uploads/*")
        assert (uploaded.name.endswith("-notes.txt"), uploaded.read_bytes()) == (True, b"the cat sat")
        await slack.user_says("and this?", files=[FileSpec("shared.txt", content=b"x", access="check_file_info")])
        await slack.wait_for_text(ALICE, "and this?")
        assert len(list(slack_world.data_dir.glob("threads/*/user-data/uploads/*"))) == 2


async def test_stop_ends_the_answer_in_the_thread_where_it_is_said(slack_world: SlackWorld) -> None:
    slack = slack_world.slack
    async with slack_world:
        said = await slack.channel_says("@antler !pause half")
        draft = await slack.wait_for_text(TEAM, FIRST_HALF)
        await slack.channel_says("@antler /stop", thread=said.ts)
        stopped = await slack.wait_for_text(TEAM, "Stopped")
        assert (stopped.ts, stopped.thread) == (draft.ts, said.ts)


async def test_a_slash_command_is_answered_where_it_was_typed(slack_world: SlackWorld) -> None:
    slack = slack_world.slack
    await slack.configure(commands=["/new", "/whoami"])
    async with slack_world:
        sent = await slack.command("/whoami")
        await slack.wait_acked(sent.envelope_id)
        await slack.wait_for_text(ALICE, slack_world.person(ALICE))
        await slack.command("/new", chat=TEAM)
        told = await slack.wait_for_text(TEAM, "Send it in that thread: `@antler /new`")
        assert (told.thread, told.ephemeral_to) == (None, ALICE.id)
        await slack.command("/whoami", chat=TEAM, user=BOB)
        told = await slack.wait_for_text(TEAM, slack_world.person(BOB))
        assert (told.thread, told.ephemeral_to) == (None, BOB.id)
        await slack.channel_says("@antler /frobnicate")
        await slack.wait_for_text(TEAM, "`@antler /help` lists them all.".replace("`", ""))


@pytest.mark.parametrize(
    ("room", "person", "said"),
    [
        (Room("C0ELSE", name="else"), ALICE, "Invite me with `/invite @antler`, or write to me directly."),
        (SECRET, CAROL, "请用 `/invite @antler` 邀请我"),
        (Room("D0OTHERS", "mpim"), ALICE, "I am not in this conversation, so I did nothing."),
    ],
    ids=["channel", "private channel in Chinese", "DM of two people"],
)
async def test_a_command_where_the_bot_is_not_says_so_and_does_nothing(
    slack_world: SlackWorld, room: Room, person: Person, said: str
) -> None:
    slack = slack_world.slack
    slack_world.settings = {"access": {"admins": [slack_world.person(person)]}}
    await slack.configure(commands=["/access", "/allow", "/whoami"])
    await slack.add_person(person)
    await slack.add_chat(room, member=False, people=[person])
    async with slack_world:
        for command in ("/whoami", "/allow"):
            sent = await slack.command(command, chat=room.id, user=person)
            await slack.wait_acked(sent.envelope_id)
        told = await slack.messages(room.id)
        assert [said in message.text and message.ephemeral_to == person.id for message in told] == [True, True]
        await slack.command("/access", user=person)
        access = await slack.wait_for_text(person, person.id)
        assert room.id not in access.shown, "nobody has let it in"
        assert not [call for call in await slack.records("chat.postMessage") if call.error]


async def test_kill_in_mid_answer_loses_nothing_and_doubles_nothing(slack_world: SlackWorld) -> None:
    slack = slack_world.slack
    async with slack_world:
        await slack.user_says("!pause half")
        draft = await slack.wait_for_text(ALICE, FIRST_HALF)
        await slack_world.kill()
        await slack.set_timing(retry_delays=())  # only the history tells of it
        await slack.user_says("and while you were away")
        await slack_world.model.release("half")

        await slack_world.start()
        await slack.wait_for_text(ALICE, "while you were away")
        await slack.wait_idle(ALICE, quiet=2.0, timeout=30)
        answer, _ = await slack.bot_messages(ALICE)
        assert WHOLE in answer.shown
        assert answer.ts != draft.ts, "it is noticed as a new message"


async def test_a_send_whose_answer_is_lost_is_found_and_not_repeated(slack_world: SlackWorld) -> None:
    slack = slack_world.slack
    async with slack_world:
        await slack.fail("chat.postMessage", faults.reset(apply=True), chat=ALICE)
        await slack.user_says("only one bubble please")
        await slack.wait_for_text(ALICE, "only one bubble")
        await slack.wait_idle(ALICE, quiet=1.0, timeout=30)
        assert len(await slack.bot_messages(ALICE)) == 1, await slack.transcript(ALICE)


async def test_a_revoked_token_is_told_and_no_token_is_logged(slack_world: SlackWorld) -> None:
    slack = slack_world.slack
    async with slack_world:
        await slack.break_tokens(bot_error="token_revoked", app_error="token_revoked")
        await slack.close_sockets(None)
        await slack_world.wait_for_log("the token was revoked")
        assert slack.app_token not in slack_world.log
        assert slack.bot_token not in slack_world.log
        assert (await slack_world.command("status", "--check"))[0] == 1
