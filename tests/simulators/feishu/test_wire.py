"""The long connection without the SDK: several at once, missing acks, unanswered pings, refusals on the wire."""

import asyncio
import json
from contextlib import AsyncExitStack

import aiohttp
import pytest

from tests.simulators.feishu import faults
from tests.simulators.feishu.client import FeishuSimulator
from tests.simulators.feishu.frames import CONTROL
from tests.simulators.feishu.wire import endpoint, wire

pytestmark = pytest.mark.timeout(60)


async def test_each_event_goes_to_one_of_several_connections(feishu: FeishuSimulator) -> None:
    async with wire(feishu) as first, wire(feishu) as second:
        await feishu.wait_connected(2)
        said = [await feishu.user_says(text) for text in ("one", "two")]
        events = []
        for each in (first, second):
            frame, event = await each.event()
            await each.ack(frame)
            events.append(event["header"]["event_id"])
        assert sorted(events) == sorted(each.event_id for each in said)
    await feishu.wait_connected(0)


async def test_what_is_not_acked_goes_to_the_next_one(feishu: FeishuSimulator) -> None:
    await feishu.set_timing(ack_timeout=0.1, retry_delays=[0.0, 0.0])
    async with wire(feishu) as deaf, wire(feishu) as awake:
        said = await feishu.user_says("hello")
        ignored, _ = await deaf.event()
        frame, event = await awake.event()
        await awake.ack(frame)
        assert event["header"]["event_id"] == said.event_id
        assert len((await feishu.wait_acked(said.event_id)).attempts) == 2
        await deaf.ack(ignored)  # a late ack is not an error


async def test_the_envelope_of_a_message(feishu: FeishuSimulator) -> None:
    async with wire(feishu) as connection:
        said = await feishu.group_says("@antler hi")
        frame, event = await connection.event()
        assert [frame.header(name) for name in ("type", "sum", "seq")] == ["event", "1", "0"]
        await connection.ack(frame)
    assert (event["schema"], event["header"]["event_type"]) == ("2.0", "im.message.receive_v1")
    assert event["header"].keys() == {"event_id", "event_type", "create_time", "token", "app_id", "tenant_key"}
    message = event["event"]["message"]
    assert (message["message_id"], json.loads(message["content"])) == (said.message_id, {"text": "@_user_1 hi"})
    assert message["mentions"][0]["id"]["open_id"] == feishu.bot_open_id
    assert message["create_time"].isdigit()


async def test_pings_and_their_answers(feishu: FeishuSimulator) -> None:
    async with wire(feishu) as connection:
        await connection.ping()
        pong = await connection.frame()
        assert (pong.method, pong.header("type")) == (CONTROL, "pong")
        assert json.loads(pong.payload)["PingInterval"] == 2
        await feishu.configure(config_in_pong=False)
        await connection.ping()
        assert (await connection.frame()).payload == b""
        await connection.ws.ping(b"alive?")
        assert (await connection.ws.receive(timeout=10)).type is aiohttp.WSMsgType.PONG
        await feishu.answer_pings(control=False, protocol=False)
        await connection.ping()
        await connection.ws.ping(b"still?")
        await feishu.wait_connected(pings=3)
        await feishu.push_config(PingInterval=7)
        assert json.loads((await connection.frame()).payload or b"{}") == {}
        assert [seen.pings for seen in await feishu.connections()] == [3]


async def test_the_fifty_first_is_refused(feishu: FeishuSimulator) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(50):
            await stack.enter_async_context(wire(feishu))
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await stack.enter_async_context(wire(feishu))
    headers = refused.value.headers
    assert headers is not None
    assert (headers["handshake-status"], headers["handshake-autherrcode"]) == ("514", "1000040350")


async def test_handshakes_fail_as_told(feishu: FeishuSimulator) -> None:
    for fault, status in ((faults.refused_connection(403, None), 403), (faults.server_error(502), 502)):
        await feishu.fail("ws.connect", fault)
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            async with wire(feishu):
                pass
        assert refused.value.status == status


async def test_a_slow_endpoint(feishu: FeishuSimulator) -> None:
    await feishu.fail("ws.endpoint", faults.hold())
    async with aiohttp.ClientSession() as http:
        asking = asyncio.create_task(endpoint(feishu, http))
        await feishu.wait_for_record(lambda record: record.outcome == "held")
        await feishu.release()
        assert (await asking).startswith("ws://127.0.0.1:")


async def test_what_no_client_may_send(feishu: FeishuSimulator) -> None:
    async with wire(feishu) as connection:
        await connection.ws.send_bytes(b"\x08")
        await connection.ws.send_str("text")
        await connection.ping()
        await connection.frame()
        assert await feishu.problems() == ["a bad frame: truncated varint", "a bad frame: TEXT"]
