"""The socket: opened again when it dies, noticed when it dies silently, and given up only for a reason."""

from __future__ import annotations

import asyncio

import pytest

from channels.base import ConnectionState
from channels.errors import Fatal
from channels.feishu.channel import FeishuChannel
from channels.message import Message
from tests.channels.feishu.support import Bench, config_for
from tests.simulators.feishu import faults

pytestmark = pytest.mark.timeout(60)


async def message(bench: Bench, number: int = 0) -> Message:
    event = await bench.gateway.event(number)
    assert isinstance(event, Message)
    return event


class TestConnection:
    @pytest.mark.parametrize("code", [1000, 1011, None])
    async def test_a_closed_socket_is_opened_again(self, bench: Bench, code: int | None) -> None:
        async with bench.running():
            await bench.feishu.close_connections(code)
            said = await bench.feishu.user_says("still there?")
            assert (await message(bench)).text == "still there?"
            await bench.feishu.wait_acked(said.event_id)
            health = bench.channel.health
            assert (health.state, health.reconnects, health.detail) == (ConnectionState.CONNECTED, 1, "")

    async def test_a_silent_death_is_noticed_by_the_missing_pongs(self, bench: Bench) -> None:
        await bench.feishu.configure(client_config={"PingInterval": 1})
        async with bench.running():
            await bench.feishu.silence()
            await bench.feishu.wait_for_record(
                lambda record: record.method == "ws.connect" and record.index > 5, timeout=20
            )
            await bench.feishu.user_says("hello")
            assert (await message(bench)).text == "hello"
            assert bench.channel.health.reconnects == 1

    async def test_what_is_refused_for_now_is_tried_again(self, bench: Bench) -> None:
        await bench.feishu.fail("auth.token", faults.server_error(502))
        await bench.feishu.fail("ws.endpoint", faults.busy_endpoint())
        await bench.feishu.fail("ws.endpoint", faults.garbage())
        await bench.feishu.fail("ws.endpoint", faults.reset())
        await bench.feishu.fail("ws.connect", faults.refused_connection(514, 1000040350, "too many connections"))
        async with bench.running():
            assert len(bench.gateway.clock.slept) == 5
            assert bench.channel.health.state is ConnectionState.CONNECTED

    async def test_why_it_is_not_connected_is_told(self, bench: Bench) -> None:
        bench.gateway.clock.stopped = True
        await bench.feishu.fail("ws.connect", faults.refused_connection(514, 1000040350, "too many connections"))
        running = asyncio.create_task(bench.channel.run(bench.gateway.hello))
        await bench.gateway.clock.slept_often(1)
        assert bench.channel.health.state.value == "retrying"
        assert "too many connections (514 1000040350)" in bench.channel.health.detail
        running.cancel()
        await asyncio.wait([running])
        assert bench.channel.health.state.value == "stopped"

    async def test_a_wrong_secret_is_fatal(self, bench: Bench) -> None:
        config = config_for(bench.feishu, app_secret="wrong")
        channel = FeishuChannel("feishu", config, bench.gateway.ports())
        with pytest.raises(Fatal) as caught:
            await channel.run(bench.gateway.hello)
        assert "channels.feishu.app_id" in caught.value.hint
        assert "wrong" not in str(caught.value)
        await channel.close()

    async def test_a_secret_that_was_changed_ends_the_reconnecting(self, bench: Bench) -> None:
        running = asyncio.create_task(bench.channel.run(bench.gateway.hello))
        await bench.feishu.wait_connected(pings=1)
        await bench.feishu.configure(app_secret="another")
        await bench.feishu.close_connections(1000)
        async with asyncio.timeout(20):
            with pytest.raises(Fatal):
                await running
        assert bench.channel.health.state is ConnectionState.STOPPED

    async def test_an_app_without_the_long_connection_is_told_what_to_do(self, bench: Bench) -> None:
        await bench.feishu.fail("ws.connect", faults.refused_connection(403, None, "forbidden"))
        with pytest.raises(Fatal) as caught:
            await bench.channel.run(bench.gateway.hello)
        assert "long connection" in caught.value.hint

    async def test_a_stop_leaves_nothing_behind(self, bench: Bench) -> None:
        before = asyncio.all_tasks()
        async with bench.running():
            bench.gateway.gate.clear()
            await bench.feishu.user_says("in the middle of it")
            await bench.feishu.wait_for_record(lambda record: record.method == "contact.user.get")
        await bench.channel.close()
        await bench.feishu.wait_connected(0)
        assert asyncio.all_tasks() == before
