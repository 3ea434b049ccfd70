"""Raw updates as the Bot API documents them -> events. The table is in golden/*.json, one case a line."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from channels.message import INBOUND_EVENT, Message, Unparsed
from channels.telegram.inbound import Me, Pastes, Reader
from tests.tables import table

NOW = datetime(2024, 1, 1, tzinfo=UTC)
DATE = 1_700_000_000
CASES = [
    pytest.param(case, id=f"{path.stem}: {case['case']}")
    for path in sorted((Path(__file__).parent / "golden").glob("*.json"))
    for case in json.loads(path.read_text())
]


def new_reader() -> Reader:
    return Reader("telegram", Me(42, "antler_bot"), Pastes())


def at(event: Any, path: str) -> Any:
    for name in path.split("."):
        event = event[name]
    return event


@table("case", CASES)
def test_golden_update(case: dict[str, Any]) -> None:
    event = new_reader().read(case["update"], NOW)
    if case["event"] is None:
        assert event is None
        return
    assert event is not None
    shown = INBOUND_EVENT.dump_python(event, mode="json")
    assert {path: at(shown, path) for path in case["event"]} == case["event"]
    assert INBOUND_EVENT.validate_json(INBOUND_EVENT.dump_json(event)) == event


def message(update_id: int, text: str, *, seconds: int = 0, sender: int = 1, chat: int = -5) -> dict[str, Any]:
    return {
        "update_id": update_id,
        "message": {
            "message_id": update_id,
            "date": DATE + seconds,
            "chat": {"id": chat, "type": "group"},
            "from": {"id": sender, "is_bot": False, "first_name": "A"},
            "text": text,
        },
    }


def bundle(reader: Reader, update: dict[str, Any]) -> str | None:
    event = reader.read(update, NOW)
    assert isinstance(event, Message)
    return event.bundle_key


def test_pieces_of_a_cut_paste_share_one_bundle() -> None:
    reader = new_reader()
    first = bundle(reader, message(1, "x" * 4096))
    assert first is not None
    assert bundle(reader, message(2, "😀" * 2030, seconds=1)) == first
    assert bundle(reader, message(3, "the rest", seconds=2)) == first


def test_what_only_looks_like_a_paste_stands_alone() -> None:
    reader = new_reader()
    first = bundle(reader, message(1, "x" * 4096))
    assert bundle(reader, message(2, "somebody else", sender=2)) is None
    assert bundle(reader, message(3, "elsewhere", chat=-6)) is None
    assert bundle(reader, message(4, "later", seconds=10)) is None
    assert bundle(reader, message(5, "y" * 4096, seconds=60)) not in (None, first)


def test_reading_a_batch_again_gives_the_same_bundles() -> None:
    reader = new_reader()
    batch = [message(1, "x" * 4096), message(2, "rest", seconds=1)]
    assert [reader.read(update, NOW) for update in batch] == [reader.read(update, NOW) for update in batch]


def test_paste_memory_is_bounded() -> None:
    pastes = Pastes(size=3)
    reader = Reader("telegram", Me(42, "antler_bot"), pastes)
    for sender in range(10):
        reader.read(message(sender, "x" * 4096, sender=sender), NOW)
    assert len(pastes._last) == 3


@pytest.mark.parametrize(
    ("raw", "read"), [("a\ud83d b", "a\ufffd b"), ("\udc00", "\ufffd"), ("ok \ud83d", "ok \ufffd")]
)
def test_lone_surrogates_become_replacement_characters(raw: str, read: str) -> None:
    event = new_reader().read(message(1, raw), NOW)
    assert isinstance(event, Message)
    assert event.text == read
    INBOUND_EVENT.dump_json(event)


def test_entities_stay_right_next_to_lone_surrogates_and_nul() -> None:
    update = message(1, "\ud83d\0 @antler_bot go")
    update["message"]["entities"] = [{"type": "mention", "offset": 3, "length": 11}]
    event = new_reader().read(update, NOW)
    assert isinstance(event, Message)
    assert (event.text, event.mention) == ("\ufffd go", True)


def test_entities_out_of_range_do_no_harm() -> None:
    update = message(1, "hi")
    update["message"]["entities"] = [{"type": "mention", "offset": 10**9, "length": 10**9}]
    event = new_reader().read(update, NOW)
    assert isinstance(event, Message)
    assert event.text == "hi"


WITHOUT: list[dict[str, Any]] = [
    {"chat": {"id": -5, "type": "of tomorrow", "title": 5, "username": []}},
    {"chat": {"id": -5}},
    {"from": {"id": 1, "first_name": 5, "last_name": None, "username": 5, "language_code": 5}},
    {"entities": [None, {"type": "bold"}, {"type": 5, "offset": 0, "length": 1}]},
    {"entities": "none"},
    {"reply_to_message": {"message_id": 1}},
    {"quote": 5, "external_reply": {"message_id": "x"}},
    {"media_group_id": 5},
]


@table("lacks", WITHOUT)
def test_what_a_message_can_do_without_is_left_out_alone(lacks: dict[str, Any]) -> None:
    update = message(1, "hi")
    update["message"] |= lacks
    event = new_reader().read(update, NOW)
    assert isinstance(event, Message), event
    assert (event.text, event.sender.id, event.address.chat, event.address.kind) == ("hi", "1", "-5", "group")


def test_a_private_chat_of_a_kind_that_is_not_told_is_one() -> None:
    update = message(1, "hi", chat=7)
    del update["message"]["chat"]["type"]
    event = new_reader().read(update, NOW)
    assert isinstance(event, Message)
    assert event.address.kind == "dm"


def test_forwarded_words_are_nobodys_own_whatever_is_told_of_their_origin() -> None:
    origins: tuple[dict[str, Any], ...] = ({}, {"type": 5, "sender_user": {"id": "x"}}, {"chat": {"type": "channel"}})
    for origin in origins:
        update = message(1, "/stop")
        update["message"]["forward_origin"] = origin
        event = new_reader().read(update, NOW)
        assert isinstance(event, Message)
        assert event.text.startswith("[forwarded from ")


def test_who_speaks_and_where_is_never_guessed() -> None:
    for lacks in ({"sender_chat": {"title": "x"}}, {"from": {"id": "1"}}, {"is_topic_message": 5}):
        update = message(1, "hi")
        update["message"] |= lacks
        assert isinstance(new_reader().read(update, NOW), Unparsed)


def test_what_cannot_be_read_is_kept_whole() -> None:
    update = {"update_id": 7, "message": {"text": "\ud800", "deep": [[["x"]]]}}
    event = new_reader().read(update, NOW)
    assert isinstance(event, Unparsed)
    assert json.loads(event.raw) == update
    assert event.dedupe_keys == new_reader().read(update, NOW).dedupe_keys  # type: ignore[union-attr]
