"""The messages of a robot and their effects: streams, pushes, time windows, cards, uploads, limits."""

import base64
import hashlib
from typing import Any

from tests.simulators.wecom.client import WecomSimulator
from tests.simulators.wecom.conftest import Robot
from tests.simulators.wecom.seen import ALICE, BOB, TEAM

CARD = {
    "card_type": "button_interaction",
    "main_title": {"title": "Go?"},
    "button_list": [{"text": "Yes", "style": 1, "key": "y"}, {"text": "No", "style": 2, "key": "n"}],
    "task_id": "t1",
}


async def test_a_stream_shows_its_last_snapshot_until_it_is_finished(robot: Robot, wecom: WecomSimulator) -> None:
    said = await wecom.says("hello")
    assert [await robot.stream(said.req_id, text) for text in ("", "a", "b")] == [0, 0, 0]
    (open_one,) = await wecom.bot_messages(ALICE)
    assert (open_one.text, open_one.state, open_one.answers) == ("b", "streaming", said.msgid)
    assert await robot.stream(said.req_id, "c", finish=True) == 0
    assert await robot.stream(said.req_id, "d") == 846608
    (seen,) = await wecom.bot_messages(ALICE)
    assert [version.text for version in seen.history] == ["", "a", "b", "c"]
    assert seen.state == "finished"


async def test_a_stream_keeps_its_id_and_its_size(robot: Robot, wecom: WecomSimulator) -> None:
    said = await wecom.says("hello")
    assert await robot.stream(said.req_id, "字" * 6827) == 40058
    assert await robot.stream(said.req_id, "x" * 20480) == 0
    assert await robot.stream(said.req_id, "x", stream_id="s2") == 40058
    assert await robot.stream("unknown", "x") == 846605


async def test_a_stream_ends_after_ten_minutes(robot: Robot, wecom: WecomSimulator) -> None:
    said = await wecom.says("hello")
    await robot.stream(said.req_id, "a")
    await wecom.advance(601)
    assert await robot.stream(said.req_id, "b") == 846608
    (seen,) = await wecom.bot_messages(ALICE)
    assert (seen.text, seen.state) == ("a", "expired")
    await wecom.configure(stream_seconds=5)
    again = await wecom.says("again")
    await robot.stream(again.req_id, "a")
    await wecom.advance(6)
    assert await robot.stream(again.req_id, "b") == 846608


async def test_a_question_can_be_answered_for_a_day_and_by_its_connection_only_if_told_so(
    robot: Robot, stranger: Robot, wecom: WecomSimulator
) -> None:
    said = await wecom.says("hello")
    await wecom.advance(24 * 3600 + 1)
    assert await robot.stream(said.req_id, "late") == 846605
    await wecom.configure(forget_req_ids=True)
    said = await wecom.says("hello")
    assert await robot.stream(said.req_id, "in time") == 0


async def test_pushes_go_where_somebody_spoke(robot: Robot, wecom: WecomSimulator) -> None:
    assert await robot.push(BOB.id) == 93006
    await wecom.says("hello", BOB)
    assert await robot.push(BOB.id) == 0
    assert await robot.push(BOB.id, chat_type=2) == 93006
    assert await robot.push(BOB.id, chat_type=0) == 0
    await wecom.says("hello", BOB, TEAM)
    assert await robot.push(TEAM.id, chat_type=2) == 0
    await wecom.throw_out(TEAM)
    assert await robot.push(TEAM.id, chat_type=2) == 93006
    body = {"chatid": BOB.id, "chat_type": 1, "msgtype": "text", "text": {"content": "x"}}
    assert await robot.code("aibot_send_msg", body) == 40008


async def test_a_conversation_has_limits_of_its_own(robot: Robot, wecom: WecomSimulator) -> None:
    await wecom.says("hello", ALICE)
    await wecom.says("hello", BOB)
    codes = [await robot.push(ALICE.id) for _ in range(31)]
    assert codes == [0] * 30 + [846607]
    assert await robot.push(BOB.id) == 0
    await wecom.advance(61)
    assert await robot.push(ALICE.id) == 0
    await wecom.configure(limits={"per_hour": 31})
    assert await robot.push(ALICE.id) == 846607
    assert (await wecom.status()).refused == 2


async def test_refreshes_of_a_stream_count_unless_told_otherwise(robot: Robot, wecom: WecomSimulator) -> None:
    await wecom.configure(limits={"per_minute": 2})
    said = await wecom.says("hello")
    assert [await robot.stream(said.req_id, str(n)) for n in range(3)] == [0, 0, 846607]
    await wecom.configure(limits={"refreshes": False})
    assert await robot.stream(said.req_id, "3") == 0


async def test_a_welcome_within_five_seconds(robot: Robot, wecom: WecomSimulator) -> None:
    welcome = {"msgtype": "text", "text": {"content": "Hi"}}
    entered = await wecom.enters(BOB)
    assert await robot.code("aibot_respond_welcome_msg", welcome, entered.req_id) == 0
    assert await robot.code("aibot_respond_welcome_msg", welcome, entered.req_id) == 846605
    late = await wecom.enters(BOB)
    await wecom.advance(6)
    assert await robot.code("aibot_respond_welcome_msg", welcome, late.req_id) == 846605
    said = await wecom.says("hello", BOB)
    assert await robot.code("aibot_respond_welcome_msg", welcome, said.req_id) == 846605
    assert await wecom.texts(BOB) == ["Hi"]


# Cards


async def push_card(robot: Robot, **changed: Any) -> int:
    body = {"chatid": ALICE.id, "chat_type": 1, "msgtype": "template_card", "template_card": {**CARD, **changed}}
    return await robot.code("aibot_send_msg", body)


async def test_a_card_is_pressed_and_replaced(robot: Robot, wecom: WecomSimulator) -> None:
    await wecom.says("hello")
    await robot.receive()
    assert await push_card(robot) == 0
    assert await push_card(robot) == 40058, "a task_id is taken once"
    pressed = await wecom.presses("No")
    event = (await robot.receive())["body"]["event"]["template_card_event"]
    assert (event["event_key"], event["task_id"]) == ("n", "t1")
    done = [{"text": "Done", "key": "d"}]
    body: dict[str, Any] = {"response_type": "update_template_card", "template_card": {**CARD, "button_list": done}}
    other = {**body, "template_card": {**body["template_card"], "task_id": "t2"}}
    assert await robot.code("aibot_respond_update_msg", other, pressed.req_id) == 40058
    assert await robot.code("aibot_respond_update_msg", body, pressed.req_id) == 0
    (card,) = await wecom.bot_messages(ALICE)
    assert card.labels == ["Done"]
    late = await wecom.presses("Done")
    await wecom.advance(6)
    assert await robot.code("aibot_respond_update_msg", body, late.req_id) == 846605


# Uploads


async def upload(robot: Robot, content: bytes, *, chunk: int = 512 * 1024, **changed: Any) -> tuple[int, str]:
    """Upload a file; returns (errcode of the step that failed or 0, media_id)."""
    pieces = [content[at : at + chunk] for at in range(0, len(content), chunk)]
    begin: dict[str, Any] = {
        "type": "file",
        "filename": "a.bin",
        "total_size": len(content),
        "total_chunks": len(pieces),
        "md5": hashlib.md5(content, usedforsecurity=False).hexdigest(),
    }
    answer = await robot.ask("aibot_upload_media_init", begin | changed)
    if answer["errcode"]:
        return int(answer["errcode"]), ""
    upload_id = answer["body"]["upload_id"]
    for index, piece in enumerate(pieces):
        body = {"upload_id": upload_id, "chunk_index": index, "base64_data": base64.b64encode(piece).decode()}
        if code := await robot.code("aibot_upload_media_chunk", body):
            return code, ""
    answer = await robot.ask("aibot_upload_media_finish", {"upload_id": upload_id})
    return int(answer["errcode"]), answer.get("body", {}).get("media_id", "")


async def test_a_file_is_uploaded_in_chunks_and_sent(robot: Robot, wecom: WecomSimulator) -> None:
    await wecom.says("hello")
    content = bytes(range(256)) * 5000
    code, media_id = await upload(robot, content)
    assert code == 0
    body = {"chatid": ALICE.id, "chat_type": 1, "msgtype": "file", "file": {"media_id": media_id}}
    assert await robot.code("aibot_send_msg", body) == 0
    assert await robot.code("aibot_send_msg", {**body, "msgtype": "image", "image": {"media_id": media_id}}) == 40058
    await wecom.advance(3 * 24 * 3600 + 1)
    assert await robot.code("aibot_send_msg", body) == 40058
    (seen,) = await wecom.bot_messages(ALICE)
    assert seen.file == {"name": "a.bin", "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


async def test_a_chunk_has_a_size(robot: Robot) -> None:
    assert (await upload(robot, b"x" * 600_000, chunk=600_000, total_chunks=2))[0] == 40058
