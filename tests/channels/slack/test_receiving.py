"""Receiving over the simulator: nothing is acked before it is stored, order holds, connections heal."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from channels.base import ConnectionState, Newest, Route
from channels.errors import Fatal
from channels.message import Button, ButtonPressed, MembershipChanged, MessageEdited, OutboundMessage, Quote
from channels.slack import directory
from channels.slack.api import SlackApi
from channels.slack.config import EVENTS
from channels.slack.inbound import Me
from channels.slack.socket import ACK_SECONDS, Dispatcher, Socket
from tests.channels.slack.support import config_for
from tests.simulators.slack import faults
from tests.simulators.slack.seen import ALICE, BOB, TEAM, Room

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from channels.slack.inbound import Kind
    from tests.channels.slack.support import Bench
    from tests.simulators.slack.client import SlackSimulator

LOG = logging.getLogger("channels.test")


async def reaches(bench: Bench, condition: Callable[[], bool]) -> None:
    """Until the channel's health says so; its changes have no other sign."""
    async with asyncio.timeout(10):
        while not condition():
            await bench.slack.tally()


async def test_a_message_is_acked_only_after_it_was_stored(bench: Bench) -> None:
    async with bench.running():
        bench.gateway.gate.clear()
        said = await bench.slack.user_says("hello")
        await bench.slack.wait_for_record(lambda record: record.method == "users.info" and record.finished is not None)
        (envelope,) = await bench.slack.envelopes()
        assert envelope.acked_at is None
        bench.gateway.gate.set()
        await bench.slack.wait_acked(said.event_ids[0])
        message = await bench.gateway.message()
        assert (message.text, message.address, message.mention) == ("hello", bench.dm, True)
        assert message.sender.id == f"{bench.slack.team_id}/{ALICE.id}"
        assert (message.sender.display_name, message.sender.locale) == ("Alice", "en-US")


async def test_a_failed_commit_brings_the_event_again(bench: Bench) -> None:
    bench.gateway.refuse = 1
    await bench.slack.set_timing(ack_timeout=2.0)
    async with bench.running():
        said = await bench.slack.user_says("hello")
        envelope = await bench.slack.wait_acked(said.event_ids[0])
        assert [attempt["number"] for attempt in envelope.attempts] == [0, 1]
        assert bench.gateway.texts == ["hello"]


async def test_a_name_that_does_not_come_holds_nothing_up(bench: Bench) -> None:
    await bench.slack.fail("users.info", faults.hold())
    async with bench.running():
        said = await bench.slack.user_says("who am I?")
        message = await bench.gateway.message()
        assert message.sender.display_name == ALICE.id
        await bench.slack.wait_acked(said.event_ids[0])
        await bench.slack.release()
        await bench.slack.user_says("and now?")
        assert (await bench.gateway.message(1)).sender.display_name == "Alice"


async def test_others_who_are_mentioned_have_names_and_are_asked_for_once(bench: Bench) -> None:
    async with bench.running():
        for _ in range(3):
            await bench.slack.channel_says("@antler ask @Bob in #team")
        assert (await bench.gateway.message(2)).text == "ask @Bob in #C0TEAM"
        assert (await bench.gateway.message(2)).chat_title == "team"
        asked = [params["user"] for params in await bench.sent_params("users.info")]
        assert sorted(asked) == [ALICE.id, BOB.id]


async def test_names_that_may_not_be_asked_for_are_told_once_and_known_an_hour_after_the_right_came(
    bench: Bench, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory, "LEARN_SECONDS", 30.0)  # how fast the machine is has no part in it
    for method, scope in (("users.info", "users:read"), ("conversations.info", "groups:read")):
        await bench.slack.fail(method, faults.missing_scope(scope), times=1)
    async with bench.running():
        for number in range(4):
            bench.gateway.clock.ahead = 3601.0 * (number // 2)
            await bench.slack.channel_says("@antler hi", user=ALICE)
            await bench.gateway.event(number)
        names = [(await bench.gateway.message(number)).sender.display_name for number in range(4)]
        assert names == [ALICE.id, ALICE.id, ALICE.name, ALICE.name]
        assert (await bench.gateway.message(3)).chat_title == "team"
    assert caplog.text.count("add the scope users:read") == 1
    assert caplog.text.count("add the scope groups:read") == 1


async def test_what_a_thread_is_about_comes_with_the_first_message_to_the_bot_in_it(bench: Bench) -> None:
    await bench.slack.configure(events=["message.channels"])  # a mention is one event
    async with bench.running():
        root = await bench.slack.channel_says("We sell.", user=BOB, silent=True)
        about = Quote(message_id=root.ts, text="We sell.", author="Bob", from_bot=False)
        said = {"really?": None, "@antler is that wise?": about, "@antler and now?": None}
        places = []
        for number, (text, quote) in enumerate(said.items()):
            places.append((await bench.slack.channel_says(text, thread=root.ts)).ts)
            assert (await bench.gateway.message(number)).reply_to == quote
        await bench.slack.edits(places[1], "@antler is that really wise?", chat=TEAM)
        edited = await bench.gateway.event(3)
        assert isinstance(edited, MessageEdited)
        assert edited.message.reply_to == about, "whatever was looked up since"
        assert len(await bench.slack.records("conversations.replies")) == 1


async def test_a_thread_below_an_answer_in_a_direct_message_is_about_that_answer(bench: Bench) -> None:
    async with bench.running():
        (part,) = bench.channel.layout(OutboundMessage(text="**Sell.**", final=True))
        for number, text in enumerate(("why?", "/help")):
            answer = await bench.channel.send(bench.dm, part, f"key {number}")
            await bench.slack.user_says(text, thread=answer)
            quote = (await bench.gateway.message(number)).reply_to
            about = Quote(message_id=answer, text="Sell.", author="", from_bot=True)
            assert quote == (None if text == "/help" else about), "a command is about the conversation"


async def test_a_group_dm_has_no_title_and_no_scope_is_missed_for_it(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    talk = Room("C0TALK", "mpim", "mpdm-alice--bob-1")
    await bench.slack.add_chat(talk, people=[ALICE, BOB])
    async with bench.running():
        await bench.slack.channel_says("@antler hi", chat=talk)
        assert (await bench.gateway.message()).chat_title == ""
    assert "mpim:read" not in caplog.text


async def test_messages_keep_their_order(bench: Bench) -> None:
    async with bench.running():
        for number in range(30):
            await bench.slack.user_says(f"message {number}")
        await bench.gateway.event(29)
        assert bench.gateway.texts == [f"message {number}" for number in range(30)]


async def test_every_envelope_is_acked_also_those_that_say_nothing(bench: Bench) -> None:
    async with bench.running():
        await bench.slack.opens_assistant()
        await bench.slack.opens_home()
        said = await bench.slack.user_says("x")
        await bench.slack.reacts(said.ts, "tada")
        await bench.slack.unfurls(said.ts, "https://example.org")
        await bench.slack.deletes(said.ts)
        await bench.slack.other_bot_says("beep")
        await bench.slack.inject({"type": "message", "channel": 5, "ts": None})
        await bench.slack.wait_idle()
        assert [envelope.state for envelope in await bench.slack.envelopes()] == ["acked"] * 8
        assert [event.type for event in bench.gateway.events] == ["message", "message_edited", "unparsed"]


async def test_an_edit_a_press_a_command_and_an_invitation(bench: Bench) -> None:
    await bench.slack.configure(commands=["/new", "/antler-status"])
    club = Room("C0CLUB", "channel", "club")
    async with bench.running():
        said = await bench.slack.user_says("Frence?")
        await bench.slack.edits(said.ts, "France?")
        edited = await bench.gateway.event(1)
        assert isinstance(edited, MessageEdited)
        assert (edited.message.text, edited.message.platform_message_id) == ("France?", said.ts)
        await bench.slack.command("/new trip to Rome")
        await bench.slack.command("/antler-status", chat=TEAM)
        assert (await bench.gateway.message(2)).text == "/new trip to Rome"
        status = await bench.gateway.message(3)
        assert (status.text, status.address.kind, status.address.topic, status.mention) == (
            "/status",
            "group",
            None,
            True,
        )
        await bench.slack.bot_joins(club, by=BOB)
        joined = await bench.gateway.event(4)
        assert isinstance(joined, MembershipChanged)
        assert (joined.present, joined.chat_title) == (True, "club")
        assert joined.sender.display_name == "Bob"
        await bench.slack.channel_says("@antler /antler-status")
        assert (await bench.gateway.message(5)).text == "/status"


async def test_a_reset_connection_is_rebuilt_and_nothing_is_lost(bench: Bench) -> None:
    async with bench.running():
        await bench.slack.close_sockets(None)
        await bench.slack.wait_connected(0)
        await bench.slack.wait_connected(1)
        await bench.slack.user_says("still there?")
        await bench.gateway.event()
        assert bench.channel.health.reconnects == 1
        assert bench.channel.health.state is ConnectionState.CONNECTED


@pytest.mark.parametrize("reason", ["warning", "refresh_requested", "too_many_websockets"])
async def test_an_announced_end_is_answered_with_a_new_socket(bench: Bench, reason: Any) -> None:
    async with bench.running():
        (old,) = await bench.slack.sockets()
        await bench.slack.disconnect(reason)
        async with asyncio.timeout(10):
            while [socket.id for socket in await bench.slack.sockets()] in ([old.id], []):
                await bench.slack.tally()
        await bench.slack.wait_connected(1)
        await bench.slack.user_says("on the new one")
        await bench.gateway.event()


async def test_a_stop_leaves_nothing_behind_and_waits_for_nothing_that_is_not_stored_any_more(bench: Bench) -> None:
    before, loop = asyncio.all_tasks(), asyncio.get_running_loop()
    async with bench.running():
        bench.gateway.gate.clear()
        await bench.slack.user_says("this is being stored")
        await bench.slack.wait_for_record(lambda record: record.method == "users.info" and record.finished is not None)
        await bench.slack.user_says("this waits")
        async with asyncio.timeout(10):
            while [envelope.state for envelope in await bench.slack.envelopes()] != ["sent", "sent"]:
                await bench.slack.tally()
        began = loop.time()
    assert loop.time() - began < ACK_SECONDS
    assert asyncio.all_tasks() == before


async def test_a_stop_gives_an_acknowledgement_a_limited_time(slack: SlackSimulator) -> None:
    taken, stored = asyncio.Event(), asyncio.Event()

    async def take(kind: Kind, payload: Mapping[str, Any]) -> bool:
        taken.set()
        return await stored.wait()

    async def served(socket: Socket) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await socket.close_async()

    api = SlackApi("slack", config_for(slack), lambda url: Route(), LOG)
    dispatcher = Dispatcher(api.client, LOG, Me("T0TEAM", slack.bot_user_id, "antler"), take)
    socket = Socket(dispatcher, await api.open_connection(), None, lambda: None, ping=10.0)
    await socket.connect_async()
    serving = asyncio.create_task(served(socket))
    await slack.user_says("hello")
    await taken.wait()
    serving.cancel()
    await asyncio.wait({serving})
    client = socket.client
    tasks = (client.message_receiver, client.current_session_monitor, client.message_processor)
    assert all(task is not None and task.done() for task in tasks)
    stored.set()
    await api.close()


async def test_a_server_that_closes_every_socket_is_not_asked_in_a_hot_loop(bench: Bench) -> None:
    async with bench.running():
        for _ in range(3):
            (socket,) = await bench.slack.sockets()
            await bench.slack.disconnect("warning", close=True, socket=socket.id)
            async with asyncio.timeout(10):
                while [other.id for other in await bench.slack.sockets()] in ([socket.id], []):
                    await bench.slack.tally()
            await bench.slack.wait_connected(1)
    assert len(bench.gateway.clock.slept) == 1


async def test_a_refused_upgrade_gets_a_fresh_ticket(bench: Bench) -> None:
    await bench.slack.fail(faults.SOCKET_UPGRADE, faults.refused_upgrade(408), times=2)
    async with bench.running():
        await bench.slack.wait_connected(1)
        assert len(await bench.slack.records("apps.connections.open")) == 3
        assert bench.gateway.clock.slept[:2]


async def test_a_half_open_connection_is_noticed_and_replaced(
    make_bench: Callable[..., Bench], caplog: pytest.LogCaptureFixture
) -> None:
    bench = make_bench(ping_interval=0.5)
    async with bench.running():
        (old,) = await bench.slack.sockets()
        await bench.slack.silence()
        async with asyncio.timeout(20):
            while all(socket.id == old.id for socket in await bench.slack.sockets()):
                await bench.slack.tally()
        assert "slack: no answer to pings; trying again" in caplog.text
        await bench.slack.silence(False, socket=old.id)
        await bench.slack.wait_connected(1)
        await bench.slack.user_says("anybody there?")
        await bench.gateway.event()
        assert bench.channel.health.state is ConnectionState.CONNECTED


async def test_socket_mode_that_was_switched_off_is_told_and_heals(bench: Bench) -> None:
    async with bench.running():
        await bench.slack.disconnect("link_disabled", close=True)
        await reaches(bench, lambda: "is Socket Mode enabled?" in bench.channel.health.detail)
        assert bench.channel.health.state is ConnectionState.RETRYING
        await bench.slack.configure(socket_mode=True)
        await bench.slack.wait_connected(1)
        await reaches(bench, lambda: bench.channel.health.state is ConnectionState.CONNECTED)


@pytest.mark.parametrize("error", ["invalid_auth", "token_revoked", "account_inactive"])
async def test_a_dead_bot_token_is_fatal_with_a_hint(bench: Bench, error: str) -> None:
    await bench.slack.break_tokens(bot_error=error)
    with pytest.raises(Fatal) as raised:
        await bench.channel.run(bench.gateway.hello)
    assert f"channels.slack.bot_token ({error})" in str(raised.value)
    assert "channels.slack.bot_token" in raised.value.hint
    assert bench.channel.health.state is ConnectionState.STOPPED
    assert bench.slack.bot_token not in f"{raised.value} {raised.value.hint}"


async def test_a_dead_app_token_is_fatal_at_the_start_and_later(bench: Bench) -> None:
    async with bench.running() as running:
        await bench.slack.break_tokens(app_error="invalid_auth")
        await bench.slack.close_sockets(None)
        with pytest.raises(Fatal, match=r"channels\.slack\.app_token"):
            await asyncio.wait_for(running, 10)
    assert bench.channel.health.state is ConnectionState.STOPPED


async def test_an_app_that_is_uninstalled_is_noticed_at_once(bench: Bench) -> None:
    await bench.slack.configure(events=list(EVENTS))
    async with bench.running() as running:
        await bench.slack.break_tokens(bot_error="token_revoked", event="tokens_revoked")
        with pytest.raises(Fatal, match="token_revoked"):
            await asyncio.wait_for(running, 10)


async def test_missing_scopes_are_named(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    await bench.slack.configure(scopes=["chat:write", "im:history"])
    async with bench.running():
        await bench.slack.wait_connected(1)
    assert "files:read: attachments cannot be read" in caplog.text
    await bench.slack.configure(scopes=["im:history"])
    with pytest.raises(Fatal, match="chat:write"):
        await bench.channel.run(bench.gateway.hello)


async def test_tokens_of_two_apps_are_noticed(make_bench: Callable[..., Bench], slack: SlackSimulator) -> None:
    other = await slack.another_app("other")
    bench = make_bench(app_token=other.app_token)
    with pytest.raises(Fatal, match=rf"channels\.slack\.app_token is for app {other.app_id}"):
        await bench.channel.run(bench.gateway.hello)


async def test_what_was_said_while_it_was_away_is_fetched(bench: Bench) -> None:
    seen = await bench.slack.user_says("before", silent=True)
    root = await bench.slack.channel_says("@antler root", silent=True)
    bench.gateway.stored = [newest(bench.dm.chat, None, seen.ts), newest(TEAM.id, root.ts, root.ts)]
    await bench.slack.user_says("while you were away", silent=True)
    await bench.slack.channel_says("in the thread", thread=root.ts, silent=True)
    await bench.slack.channel_says("@antler a new thread", user=BOB, silent=True)
    async with bench.running():
        await bench.gateway.event(2)
    assert sorted(bench.gateway.texts) == ["a new thread", "in the thread", "while you were away"]


async def test_a_thread_that_began_while_it_was_away_is_read_whole(bench: Bench) -> None:
    root = await bench.slack.channel_says("@antler root", silent=True)
    seen = await bench.slack.user_says("before", silent=True)
    bench.gateway.stored = [newest(TEAM.id, root.ts, root.ts), newest(bench.dm.chat, None, seen.ts)]
    begun = await bench.slack.channel_says("@antler a new thread", user=BOB, silent=True)
    await bench.slack.channel_says("and more of it", user=BOB, thread=begun.ts, silent=True)
    other = await bench.slack.channel_says("talk among us", silent=True)
    await bench.slack.channel_says("@antler what do you say?", thread=other.ts, silent=True)
    private = await bench.slack.user_says("in private", silent=True)
    await bench.slack.user_says("a thread of it", thread=private.ts, silent=True)
    async with bench.running():
        await bench.gateway.event(5)
    texts = ["a new thread", "a thread of it", "and more of it", "in private", "talk among us", "what do you say?"]
    assert sorted(set(bench.gateway.texts)) == texts


async def test_a_thread_that_began_meanwhile_below_an_older_message_is_read(bench: Bench) -> None:
    older = await bench.slack.channel_says("talk among us", silent=True)
    await bench.slack.channel_says("said before", thread=older.ts, silent=True)
    quiet = await bench.slack.channel_says("more talk", silent=True)
    await bench.slack.channel_says("that is that", thread=quiet.ts, silent=True)
    root = await bench.slack.channel_says("@antler root", silent=True)
    bench.gateway.stored = [newest(TEAM.id, root.ts, root.ts)]
    await bench.slack.channel_says("@antler what do you say?", thread=older.ts, silent=True)
    async with bench.running():
        await bench.gateway.event()
    assert bench.gateway.texts == ["what do you say?"]


async def test_after_a_long_absence_the_history_is_read_and_after_a_short_one_it_is_not(bench: Bench) -> None:
    async with bench.running():
        seen = await bench.slack.user_says("before")
        await bench.gateway.event()
        bench.gateway.stored = [newest(bench.dm.chat, None, seen.ts)]
        await bench.slack.close_sockets(None)
        await bench.slack.wait_connected(0)
        await bench.slack.wait_connected(1)
        assert await bench.slack.records("conversations.history") == []

        await bench.slack.disconnect("link_disabled", close=True)
        await reaches(bench, lambda: bench.channel.health.state is ConnectionState.RETRYING)
        await bench.slack.user_says("meanwhile", silent=True)
        bench.gateway.clock.ahead = 60
        await bench.slack.configure(socket_mode=True)
        assert (await bench.gateway.message(1)).text == "meanwhile"


async def test_nothing_of_a_chat_is_stored_before_what_was_missed_there(bench: Bench) -> None:
    """A process that dies in between would take the newer one for all that there is."""
    seen = await bench.slack.user_says("before", silent=True)
    await bench.slack.user_says("missed", silent=True)
    bench.gateway.stored = [newest(bench.dm.chat, None, seen.ts)]
    for _ in range(4):
        await bench.slack.fail("conversations.history", faults.ratelimited(30))
    async with bench.running():
        await bench.slack.user_says("said now")
        await bench.slack.user_says("elsewhere", user=BOB)
        await bench.gateway.event(2)
    texts = bench.gateway.texts
    assert sorted(texts) == ["elsewhere", "missed", "said now"]
    assert texts.index("missed") < texts.index("said now")


async def test_a_limit_while_catching_up_is_waited_out(bench: Bench) -> None:
    seen = await bench.slack.user_says("before", silent=True)
    await bench.slack.user_says("meanwhile", silent=True)
    bench.gateway.stored = [newest(bench.dm.chat, None, seen.ts)]
    bench.gateway.refuse = 1
    await bench.slack.fail("conversations.history", faults.ratelimited(30))
    async with bench.running():
        assert (await bench.gateway.message()).text == "meanwhile"
    assert 30.0 in bench.gateway.clock.slept


async def test_the_right_to_catch_up_is_named_once(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    seen = await bench.slack.user_says("before", silent=True)
    root = await bench.slack.channel_says("@antler root", silent=True)
    bench.gateway.stored = [newest(bench.dm.chat, None, seen.ts), newest(TEAM.id, root.ts, root.ts)]
    for method in ("conversations.history", "conversations.replies"):
        await bench.slack.fail(method, faults.missing_scope("channels:history"), times=9)
    async with bench.running():
        await bench.slack.user_says("now")
        assert (await bench.gateway.message()).text == "now"
    assert caplog.text.count("add the scope channels:history") == 1


async def test_what_is_too_old_is_not_answered_any_more(bench: Bench) -> None:
    now = datetime.now(UTC).timestamp()
    seen = await bench.slack.user_says("long ago", at=now - 90_000, silent=True)
    await bench.slack.user_says("the day before", at=now - 88_000, silent=True)
    await bench.slack.user_says("today", at=now - 3600, silent=True)
    bench.gateway.stored = [newest(bench.dm.chat, None, seen.ts)]
    async with bench.running():
        await bench.gateway.event()
    assert bench.gateway.texts == ["today"]


def newest(chat: str, topic: str | None, ts: str) -> Newest:
    sent_at = datetime.fromtimestamp(float(ts), UTC)
    return Newest(
        chat=chat, topic=topic, kind="group" if chat.startswith("C") else "dm", message_id=ts, sent_at=sent_at
    )


async def test_buttons_are_heard(bench: Bench) -> None:
    message = OutboundMessage(text="Sure?", buttons=((Button(label="Yes", data="p:1"),),), final=True)
    async with bench.running():
        (part,) = bench.channel.layout(message)
        ts = await bench.channel.send(bench.dm, part, "k1")
        await bench.slack.press(ts, "Yes")
        pressed = await bench.gateway.event()
        assert isinstance(pressed, ButtonPressed)
        assert (pressed.data, pressed.platform_message_id, pressed.address) == ("p:1", ts, bench.dm)
        await bench.channel.acknowledge(pressed, "noted <!channel>")
        shown = [m for m in await bench.slack.messages(ALICE) if m.ephemeral_to == ALICE.id]
        assert [m.text for m in shown] == ["noted &lt;!channel&gt;"]
