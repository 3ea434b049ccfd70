"""Raw envelopes as Slack documents them -> events. The table is in golden/*.json, one case a line."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.message import INBOUND_EVENT, Message
from channels.slack.inbound import Known, Me, Reader
from channels.slack.reading import Person
from tests.tables import table

NOW = datetime(2024, 1, 1, tzinfo=UTC)
READER = Reader("slack", Me(team="T1", user="U0BOT", username="antler"), thread_follow=True)
KNOWN = Known({"U1": Person("Ann Lee", "en-US")}, {"C1": "team"})
CASES = [
    pytest.param(case, id=f"{path.stem}: {case['case']}")
    for path in sorted((Path(__file__).parent / "golden").glob("*.json"))
    for case in json.loads(path.read_text())
]


def at(event: Any, path: str) -> Any:
    for name in path.split("."):
        event = event[name]
    return event


@table("case", CASES)
def test_golden_envelope(case: dict[str, Any]) -> None:
    event = READER.read(case["kind"], case["payload"], KNOWN, NOW)
    if case["event"] is None:
        assert event is None
        return
    assert event is not None
    shown = INBOUND_EVENT.dump_python(event, mode="json")
    assert {path: at(shown, path) for path in case["event"]} == case["event"]
    assert INBOUND_EVENT.validate_json(INBOUND_EVENT.dump_json(event)) == event


def test_where_threads_are_not_followed_only_a_mention_counts() -> None:
    reader = Reader("slack", READER.me, thread_follow=False)
    message = {"user": "U1", "text": "hi", "ts": "2.0", "thread_ts": "1.0", "parent_user_id": "U0BOT"}
    event = reader.read_past("C1", message, KNOWN, NOW)
    assert isinstance(event, Message)
    assert (event.mention, event.continues) == (False, False)


def test_a_message_of_the_history_has_the_key_of_its_event() -> None:
    event = READER.read_past("D1", {"user": "U1", "text": "hi", "ts": "1700000000.000100"}, KNOWN, NOW)
    assert isinstance(event, Message)
    assert event.dedupe_keys == ("m:D1:1700000000.000100",)


FIELDS = (
    "type",
    "event",
    "event_id",
    "ts",
    "channel",
    "user",
    "text",
    "blocks",
    "elements",
    "files",
    "attachments",
    "message",
    "previous_message",
    "subtype",
    "thread_ts",
    "container",
    "actions",
    "value",
    "command",
    "trigger_id",
    "channel_id",
    "user_id",
    "style",
    "url",
    "name",
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=6),
    max_leaves=30,
)


@given(
    kind=st.sampled_from(["events_api", "interactive", "slash_commands"]),
    payload=st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=8),
    event=JSON,
)
def test_whatever_comes_is_an_event_or_nothing(kind: Any, payload: dict[str, Any], event: Any) -> None:
    for body in (payload, {"event_id": "Ev1", "event": event}, {"event_id": "Ev1", "event": payload}):
        found = READER.read(kind, body, KNOWN, NOW)
        if found is not None:
            assert INBOUND_EVENT.validate_json(INBOUND_EVENT.dump_json(found)) == found
