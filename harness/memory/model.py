"""What is remembered of one owner (a person, or a group's conversation): frozen values, and their JSON.

The JSON has camelCase keys. A key or a version that is not known is refused: writing it back would lose it.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

LONGEST_FACT = 500
LONGEST_SUMMARY = 1500
LONGEST_NAME = 200
"""Characters of a text, a summary, an id."""
MOST_FACTS = 1000
"""However many the settings allow: a file with more is not ours."""

Category = Literal["preference", "knowledge", "context", "behavior", "goal", "correction"]
CATEGORIES: tuple[Category, ...] = ("preference", "knowledge", "context", "behavior", "goal", "correction")


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
    """A few sentences. updated_at: None: never written."""

    summary: str = Field(default="", max_length=LONGEST_SUMMARY)
    updated_at: Moment | None = None


class User(Part):
    """What stands now: work_context: role, projects, tools; personal_context: languages, interests; top_of_mind: what
    occupies them these days."""

    work_context: Summary = Summary()
    personal_context: Summary = Summary()
    top_of_mind: Summary = Summary()


class History(Part):
    """What was: in the last months, before that, and what hardly changes."""

    recent_months: Summary = Summary()
    earlier_context: Summary = Summary()
    long_term_background: Summary = Summary()


class Fact(Part):
    """One thing that is remembered.

    id: stays the same as long as the fact does, also when its text is corrected. confidence: 0 to 1. source: the run
    that it comes from. said_by: the person (`account:native id`) whose words it rests on. source_error: of a
    correction: what was believed wrongly before. confirmed_at: when it was last heard again, None: never. valid_until:
    the last day on which it holds, None: open.
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
        """When it was said last."""
        return max(self.created_at, self.confirmed_at or self.created_at)


class Memory(Part):
    """All of it. last_updated: None: nothing was ever written."""

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
        """Whether there is nothing in it."""
        return not self.facts and not any(summary.summary for summary in summaries(self).values())

    def to_json(self) -> str:
        """As it is stored and exported: readable, the same for the same memory."""
        return self.model_dump_json(by_alias=True, indent=2) + "\n"


def from_json(text: str | bytes) -> Memory:
    """Raises pydantic.ValidationError for what is no memory, or one that a newer version wrote."""
    return Memory.model_validate_json(text)


SUMMARIES = (
    *("user.workContext", "user.personalContext", "user.topOfMind"),
    *("history.recentMonths", "history.earlierContext", "history.longTermBackground"),
)
"""The names of the summaries, in the order in which they are shown."""


def summaries(memory: Memory) -> dict[str, Summary]:
    """All six, by name."""
    user, history = memory.user, memory.history
    values = (
        *(user.work_context, user.personal_context, user.top_of_mind),
        *(history.recent_months, history.earlier_context, history.long_term_background),
    )
    return dict(zip(SUMMARIES, values, strict=True))


def with_summaries(memory: Memory, changed: dict[str, Summary]) -> Memory:
    """The memory with these summaries, by name, in place of its own."""
    now = {**summaries(memory), **changed}
    work, personal, mind, recent, earlier, background = (now[name] for name in SUMMARIES)
    return memory.model_copy(
        update={
            "user": User(work_context=work, personal_context=personal, top_of_mind=mind),
            "history": History(recent_months=recent, earlier_context=earlier, long_term_background=background),
        }
    )
