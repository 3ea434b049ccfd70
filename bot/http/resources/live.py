"""Current activity: accounts in both directions, answers running and waiting, pending decisions, how fast it goes.

Read by /api/now, /api/health and the page Now. Words of others are left out, see `sight`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from bot.http.resources.requests import Approval, Pairing, Requests
from bot.http.resources.sight import Sight
from bot.operations.health import Part, Problem
from bot.store import overview, runs
from bot.store.rows import RunState

if TYPE_CHECKING:
    from bot.http.auth import Caller
    from bot.http.parts import HttpParts
    from bot.operations.health import Condition, Connection
    from bot.operations.workers import WorkerSeen
    from bot.runs.active import ActiveRun
    from bot.store.rows import RunRow

WINDOW = timedelta(hours=24)
"""The period covered by durations and failures."""
SHOWN_TURNS, SHOWN_FAILED = 200, 10
KNOWN_SECONDS = 5.0
"""Seconds for which results on past answers are reused."""
WORDS = 160
"""Characters of the message that a turn answers."""

TurnState = Literal["running", "waiting", "queued", "stopping"]
Sending = Literal["works", "unproven", "limited", "late", "stopped", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One account in both directions. receiving: ConnectionState. silence: seconds since its platform's last sign of
    life. finals: finished answers that are not wholly shown. problem: a Problem, "" while all is well."""

    name: str
    platform: str
    receiving: str
    sending: Sending
    healthy: bool
    problem: str
    detail: str
    silence: float | None
    finals: int
    reconnects: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """An answer in progress, or waiting for its turn. state: waiting: for a person's decision. seconds: in that state.
    place: in its conversation's queue, 0 for a running one. words: of the message, None where the caller may not read
    it; step: current activity, in words only where they may. actions: what the caller may do to it."""

    run_id: str
    conversation: str
    account: str
    person: str
    name: str
    state: TurnState
    seconds: float
    place: int
    model: str
    agent: str
    scheduled: bool
    words: str | None
    step: str
    tools: tuple[str, ...]
    model_calls: int
    tokens: int
    own: bool
    actions: tuple[Literal["stop", "run_now", "drop"], ...]


@dataclass(frozen=True, slots=True)
class Spread:
    """The distribution of a duration, in seconds; None where nothing is known. count: of measurements."""

    count: int = 0
    half: float | None = None
    most: float | None = None
    """The median, and the 95th percentile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The speed of the last day's answers. shown: from an answer's end until its platform had all of it. endings: by
    RunState."""

    first_words: Spread
    whole: Spread
    shown: Spread
    endings: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An answer that failed. reason: StopReason or kind of failure."""

    run_id: str
    conversation: str
    state: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A part that does not work. seconds: for how long, as far as is known."""

    part: str
    name: str
    problem: str
    detail: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The process in a few figures, for everyone who is signed in."""

    well: bool
    version: str
    uptime: float
    running: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelState:
    """The state of a model. works: None: not called yet. asked: seconds ago."""

    name: str
    works: bool | None
    asked: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server of tools (MCP)."""

    name: str
    state: str
    tools: int
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A process that executes runs. process: host:pid. silence: seconds since its last sign of life. alive: others do
    not consider it dead. running: its current runs, of `slots` at most. troubles: what does not work there."""

    name: str
    process: str
    version: str
    silence: float
    alive: bool
    running: int
    slots: int
    troubles: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """The whole current state, as one caller may see it. turns_left_out: how many more there are."""

    health: Health
    troubles: tuple[Trouble, ...]
    accounts: tuple[Account, ...]
    models: tuple[ModelState, ...]
    turns: tuple[Turn, ...]
    turns_left_out: int
    approvals: tuple[Approval, ...]
    pairings: tuple[Pairing, ...]
    pace: Pace
    failures: tuple[Failure, ...]
    sandbox: str
    servers: tuple[Server, ...]
    workers: tuple[Worker, ...]
    budgets: Mapping[str, float]
    disk_free: int | None
    unreadable: int
    config: str
    errors: tuple[str, ...] = field(default=())


class Live:
    """Reads the parts of the process and the store."""

    def __init__(self, parts: HttpParts) -> None:
        self._parts = parts
        self._sight = Sight(parts)
        self._requests = Requests(parts)
        self._clock = parts.clock
        self._known: tuple[float, Pace, tuple[Failure, ...]] | None = None

    async def health(self) -> Health:
        """Whether all is well, without any names."""
        return _health(await self._parts.status.machine())

    async def now(self, caller: Caller) -> Now:
        """The whole current state, for operators."""
        parts, machine = self._parts, await self._parts.status.machine()
        conditions, moment = parts.health.conditions(), self._clock.monotonic()
        turns, left_out = await self.turns(caller, everybody=True)
        pace, failures = await self._past(moment)
        return Now(
            health=_health(machine),
            troubles=tuple(_trouble(each, moment) for each in conditions if each.problem is not None),
            accounts=tuple(self._accounts(conditions)),
            models=tuple(ModelState(name=m["name"], works=m["works"], asked=m["age"]) for m in machine["models"]),
            turns=turns,
            turns_left_out=left_out,
            approvals=await self._requests.approvals(caller),
            pairings=self._requests.pairings(),
            pace=pace,
            failures=failures,
            sandbox=machine["sandbox"],
            servers=self.servers(),
            workers=tuple(map(_worker, parts.status.asked.workers())),
            budgets={each["key"]: each["share"] for each in machine["budgets"]},
            disk_free=machine["disk_free"],
            unreadable=machine["unreadable"],
            config=machine["config"],
            errors=tuple(machine["errors"]),
        )

    async def _past(self, moment: float) -> tuple[Pace, tuple[Failure, ...]]:
        """Past performance. Reused for a while: a page requests it every few seconds, and it is the store's longest
        query."""
        if self._known is not None and moment - self._known[0] < KNOWN_SECONDS:
            return self._known[1:]
        since = self._clock.now() - WINDOW
        told, failed = await self._parts.store.read(
            lambda tx: (overview.timings(tx, since), overview.failed_runs(tx, since, SHOWN_FAILED))
        )
        failures = tuple(
            Failure(run_id=f.run_id, conversation=f.conversation, state=f.state, reason=f.detail, at=f.ended_at)
            for f in failed
        )
        pace = Pace(
            first_words=_spread(told.first_words),
            whole=_spread(told.whole),
            shown=_spread(told.shown),
            endings=told.endings,
        )
        self._known = (moment, pace, failures)
        return self._known[1:]

    # Accounts.

    def _accounts(self, conditions: Sequence[Condition]) -> list[Account]:
        known = {each.key: each for each in conditions}
        finals = {each.account: each.waiting_finals for each in self._parts.delivery.snapshot()}
        channels = self._parts.settings().channels
        found = []
        for connection in self._parts.health.connections():
            name = connection.account
            receiving, sending = known.get((Part.RECEIVING, name)), known.get((Part.SENDING, name))
            problem = next((each.problem for each in (receiving, sending) if each and each.problem), None)
            found.append(
                Account(
                    name=name,
                    platform=channels[name].type if name in channels else "",
                    receiving=str(connection.state),
                    sending=_sending(sending),
                    healthy=problem is None,
                    problem=str(problem or ""),
                    detail=_detail(connection, sending),
                    silence=connection.silence,
                    finals=finals.get(name, 0),
                    reconnects=connection.reconnects,
                )
            )
        return found

    # Turns.

    async def turns(self, caller: Caller, *, everybody: bool) -> tuple[tuple[Turn, ...], int]:
        """Running and waiting turns, in order, and how many more there are. everybody: not only the caller's own."""
        rows = await self._parts.store.read(runs.unended)
        everybody = everybody and caller.may("operate")
        active = self._parts.runs.active
        line: dict[str, list[RunRow]] = {}
        for row in sorted(rows, key=runs.in_turn):
            line.setdefault(row.conversation, []).append(row)
        found = []
        for conversation in line.values():
            waiting = [row for row in conversation if row.run_id not in active]
            working = [row for row in conversation if row.run_id in active]
            first = working[0].speaker if working else None
            placed = [(0, row) for row in working] + list(enumerate(waiting, 1))
            found += [
                self._turn(caller, row, place, first)
                for place, row in placed
                if row.is_readable and (everybody or row.speaker == caller.person)
            ]
        found.sort(key=lambda turn: (turn.place, -turn.seconds))
        return tuple(found[:SHOWN_TURNS]), max(0, len(found) - SHOWN_TURNS)

    def _turn(self, caller: Caller, row: RunRow, place: int, running: str | None) -> Turn:
        """A turn. running: the speaker of the running turn in its conversation, None if there is none."""
        active, context = self._parts.runs.active.get(row.run_id), row.context
        own, reads = row.speaker == caller.person, self._sight.reads(caller, context.owner)
        since = (self._clock.now() - row.created_at).total_seconds()
        seconds = since if active is None else self._clock.monotonic() - active.began
        words = " ".join(row.input.words.split()) or ", ".join(file.name for file in row.input.files)
        may = self._sight.acts(caller, row.speaker)
        actions: tuple[Literal["stop", "run_now", "drop"], ...] = ()
        if may and active is not None:
            actions = ("stop",) if active.stop_reason is None else ()
        elif may:
            may_pass = running is None or self._sight.acts(caller, running)
            actions = ("run_now", "drop") if may_pass else ("drop",)
        return Turn(
            run_id=row.run_id,
            conversation=row.conversation,
            account=row.address.account,
            person=row.speaker,
            name=context.speaker.display_name,
            state=_state(row, active),
            seconds=round(max(0.0, seconds), 1),
            place=place,
            model=context.model,
            agent=context.agent,
            scheduled=bool(context.schedule),
            words=words[:WORDS] if reads else None,
            step=_step(active, in_words=reads),
            tools=() if active is None else tuple(each.call.tool for each in active.view.tools.values()),
            model_calls=row.model_calls if active is None else active.view.model_calls,
            tokens=0 if active is None else active.tokens,
            own=own,
            actions=actions,
        )

    def servers(self) -> tuple[Server, ...]:
        """Servers of tools, in the order of the config."""
        facts = self._parts.status.asked.servers()
        return tuple(Server(name=f.name, state=f.state, tools=f.tools, detail=f.detail) for f in facts)


def _health(machine: Mapping[str, Any]) -> Health:
    return Health(
        well=machine["healthy"],
        version=machine["version"],
        uptime=machine["uptime"],
        running=machine["running"],
        waiting=machine["waiting"],
    )


def _worker(seen: WorkerSeen) -> Worker:
    facts = seen.facts
    return Worker(
        name=seen.name,
        process=seen.process,
        version=seen.version,
        silence=seen.silence,
        alive=seen.alive,
        running=facts.running,
        slots=facts.slots,
        troubles=tuple(filter(None, (*facts.troubles, facts.config))),
    )


def _trouble(condition: Condition, moment: float) -> Trouble:
    return Trouble(
        part=str(condition.part),
        name=condition.told_name,
        problem=str(condition.problem or ""),
        detail=condition.detail,
        seconds=round(max(0.0, moment - condition.since), 1),
    )


def _sending(condition: Condition | None) -> Sending:
    if condition is None:
        return "unknown"
    if condition.problem is not None:
        return "late" if condition.problem is Problem.LATE else "stopped"
    if condition.detail:
        return "limited"
    return "works" if condition.proven else "unproven"


def _detail(connection: Connection, sending: Condition | None) -> str:
    details = (connection.detail, sending.detail if sending is not None else "")
    return "; ".join(dict.fromkeys(each for each in details if each))


def _state(row: RunRow, active: ActiveRun | None) -> TurnState:
    if active is None:
        return "stopping" if row.stop is not None else "waiting" if row.state is RunState.WAITING else "queued"
    if active.stop_reason is not None:
        return "stopping"
    return "waiting" if active.asking else "running"


def _step(active: ActiveRun | None, *, in_words: bool) -> str:
    """The last line of the status in the chat. in_words: the caller may read it."""
    if active is None or not in_words:
        return ""
    lines = active.view.status.strip().splitlines()
    return lines[-1].strip() if lines else ""


def _spread(values: Sequence[int]) -> Spread:
    """The distribution of sorted values in milliseconds."""
    if not values:
        return Spread()
    half, most = values[(len(values) - 1) // 2], values[min(len(values) - 1, int(len(values) * 0.95))]
    return Spread(len(values), half / 1000, most / 1000)
