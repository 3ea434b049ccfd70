"""Health: which parts of this process work: both directions of each account, models, store, disk and workers.

`/status`, `antler status`, `--check` and the administrators' notices all read it.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from channels.base import ConnectionState
from harness.events import FailureKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from bot.delivery.account import AccountSnapshot
    from bot.store.retrying import RetryingStore
    from channels.base import Clock, Health
    from harness.models.health import ModelHealth

DEAF_AFTER = 90.0
"""Seconds without a sign of life after which a connection that calls itself connected is considered lost."""
LATE_AFTER = 45.0
"""Seconds that an answer may wait to be sent, not counting pauses requested by the platform."""
UNASKED = 60.0
"""Seconds without a call after which the time of a model's last call is shown, since its state is as old."""
SLOW_WRITE = 30.0
"""Seconds that the writer may take for one batch."""
DISK_LOW = 200_000_000
"""Free bytes on the data folder's disk below which the database may soon fail to write."""


class Part(StrEnum):
    RECEIVING = "receiving"
    SENDING = "sending"
    MODEL = "model"
    STORE = "store"
    DISK = "disk"
    WORKERS = "workers"


class Problem(StrEnum):
    """Possible problems of a part; each has a sentence in bot/texts."""

    NO_CONNECTION = "no_connection"
    STOPPED = "stopped"
    SENDING_STOPPED = "sending_stopped"
    LATE = "late"
    MODEL_AUTH = "model_auth"
    MODEL_QUOTA = "model_quota"
    MODEL_UNKNOWN = "model_unknown"
    MODEL_FAILING = "model_failing"
    STORE_UNAVAILABLE = "store_unavailable"
    STORE_SLOW = "store_slow"
    DISK_LOW = "disk_low"
    NO_WORKER = "no_worker"


_OF_CONNECTION: Mapping[ConnectionState, Problem] = {
    ConnectionState.CONNECTING: Problem.NO_CONNECTION,
    ConnectionState.RETRYING: Problem.NO_CONNECTION,
    ConnectionState.STOPPED: Problem.STOPPED,
}
_OF_REFUSAL: Mapping[FailureKind, Problem] = {
    FailureKind.AUTH: Problem.MODEL_AUTH,
    FailureKind.QUOTA: Problem.MODEL_QUOTA,
    FailureKind.NOT_FOUND: Problem.MODEL_UNKNOWN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One part's state. name: the account or the model, "" where there is only one. full_name: the name for
    administrators, where that says more. problem: None while it is well. detail: for operators, without secrets. since:
    monotonic seconds at which this state began, as far as is known. proven: a healthy part has worked since the start,
    and is not just assumed to."""

    part: Part
    name: str = ""
    problem: Problem | None = None
    detail: str = ""
    since: float = 0.0
    proven: bool = True
    full_name: str = ""

    @property
    def told_name(self) -> str:
        """The name for administrators."""
        return self.full_name or self.name

    @property
    def healthy(self) -> bool:
        return self.problem is None

    @property
    def key(self) -> tuple[Part, str]:
        return self.part, self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """One account's connection. silence: seconds since the last sign of life on the wire, None before the first."""

    account: str
    state: ConnectionState
    silence: float | None
    detail: str
    reconnects: int


class HealthService:
    """The health of this process. connections: of every account. sending: of every account with a channel. folder:
    data_dir. more: conditions of parts that only some processes have, at a monotonic time."""

    def __init__(
        self,
        *,
        connections: Callable[[], Mapping[str, Health]],
        sending: Callable[[], tuple[AccountSnapshot, ...]],
        models: ModelHealth,
        store: RetryingStore,
        folder: Path,
        clock: Clock,
        more: Callable[[float], Iterable[Condition]] = lambda now: (),
    ) -> None:
        self._connections = connections
        self._sending = sending
        self._models = models
        self._store = store
        self._folder = folder
        self._clock = clock
        self._more = more
        self._known: dict[tuple[Part, str], Condition] = {}

    def connections(self) -> list[Connection]:
        """Connections in the config's order."""
        return [self._connection(account, health) for account, health in self._connections().items()]

    def conditions(self) -> list[Condition]:
        """All parts as they are now, without models that have not been called yet, of which nothing is known."""
        now = self._clock.monotonic()
        found = [self._dated(condition, now) for condition in self._all(now)]
        self._known = {condition.key: condition for condition in found}
        return found

    @property
    def store_works(self) -> bool:
        """Whether writes are currently stored soon."""
        return self._of_store(self._clock.monotonic()).healthy

    def full_name(self, model: str) -> str:
        """A model's name for administrators: its alias, and the provider's name for it."""
        return self._models.full_name(model)

    def machine(self) -> dict[str, Any]:
        """The state as JSON types, for the control socket."""
        now, conditions = self._clock.monotonic(), self.conditions()
        return {
            "healthy": all(condition.healthy for condition in conditions),
            "connections": [asdict(each) | {"state": str(each.state)} for each in self.connections()],
            "conditions": [
                {
                    "part": str(each.part),
                    "name": each.name,
                    "told_name": each.told_name,
                    "healthy": each.healthy,
                    "problem": str(each.problem or ""),
                    "detail": each.detail,
                    "age": round(now - each.since, 1),
                }
                for each in conditions
            ],
            "models": [
                {
                    "name": self._models.full_name(name),
                    "works": None if state is None else state.works,
                    "age": None if state is None else round(now - state.asked, 1),
                }
                for name, state in self._models.known().items()
            ],
            "disk_free": self.disk_free(),
        }

    def disk_free(self) -> int | None:
        """Free bytes on the data folder's disk; None where that cannot be read."""
        try:
            disk = os.statvfs(self._folder)
        except OSError:
            return None
        return disk.f_bavail * disk.f_frsize

    def _dated(self, condition: Condition, now: float) -> Condition:
        """The condition with `since` as its source states it, or as first observed."""
        known = self._known.get(condition.key)
        if known is None or known.problem != condition.problem:
            return condition
        return replace(condition, since=min(known.since, condition.since))

    def _all(self, now: float) -> Iterator[Condition]:
        broken = set()
        for connection in self.connections():
            problem = _OF_CONNECTION.get(connection.state)
            yield Condition(
                part=Part.RECEIVING, name=connection.account, problem=problem, detail=connection.detail, since=now
            )
            if problem is Problem.STOPPED:
                broken.add(connection.account)
        yield from self._of_sending(now, broken)
        yield from self._of_models(now)
        yield self._of_store(now)
        yield self._of_disk(now)
        yield from self._more(now)

    def _connection(self, account: str, health: Health) -> Connection:
        age = None if health.last_sign is None else self._clock.monotonic() - health.last_sign
        silence = None if age is None else max(0.0, round(age, 1))
        state = health.state
        if state is ConnectionState.CONNECTED and (silence is None or silence > DEAF_AFTER):
            state = ConnectionState.RETRYING
        return Connection(
            account=account, state=state, silence=silence, detail=health.detail, reconnects=health.reconnects
        )

    def _of_sending(self, now: float, broken: set[str]) -> Iterator[Condition]:
        """Conditions of sending. broken: accounts that have stopped altogether, which are reported only once."""
        configured = self._connections()
        for each in self._sending():
            if each.account not in configured or each.account in broken:
                continue
            problem, detail, since = None, "", now
            if each.stopped:
                problem, detail = Problem.SENDING_STOPPED, each.stopped
            elif each.waiting_finals and each.overdue > LATE_AFTER:
                problem, detail, since = Problem.LATE, f"{each.waiting_finals} waiting", now - each.overdue
            elif each.limited:
                detail = f"limited by the platform for {each.limited:.0f} s"
            yield Condition(
                part=Part.SENDING, name=each.account, problem=problem, detail=detail, since=since, proven=each.proven
            )

    def _of_models(self, now: float) -> Iterator[Condition]:
        for state in self._models.states:
            problem, detail, unasked = None, [], now - state.asked
            if state.kind is not None and not state.works:
                problem = _OF_REFUSAL.get(state.kind, Problem.MODEL_FAILING)
                times = f"{state.failures} failed call{'' if state.failures == 1 else 's'} in a row"
                detail = [f"{state.kind}, {times}{f' at {state.at}' if state.at else ''}"]
            if unasked >= UNASKED:
                detail.append(f"last called {unasked / 60:.0f} min ago")
            yield Condition(
                part=Part.MODEL,
                name=state.model,
                problem=problem,
                detail=", ".join(detail),
                since=state.since,
                full_name=self._models.full_name(state.model),
            )

    def _of_store(self, now: float) -> Condition:
        if self._store.trouble:
            return Condition(part=Part.STORE, problem=Problem.STORE_UNAVAILABLE, detail=self._store.trouble, since=now)
        age = self._store.writer_age
        if age > SLOW_WRITE:
            return Condition(part=Part.STORE, problem=Problem.STORE_SLOW, since=now - age)
        return Condition(part=Part.STORE, since=now)

    def _of_disk(self, now: float) -> Condition:
        free = self.disk_free()
        if free is not None and free >= DISK_LOW:
            return Condition(part=Part.DISK, since=now)
        detail = "unreadable" if free is None else f"{free // 1_000_000} MB free"
        return Condition(part=Part.DISK, problem=Problem.DISK_LOW, detail=detail, since=now)
