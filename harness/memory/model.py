"""The values of memory: what is remembered of one owner (a person, or a group's conversation) and its JSON, what a
memory is to learn (`Changes`), and the turns of conversation that it learns from (`Exchange`).

The JSON of a memory has camelCase keys. An unknown key or version is rejected: writing it back would lose it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping  # noqa: TC003  pydantic reads it at run time
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter, model_validator
from pydantic.alias_generators import to_camel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.context import RunInput


LONGEST_FACT = 500
LONGEST_SUMMARY = 1500
LONGEST_NAME = 200
"""Characters of a fact's text, of a summary, of an id."""
MOST_FACTS = 1000
"""An upper bound for the setting: a file with more facts was not written by Antler."""
Category = Literal["preference", "knowledge", "context", "behavior", "goal", "correction"]
CATEGORIES: tuple[Category, ...] = ("preference", "knowledge", "context", "behavior", "goal", "correction")
LONGEST_SAID = 4000
"""Characters of one side of a turn; the middle of a longer one is omitted."""
OWN_WORDS = frozenset(
    {"ask_clarification", "write_todos", "schedule", "remember", "recall", "write_file", "str_replace", "present_files"}
)
"""Tools whose results contain only words of the person or the agent. Any other may return text written by strangers."""
_FORWARDED = re.compile(r"^\[forwarded (?:from .*|messages)\][ \t]*$", re.MULTILINE)
"""The line after which channels put text written by someone else; nothing marks the end of that text."""


def _in_utc(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError("should have an offset, as in 2026-01-02T03:04:05Z")
    return value.astimezone(UTC)


Moment = Annotated[datetime, AfterValidator(_in_utc)]
Name = Annotated[str, Field(max_length=LONGEST_NAME)]


class Part(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, hide_input_in_errors=True
    )


class Summary(Part):
    """A few sentences. updated_at: None if never written."""

    summary: str = Field(default="", max_length=LONGEST_SUMMARY)
    updated_at: Moment | None = None


class User(Part):
    """The present: work_context: role, projects, tools; personal_context: languages, interests; top_of_mind: what
    occupies them these days."""

    work_context: Summary = Summary()
    personal_context: Summary = Summary()
    top_of_mind: Summary = Summary()


class History(Part):
    """The past: the last months, the time before, and what hardly changes."""

    recent_months: Summary = Summary()
    earlier_context: Summary = Summary()
    long_term_background: Summary = Summary()


class Fact(Part):
    """One remembered fact.

    id: stays the same for the life of the fact, even when its text is corrected. confidence: 0 to 1. source: the run
    that it comes from. said_by: the person (`account:native id`) whose words it is based on. source_error: in a
    correction: the earlier wrong belief. confirmed_at: when it was last repeated, None: never. valid_until: the last
    day on which it holds, None: open.
    """

    id: str = Field(pattern=r"^[a-z0-9]{4,40}$")
    content: str = Field(min_length=1, max_length=LONGEST_FACT)
    category: Category
    confidence: float = Field(ge=0, le=1, allow_inf_nan=False)
    created_at: Moment
    source: Name = ""
    said_by: Name = ""
    source_error: str | None = Field(default=None, max_length=LONGEST_FACT)
    confirmed_at: Moment | None = None
    valid_until: date | None = None

    @property
    def heard_at(self) -> datetime:
        """When it was last said."""
        return max(self.created_at, self.confirmed_at or self.created_at)


class Memory(Part):
    """Everything remembered of one owner. last_updated: None if nothing was ever written."""

    version: Literal[1] = 1
    last_updated: Moment | None = None
    user: User = User()
    history: History = History()
    facts: tuple[Fact, ...] = Field(default=(), max_length=MOST_FACTS)

    @model_validator(mode="after")
    def _ids_differ(self) -> Memory:
        if len({fact.id for fact in self.facts}) != len(self.facts):
            raise ValueError("two facts have the same id")
        return self

    @property
    def is_empty(self) -> bool:
        return not self.facts and not any(summary.summary for summary in summaries(self).values())

    def to_json(self) -> str:
        """The JSON form for storage and export: readable and deterministic."""
        return self.model_dump_json(by_alias=True, indent=2) + "\n"


def from_json(text: str | bytes) -> Memory:
    """Parse a memory. Raises pydantic.ValidationError if it is invalid, or was written by a newer version."""
    return Memory.model_validate_json(text)


def summaries(memory: Memory) -> dict[str, Summary]:
    """All six summaries, by name."""
    parts = {"user": memory.user, "history": memory.history}
    return {f"{part}.{to_camel(name)}": known for part, its in parts.items() for name, known in its}


SUMMARIES = tuple(summaries(Memory()))
"""The names of the summaries, in display order."""


def with_summaries(memory: Memory, changed: dict[str, Summary]) -> Memory:
    """The memory with these summaries, by name, in place of its own."""
    parts: dict[str, User | History] = {"user": memory.user, "history": memory.history}
    named = {part: {name: f"{part}.{to_camel(name)}" for name, _ in its} for part, its in parts.items()}
    new = {part: {name: changed[full] for name, full in named[part].items() if full in changed} for part in parts}
    return memory.model_copy(update={part: its.model_copy(update=new[part]) for part, its in parts.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """A fact that may be stored. at, source, said_by: when, in which run and by whom it was said. tainted: it may be
    text written by strangers: the turn read such text, or the person used other words. valid_until: the last day on
    which it holds."""

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
    """The fact with that id is wrong; `to` is right."""

    fact_id: str
    to: Proposed


@dataclass(frozen=True, slots=True)
class Heard:
    """The fact with that id was said again at that time."""

    fact_id: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Everything that a memory is to learn. summaries: their new texts, by name (SUMMARIES). removed: ids. An id that
    no longer exists, since the person was faster, changes nothing."""

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
    """The result of an update. memory: the one that was read, with the changes. The caller applies `changes` to the
    then current memory (`merge.merged`), under its owner's lock: the person may have deleted something in the meantime.
    model: its name in the config, "" if none was called; tokens: of all its calls. trouble: why nothing was learned
    although the model answered, "" on success: the turns may be retried a few times."""

    memory: Memory
    changes: Changes
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    trouble: str = ""


def own_words(text: str) -> str:
    """A person's message without text that they merely forwarded."""
    forwarded = _FORWARDED.search(text)
    return text[: forwarded.start()].rstrip() if forwarded is not None else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One message of a turn. name: the person's display name, untrusted; "" for the agent."""

    role: Literal["person", "agent"]
    text: str
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One turn of a conversation as the memory sees it.

    owner: whose memory it is. speaker: `account:native id`. tainted: the turn read text written by strangers, see
    `is_tainted`; then the agent's words are not for the memory. outcome: of the run's `Finished` ("" without one).
    said: in order. timezone: for the person's days and times. model: the one that answered, the only one that may learn
    from it; "": any may.
    """

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
        """The part that the memory may read: only the person's own words in a tainted turn."""
        own = (replace(said, text=own_words(said.text)) if said.role == "person" else said for said in self.said)
        return tuple(said for said in own if said.text.strip() and not (self.tainted and said.role == "agent"))


def is_tainted(run_input: RunInput, tools: Iterable[str]) -> bool:
    """Whether the turn read text written by someone else. tools: the names of the tools that it called."""
    files = any(file.voice is None for file in run_input.files)
    passed_on = own_words(run_input.words) != run_input.words
    foreign = files or passed_on or bool(run_input.quote or run_input.background)
    return foreign or any(tool not in OWN_WORDS for tool in tools)


EXCHANGE: TypeAdapter[Exchange] = TypeAdapter(Exchange)
"""Codec of the queue's JSON."""
