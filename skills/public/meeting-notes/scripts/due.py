"""Days as they are said ("by Friday", "下周三", "in two weeks") against the day that was noted. For check.py."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import Any

_WEEKDAYS = (
    r"\bmon(?:day)?\b|\bmontag\b|(?:周|星期|礼拜)一|\blundi\b|\blunes\b",
    r"\btue(?:s|sday)?\b|\bdienstag\b|(?:周|星期|礼拜)二|\bmardi\b|\bmartes\b",
    r"\bwed(?:nesday)?\b|\bmittwoch\b|(?:周|星期|礼拜)三|\bmercredi\b|\bmiércoles\b",
    r"\bthu(?:rs|rsday)?\b|\bdonnerstag\b|(?:周|星期|礼拜)四|\bjeudi\b|\bjueves\b",
    r"\bfri(?:day)?\b|\bfreitag\b|(?:周|星期|礼拜)五|\bvendredi\b|\bviernes\b",
    r"\bsat(?:urday)?\b|\bsamstag\b|(?:周|星期|礼拜)六|\bsamedi\b|\bsábado\b",
    r"\bsun(?:day)?\b|\bsonntag\b|(?:周|星期|礼拜)[日天]|\bdimanche\b|\bdomingo\b",
)
_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_NEXT_WEEK = r"\bnext week\b|\bnächste(?:r|n)? woche\b|下周|下星期|\bla semaine prochaine\b|\bla próxima semana\b"
_END_OF_MONTH = r"\bend of (?:the |this )?month\b|\bmonatsende\b|月底"
_DAYS_AHEAD = (
    (r"\btoday\b|\bheute\b|今天|今日", 0),
    (r"\bday after tomorrow\b|\bübermorgen\b|后天", 2),
    (r"\btomorrow\b|\bmorgen\b|明天", 1),
)
_COUNTED = r"\bin (\d+|a|an|one|two|three|four) (day|week)s?\b"
_WORDS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4}
_MONTH_AHEAD = 31


def day_of(value: Any) -> date | None:
    """Of "2026-03-12"; None when it is no such day."""
    try:
        return date.fromisoformat(value) if isinstance(value, str) and len(value) == 10 else None
    except ValueError:
        return None


def contradicts(said: str, day: date, held: date) -> str:
    """Why the noted day cannot be what was said at a meeting on `held`; "" when it can, or when it is not known."""
    for pattern, ahead in _DAYS_AHEAD:
        if re.search(pattern, said, re.IGNORECASE):
            return "" if day == held + timedelta(ahead) else f"that is {held + timedelta(ahead)}"
    counted = re.search(_COUNTED, said, re.IGNORECASE)
    if counted and not _named(said):
        number = _WORDS.get(counted[1].lower()) or int(counted[1])
        meant = held + timedelta(number * (7 if counted[2].lower() == "week" else 1))
        return "" if abs((day - meant).days) <= 1 else f"that is {meant}"
    if re.search(_END_OF_MONTH, said, re.IGNORECASE):
        return "" if (day + timedelta(4)).month != day.month else f"{day} is not near the end of a month"
    return _weekday(said, day, held)


def _named(said: str) -> list[int]:
    """Weekdays in it, Monday 0."""
    return [number for number, pattern in enumerate(_WEEKDAYS) if re.search(pattern, said, re.IGNORECASE)]


def _weekday(said: str, day: date, held: date) -> str:
    named = _named(said)
    if named and day.weekday() not in named:
        return f"{day} is a {_NAMES[day.weekday()]}"
    if re.search(_NEXT_WEEK, said, re.IGNORECASE):
        monday = held - timedelta(held.weekday()) + timedelta(7)
        return "" if monday <= day < monday + timedelta(7) else f"next week is {monday} to {monday + timedelta(6)}"
    if named and (day - held).days > _MONTH_AHEAD:
        return "that is more than a month ahead"
    return ""
