"""Every kind of update that the Bot API sends, broken in every way: it is read, set aside as unreadable, or ignored.

HYPOTHESIS_EXAMPLES=20000 breaks more of them than the suite does.
"""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from channels.message import INBOUND_EVENT, ButtonPressed, MembershipChanged, Message, MessageEdited, Unparsed
from channels.telegram.inbound import Me, Pastes, Reader
from tests.properties import examples
from tests.simulators.telegram import people
from tests.simulators.telegram.seen import ALICE, BOB, FORUM, NEWS, TEAM, FileSpec
from tests.simulators.telegram.state import World

NOW = datetime(2024, 1, 1, tzinfo=UTC)
MESSAGES = ("message", "channel_post", "edited_message", "edited_channel_post")
MOST_REPEATED = 500
Path_ = tuple[Any, ...]

STRANGE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**53 + 1, 2**63, -(2**70), 10**4000, 0.5, 1e308, float("nan"), float("inf"),
    "", "\0", "\ud800", "a\udc00\ud83d", "\ud83d\ude00", "\u202eevil", "/stop",
    "@antler_bot", "-1", "\r\n\r", [], {}, [[]], [None], {"": {}}, {"id": 1}, "private",
    "channel", "x" * 5000, "é" * 5000,
)  # fmt: skip


def deep(kind: str, levels: int) -> Any:
    """A value within a value within a value."""
    value: Any = {"message_id": 1, "date": 1, "chat": {"id": 1, "type": "private"}, "text": "deep"}
    for _ in range(levels):
        value = [value] if kind == "list" else {**value, kind: value} if kind == "reply_to_message" else {"x": value}
    return value


@cache
def golden() -> list[dict[str, Any]]:
    files = sorted((Path(__file__).parent / "golden").glob("*.json"))
    return [case["update"] for file in files for case in json.loads(file.read_text())]


@cache
def simulated() -> list[dict[str, Any]]:
    """One of each that the simulator makes."""
    world = World()
    bot = world.add_bot("42:TEST", username="antler_bot")
    bot.queue.allowed = frozenset({*MESSAGES, "callback_query", "my_chat_member"})
    ann, bob, dm = ALICE.to_json(), BOB.to_json(), ALICE.dm().to_json()
    said = people.say(world, bot, {"chat": dm, "user": ann, "text": "hi @antler_bot, see /help and https://x.org"})
    people.say(world, bot, {"chat": dm, "user": ann, "text": "yes", "reply_to": said.message["message_id"]})
    people.edit(world, bot, {"chat_id": ALICE.id, "message_id": said.message["message_id"], "text": "edited"})
    for kind in ("document", "photo", "voice", "audio", "video"):
        file = FileSpec(kind=kind, name="a.bin", content=b"x").to_json()
        people.say(world, bot, {"chat": TEAM.to_json(), "user": bob, "text": "@antler_bot look", "media": file})
    people.say(world, bot, {"chat": FORUM.to_json(), "user": bob, "text": "/stop@antler_bot", "thread": 5})
    people.say(world, bot, {"chat": TEAM.to_json(), "anonymous": True, "text": "from the admins"})
    post = people.say(world, bot, {"chat": NEWS.to_json(), "kind": "channel_post", "text": "news"})
    people.edit(world, bot, {"chat_id": NEWS.id, "message_id": post.message["message_id"], "text": "newer"})
    for status in ("member", "kicked", "restricted"):
        people.change_membership(world, bot, {"chat": TEAM.to_json(), "user": ann, "status": status})
    group = {"id": -77, "type": "group", "title": "Old"}
    people.say(world, bot, {"chat": group, "user": ann, "text": "x" * 4096})
    people.migrate(world, bot, {"chat_id": -77, "new_chat_id": -100777, "user": ann})
    return [pending.update for pending in bot.queue.remembered()]


def places(value: Any, path: Path_ = ()) -> list[Path_]:
    """Where something can be changed in a JSON value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, part in inside for place in [(*path, key), *places(part, (*path, key))]]


def at(value: Any, path: Path_) -> Any:
    for key in path:
        value = value[key]
    return value


def somewhere(update: dict[str, Any], data: st.DataObject) -> tuple[Any, Any]:
    """A place where something can be changed: what holds it, and its key."""
    holder: Any = {"": update}
    key: Any = ""
    while isinstance(holder[key], dict | list) and holder[key] and (key == "" or data.draw(st.booleans())):
        holder = holder[key]
        key = data.draw(st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder))))
    return holder, key


def mutate(update: dict[str, Any], data: st.DataObject) -> None:
    """Change one place."""
    holder, key = somewhere(update, data)
    match data.draw(st.sampled_from(["strange", "strange", "drop", "copy", "wrap", "text", "type", "repeat", "deep"])):
        case "strange":
            holder[key] = copy.deepcopy(data.draw(st.sampled_from(STRANGE)))
        case "drop":
            del holder[key]
        case "copy":
            other, name = somewhere(update, data)
            holder[key] = copy.deepcopy(other[name]) if name in other or isinstance(other, list) else None
        case "wrap":
            holder[key] = data.draw(st.sampled_from([[holder[key]], {str(key): holder[key]}, [[holder[key]]] * 2]))
        case "text":
            holder[key] = data.draw(st.text(max_size=30) | st.text(st.characters(categories=["Cs", "Cf", "Cc"])))
        case "type":
            holder[key] = data.draw(st.sampled_from([str(holder[key]), repr(holder[key]), bool(holder[key])]))
        case "repeat":
            # Repeats of repeats grow without end, and say nothing that one of them does not.
            times = 100 if len(places(holder[key])) < MOST_REPEATED else 2
            holder[key] = holder[key] * times if isinstance(holder[key], list) else [holder[key]] * times
        case _:
            kind = data.draw(st.sampled_from(["list", "dict", "reply_to_message"]))
            holder[key] = deep(kind, data.draw(st.sampled_from([3, 60, 200])))


def reader() -> Reader:
    return Reader("telegram", Me(42, "antler_bot"), Pastes())


def check(update: dict[str, Any]) -> None:
    event = reader().read(update, NOW)
    if event is None:
        return
    assert event.dedupe_keys
    assert INBOUND_EVENT.validate_json(INBOUND_EVENT.dump_json(event)) == event
    again = reader().read(turned_around(update), NOW + timedelta(hours=1))
    assert again is not None
    assert again.dedupe_keys == event.dedupe_keys
    assert type(again) is type(event)
    if isinstance(event, Message | MessageEdited):
        check_message(update, event.message if isinstance(event, MessageEdited) else event)
    elif isinstance(event, ButtonPressed):
        assert event.sender.id == str(update["callback_query"]["from"]["id"])
    elif isinstance(event, MembershipChanged):
        assert event.sender.id == str(update["my_chat_member"]["from"]["id"])


def turned_around(value: dict[str, Any]) -> dict[str, Any]:
    """The same JSON object with its members, and those of the objects in it, in the other order."""
    return {
        key: {name: part[name] for name in reversed(part)} if isinstance(part, dict) else part
        for key, part in reversed(value.items())
    }


def check_message(update: dict[str, Any], message: Message) -> None:
    """Its words are its sender's own: nobody else's, and not what was quoted or forwarded without saying so."""
    raw = next(update[name] for name in MESSAGES if update.get(name) is not None)
    author = raw["sender_chat"] if raw.get("sender_chat") is not None else raw["from"]
    assert message.sender.id == str(author["id"])
    assert message.sender.kind == ("channel" if author is raw.get("sender_chat") else message.sender.kind)
    assert message.address.chat == str(raw["chat"]["id"])
    text = message.text
    if raw.get("forward_origin") is not None:
        assert not message.mention or message.address.kind == "dm"
        assert text.startswith("[forwarded from ")
        text = text.partition("]\n")[2]
    own = raw["text"] if raw.get("text") is not None else raw.get("caption") or ""
    assert "\0" not in text
    if text and raw.get("text") is None and raw.get("caption") is None:  # a place, a contact: told in one line
        assert (text[0], text[-1], len(text.splitlines())) == ("[", "]", 1)
        return
    assert is_within(text, own.encode("utf-8", "replace").decode().replace("\r\n", "\n").replace("\r", "\n"))


def is_within(text: str, whole: str) -> bool:
    """Whether `text` is `whole` with something left out; what could not be decoded counts as anything."""
    left = iter(whole)
    return all(any(mark in (wanted, "?") or wanted == "\ufffd" for mark in left) for wanted in text)


def test_every_kind_as_it_is() -> None:
    assert len(golden()) + len(simulated()) > 100
    for update in (*golden(), *simulated()):
        check(update)


@given(data=st.data())
@settings(max_examples=examples(400), suppress_health_check=list(HealthCheck))
def test_broken_updates(data: st.DataObject) -> None:
    update = copy.deepcopy(data.draw(st.sampled_from([*golden(), *simulated()])))
    for _ in range(data.draw(st.integers(1, 4))):
        if update:
            mutate(update, data)
    if type(update.get("update_id")) is not int:
        update["update_id"] = 1  # anything else is no update to the poller
    check(update)


def test_a_megabyte_anywhere() -> None:
    long, tried = "@antler_bot \ud83d" + "é" * 1_000_000, set()
    for update in golden():
        for where in places(update):
            if isinstance(at(update, where), str) and where not in tried:
                tried.add(where)
                broken = copy.deepcopy(update)
                at(broken, where[:-1])[where[-1]] = long
                reader().read(broken, NOW)


@pytest.mark.parametrize("kind", ["list", "dict", "reply_to_message"])
def test_nested_as_deeply_as_json_can_be(kind: str) -> None:
    update = {"update_id": 1, "message": {**golden()[0]["message"], "reply_to_message": deep(kind, 900)}}
    event = reader().read(update, NOW)
    assert event is not None
    assert event.dedupe_keys == reader().read(update, NOW).dedupe_keys  # type: ignore[union-attr]


def test_an_update_that_cannot_be_read_says_where_and_is_kept() -> None:
    update = {"update_id": 1, "message": {"date": "yesterday", "chat": {"id": 1.5}}}
    event = reader().read(update, NOW)
    assert isinstance(event, Unparsed)
    assert json.loads(event.raw) == update
    assert "message.date" in event.error
