"""People's schedules and memory. Of those of others, every caller sees only figures."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import uuid4

from bot.control.actions import Action
from bot.http.errors import HttpProblem
from bot.http.resources.sight import Sight, log_act, unknown
from bot.store import schedules
from bot.store.identity import folder_name
from bot.store.schedules import ScheduleState
from bot.texts import texts_for
from bot.texts.memory_page import items_of
from harness.memory.model import SUMMARIES, Memory
from harness.memory.store import MemoryUnavailable, NotKept

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bot.http.auth import Caller
    from bot.http.parts import HttpParts
    from bot.store.schedules import ScheduleRow

SHOWN_SCHEDULES = 500
KEY = 12
"""Characters of a hashed key, as `antler memory list` shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule of a person. text: None where the caller may not read it. when: a time in ISO 8601, or a cron
    expression."""

    id: str
    account: str
    conversation: str
    person: str
    name: str
    text: str | None
    kind: str
    when: str
    timezone: str
    next_at: datetime
    last_at: datetime | None
    own: bool


class Schedules:
    """Active schedules, the next one first."""

    def __init__(self, parts: HttpParts) -> None:
        self._parts = parts
        self._sight = Sight(parts)

    async def list(self, caller: Caller, *, everybody: bool) -> tuple[Schedule, ...]:
        """The schedules that a caller may see. everybody: those of everyone, for operators."""
        person = None if everybody and caller.may("operate") else caller.person
        rows = await self._parts.store.read(lambda tx: schedules.active(tx, person, SHOWN_SCHEDULES))
        return tuple(self._told(caller, row) for row in rows)

    async def cancel(self, caller: Caller, schedule_id: str) -> Schedule:
        """End a schedule; its owner sees that with /reminders."""
        row = await self._parts.store.read(lambda tx: schedules.load(tx, schedule_id))
        if row is None or row.state is not ScheduleState.ACTIVE or not self._sight.acts(caller, row.person):
            raise unknown("schedule")
        await self._parts.store.write(self._parts.schedules.cancelling(schedule_id))
        about = {"account": row.address.account, "conversation": row.conversation}
        log_act(caller, Action.REMINDER_CANCEL, of=row.person, **about)
        return self._told(caller, row)

    def _told(self, caller: Caller, row: ScheduleRow) -> Schedule:
        # The text belongs to its person, even if it was written in a group.
        return Schedule(
            id=row.id,
            account=row.address.account,
            conversation=row.conversation,
            person=row.person,
            name=row.name,
            text=row.text if self._sight.reads(caller, row.person) else None,
            kind=row.kind,
            when=row.spec,
            timezone=row.timezone,
            next_at=row.next_at,
            last_at=row.last_fired_at,
            own=row.person == caller.person,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """A fact or a summary. id: of the fact, or the summary's name. group: the heading above it. until: the last day on
    which it holds, "" for none. editable: it is a fact."""

    id: str
    group: str
    text: str
    until: str
    editable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnMemory:
    """The caller's memory. enabled: this gateway has a memory at all. off: the person turned theirs off. agent: that
    keeps this one for itself, "" for the one that agents share. agents: that may have one of their own."""

    enabled: bool
    off: bool
    agent: str
    agents: tuple[str, ...]
    items: tuple[Remembered, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFigures:
    """Another person's memory. key: hashed. agent: keeps it for itself, "" for a shared one. size: bytes."""

    key: str
    agent: str
    size: int
    updated_at: datetime | None


class Memories:
    """The memory of the caller, changed as by /memory. agent: the one that keeps it for itself, "" for the one that
    agents share."""

    def __init__(self, parts: HttpParts) -> None:
        self._keeper = parts.memory.book
        self._choices = parts.agents

    async def own(self, caller: Caller, language: str = "en", agent: str = "") -> OwnMemory:
        """The caller's memory. language: of the headings. It is empty for an agent that keeps nothing: its last item
        may just have been forgotten."""
        agents = await self._agents(caller)
        with _reported():
            state = await self._keeper.state(caller.person)
            is_there = not agent or agent in agents
            memory = await self._keeper.show(caller.person, agent) if is_there else Memory()
        return OwnMemory(
            enabled=self._keeper.covers(is_group=False),
            off=state.off,
            agent=agent,
            agents=agents,
            items=tuple(
                Remembered(id=i.key, group=i.group, text=i.text, until=i.until, editable=i.key not in SUMMARIES)
                for i in items_of(memory, texts_for(language))
            ),
        )

    async def add(self, caller: Caller, text: str, agent: str = "") -> None:
        """Remember a fact that the person wrote."""
        self._require_enabled()
        await self._check(caller, agent)
        with _reported():
            await self._keeper.add(caller.person, f"page:{uuid4().hex}", text, caller.person, agent)

    async def edit(self, caller: Caller, fact: str, text: str, agent: str = "") -> None:
        """Change the text of a fact."""
        await self._check(caller, agent)
        with _reported():
            known = await self._keeper.edit(caller.person, fact, text, caller.person, agent)
        if known is None:
            raise unknown("fact")

    async def forget(self, caller: Caller, item: str, agent: str = "") -> None:
        """Forget a fact or a summary."""
        if item not in {each.id for each in (await self.own(caller, agent=agent)).items}:
            raise unknown("fact")
        with _reported():
            await self._keeper.forget(caller.person, [item], agent)

    async def forget_all(self, caller: Caller, agent: str = "") -> int:
        """Forget everything in that memory; returns the number of facts."""
        await self._check(caller, agent)
        with _reported():
            return (await self._keeper.forget_all(caller.person, agent)).facts

    async def switch(self, caller: Caller, *, on: bool) -> None:
        """Turn the memory on or off; what is remembered stays."""
        self._require_enabled()
        await self._keeper.set_enabled(caller.person, on)

    async def figures(self) -> tuple[MemoryFigures, ...]:
        """The sizes of everyone's memories without their content, for operators."""
        with _reported():
            known = await self._keeper.owners()
        found = (
            MemoryFigures(key=folder_name(s.owner)[:KEY], agent=s.agent, size=s.size, updated_at=s.updated_at)
            for s in known
        )
        return tuple(sorted(found, key=lambda each: (each.key, each.agent)))

    async def _check(self, caller: Caller, agent: str) -> None:
        if agent and agent not in await self._agents(caller):
            raise unknown("agent")

    async def _agents(self, caller: Caller) -> tuple[str, ...]:
        """The agents with their own memory: the current ones, and those that have kept something about the caller."""
        with _reported():
            kept = await self._keeper.agents_with(caller.person)
        return tuple(sorted({name for name in self._choices.definitions if self._choices.memory_of(name)} | set(kept)))

    def _require_enabled(self) -> None:
        if not self._keeper.covers(is_group=False):
            raise HttpProblem(409, "disabled", "this gateway has no memory: memory.enabled is false")


@contextmanager
def _reported() -> Iterator[None]:
    """Raise HttpProblem for what the memory refuses or cannot do."""
    try:
        yield
    except NotKept as refused:
        raise HttpProblem(422, "not_kept", str(refused)) from None
    except MemoryUnavailable as error:
        text = "the memory cannot be read or written now; see the log"
        raise HttpProblem(503, "memory_unavailable", text) from error
