"""How the connection is kept: every way in which it can end, and what becomes of what was under way."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from channels.base import ConnectionState
from channels.errors import Fatal, OutcomeUnknown, Temporary
from channels.message import Message, OutboundMessage
from channels.wecom.link import KICK_SECONDS
from tests.channels.wecom.support import QUICK, address
from tests.simulators.wecom import faults
from tests.simulators.wecom.seen import ALICE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.channels.wecom.support import Bench

FINAL = OutboundMessage(text="Hello", final=True)


async def say_hello(bench: Bench, key: str = "k1") -> str:
    (part,) = bench.channel.layout(FINAL)
    return await bench.channel.send(address(), part, key)


async def until_pings_were_ignored(bench: Bench, times: int) -> None:
    """After so many the connection is dead for whoever sent them."""
    index = -1
    for _ in range(times):
        ping = await bench.wecom.wait_for_record(
            lambda frame: frame.cmd == "ping" and frame.outcome == "ignored", since=index + 1
        )
        index = ping.index


async def test_it_subscribes_says_hello_and_publishes(bench: Bench) -> None:
    async with bench.running():
        await bench.wecom.says("Hello there")
        event = await bench.gateway.event()
        assert isinstance(event, Message)
        assert (event.text, event.address, event.mention) == ("Hello there", address(), True)
        (identity,) = bench.gateway.greeted
        assert (identity.platform, identity.bot_id, identity.username) == ("wecom", bench.wecom.bot_id, "Antler")
        health = bench.channel.health
        assert (health.state, health.detail, health.reconnects) == (ConnectionState.CONNECTED, "", 0)
        assert health.last_sign is not None
        (subscribed,) = await bench.wecom.records("aibot_subscribe")
        assert subscribed.body == {"bot_id": bench.wecom.bot_id}, "the record leaves the secret out"


@pytest.mark.parametrize("code", [1000, 1001, 1008, 1011, faults.ABORT])
async def test_after_any_close_it_connects_again(bench: Bench, code: int) -> None:
    async with bench.running():
        await bench.wecom.close(code)
        await bench.wecom.wait_connected(times=2)
        await bench.wecom.says("Still there?")
        event = await bench.gateway.event()
        assert isinstance(event, Message)
        assert bench.channel.health.reconnects == 1
        assert bench.channel.health.state is ConnectionState.CONNECTED
        assert 0.7 < bench.gateway.clock.slept[0] <= 1.0


async def test_a_connection_that_answers_no_ping_is_dead(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(QUICK)
    async with bench.running():
        await bench.wecom.configure(mute_pings=True)
        await bench.wecom.wait_connected(times=2)
        await bench.wecom.configure(mute_pings=False)
        pings = [frame for frame in await bench.wecom.records("ping") if frame.outcome == "ignored"]
        assert len(pings) >= 2


async def test_a_half_open_connection_is_noticed_and_calls_on_it_are_of_unknown_outcome(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_bench(QUICK)
    async with bench.running():
        await bench.wecom.says("Hello")
        await bench.gateway.event()
        await bench.wecom.configure(silent=True)
        with pytest.raises(OutcomeUnknown):
            await say_hello(bench)
        await until_pings_were_ignored(bench, QUICK.missed)
        await bench.wecom.configure(silent=False)
        await bench.wecom.wait_connected(times=2)
        await say_hello(bench, "k2")


async def test_one_missed_ping_is_forgiven(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(replace(QUICK, pong=2.0))  # the pongs that do come have time to
    async with bench.running():
        await bench.wecom.fail("ping", faults.missing_ack())
        lost = await bench.wecom.wait_for_record(lambda frame: frame.outcome == "missing ack")
        await bench.wecom.wait_for_record(lambda frame: frame.cmd == "ping" and frame.index > lost.index + 1)
        assert (await bench.wecom.status()).subscriptions == 1


async def test_a_lost_subscription_is_renewed(bench: Bench) -> None:
    async with bench.running():
        await bench.wecom.says("Hello")
        await bench.gateway.event()
        await bench.wecom.fail("aibot_send_msg", faults.not_subscribed())
        with pytest.raises(Temporary, match="846609"):
            await say_hello(bench)
        await bench.wecom.wait_connected(times=2)
        await say_hello(bench)
        assert await bench.wecom.texts(ALICE) == ["Hello"]


async def test_who_was_kicked_stays_away_and_says_so(bench: Bench) -> None:
    async with bench.running() as task:
        await bench.wecom.kick()
        with pytest.raises(Fatal, match="another program has connected") as caught:
            await asyncio.wait_for(task, 20)
        assert "reconnect_after_kick" in caught.value.hint
        assert bench.channel.health.state is ConnectionState.STOPPED
        assert "another program" in bench.channel.health.detail
        with pytest.raises(Fatal):
            await say_hello(bench)
        assert (await bench.wecom.status()).subscriptions == 1


async def test_two_gateways_with_one_robot_do_not_throw_each_other_out_for_ever(
    make_bench: Callable[..., Bench],
) -> None:
    first, second = make_bench(), make_bench()
    async with first.running() as loser, second.running():
        with pytest.raises(Fatal):
            await asyncio.wait_for(loser, 20)
        await second.wecom.says("Who is there?")
        await second.gateway.event()
        assert (await second.wecom.status()).kicks == 1


async def test_coming_back_after_a_kick_takes_more_than_a_minute(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(reconnect_after_kick=True)
    async with bench.running():
        await bench.wecom.kick()
        await bench.wecom.wait_connected(times=2)
        assert bench.gateway.clock.slept[0] >= KICK_SECONDS


async def test_a_wrong_secret_is_fatal(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(secret="wrong-canary")
    with pytest.raises(Fatal, match="853000") as caught:
        await asyncio.wait_for(bench.channel.run(bench.gateway.hello), 20)
    assert "channels.wecom.secret" in caught.value.hint
    assert "canary" not in f"{caught.value}{caught.value.hint}{bench.channel.health.detail}"
    assert (await bench.wecom.status()).subscriptions == 0
    assert not bench.gateway.greeted


async def test_an_unclear_refusal_of_the_subscription_is_tried_again(bench: Bench) -> None:
    await bench.wecom.fail("aibot_subscribe", faults.error(846602))
    async with bench.running():
        assert bench.gateway.clock.slept
        assert bench.channel.health.state is ConnectionState.CONNECTED


async def test_an_account_that_is_not_accepted_connects_no_more(bench: Bench) -> None:
    bench.gateway.refusal = Fatal("another robot", "rename the account")
    with pytest.raises(Fatal, match="another robot"):
        await asyncio.wait_for(bench.channel.run(bench.gateway.hello), 20)
    await bench.wecom.wait_disconnected()
    with pytest.raises(Fatal, match="another robot"):
        await say_hello(bench)


async def test_where_nobody_listens_it_tries_for_ever(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(url="ws://127.0.0.1:9")
    task = asyncio.create_task(bench.channel.run(bench.gateway.hello))
    await bench.gateway.clock.slept_often(8)
    assert bench.channel.health.state is ConnectionState.RETRYING
    assert "cannot connect to WeCom" in bench.channel.health.detail
    assert 22 <= bench.gateway.clock.slept[7] <= 30
    task.cancel()
    await asyncio.wait([task])


async def test_the_sender_works_before_receiving_and_after_it_until_the_channel_is_closed(bench: Bench) -> None:
    async with bench.running():
        await bench.wecom.says("Hello")
        await bench.gateway.event()
    await say_hello(bench)
    await bench.channel.close()
    await bench.channel.close()
    await bench.wecom.wait_disconnected()
    with pytest.raises(Temporary, match="closed"):
        await say_hello(bench, "k2")
    assert await bench.wecom.texts(ALICE) == ["Hello"]


async def test_who_lets_go_stays_away_until_it_receives_again(bench: Bench) -> None:
    async with bench.running():
        await bench.wecom.says("Hello")
        await bench.gateway.event()
    await bench.channel.let_go()
    await bench.channel.let_go()
    await bench.wecom.wait_disconnected()
    with pytest.raises(Temporary, match="left to another process"):
        await say_hello(bench)
    assert not (await bench.wecom.says("Is nobody there?")).delivered
    status = await bench.wecom.status()
    assert (status.subscriptions, status.sockets) == (1, 0)
    assert bench.channel.health.state is ConnectionState.STOPPED
    async with bench.running():
        await bench.wecom.wait_connected(times=2)
        await bench.wecom.says("Back again")
        event = await bench.gateway.event(1)
        assert isinstance(event, Message)
        assert event.text == "Back again"
        await say_hello(bench)


async def test_who_takes_over_from_one_that_let_go_throws_nobody_out(make_bench: Callable[..., Bench]) -> None:
    first, second = make_bench(), make_bench()
    async with first.running() as task:
        task.cancel()
        await asyncio.wait([task])
        await first.channel.let_go()
        async with second.running():
            await second.wecom.says("Who is there?")
            await second.gateway.event()
            assert (await second.wecom.status()).kicks == 0


async def test_what_was_read_before_it_let_go_is_handed_over_when_it_can_be(bench: Bench) -> None:
    async with bench.running() as task:
        bench.gateway.gate.clear()
        assert (await bench.wecom.says("Just before")).delivered
        (part,) = bench.channel.layout(FINAL)
        await bench.channel.send(address(), part, "k1")  # its ack comes behind what was said
        task.cancel()
        await asyncio.wait([task])
        await bench.channel.let_go()
    bench.gateway.gate.set()
    event = await bench.gateway.event()
    assert isinstance(event, Message)
    assert event.text == "Just before"


async def test_closing_ends_receiving_and_whoever_waits_for_a_connection(make_bench: Callable[..., Bench]) -> None:
    bench, nowhere = make_bench(), make_bench(url="ws://127.0.0.1:9")
    async with bench.running() as task:
        await bench.channel.close()
        await asyncio.wait_for(task, 20)
    waiting = asyncio.create_task(say_hello(nowhere))
    await nowhere.gateway.clock.slept_often(1)
    await nowhere.channel.close()
    with pytest.raises(Temporary):
        await waiting


async def test_a_call_fails_when_the_connection_breaks_under_it(bench: Bench) -> None:
    async with bench.running():
        await bench.wecom.says("Hello")
        await bench.gateway.event()
        await bench.wecom.fail("aibot_send_msg", faults.close(apply=False))
        with pytest.raises(OutcomeUnknown):
            await say_hello(bench)
        await bench.wecom.wait_connected(times=2)
        await say_hello(bench)
        assert await bench.wecom.texts(ALICE) == ["Hello"]


async def test_nonsense_frames_are_stepped_over(bench: Bench) -> None:
    async with bench.running():
        for text in ("", "[]", "{", '"x"', '{"cmd": 1}', '{"errcode": 0, "headers": {"req_id": "unknown"}}'):
            await bench.wecom.send_frame(text)
        await bench.wecom.says("After the noise")
        event = await bench.gateway.event()
        assert isinstance(event, Message)
        assert event.text == "After the noise"
