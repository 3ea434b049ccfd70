"""The long connection by the platform's rules: subscribe first, one per robot, acks in order, and its faults."""

import json

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tests.simulators.wecom import faults
from tests.simulators.wecom.client import WecomSimulator
from tests.simulators.wecom.conftest import Robot
from tests.simulators.wecom.seen import ALICE


async def test_nothing_works_before_the_subscription(stranger: Robot, wecom: WecomSimulator) -> None:
    assert await stranger.code("ping") == 846609
    assert await stranger.push(ALICE.id) == 846609
    assert await stranger.subscribe(wecom, secret="wrong") == 853000
    assert await stranger.subscribe(wecom, bot_id="nobody") == 853000
    assert await stranger.subscribe(wecom) == 0
    assert await stranger.code("ping") == 0
    assert all("secret" not in record.body for record in await wecom.records())


async def test_a_second_connection_kicks_the_first(robot: Robot, wecom: WecomSimulator) -> None:
    async with connect(wecom.url, proxy=None) as socket:
        second = Robot(socket)
        assert await second.subscribe(wecom) == 0
        told = await robot.receive()
        assert told["body"]["event"]["eventtype"] == "disconnected_event"
        with pytest.raises(ConnectionClosed):
            await robot.receive()
        assert (await wecom.status()).kicks == 1
        await wecom.says("hello")
        assert (await second.receive())["body"]["text"]["content"] == "hello"


async def test_a_frame_before_the_ack_of_the_last_is_a_conflict(robot: Robot, wecom: WecomSimulator) -> None:
    said = await wecom.says("hello")
    body = {"msgtype": "stream", "stream": {"id": "s1", "finish": False, "content": "x"}}
    await robot.receive()
    await wecom.fail("aibot_respond_msg", faults.hold())
    for _ in range(2):
        await robot.send("aibot_respond_msg", body, said.req_id)
    assert (await robot.receive())["errcode"] == 6000
    await wecom.release()
    assert (await robot.receive())["errcode"] == 0


@pytest.mark.parametrize("code", [1000, 1001, 1011])
async def test_it_closes_with_any_code(robot: Robot, wecom: WecomSimulator, code: int) -> None:
    await wecom.close(code)
    with pytest.raises(ConnectionClosed):
        await robot.receive()
    assert robot.socket.close_code == code


async def test_it_resets_the_connection(robot: Robot, wecom: WecomSimulator) -> None:
    await wecom.close()
    with pytest.raises(ConnectionClosed):
        await robot.receive()
    assert robot.socket.close_code == 1006
    await wecom.wait_disconnected()


async def test_faults_meet_the_frames_that_they_are_for(robot: Robot, wecom: WecomSimulator) -> None:
    await wecom.says("hello")
    await wecom.fail("aibot_send_msg", faults.frequency(), skip=1)
    await wecom.fail("aibot_send_msg", faults.late_ack(0.05))
    assert [await robot.push(ALICE.id) for _ in range(4)] == [0, 846607, 0, 0]
    assert len(await wecom.bot_messages(ALICE)) == 3
    outcomes = [record.outcome for record in await wecom.records("aibot_send_msg")]
    assert outcomes == ["applied", "error 846607", "late ack", "applied"]


async def test_missing_and_held_acks(robot: Robot, wecom: WecomSimulator) -> None:
    await wecom.says("hello")
    await robot.receive()
    await wecom.fail("aibot_send_msg", faults.missing_ack())
    await wecom.fail("aibot_send_msg", faults.hold())
    body = {"chatid": ALICE.id, "chat_type": 1, "msgtype": "markdown", "markdown": {"content": "x"}}
    for _ in range(2):
        await robot.send("aibot_send_msg", body)
    await wecom.wait_for_record(lambda record: record.outcome == "held")
    assert len(await wecom.bot_messages(ALICE)) == 2
    await wecom.release()
    assert (await robot.receive())["headers"]["req_id"] == "aibot_send_msg_3"


async def test_a_silent_connection_neither_hears_nor_speaks(robot: Robot, wecom: WecomSimulator) -> None:
    await wecom.configure(silent=True)
    await robot.send("ping")
    await wecom.wait_for_record(lambda record: record.outcome == "ignored")
    assert not (await wecom.says("hello")).delivered
    await wecom.configure(silent=False)
    assert await robot.code("ping") == 0


async def test_pings_alone_may_stay_unanswered(robot: Robot, wecom: WecomSimulator) -> None:
    await wecom.configure(mute_pings=True)
    await robot.send("ping")
    await wecom.wait_for_record(lambda record: record.outcome == "ignored")
    assert (await wecom.says("hello")).delivered


async def test_what_no_robot_may_do_is_a_problem(robot: Robot, wecom: WecomSimulator) -> None:
    await robot.socket.send("no frame")
    await robot.socket.send(json.dumps({"cmd": "ping", "headers": {}}))
    assert await robot.code("aibot_dance") == 40058
    await wecom.says("hello")
    body = {"chatid": ALICE.id, "chat_type": 1, "msgtype": "markdown", "markdown": {"content": "x"}}
    assert [await robot.code("aibot_send_msg", body, "mine") for _ in range(2)] == [0, 846605]
    problems = await wecom.problems()
    assert len(problems) == 4
    assert "aibot_dance" in problems[2]
    assert await wecom.problems() == []


async def test_messages_to_a_robot_that_is_away_are_lost(wecom: WecomSimulator, stranger: Robot) -> None:
    assert not (await wecom.says("anybody?")).delivered
    await stranger.subscribe(wecom)
    assert (await wecom.says("and now?")).delivered
    assert (await stranger.receive())["body"]["text"]["content"] == "and now?"


async def test_a_message_may_come_twice(robot: Robot, wecom: WecomSimulator) -> None:
    said = await wecom.says("twice")
    await wecom.redeliver(said.msgid)
    await wecom.redeliver(said.msgid, fresh=True)
    frames = [await robot.receive() for _ in range(3)]
    assert {frame["body"]["msgid"] for frame in frames} == {said.msgid}
    req_ids = [frame["headers"]["req_id"] for frame in frames]
    assert req_ids[0] == req_ids[1] != req_ids[2]
