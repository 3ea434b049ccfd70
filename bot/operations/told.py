"""Told: what administrators were told of what is out of order, in a file of the data folder."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from bot.operations.health import Part, Problem

if TYPE_CHECKING:
    from pathlib import Path

log = logging.getLogger(__name__)

NAME = "outages.json"


@dataclass(frozen=True, slots=True)
class ToldOutage:
    """What administrators were told of the newest outage of one part. problems: none once they know that it is over.
    on: the day on which they were told. number: of the part's outages on its day."""

    began: datetime
    number: int
    problems: tuple[Problem, ...]
    on: str


class Told:
    """The outages that administrators know of, in a file that the next process reads; it holds nothing of people."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.outages = self._read()
        self._changed = self._warned = False

    def add(self, key: tuple[Part, str], problem: Problem, began: datetime, number: int, on: str) -> None:
        known = self.outages.get(key)
        before = () if known is None or known.number != number else known.problems
        began = began if known is None or known.number != number else min(known.began, began)
        self.outages[key] = ToldOutage(began, number, tuple(dict.fromkeys((*before, problem))), on)
        self._changed = True
        self.keep()

    def over(self, key: tuple[Part, str], on: str) -> None:
        """They know that too. That there was one counts for the rest of the day."""
        if key in self.outages:
            self.outages[key] = replace(self.outages[key], problems=(), on=on)
            self._changed = True
            self.keep()

    def forget(self, key: tuple[Part, str]) -> None:
        self._changed = self.outages.pop(key, None) is not None or self._changed

    def keep(self) -> None:
        """Write what has changed; where there is no room for it now, at the next call."""
        if not self._changed:
            return
        rows = [
            {"part": part, "name": name, "problems": each.problems, "began": each.began.isoformat()}
            | {"number": each.number, "on": each.on}
            for (part, name), each in self.outages.items()
        ]
        beside = self._path.with_suffix(".new")
        try:
            beside.write_text(json.dumps(rows), encoding="utf-8")
            os.replace(beside, self._path)
            self._changed = self._warned = False
        except OSError as error:
            if not self._warned:
                log.warning("%s cannot be written for now: %s", self._path.name, error.strerror)
            self._warned = True

    def _read(self) -> dict[tuple[Part, str], ToldOutage]:
        """Nothing where there is none, or none that can be read."""
        try:
            rows = json.loads(self._path.read_text(encoding="utf-8"))
            return {(Part(row["part"]), str(row["name"])): _told_outage(row) for row in rows}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError) as error:
            log.warning("%s cannot be read: %s", self._path.name, type(error).__name__)
            return {}


def _told_outage(row: dict[str, Any]) -> ToldOutage:
    """Raises ValueError, TypeError, KeyError."""
    began = datetime.fromisoformat(row["began"])
    if began.tzinfo is None:
        raise ValueError("a time without a zone")
    return ToldOutage(began, int(row["number"]), tuple(map(Problem, row["problems"])), str(row["on"]))
