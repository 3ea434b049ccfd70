"""Due dates as an iCalendar file (RFC 5545), for render.py: whole-day events, for many calendars leave tasks out."""

from __future__ import annotations

import hashlib
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

LONGEST = 75
"""Octets of a line, RFC 5545 3.1."""


def calendar(notes: dict[str, Any], actions: list[dict[str, Any]], *, now: datetime) -> str:
    """actions: with a due date each. The reminder comes at nine in the morning of the day before."""
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Antler//meeting-notes//EN", "CALSCALE:GREGORIAN"]
    for action in actions:
        lines += _event(notes, action, now)
    return "".join(part + "\r\n" for line in [*lines, "END:VCALENDAR"] for part in _folded(line))


def _event(notes: dict[str, Any], action: dict[str, Any], now: datetime) -> Iterator[str]:
    due = date.fromisoformat(action["due"])
    # The same action has the same name in a second file: calendars replace it then.
    name = hashlib.sha256("\0".join((notes["title"], notes["date"], action["text"])).encode()).hexdigest()[:32]
    owner = f"{action['owner']}: " if action.get("owner") else ""
    yield "BEGIN:VEVENT"
    yield f"UID:{name}@meeting-notes"
    yield f"DTSTAMP:{now:%Y%m%dT%H%M%SZ}"
    yield f"DTSTART;VALUE=DATE:{due:%Y%m%d}"
    yield f"DTEND;VALUE=DATE:{due + timedelta(1):%Y%m%d}"
    yield f"SUMMARY:{_escaped(owner + action['text'])}"
    yield f"DESCRIPTION:{_escaped(notes['title'] + ', ' + notes['date'])}"
    yield from ("TRANSP:TRANSPARENT", "BEGIN:VALARM", "ACTION:DISPLAY", f"DESCRIPTION:{_escaped(action['text'])}")
    yield from ("TRIGGER:-PT15H", "END:VALARM", "END:VEVENT")


def _escaped(text: str) -> str:
    for sign in ("\\", ";", ","):
        text = text.replace(sign, "\\" + sign)
    return text.replace("\n", "\\n")


def _folded(line: str) -> Iterator[str]:
    """Never within a character."""
    part, size = "", 0
    for char in line:
        octets = len(char.encode())
        if size + octets > LONGEST:
            yield part
            part, size = " ", 1
        part, size = part + char, size + octets
    yield part
