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

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from channels.feishu import inbound as feishu
from channels.feishu.lookup import Context
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
    directory._collect(payload, people, set())
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


def test_a_lone_surrogate_in_wecom_is_read_and_one_in_what_is_unreadable_is_kept() -> None:
    body: dict[str, Any] = {"msgid": "1", "from": {"userid": "a"}, "msgtype": "text", "text": {"content": "a\ud800b"}}
    found = WECOM.read(frames.Callback(cmd=frames.MESSAGE, req_id="r", body=body), NOW)
    assert isinstance(found, Message)
    assert found.text == "a\ufffdb"
    dead = WECOM.read(frames.Callback(cmd=frames.MESSAGE, req_id="r", body={"msgid": "\ud800", "x": "\udc00"}), NOW)
    assert isinstance(dead, Unparsed)
    check(dead)
