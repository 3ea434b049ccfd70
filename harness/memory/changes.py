"""What a memory is to learn: made by updater.py of a model's answer, and by the `remember` tool; put in by merge.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date, datetime

    from harness.memory.model import Category, Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """A fact that may be kept. at, source, said_by: when, in which run and by whom it was said. tainted: it may be
    what strangers wrote: the turn read such a text, or the person used other words. valid_until: the last day on which
    it holds."""

    content: str
    category: Category
    confidence: float
    at: datetime
    source: str = ""
    said_by: str = ""
    tainted: bool = False
    valid_until: date | None = None


@dataclass(frozen=True, slots=True)
class Correction:
    """What is known under that id is wrong; this is right."""

    fact_id: str
    to: Proposed


@dataclass(frozen=True, slots=True)
class Heard:
    """What is known under that id was said again then."""

    fact_id: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """summaries: their new texts, by name (model.SUMMARIES). removed: ids. An id that is not there any more, since the
    person was faster, changes nothing."""

    summaries: Mapping[str, str] = field(default_factory=dict)
    added: tuple[Proposed, ...] = ()
    corrected: tuple[Correction, ...] = ()
    confirmed: tuple[Heard, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to learn."""
        return not (self.summaries or self.added or self.corrected or self.confirmed or self.removed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Updated:
    """What came of an update. memory: the one that was read, with the changes. Whoever stores them puts `changes` into
    the memory as it is by then (`merge.merged`), under its owner's lock: the person may have forgotten something in
    the meantime. model: its name in the config, "" where none was asked; tokens: of all its calls. trouble: why nothing
    was learnt though the model answered, "" where all is well: the turns may be tried again a few times."""

    memory: Memory
    changes: Changes
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    trouble: str = ""
