"""Raw callbacks as the platform documents them -> events. The table is in golden/*.json, one case a line."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.message import INBOUND_EVENT, Message, Unparsed
from channels.wecom import frames
from channels.wecom.frames import Callback
from channels.wecom.inbound import Reader
from tests.properties import examples
from tests.tables import table

NOW = datetime(2024, 1, 1, tzinfo=UTC)
CASES = [
    pytest.param(case, id=f"{path.stem}: {case['case']}")
    for path in sorted((Path(__file__).parent / "golden").glob("*.json"))
    for case in json.loads(path.read_text())
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("msgid", "chattype", "chatid", "from", "msgtype", "text", "mixed", "image", "quote", "event", "create_time")


def at(event: Any, path: str) -> Any:
    for name in path.split("."):
        event = event[name]
    return event


def read(frame: dict[str, Any], bot_name: str = "Antler") -> Any:
    callback = frames.read(json.dumps(frame))
    assert isinstance(callback, Callback)
    return Reader("wecom", bot_name).read(callback, NOW)


@table("case", CASES)
def test_golden_callback(case: dict[str, Any]) -> None:
    event = read(case["frame"])
    if case["event"] is None:
        assert event is None
        return
    assert event is not None
    shown = INBOUND_EVENT.dump_python(event, mode="json")
    assert {path: at(shown, path) for path in case["event"]} == case["event"]
    assert INBOUND_EVENT.validate_json(INBOUND_EVENT.dump_json(event)) == event
    assert event.received_at == NOW


def in_a_group(text: str) -> dict[str, Any]:
    body = {"msgid": "1", "chattype": "group", "chatid": "wr1", "from": {"userid": "a"}}
    body |= {"msgtype": "text", "text": {"content": text}}
    return {"cmd": "aibot_msg_callback", "headers": {"req_id": "r"}, "body": body}


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("@Some-Bot hello @Bob", "hello @Bob"),
        ("@Some-Bot", ""),
        ("hello @Some-Bot", "hello @Some-Bot"),
        (" @机器人 你好", "你好"),
        ("a@b.example is my address", "a@b.example is my address"),
    ],
)
def test_without_a_known_name_the_first_mention_is_taken_for_the_robot(said: str, text: str) -> None:
    event = read(in_a_group(said), bot_name="")
    assert isinstance(event, Message)
    assert event.text == text


def test_a_name_with_blanks_and_signs_is_found() -> None:
    event = read(in_a_group("@My (new) Bot. hello"), bot_name="My (new) Bot.")
    assert isinstance(event, Message)
    assert event.text == "hello"


def test_what_cannot_be_read_is_kept_without_the_keys_of_files() -> None:
    frame = in_a_group("x")
    frame["body"] |= {"msgtype": "image", "image": {"aeskey": "canary", "size": 3}, "text": 5}
    event = read(frame)
    assert isinstance(event, Unparsed)
    assert '"size": 3' in event.raw
    assert "canary" not in event.raw + event.error


@settings(max_examples=examples(200))
@given(st.sampled_from([frames.MESSAGE, frames.EVENT]), st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=8))
def test_no_body_breaks_the_reader(cmd: str, body: dict[str, Any]) -> None:
    event = Reader("wecom", "Antler").read(Callback(cmd=cmd, req_id="r", body=body), NOW)
    if event is not None:
        assert event.dedupe_keys
        INBOUND_EVENT.dump_json(event)


@given(JSON)
def test_no_json_is_mistaken_for_a_frame(value: Any) -> None:
    frames.read(json.dumps(value))


def test_a_frame_whose_id_cannot_be_sent_back_is_none() -> None:
    for cmd in (frames.MESSAGE, frames.EVENT):
        assert frames.read(json.dumps({"cmd": cmd, "headers": {"req_id": "a\ud800"}, "body": {}})) is None
    assert frames.read(json.dumps({"errcode": 0, "headers": {"req_id": "\ud800"}})) is None


def test_a_group_whose_kind_is_not_told_is_not_taken_for_a_direct_chat() -> None:
    frame = in_a_group("hello")
    frame["body"]["chattype"] = None
    event = read(frame)
    assert isinstance(event, Message)
    assert (event.address.kind, event.address.chat) == ("group", frame["body"]["chatid"])
