"""One turn of a conversation as the memory hears of it: what was said, by whom, and whether strangers had a word in it.

bot/memory makes them of the ends of runs and keeps them in its queue; updater.py reads them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from pydantic import AwareDatetime, TypeAdapter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.context import RunInput

LONGEST_SAID = 4000
"""Characters of one side of a turn; the middle is left out of more."""

OWN_WORDS = frozenset(
    {"ask_clarification", "write_todos", "schedule", "remember", "recall", "write_file", "str_replace", "present_files"}
)
"""Tools whose results hold only what the person or the agent said. Every other one may bring text of strangers."""

_FORWARDED = re.compile(r"^\[forwarded (?:from .*|messages)\][ \t]*$", re.MULTILINE)
"""The line behind which channels put what somebody else wrote; nothing says where it ends."""


def own_words(text: str) -> str:
    """A person's message without what they only passed on."""
    forwarded = _FORWARDED.search(text)
    return text[: forwarded.start()].rstrip() if forwarded is not None else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """name: how the person is called, untrusted; "" for the agent."""

    role: Literal["person", "agent"]
    text: str
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """owner: whose memory it is. speaker: `account:native id`. tainted: the turn read what strangers wrote, see
    `is_tainted`; then what the agent said is not for the memory. outcome: as of the run's `Finished` ("" where it had
    none). said: in order. timezone: by which its person means days and times. model: that answered, and alone may learn
    from it; "": any may."""

    owner: str
    thread_id: str
    run_id: str
    speaker: str
    is_group: bool
    locale: str
    tainted: bool
    outcome: str
    at: AwareDatetime
    said: tuple[Said, ...]
    timezone: str = "UTC"
    model: str = ""

    @property
    def heard(self) -> tuple[Said, ...]:
        """What of it the memory may read: of a tainted turn the person's own words only."""
        own = (replace(said, text=own_words(said.text)) if said.role == "person" else said for said in self.said)
        return tuple(said for said in own if said.text.strip() and not (self.tainted and said.role == "agent"))


def is_tainted(run_input: RunInput, tools: Iterable[str]) -> bool:
    """Whether the turn read what somebody else wrote. tools: the names of those that it called."""
    files = any(file.voice is None for file in run_input.files)
    passed_on = own_words(run_input.words) != run_input.words
    foreign = files or passed_on or bool(run_input.quote or run_input.background)
    return foreign or any(tool not in OWN_WORDS for tool in tools)


EXCHANGE: TypeAdapter[Exchange] = TypeAdapter(Exchange)
"""To JSON and back, for the queue."""
