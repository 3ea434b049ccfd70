"""Receiving over the wire: what is committed is confirmed, what is not comes again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from channels.base import BotIdentity, ConnectionState, Health
from channels.errors import Fatal, Temporary
from channels.message import (
    Button,
    ButtonPressed,
    ChatMigrated,
    MembershipChanged,
    Message,
    MessageEdited,
    OutboundMessage,
    Unparsed,
)
from channels.telegram.inbound import Me, Pastes, Reader
from channels.telegram.poll import Poller
from tests.channels.telegram.support import new_group
from tests.simulators.telegram import faults
from tests.simulators.telegram.seen import ALICE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.channels.telegram.support import Bench


async def test_hello_comes_first_and_old_webhooks_go_without_losing_messages(bench: Bench) -> None:
    await bench.telegram.user_says("written while the bot was away")
    async with bench.running():
        event = await bench.gateway.event()
    assert isinstance(event, Message)
    assert event.text == "written while the bot was away"
    identity = BotIdentity(platform="telegram", bot_id=str(bench.telegram.bot_id), username="antler_bot")
    assert bench.gateway.greeted == [identity]
    assert bench.channel.identity == identity
    methods = [record.method for record in await bench.telegram.records()]
    assert methods[:3] == ["getMe", "deleteWebhook", "getUpdates"]
    assert (await bench.sent_params("deleteWebhook"))[0].get("drop_pending_updates") in (None, "false", "False")


async def test_the_offset_moves_only_after_the_commit(bench: Bench) -> None:
    bench.gateway.gate.clear()
    async with bench.running():
        said = await bench.telegram.user_says("hold me")
        await bench.gateway.until(lambda: bool(bench.gateway.batches))
        assert all("offset" not in params for params in await bench.sent_params("getUpdates"))
        bench.gateway.gate.set()
        assert said.update_id is not None
        await bench.telegram.wait_idle()
    assert len(bench.gateway.events) == 1
    assert (await bench.sent_params("getUpdates"))[-1]["offset"] == str(said.update_id + 1)


async def test_a_publish_that_fails_is_repeated_after_a_pause(bench: Bench) -> None:
    bench.gateway.refuse = 2
    async with bench.running():
        await bench.telegram.user_says("try again")
        event = await bench.gateway.event()
    assert isinstance(event, Message)
    assert event.text == "try again"
    assert bench.gateway.refused == 2
    assert len(bench.gateway.clock.slept) >= 2


async def test_an_unreadable_update_is_kept_and_stepped_over(bench: Bench) -> None:
    async with bench.running():
        await bench.telegram.wait_polled()
        await bench.telegram.inject({"message": {"message_id": 1, "chat": {"id": "not a number"}, "text": "x"}})
        await bench.telegram.inject({"hologram": {"id": 1}})
        await bench.telegram.user_says("still here")
        dead, alive = await bench.gateway.event(0), await bench.gateway.event(1)
        await bench.telegram.wait_idle()
    assert isinstance(dead, Unparsed)
    assert "not a number" in dead.raw
    assert isinstance(alive, Message)
    assert alive.text == "still here"


async def test_every_kind_of_event_arrives(bench: Bench) -> None:
    team, forum = new_group(), new_group(is_forum=True)
    async with bench.running():
        await bench.telegram.wait_polled()
        await bench.telegram.membership("member", chat=team)
        said = await bench.telegram.group_says("@antler_bot hello", chat=forum, thread=7)
        await bench.telegram.edits(said.message_id, "@antler_bot hello all", chat=forum)
        await bench.telegram.migrate(team, -1009)
        added, hello, edited, moved = [await bench.gateway.event(number) for number in range(4)]
    assert isinstance(added, MembershipChanged)
    assert added.present
    assert isinstance(hello, Message)
    assert (hello.address.topic, hello.text, hello.mention) == ("7", "hello", True)
    assert isinstance(edited, MessageEdited)
    assert edited.message.text == "hello all"
    assert edited.dedupe_keys != hello.dedupe_keys
    assert isinstance(moved, ChatMigrated)
    assert (moved.old_chat, moved.new_chat) == (str(team.id), "-1009")


async def test_a_redelivered_update_has_the_same_key_and_an_id_twice_used_has_not(bench: Bench) -> None:
    async with bench.running():
        await bench.telegram.wait_polled()
        said = await bench.telegram.user_says("once")
        first = await bench.gateway.event(0)
        assert said.update_id is not None
        await bench.telegram.redeliver(said.update_id)
        again = await bench.gateway.event(1)
        weeks_later = {**said.message, "date": said.message["date"] + 10**6}
        await bench.telegram.inject({"update_id": said.update_id, "message": weeks_later})
        other = await bench.gateway.event(2)
    assert first.dedupe_keys == again.dedupe_keys
    assert first.dedupe_keys != other.dedupe_keys


async def test_ten_thousand_updates_at_once_all_arrive_in_order(bench: Bench) -> None:
    chat = {"id": 1, "type": "private"}
    person = {"id": 1, "is_bot": False, "first_name": "A"}
    await bench.telegram.inject(
        *(
            {"message": {"message_id": n + 1, "date": 1, "chat": chat, "from": person, "text": str(n)}}
            for n in range(10_000)
        )
    )
    async with bench.running():
        await bench.gateway.event(9_999)
    texts = [event.text for event in bench.gateway.events if isinstance(event, Message)]
    assert texts == [str(number) for number in range(10_000)]
    assert max(len(batch) for batch in bench.gateway.batches) <= 100


async def test_the_identity_can_be_refused(bench: Bench) -> None:
    class WrongBot(Exception):
        pass

    async def refuse(identity: BotIdentity) -> None:
        raise WrongBot

    with pytest.raises(WrongBot):
        await bench.channel.run(refuse)
    assert await bench.telegram.records("getUpdates") == []
    assert bench.channel.health.state is ConnectionState.STOPPED


async def test_cancelling_stops_receiving_and_nothing_else(bench: Bench) -> None:
    async with bench.running() as task:
        await bench.telegram.wait_polled()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await bench.channel.publish_commands([], None)


@pytest.mark.parametrize(
    "fault",
    [faults.conflict(), faults.flood(7), faults.bad_gateway(), faults.reset(), faults.garbage()],
    ids=lambda fault: fault.name,
)
async def test_a_failed_poll_is_repeated_after_a_pause_and_told(bench: Bench, fault: faults.Fault) -> None:
    health = bench.channel.health
    async with bench.running():
        await bench.telegram.wait_polled()
        await bench.telegram.fail("getUpdates", fault, times=3)
        await bench.telegram.user_says("wake up")
        await bench.telegram.user_says("after the trouble")
        await bench.gateway.until(lambda: len(bench.gateway.events) >= 2)
        await bench.telegram.wait_polled()
        assert health.state is ConnectionState.CONNECTED
        assert health.reconnects == 1
        assert health.detail == ""
        assert health.last_sign is not None
    slept = bench.gateway.clock.slept
    assert len(slept) == 3
    if fault.name == "error 429":
        assert slept == [7.5, 7.5, 7.5]
    elif fault.name == "error 409":
        assert [3.75 * 2**n <= seconds <= 5 * 2**n for n, seconds in enumerate(slept)] == [True, True, True]
    else:
        assert [0.75 * 2**n <= seconds <= 2**n for n, seconds in enumerate(slept)] == [True, True, True]


async def test_a_conflict_with_a_poll_of_its_own_is_not_told_as_another_program(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench.running():
        await bench.telegram.wait_polled()
        await bench.telegram.fail("getUpdates", faults.reset())
        await bench.telegram.fail("getUpdates", faults.conflict())
        await bench.telegram.user_says("wake up")
        await bench.telegram.user_says("after the trouble")
        await bench.gateway.until(lambda: len(bench.gateway.events) >= 2)
    told = [record.getMessage() for record in caplog.records]
    assert any("still holds open the poll of a lost connection (409)" in line for line in told)
    assert not any("another program" in line for line in told)


@pytest.mark.parametrize("fault", [faults.unauthorized(), faults.not_found()], ids=["401", "404"])
@pytest.mark.parametrize("method", ["getMe", "getUpdates"])
async def test_a_token_that_is_refused_ends_the_channel_with_a_hint(
    bench: Bench, method: str, fault: faults.Fault
) -> None:
    await bench.telegram.fail(method, fault)
    async with asyncio.timeout(10):
        with pytest.raises(Fatal) as failure:
            await bench.channel.run(bench.gateway.hello)
    assert "channels.telegram.token" in failure.value.hint
    assert bench.telegram.token not in f"{failure.value!r} {failure.value.hint}"
    assert bench.channel.health.state is ConnectionState.STOPPED
    assert "channels.telegram.token" in bench.channel.health.detail


async def test_the_network_may_be_away_at_the_start(bench: Bench) -> None:
    await bench.telegram.fail("getMe", faults.reset(), times=4)
    async with bench.running():
        await bench.telegram.wait_polled()
    assert len(bench.gateway.clock.slept) == 4


async def test_a_button_press_is_delivered_and_answered(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    async with bench.running():
        await bench.telegram.wait_polled()
        await bench.telegram.user_says("hi")
        first = await bench.gateway.event(0)
        assert isinstance(first, Message)
        message = OutboundMessage(text="Sure?", buttons=((Button(label="Yes", data="p:1"),),), final=True)
        await bench.channel.send(first.address, bench.channel.layout(message)[0], "k")
        asked = await bench.telegram.wait_for_text(ALICE, "Sure?")
        press = await bench.telegram.press(asked.message_id, "Yes")
        event = await bench.gateway.event(1)
        assert isinstance(event, ButtonPressed)
        assert (event.data, event.callback_id) == ("p:1", press.callback_id)
        await bench.channel.acknowledge(event, "Done. " * 100)
        answer = await bench.telegram.wait_answered(press.callback_id)
    assert answer["text"].startswith("Done. Done.")


async def test_a_stalled_poll_is_given_up_and_the_connection_made_anew(bench: Bench) -> None:
    reader = Reader("telegram", Me(bench.telegram.bot_id, "antler_bot"), Pastes())
    health = Health(state=ConnectionState.CONNECTED)
    poller = Poller(bench.channel._api, bench.gateway.ports(), health, reader, timeout=1, grace=0.2)
    await bench.telegram.play_dead()
    for _ in range(2):
        async with asyncio.timeout(10):
            with pytest.raises(Temporary, match="no answer to the long poll"):
                await poller.step()
    assert health == Health(state=ConnectionState.CONNECTED)
    await bench.telegram.play_dead(False)
    await bench.telegram.user_says("after the stall")
    await poller.step()
    assert health.last_sign is not None
    assert isinstance(await bench.gateway.event(), Message)


async def test_a_server_that_answers_too_early_is_no_hot_loop(bench: Bench) -> None:
    reader = Reader("telegram", Me(bench.telegram.bot_id, "antler_bot"), Pastes())
    health = Health(state=ConnectionState.CONNECTED)
    poller = Poller(bench.channel._api, bench.gateway.ports(), health, reader, timeout=1)
    await bench.telegram.user_says("x")
    await poller.step()
    said = await bench.gateway.event()
    assert bench.gateway.clock.slept == []
    # The same update once more, at once: the offset does not move on.
    await bench.telegram.inject({"update_id": int(said.dedupe_keys[0].split(":")[1]), "message": {"message_id": 1}})
    await poller.step()
    assert len(bench.gateway.clock.slept) == 1


async def test_closing_twice_does_no_harm_and_ends_everything(bench: Bench) -> None:
    await bench.channel.close()
    await bench.channel.close()
    with pytest.raises(Temporary, match="closed"):
        await bench.channel.publish_commands([], None)
