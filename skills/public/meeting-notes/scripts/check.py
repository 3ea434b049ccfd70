"""Holds notes against what was said: python3 check.py notes.json --transcript transcript.json. Exit code 1: errors."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from due import contradicts, day_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

Found = tuple[str, str]
"""Level ("error" or "warning") and text."""
KEYS = {
    "title",
    "date",
    "language",
    "labels",
    "participants",
    "absent",
    "summary",
    "decisions",
    "actions",
    "questions",
    "topics",
    "source",
}
KINDS = {
    "decisions": {"text", "by", "evidence"},
    "actions": {"text", "owner", "due", "due_said", "evidence"},
    "questions": {"text", "owner", "evidence"},
}
NEAR = 3
"""Lines after the cited one in which the owner may have accepted."""
SHORTEST_QUOTE = 2
_SIGNS = re.compile(
    r"\bI(?:['’]ll| will| can do| can take|['’]m going to| am going to)\b|\b(?:action item|to-?do|will follow up|"
    r"we (?:have )?(?:decided|agreed)|let['’]s go with|we go with|decision is|approved|signed off)\b|"
    r"\bby (?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\bby (?:tomorrow|the end of|end of|next week)\b|"
    r"我来|我会|我负责|由.{1,8}负责|决定|待办|截止|(?:周|星期)[一二三四五六日天]前|下周|月底前|"
    r"\bich (?:mache|schicke|kümmere|übernehme|kläre)\b|\bbis (?:montag|dienstag|mittwoch|donnerstag|freitag)\b|"
    r"\bwir haben (?:beschlossen|entschieden)\b",
    re.IGNORECASE,
)
"""How people promise and decide; what no item cites is looked at again."""


def findings(notes: Any, transcript: dict[str, Any] | None) -> list[Found]:
    """All that is wrong with the notes. transcript: None for notes of a talk that nobody recorded."""
    if not isinstance(notes, dict):
        return [("error", "notes.json has to be an object; see references/notes.md")]
    found = [("error", f'"{key}" is not known') for key in notes.keys() - KEYS]
    found += [("error", f'"{key}" is missing') for key in ("title", "date", "summary") if not notes.get(key)]
    held = day_of(notes.get("date"))
    if notes.get("date") and held is None:
        found.append(("error", f'date: "{notes["date"]}" has to be a day such as 2026-03-12'))
    checker = _Checker(notes, transcript, held)
    for kind, keys in KINDS.items():
        items = notes.get(kind, [])
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            found.append(("error", f'"{kind}" has to be a list of objects'))
            continue
        for number, item in enumerate(items, 1):
            found += [(level, f"{kind} {number}: {text}") for level, text in checker.item(kind, item, keys)]
        found += _twice(kind, items)
    return [*found, *checker.uncited()]


class _Checker:
    def __init__(self, notes: dict[str, Any], transcript: dict[str, Any] | None, held: date | None) -> None:
        self._held = held
        self._recorded = transcript is not None
        self._lines = {line["id"]: line for line in transcript["lines"]} if transcript else {}
        self._order = list(self._lines)
        people = [*notes.get("participants", []), *notes.get("absent", []), *(transcript or {}).get("speakers", {})]
        self._people = {str(name).casefold() for name in people}
        self._speakers = {str(name).casefold() for name in (transcript or {}).get("speakers", {})}
        self._cited: set[str] = set()

    def item(self, kind: str, item: dict[str, Any], keys: set[str]) -> Iterator[Found]:
        yield from (("error", f'"{key}" is not known') for key in sorted(item.keys() - keys))
        if not str(item.get("text", "")).strip():
            yield "error", 'needs a "text"'
        cited: list[str] = []
        yield from self._evidence(item.get("evidence"), cited)
        owner = item.get("owner") or item.get("by")
        for name in re.split(r"\s*(?:,|&|、|，)\s*", str(owner)) if owner else []:
            if self._people and name.casefold() not in self._people:
                yield "error", f'"{name}" took no part; the names are those of participants and absent'
        if kind == "actions":
            yield from self._action(item, cited)

    def _evidence(self, evidence: Any, cited: list[str]) -> Iterator[Found]:
        if not self._recorded:
            return
        if not isinstance(evidence, list) or not evidence:
            yield "error", 'needs "evidence": [{"line": "L12", "quote": "..."}]; what nobody said does not belong here'
            return
        for each in evidence:
            line = str(each.get("line", "")) if isinstance(each, dict) else ""
            if line not in self._lines:
                yield "error", f'cites the line "{line}", which the transcript does not have'
                continue
            cited.append(line)
            self._cited.add(line)
            quote = _bare(str(each.get("quote", "")))
            if len(quote) < SHORTEST_QUOTE or quote not in _bare(self._lines[line]["text"]):
                yield "error", f'the quote is not in {line}, word for word: "{each.get("quote", "")}"'

    def _action(self, item: dict[str, Any], cited: list[str]) -> Iterator[Found]:
        owner, due, said = item.get("owner"), item.get("due"), str(item.get("due_said") or "")
        if not owner:
            yield "warning", "has no owner: ask who takes it; without a name nobody will"
        elif str(owner).casefold() in self._speakers and cited and not self._spoke(str(owner), cited):
            yield "warning", f"{owner} says nothing in or just after {', '.join(cited)}: did {owner} accept it?"
        if not due:
            yield "warning", "has no date: ask until when" + (f' ("{said}" was said)' if said else "")
            return
        day = day_of(due)
        if day is None:
            yield "error", f'due: "{due}" has to be a day such as 2026-03-20'
        elif self._held is not None:
            if day < self._held:
                yield "error", f"is due on {day}, before the meeting on {self._held}"
            reason = contradicts(said, day, self._held)
            if reason:
                yield "error", f'is due on {day}, but "{said}" was said: {reason}'
            if day.weekday() >= 5 and not reason:
                yield "warning", f"is due on {day}, a weekend"

    def _spoke(self, owner: str, cited: list[str]) -> bool:
        for line in cited:
            at = self._order.index(line)
            near = self._order[at : at + NEAR + 1]
            if any(self._lines[each]["speaker"].casefold() == owner.casefold() for each in near):
                return True
        return False

    def uncited(self) -> list[Found]:
        """Lines that sound like a promise or a decision, and are no item's evidence."""
        return [
            ("warning", f'{name} sounds like a promise or a decision, and no item cites it: "{line["text"][:90]}"')
            for name, line in self._lines.items()
            if name not in self._cited and _SIGNS.search(line["text"])
        ]


def _bare(text: str) -> str:
    """Letters, digits and signs alone: spaces and quotation marks are written in many ways."""
    return re.sub(r"[\W_]+", "", text).casefold()


def _twice(kind: str, items: list[dict[str, Any]]) -> Iterator[Found]:
    seen: dict[str, int] = {}
    for number, item in enumerate(items, 1):
        text = _bare(str(item.get("text", "")))
        if text in seen:
            yield "error", f"{kind} {number}: says the same as {kind} {seen[text]}"
        seen.setdefault(text, number)


def load(path: Path) -> Any:
    """JSON of a file; ends the program with what is wrong."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SystemExit(f"{path} does not exist") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise SystemExit(f"{path} is not JSON: {error}") from None


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks notes: evidence, owners, dates, what was left out.")
    parser.add_argument("notes", type=Path)
    parser.add_argument("--transcript", type=Path, help="of parse.py; leave out only where there is none")
    options = parser.parse_args()
    found = findings(load(options.notes), load(options.transcript) if options.transcript else None)
    errors = sum(level == "error" for level, _ in found)
    for level, text in sorted(found, key=lambda each: each[0] != "error"):
        print(f"{level}: {text}")
    print(f"{errors} errors, {len(found) - errors} warnings.")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
