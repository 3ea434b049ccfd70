"""Messages of a chat as the page shows them, and the events sent to a reader for each change."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from bot.http.page.code import language_of_file
from bot.http.page.markup import pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from markupsafe import Markup

    from bot.texts.page import Words

MOST_STATUS = 60
"""Lines of a status or of completed work."""
INLINE_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
INLINE_SOUNDS = frozenset({"audio/ogg", "audio/mpeg", "audio/wav", "audio/webm", "audio/mp4"})
TABLES, MARKDOWN = frozenset({".csv", ".tsv"}), frozenset({".md", ".markdown"})
_STEPS = {"☐": "open", "▶": "now", "☑": "done"}
_STEP_OF = "📋"
_COMMAND = re.compile(r"/\w+(\s.{0,80})?")


@dataclass(frozen=True, slots=True)
class Status:
    """The agent's current work. plan: its steps with their states: open, now or done. doing: further lines."""

    plan: tuple[tuple[str, str], ...] = ()
    doing: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> Status:
        found = [line.strip() for line in text.split("\n") if line.strip()][:MOST_STATUS]
        plan = tuple((line[1:].strip(), _STEPS[line[0]]) for line in found if line[0] in _STEPS)
        # The steps themselves show which one is current.
        doing = tuple(line for line in found if line[0] not in _STEPS and not (plan and line[0] == _STEP_OF))
        return cls(plan, doing)


def seen(entry: Mapping[str, Any], t: Words) -> dict[str, Any]:
    """The values of a message for the template `message.html`. entry: as returned by `Talk.history`."""
    text = entry["text"]
    if entry["author"] == "person":
        return {
            "id": entry["message_id"],
            "author": "person",
            "text": text,
            "command": bool(_COMMAND.fullmatch(text.strip())),
            "attachments": [_attached(each) for each in entry.get("attachments", ())],
            "at": entry["at"],
            "inherited": entry.get("inherited", False),
        }
    return {
        "id": entry["message_id"],
        "author": "bot",
        "pieces": pieces(text, t, growing=not entry["final"]),
        "status": Status.of(entry["status"]) if not entry["final"] or not text else Status(),
        "done": list(entry["done"])[:MOST_STATUS],
        "buttons": entry["buttons"],
        "file": _file(entry["file"]),
        "final": entry["final"],
        "asks_reply": entry["asks_reply"],
        "at": entry["at"],
        "inherited": entry.get("inherited", False),
    }


def _attached(attachment: Mapping[str, Any]) -> dict[str, Any]:
    upload = str(attachment.get("ref", "")).rpartition("/")[2]
    mime_type = attachment["mime_type"]
    return {
        "name": attachment["name"],
        "upload": upload,
        "picture": mime_type in INLINE_PICTURES,
        "sound": mime_type in INLINE_SOUNDS,
        "voice": attachment.get("kind") == "voice",
    }


def _file(file: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if file is None:
        return None
    name, mime_type = file["name"], file["mime_type"]
    looks = "picture" if mime_type in INLINE_PICTURES else "sound" if mime_type in INLINE_SOUNDS else ""
    return {"name": name, "looks": looks, "icon": icon_of(name, mime_type), "type": type_of(name)}


def icon_of(name: str, mime_type: str) -> str:
    suffix = PurePath(name.casefold()).suffix
    if mime_type.startswith("image/"):
        return "image"
    if mime_type.startswith("audio/"):
        return "music"
    if suffix in {*TABLES, ".xlsx", ".ods", ".parquet"}:
        return "table"
    if suffix in {*MARKDOWN, ".txt", ".pdf", ".docx", ".odt", ".log"}:
        return "file-text"
    return "file-code" if language_of_file(name) else "file"


def type_of(name: str) -> str:
    """The type of a file as people call it: its suffix, "" where it has none."""
    suffix = PurePath(name).suffix.removeprefix(".")
    return suffix.upper() if 0 < len(suffix) <= 8 else ""


@dataclass(slots=True)
class Reader:
    """One open page: turns a conversation's changes into events, with only the new pieces of a growing answer.

    now: the current state of a bot message by its id, None where it is gone. html: of `message.html`. status: of
    `status.html`.
    """

    t: Words
    now: Callable[[str], Mapping[str, Any] | None]
    html: Callable[[Mapping[str, Any]], str]
    status: Callable[[Status], str]
    sent: dict[str, list[Markup]] = field(default_factory=dict)
    """The pieces that the page has of each growing message."""

    def event(self, kind: str, data: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """The event for a change, None where the page knows it already. Not for snapshots."""
        match kind:
            case "posted":
                return "message", {"id": data["message_id"], "html": self.html(data), "final": True}
            case "append":
                return self._grown(data["message_id"])
            case "message":
                entry = self.now(data["message_id"]) or data
                self.sent.pop(data["message_id"], None)
                return "message", {"id": data["message_id"], "html": self.html(entry), "final": bool(entry["final"])}
            case "removed":
                self.sent.pop(data["message_id"], None)
                return "removed", {"id": data["message_id"]}
            case _:
                return kind, dict(data)

    def _grown(self, message_id: str) -> tuple[str, dict[str, Any]] | None:
        entry = self.now(message_id)
        if entry is None or entry["final"]:
            return None  # the change that ended it follows
        before = self.sent.get(message_id)
        after = pieces(entry["text"], self.t, growing=True)
        self.sent[message_id] = after
        if before == after:
            return None
        same = 0
        for known, new in zip(before or (), after, strict=False):
            if known != new:
                break
            same += 1
        status = self.status(Status.of(entry["status"]))
        return "grow", {"id": message_id, "from": same, "html": list(map(str, after[same:])), "status": status}
