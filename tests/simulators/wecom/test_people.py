"""Actions of people on the wire, and their files."""

import base64

import httpx
import pytest
from cryptography.hazmat.primitives import padding
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tests.simulators.client import SimulatorError
from tests.simulators.wecom.client import WecomSimulator
from tests.simulators.wecom.conftest import Robot
from tests.simulators.wecom.seen import ALICE, BOB, TEAM, FileSpec, Json


async def test_a_direct_message_and_one_in_a_group(robot: Robot, wecom: WecomSimulator) -> None:
    said = await wecom.says("hello")
    frame = await robot.receive()
    assert (frame["cmd"], frame["headers"]["req_id"]) == ("aibot_msg_callback", said.req_id)
    body = frame["body"]
    assert body["from"] == {"userid": "alice"}
    assert (body["chattype"], body["msgtype"], body["text"]) == ("single", "text", {"content": "hello"})
    assert "chatid" not in body
    await wecom.says("hello", BOB, TEAM)
    body = (await robot.receive())["body"]
    assert (body["chattype"], body["chatid"], body["text"]["content"]) == ("group", TEAM.id, "@Antler hello")


async def test_quotes_mixed_messages_and_speech(robot: Robot, wecom: WecomSimulator) -> None:
    await wecom.says("so?", quote="the old text")
    assert (await robot.receive())["body"]["quote"] == {"msgtype": "text", "text": {"content": "the old text"}}
    await wecom.mixes(["look", FileSpec(b"x", "a.png")])
    items = (await robot.receive())["body"]["mixed"]["msg_item"]
    assert [item["msgtype"] for item in items] == ["text", "image"]
    assert set(items[1]["image"]) == {"url", "aeskey"}
    await wecom.speaks("what I said")
    assert (await robot.receive())["body"]["voice"] == {"content": "what I said"}


async def test_events(robot: Robot, wecom: WecomSimulator) -> None:
    await wecom.enters(BOB)
    body = (await robot.receive())["body"]
    assert (body["msgtype"], body["event"]["eventtype"], body["from"]["userid"]) == ("event", "enter_chat", "bob")
    await wecom.judges(2, BOB)
    assert (await robot.receive())["body"]["event"]["feedback_event"]["type"] == 2


async def test_groups_deliver_no_single_files(wecom: WecomSimulator) -> None:
    with pytest.raises(SimulatorError, match="groups deliver no"):
        await wecom.ask("say", kind="image", content={"base64": ""}, user="bob", room={"id": TEAM.id})
    with pytest.raises(SimulatorError, match="no button"):
        await wecom.presses("Nothing")


async def media(robot: Robot, wecom: WecomSimulator, file: FileSpec) -> Json:
    await wecom.sends("file", file, ALICE)
    found: Json = (await robot.receive())["body"]["file"]
    return found


async def test_files_are_encrypted_and_gone_after_five_minutes(robot: Robot, wecom: WecomSimulator) -> None:
    found = await media(robot, wecom, FileSpec(b"figures", "报告 1.txt"))
    key = base64.b64decode(found["aeskey"] + "=")
    async with httpx.AsyncClient(trust_env=False) as http:
        answer = await http.get(found["url"])
        assert answer.status_code == 200
        assert "filename*=UTF-8''%E6%8A%A5%E5%91%8A%201.txt" in answer.headers["Content-Disposition"]
        await wecom.advance(301)
        assert (await http.get(found["url"])).status_code == 403
        assert (await http.get(found["url"] + "x")).status_code == 404
    decryptor = Cipher(algorithms.AES(key), modes.CBC(key[:16])).decryptor()
    unpadder = padding.PKCS7(256).unpadder()
    plain = unpadder.update(decryptor.update(answer.content) + decryptor.finalize()) + unpadder.finalize()
    assert plain == b"figures"
    assert await wecom.downloads("报告 1.txt") == 2
