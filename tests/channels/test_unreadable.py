"""Whatever JSON a platform sends: it is an event, or says nothing to us, or is set aside as one that cannot be read.

Telegram's is in telegram/test_inbound_fuzz.py. HYPOTHESIS_EXAMPLES=20000 breaks more than the suite does.
"""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from channels.feishu import inbound as feishu
from channels.feishu.lookup import Chat, Context
from channels.message import INBOUND_EVENT, Message, Unparsed
from channels.slack import directory
from channels.slack import inbound as slack
from channels.wecom import frames
from channels.wecom import inbound as wecom
from tests.channels.telegram.test_inbound_fuzz import deep, mutate
from tests.properties import examples
from tests.tables import table

if TYPE_CHECKING:
    from channels.slack.reading import Person

NOW = datetime(2024, 1, 1, tzinfo=UTC)
SLACK = slack.Reader("slack", slack.Me(team="T1", user="U0BOT", username="antler"), thread_follow=True)
PEOPLE: dict[str, Person] = {}
KNOWN = slack.Known(PEOPLE, {"C1": "team"})
FEISHU = feishu.Reader("feishu", feishu.Me(app_id="cli_me", open_id="ou_bot", name="Antler"))
WECOM = wecom.Reader("wecom", "Antler")
MISTAKES = ("TypeError", "AttributeError", "KeyError", "IndexError", "AssertionError", "UnicodeEncodeError")
broken = settings(max_examples=examples(400), suppress_health_check=list(HealthCheck))


@cache
def golden(platform: str) -> list[dict[str, Any]]:
    files = sorted((Path(__file__).parent / platform / "golden").glob("*.json"))
    return [case for file in files for case in json.loads(file.read_text()) if isinstance(case, dict)]


def check(event: Any) -> None:
    """It can be stored and read again, and it was no mistake of the reader's that set it aside."""
    if event is None:
        return
    assert event.dedupe_keys
    assert INBOUND_EVENT.validate_json(INBOUND_EVENT.dump_json(event)) == event
    if isinstance(event, Unparsed):
        assert not event.error.startswith(MISTAKES), event.error


def some(platform: str, part: str, data: st.DataObject) -> tuple[dict[str, Any], Any]:
    cases = [case for case in golden(platform) if part in case]
    case = copy.deepcopy(data.draw(st.sampled_from(cases)))
    whole = {"": case[part]}
    for _ in range(data.draw(st.integers(1, 4))):
        if isinstance(whole[""], dict) and whole[""]:
            mutate(whole[""], data)
    return case, whole[""]


@given(data=st.data())
@broken
def test_slack(data: st.DataObject) -> None:
    case, payload = some("slack", "payload", data)
    people: set[str] = set()
    directory._collect(payload, people, set(), set())
    event = SLACK.read(case["kind"], payload, KNOWN, NOW)
    check(event)
    assert type(SLACK.read(case["kind"], payload, KNOWN, NOW)) is type(event)
    check(SLACK.read_past("C1", payload, KNOWN, NOW))


@given(data=st.data())
@broken
def test_wecom(data: st.DataObject) -> None:
    _, frame = some("wecom", "frame", data)
    callback = frames.read(json.dumps(frame))
    if isinstance(callback, frames.Callback):
        assert isinstance(callback.event_type, str)
        check(WECOM.read(callback, NOW))


@given(data=st.data())
@broken
def test_feishu(data: st.DataObject) -> None:
    _, raw = some("feishu", "raw", data)
    payload = json.dumps(raw).encode()
    try:
        event = feishu.parse(json.loads(payload))
        check(None if event is None else FEISHU.read(event, Context(), NOW))
    except (ValueError, RecursionError) as error:
        check(FEISHU.unparsed(payload, error, NOW))


@table("platform", ["slack", "wecom"])
@table("place", ["event", "event_id", "type", "body", "msgid", "text"])
@table("kind", ["list", "dict"])
def test_nested_as_deeply_as_json_can_be(platform: str, place: str, kind: str) -> None:
    payload = {"event_id": "Ev1", "event": {"type": "message", "ts": "1.0", "channel": "C1"}, place: deep(kind, 900)}
    if platform == "slack":
        event: Any = SLACK.read("events_api", payload, KNOWN, NOW)
    else:
        event = WECOM.read(frames.Callback(cmd=frames.MESSAGE, req_id="r", body=payload), NOW)
    check(event)


def slack_message(**more: Any) -> Any:
    event = {"type": "message", "user": "U1", "channel": "D1", "ts": "1.0", "text": "hi"} | more
    return SLACK.read("events_api", {"event_id": "Ev1", "team_id": "T1", "event": event}, KNOWN, NOW)


def test_a_subtype_that_is_no_text_is_set_aside() -> None:
    subtypes: tuple[Any, ...] = ([], {}, 1)
    for subtype in subtypes:
        event = slack_message(subtype=subtype)
        assert isinstance(event, Unparsed)
        check(event)


def test_null_is_nothing_and_the_size_of_a_file_loses_no_message() -> None:
    file: dict[str, Any] = {"id": "F1", "name": None, "mode": None, "file_access": None, "size": "12"}
    event = slack_message(text=None, thread_ts=None, blocks=None, files=[file], attachments=None, team=None)
    assert isinstance(event, Message)
    assert (event.text, event.attachments[0].size) == ("", 12)
    sizes: tuple[Any, ...] = ("twelve", -1, 1.5, True, [], "9" * 400)
    for size in sizes:
        event = slack_message(files=[file | {"size": size}])
        assert isinstance(event, Message), size
        assert event.attachments[0].size is None
    body: dict[str, Any] = {"msgid": "1", "chattype": "single", "chatid": None, "from": {"userid": "a", "corpid": None}}
    body |= {"msgtype": "text", "text": {"content": None}, "quote": {"msgtype": "text", "text": {"content": "q"}}}
    found = WECOM.read(frames.Callback(cmd=frames.MESSAGE, req_id="r", body=body), NOW)
    assert isinstance(found, Message)
    assert found.text == ""


SAID = {"text": "hi"}
SLACK_WITHOUT: list[dict[str, Any]] = [
    {"blocks": [{"type": "rich_text", "elements": []}]},
    {"blocks": [None, 5, {"type": "of tomorrow"}]},
    {"blocks": [{"type": "rich_text", "elements": [{"type": "of tomorrow"}]}]},
    {"blocks": "none"},
    {"attachments": [None, {"text": 5, "author_name": 5}]},
]
WECOM_WITHOUT: list[dict[str, Any]] = [
    {"chattype": "of tomorrow"},
    {"chattype": 5},
    {"create_time": "today"},
    {"create_time": 10**30},
    {"quote": {"text": "without a type"}},
    {"quote": 5},
    {"image": {"url": 5}},
]
FEISHU_WITHOUT: list[dict[str, Any]] = [
    {"create_time": None},
    {"create_time": "today"},
    {"parent_id": 5},
    {"mentions": "nobody"},
    {"mentions": [None, {"key": 5}, {"key": "@_user_1", "name": 5, "id": {"open_id": "ou_x"}}]},
]


@table("lacks", SLACK_WITHOUT)
def test_slack_tells_what_it_can_of_a_message(lacks: dict[str, Any]) -> None:
    event = slack_message(**lacks)
    assert isinstance(event, Message), event
    assert (event.text, event.sender.id, event.address.chat) == ("hi", "T1/U1", "D1")


def test_a_slack_event_that_does_not_say_for_whom_it_is_counts() -> None:
    event = {"type": "message", "user": "U1", "channel": "D1", "ts": "1.0", "text": "hi"}
    for counts, authorizations in (
        (True, [{"user_id": None}]),
        (True, [{}]),
        (True, "nobody"),
        (False, [{"user_id": "U2"}]),
    ):
        payload: dict[str, Any] = {"event_id": "Ev1", "team_id": "T1", "event": event, "authorizations": authorizations}
        assert isinstance(SLACK.read("events_api", payload, KNOWN, NOW), Message) is counts


@table("lacks", WECOM_WITHOUT)
def test_wecom_tells_what_it_can_of_a_message(lacks: dict[str, Any]) -> None:
    body = {"msgid": "1", "chattype": "single", "from": {"userid": "a"}, "msgtype": "text", "text": {"content": "hi"}}
    event = WECOM.read(frames.Callback(cmd=frames.MESSAGE, req_id="r", body=body | lacks), NOW)
    assert isinstance(event, Message), event
    assert (event.text, event.sender.id, event.address.kind) == ("hi", "a", "dm")


def test_wecoms_sender_of_what_holds_nothing_is_answered() -> None:
    for msgtype in ("voice", "image", "mixed"):
        body = {"msgid": "1", "chattype": "single", "from": {"userid": "a"}, "msgtype": msgtype}
        event = WECOM.read(frames.Callback(cmd=frames.MESSAGE, req_id="r", body=body), NOW)
        assert isinstance(event, Message)
        assert event.text == f"[{msgtype}: its content cannot be read here]"


def test_a_wecom_message_that_cannot_be_answered_by_its_id_is_heard() -> None:
    body = {"msgid": "1", "from": {"userid": "a"}, "msgtype": "text", "text": {"content": "hi"}}
    callback = frames.read(json.dumps({"cmd": frames.MESSAGE, "body": body}))
    assert isinstance(callback, frames.Callback)
    event = WECOM.read(callback, NOW)
    assert isinstance(event, Message)
    assert frames.req_id_of(event.platform_message_id) is None, "it is answered by a push"


def feishu_message(sender: dict[str, Any], chat: Chat | None = None, **more: Any) -> Any:
    message = {"message_id": "om_1", "chat_id": "oc_1", "chat_type": "p2p", "message_type": "text"}
    message |= {"content": json.dumps(SAID), "create_time": "1700000000000"} | more
    header = {"event_id": "e1", "event_type": "im.message.receive_v1", "create_time": "1600000000000"}
    event = feishu.parse({"header": header, "event": {"sender": sender, "message": message}})
    assert event is not None
    return FEISHU.read(event, Context(chat=chat), NOW)


ANN = {"sender_id": {"open_id": "ou_ann"}, "sender_type": "user"}


@table("lacks", FEISHU_WITHOUT)
def test_feishu_tells_what_it_can_of_a_message(lacks: dict[str, Any]) -> None:
    event = feishu_message(ANN, **lacks)
    assert isinstance(event, Message), event
    assert (event.text, event.sender.id, event.address.kind) == ("hi", "ou_ann", "dm")
    assert event.sent_at.year == (2020 if "create_time" in lacks else 2023), "the event's own time, if need be"


def test_a_feishu_chat_of_a_kind_that_is_not_told_is_what_is_known_of_it() -> None:
    for kind, chat in (("dm", Chat(direct=True)), ("group", Chat(title="Team")), ("group", None)):
        event = feishu_message(ANN, chat, chat_type=None)
        assert isinstance(event, Message)
        assert (event.address.kind, event.mention) == (kind, kind == "dm")


def test_a_feishu_message_of_nobody_is_set_aside_and_not_dropped() -> None:
    with pytest.raises(ValueError, match="its sender has no open_id"):
        feishu_message({"sender_id": None, "sender_type": "user"})
    assert feishu_message({"sender_id": None, "sender_type": "app"}) is None


def test_a_lone_surrogate_in_wecom_is_read_and_one_in_what_is_unreadable_is_kept() -> None:
    body: dict[str, Any] = {"msgid": "1", "from": {"userid": "a"}, "msgtype": "text", "text": {"content": "a\ud800b"}}
    found = WECOM.read(frames.Callback(cmd=frames.MESSAGE, req_id="r", body=body), NOW)
    assert isinstance(found, Message)
    assert found.text == "a\ufffdb"
    dead = WECOM.read(frames.Callback(cmd=frames.MESSAGE, req_id="r", body={"msgid": "\ud800", "x": "\udc00"}), NOW)
    assert isinstance(dead, Unparsed)
    check(dead)
