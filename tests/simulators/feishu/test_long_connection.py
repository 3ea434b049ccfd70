"""The long connection against the real SDK: delivery, acks, redelivery, and every way in which a connection ends."""

import json

import pytest
from lark_oapi.ws.exception import ClientException

from tests.simulators.feishu import faults
from tests.simulators.feishu.client import FeishuSimulator
from tests.simulators.feishu.frames import CONTROL, Frame, encode
from tests.simulators.feishu.raw import Api, button, streaming_card
from tests.simulators.feishu.sdk import LongConnection, long_connection
from tests.simulators.feishu.seen import ALICE

pytestmark = pytest.mark.timeout(60)


async def text_of(connection: LongConnection) -> str:
    """The text of the next message event."""
    return str(json.loads((await connection.next()).event.message.content)["text"])


class TestDelivery:
    async def test_an_event_is_handed_over_and_acked(self, feishu: FeishuSimulator) -> None:
        async with long_connection(feishu) as sdk:
            said = await feishu.user_says("hello")
            event = await sdk.next()
            assert (event.header.event_id, event.header.app_id) == (said.event_id, feishu.app_id)
            assert event.event.sender.sender_id.open_id == feishu.open_id(ALICE)
            seen = await feishu.wait_acked(said.event_id)
            assert ([ack["code"] for ack in seen.acks], seen.acks[0]["biz_rt"].isdigit()) == ([200], True)
            (connection,) = await feishu.connections()
            assert connection.bad_frames == []

    async def test_what_is_refused_comes_again(self, feishu: FeishuSimulator) -> None:
        await feishu.set_timing(retry_delays=[0.01, 0.01])
        async with long_connection(feishu) as sdk:
            sdk.refuse = 2
            said = await feishu.user_says("again")
            assert [(await sdk.next()).header.event_id for _ in range(3)] == [said.event_id] * 3
            seen = await feishu.wait_acked(said.event_id)
            assert [ack["code"] for ack in seen.acks] == [500, 500, 200]

    async def test_what_is_never_acked_is_given_up(self, feishu: FeishuSimulator) -> None:
        await feishu.set_timing(retry_delays=[0.01])
        async with long_connection(feishu) as sdk:
            sdk.refuse = 9
            said = await feishu.user_says("never")
            seen = await feishu.wait_event(said.event_id)
            assert (seen.state, len(seen.attempts)) == ("failed", 2)

    async def test_without_a_connection_it_waits(self, feishu: FeishuSimulator) -> None:
        said = await feishu.user_says("anybody?")
        async with long_connection(feishu) as sdk:
            assert await text_of(sdk) == "anybody?"
            assert len((await feishu.wait_acked(said.event_id)).attempts) == 1

    async def test_fragments_in_any_order_are_one_event(self, feishu: FeishuSimulator) -> None:
        async with long_connection(feishu) as sdk:
            await feishu.disturb("fragment", order=[2, 0, 1])
            said = await feishu.user_says("in parts")
            assert await text_of(sdk) == "in parts"
            assert (await feishu.wait_acked(said.event_id)).attempts[0]["parts"] == 3

    async def test_dropped_doubled_and_lost(self, feishu: FeishuSimulator) -> None:
        await feishu.set_timing(ack_timeout=0.2, retry_delays=[0.01])
        async with long_connection(feishu) as sdk:
            await feishu.disturb("drop")
            assert len((await feishu.wait_acked((await feishu.user_says("dropped")).event_id)).attempts) == 2
            await feishu.disturb("duplicate")
            await feishu.user_says("twice")
            assert [await text_of(sdk) for _ in range(3)] == ["dropped", "twice", "twice"]
            await feishu.disturb("lose")
            lost = await feishu.user_says("lost")
            assert (await feishu.wait_event(lost.event_id)).state == "lost"

    async def test_one_message_under_two_event_ids(self, feishu: FeishuSimulator) -> None:
        async with long_connection(feishu) as sdk:
            await feishu.disturb("duplicate_message")
            said = await feishu.user_says("twice")
            events = [await sdk.next() for _ in range(2)]
            assert {event.event.message.message_id for event in events} == {said.message_id}
            assert len({event.header.event_id for event in events}) == 2
            assert await feishu.repeats(said.message_id) != said.event_id

    async def test_held_events_come_in_any_order_and_old_ones_again(self, feishu: FeishuSimulator) -> None:
        async with long_connection(feishu) as sdk:
            await feishu.hold_events()
            said = [await feishu.user_says(text) for text in ("first", "second")]
            await feishu.hold_events(False)
            assert await feishu.release_events([1, 0]) == 2
            assert [await text_of(sdk) for _ in said] == ["second", "first"]
            again = await feishu.redeliver(said[0].event_id)
            assert (await sdk.next()).header.event_id == said[0].event_id
            assert (await feishu.wait_acked(again)).event_id == said[0].event_id

    async def test_only_what_is_subscribed_arrives(self, feishu: FeishuSimulator) -> None:
        await feishu.configure(events=["im.message.recalled_v1"])
        assert (await feishu.user_says("unheard")).event_ids == []

    async def test_an_event_without_a_handler_is_refused_by_the_sdk(self, feishu: FeishuSimulator) -> None:
        await feishu.set_timing(retry_delays=[])
        async with long_connection(feishu):
            event_id = await feishu.inject("im.message.message_read_v1", {"reader": {}, "message_id_list": []})
            seen = await feishu.wait_event(event_id)
            assert (seen.state, seen.acks[0]["code"]) == ("failed", 500)


class TestPresses:
    async def test_the_answer_is_a_toast_and_a_card(self, feishu: FeishuSimulator, api: Api) -> None:
        card = {**streaming_card("Sure?", button("Yes", {"n": 1})), "config": {}}
        message_id = (await api.send(ALICE, "interactive", card))["data"]["message_id"]
        async with long_connection(feishu) as sdk:
            new = {**card, "body": {"elements": [{"tag": "markdown", "content": "Done"}]}}
            sdk.answer = {"toast": {"type": "info", "content": "ok"}, "card": {"type": "raw", "data": new}}
            pressed = await feishu.press(message_id, "Yes")
            event = (await sdk.next()).event
            assert (event.action.value, event.context.open_message_id) == ({"n": 1}, message_id)
            assert event.operator.open_id == feishu.open_id(ALICE)
            assert (await feishu.wait_acked(pressed.event_id)).toast == "ok"
        seen = await feishu.wait_for_text(ALICE, "Done")
        assert (seen.message_id, seen.buttons) == (message_id, [])
        token = pressed.token
        for number, code in enumerate((0, 0, 300030)):
            update = {**card, "body": {"elements": [{"tag": "markdown", "content": f"later {number}"}]}}
            answer = await api.call("POST", "/interactive/v1/card/update", {"token": token, "card": update})
            assert answer["code"] == code
        assert (await feishu.wait_for_text(ALICE, "later 1")).message_id == message_id

    async def test_a_refused_press_does_not_come_again(self, feishu: FeishuSimulator, api: Api) -> None:
        card_id, message_id = await api.streaming_card(ALICE)
        body = {"type": "append", "elements": json.dumps([button("Stop")]), "sequence": 1}
        assert (await api.call("POST", f"/cardkit/v1/cards/{card_id}/elements", body))["code"] == 0
        async with long_connection(feishu) as sdk:
            sdk.refuse = 1
            pressed = await feishu.press(message_id, "Stop")
            seen = await feishu.wait_event(pressed.event_id)
            assert (seen.state, len(seen.attempts), seen.reply) == ("failed", 1, None)


class TestConnections:
    async def test_pings_and_new_settings_from_pongs(self, feishu: FeishuSimulator) -> None:
        await feishu.configure(client_config={"PingInterval": 0.05})
        async with long_connection(feishu):
            await feishu.wait_connected(pings=3)
            await feishu.push_config(PingInterval=120)
            assert (await feishu.connections())[0].bad_frames == []

    @pytest.mark.parametrize("code", [1000, 1011, None])
    async def test_the_sdk_comes_back(self, feishu: FeishuSimulator, code: int | None) -> None:
        await feishu.configure(client_config={"ReconnectInterval": 0})
        async with long_connection(feishu) as sdk:
            (first,) = await feishu.connections()
            await feishu.close_connections(code)
            await feishu.wait_for_record(lambda r: r.method == "ws.connect" and r.index > 0 and r.status == 101)
            said = await feishu.user_says("still there?")
            assert await text_of(sdk) == "still there?"
            assert (await feishu.wait_acked(said.event_id)).attempts[-1]["link"] != first.id

    async def test_a_frozen_connection_swallows_events(self, feishu: FeishuSimulator) -> None:
        await feishu.set_timing(ack_timeout=0.1, retry_delays=[0.01])
        async with long_connection(feishu) as sdk:
            await feishu.silence()
            said = await feishu.user_says("into the void")
            assert (await feishu.wait_event(said.event_id)).state == "failed"
            assert sdk.received.empty()
            await feishu.silence(False)
            await feishu.user_says("awake")
            assert await text_of(sdk) == "awake"

    async def test_events_go_to_one_connection_each(self, feishu: FeishuSimulator) -> None:
        other = await feishu.another_app("other")
        async with long_connection(feishu) as sdk:
            said = [await feishu.user_says(text) for text in ("one", "two")]
            for each in said:
                await feishu.wait_acked(each.event_id)
            assert {await text_of(sdk) for _ in said} == {"one", "two"}
            assert await other.connections() == []

    async def test_strange_frames_do_not_end_it(self, feishu: FeishuSimulator) -> None:
        async with long_connection(feishu) as sdk:
            await feishu.send_raw_frame(b"\x00garbage")
            await feishu.send_raw_frame(encode(Frame(CONTROL, 1, (("type", "news"),))))
            await feishu.user_says("hello")
            assert await text_of(sdk) == "hello"


class TestRefusals:
    async def test_busy_and_broken_endpoints_are_tried_again(self, feishu: FeishuSimulator) -> None:
        await feishu.configure(client_config={"ReconnectInterval": 0, "ReconnectNonce": 0})
        await feishu.fail("ws.connect", faults.refused_connection(514, 1))
        # The first endpoint answer sets the short intervals; without it the SDK waits for minutes.
        await feishu.fail("ws.endpoint", faults.busy_endpoint(), skip=1)
        await feishu.fail("ws.endpoint", faults.server_error(502))
        async with long_connection(feishu):
            outcomes = [record.outcome for record in await feishu.records("ws.endpoint")]
            assert outcomes == ["applied", "error 1", "http 502", "applied"]

    async def test_too_many_connections_end_the_sdk(self, feishu: FeishuSimulator) -> None:
        await feishu.fail("ws.connect", faults.refused_connection())
        async with long_connection(feishu, connected=False) as sdk:
            await feishu.wait_for_record(lambda record: record.method == "ws.connect" and record.finished is not None)
        assert isinstance(sdk.error, ClientException)

    async def test_a_wrong_secret_ends_the_sdk(self, feishu: FeishuSimulator) -> None:
        feishu.app_secret = "another"
        async with long_connection(feishu, connected=False) as sdk:
            record = await feishu.wait_for_call("ws.endpoint")
            assert (record.code, record.params["AppSecret"]) == (10014, "***")
        assert isinstance(sdk.error, ClientException)
