"""Raw events as the platform documents them -> events. The table is in golden/*.json, one case a line."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.feishu.content import RawItem
from channels.feishu.inbound import Me, Reader, parse
from channels.feishu.lookup import Chat, Context
from channels.message import INBOUND_EVENT, Message
from tests.tables import table

NOW = datetime(2024, 1, 1, tzinfo=UTC)
READER = Reader("feishu", Me(app_id="cli_me", open_id="ou_bot", name="Antler"))
CASES = [
    pytest.param(case, id=f"{path.stem}: {case['case']}")
    for path in sorted((Path(__file__).parent / "golden").glob("*.json"))
    for case in json.loads(path.read_text())
]


def context_of(known: dict[str, Any]) -> Context:
    return Context(
        names=known.get("names", {}),
        chat=Chat(**known["chat"]) if "chat" in known else None,
        quoted=RawItem.model_validate(known["quoted"]) if "quoted" in known else None,
        children=tuple(RawItem.model_validate(child) for child in known.get("children", ())),
        topic=known.get("topic"),
    )


def read(raw: dict[str, Any], context: Context) -> Any:
    event = parse(raw)
    return None if event is None else READER.read(event, context, NOW)


@table("case", CASES)
def test_golden_event(case: dict[str, Any]) -> None:
    event = read(case["raw"], context_of(case["context"]))
    if case["event"] is None:
        assert event is None
        return
    shown = json.loads(INBOUND_EVENT.dump_json(event))
    assert {name: shown[name] for name in case["event"]} == case["event"]
    assert INBOUND_EVENT.validate_json(INBOUND_EVENT.dump_json(event)) == event


def raw_of(case_id: str) -> dict[str, Any]:
    (case,) = [case.values[0] for case in CASES if case.id == case_id]
    raw: dict[str, Any] = json.loads(json.dumps(case))["raw"]
    return raw


def test_what_is_not_documented_is_refused_and_kept_raw() -> None:
    raw = raw_of("words: a direct message")
    for content in ("no json", "[]", "{" * 5):
        broken = {**raw, "event": {**raw["event"], "message": {**raw["event"]["message"], "content": content}}}
        with pytest.raises(ValueError, match=r"\w"):
            read(broken, Context())
    late = {**raw, "event": {**raw["event"], "message": {**raw["event"]["message"], "create_time": "9" * 20}}}
    with pytest.raises(ValueError, match="out of range"):
        read(late, Context())
    kept = READER.unparsed(b'{"a": "\xff"}', ValueError("what"), NOW)
    assert (kept.raw, kept.error) == ('{"a": "\ufffd"}', "ValueError: what")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12) | st.sampled_from(["@_user_1", "at", "text"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["tag", "text", "content", "title", "user_id", "style", "image_key", "zh_cn", "href"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(JSON, st.sampled_from(["text", "post", "image", "file", "audio", "media", "interactive", "merge_forward", "x"]))
def test_any_content_is_read_or_refused_by_a_value_error(content: Any, kind: str) -> None:
    raw = raw_of("words: the bot's name is taken out")
    raw["event"]["message"] |= {"content": json.dumps(content), "message_type": kind}
    try:
        event = read(raw, Context())
    except ValueError:
        return
    assert event is None or isinstance(event, Message)
    if event is not None:
        INBOUND_EVENT.dump_json(event)
        assert "@_user_1" not in event.text or kind in ("interactive", "merge_forward")
