"""Workers in operation: what each reports with its signs of life, and what the gateway makes of it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from bot.operations.health import Condition, Part, Problem
from bot.operations.reload import WorkerOutcome
from bot.store import workers
from bot.store.schema import STEPS
from bot.store.sql import to_json
from bot.store.worker_runs import STALLED_SECONDS
from channels.supervision import within
from harness.mcp.pool import ServerFacts  # noqa: TC001 (pydantic reads it)
from harness.models.health import ModelState  # noqa: TC001

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from bot.operations.health import HealthService
    from bot.operations.reload import Reloader
    from bot.store.retrying import RetryingStore
    from bot.store.workers import WorkerRow
    from bot.tasks import Tasks
    from channels.base import Clock

log = logging.getLogger(__name__)
ANSWER_SECONDS = 20.0
"""Seconds that the gateway waits for workers to have read their configs."""
LOOK_SECONDS = 1.0
SILENT_SECONDS = 15.0
"""Seconds without a sign of life after which no answer is awaited."""
BY = "the gateway"
WORST = ("retrying", "connecting", "off", "ready")
"""States of a server of tools; of several workers, the first of these is reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The state of a worker. running: its current runs, of `slots` at most. models: with ages, in seconds, instead of
    times. troubles: what else does not work, a line each. config: what of its config is not in force, "" for
    nothing."""

    running: int = 0
    slots: int = 0
    models: tuple[ModelState, ...] = ()
    servers: tuple[ServerFacts, ...] = ()
    troubles: tuple[str, ...] = ()
    config: str = ""


FACTS = TypeAdapter(Facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSeen:
    """A worker as known to the gateway. process: host:pid. silence: seconds since its last sign of life."""

    name: str
    process: str
    version: str
    silence: float
    facts: Facts

    @property
    def alive(self) -> bool:
        """Whether other processes do not consider it dead yet."""
        return self.silence < STALLED_SECONDS

    def machine(self) -> dict[str, Any]:
        """The same as JSON types, for the control socket."""
        told = {"running": self.facts.running, "slots": self.facts.slots, "config": self.facts.config}
        known = {name: value for name, value in asdict(self).items() if name != "facts"}
        return known | told | {"alive": self.alive, "troubles": list(self.facts.troubles)}


class Workers:
    """All workers, as of the last poll. listening: an event that is set when one has answered."""

    def __init__(self, store: RetryingStore, listening: Callable[[], AbstractContextManager[asyncio.Event]]) -> None:
        self._store = store
        self._listening = listening
        self._looked = self._last_alive = store.clock.monotonic()
        self._found: tuple[WorkerSeen, ...] = ()

    async def look(self) -> None:
        """Read what they report, and forget those that are gone."""
        rows = await self._store.read(workers.present)
        gone = [row.id for row in rows if row.silence is None]
        if gone:
            await self._store.write(partial(workers.forget, ids=gone))
        self._looked = self._store.clock.monotonic()
        self._found = tuple(_seen(row, row.silence) for row in rows if row.silence is not None)
        if any(each.alive for each in self._found):
            self._last_alive = self._looked

    @property
    def seen(self) -> tuple[WorkerSeen, ...]:
        """All of them, sorted by name."""
        passed = self._passed
        return tuple(replace(each, silence=round(each.silence + passed, 1)) for each in self._found)

    @property
    def _passed(self) -> float:
        return self._store.clock.monotonic() - self._looked

    def models(self) -> list[ModelState]:
        """The states of models as they found them, with times by this process's clock."""
        return [
            replace(state, asked=self._looked - state.asked, since=self._looked - state.since, at=worker.name)
            for worker in self._found
            for state in worker.facts.models
        ]

    def servers(self) -> tuple[ServerFacts, ...]:
        """Their servers of tools. Where their states differ, the worst is returned, with the worker that reports it."""
        by_name: dict[str, list[tuple[str, ServerFacts]]] = {}
        for worker in self.seen:
            for facts in worker.facts.servers if worker.alive else ():
                by_name.setdefault(facts.name, []).append((worker.name, facts))
        return tuple(_together(found) for found in by_name.values())

    def conditions(self, now: float) -> Iterator[Condition]:
        """Whether any worker is alive."""
        alive = any(each.alive for each in self.seen)
        yield Condition(
            part=Part.WORKERS, problem=None if alive else Problem.NO_WORKER, since=now if alive else self._last_alive
        )

    async def reload(self) -> tuple[WorkerOutcome, ...]:
        """Have them reload their configs, and wait for the outcomes."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                asked = await self._store.write(workers.ask)
        except TimeoutError:
            return (WorkerOutcome("all", "not reached: the database does not respond", complete=False),)
        rows: list[WorkerRow] = []
        with suppress(TimeoutError), self._listening() as word:
            async with asyncio.timeout(ANSWER_SECONDS):
                while True:
                    word.clear()
                    rows = [row for row in await self._store.read(workers.present) if row.id in asked]
                    if not any(row.heard < asked[row.id] and (row.silence or 0.0) < SILENT_SECONDS for row in rows):
                        break
                    await within(LOOK_SECONDS, word.wait())
        return tuple(_outcome(row, asked[row.id]) for row in rows if row.silence is not None)


def _outcome(row: WorkerRow, asked: int) -> WorkerOutcome:
    if row.heard < asked:
        return WorkerOutcome(row.name, "no answer", complete=False)
    return WorkerOutcome(row.name, **json.loads(row.answer))


def _seen(row: WorkerRow, silence: float) -> WorkerSeen:
    try:
        facts = FACTS.validate_json(row.facts)
    except ValidationError:  # of another version
        facts = Facts()
    return WorkerSeen(name=row.name, process=row.process, version=row.version, silence=silence, facts=facts)


def _together(found: list[tuple[str, ServerFacts]]) -> ServerFacts:
    name, worst = min(found, key=lambda each: WORST.index(each[1].state))
    tools = max(facts.tools for _, facts in found)
    return replace(worst, tools=tools, detail=f"{name}: {worst.detail}" if worst.detail else "")


# The worker's part.


class Presence:
    """A worker's reports, and its answers.

    facts: its current state. registration: its current id in procrastinate's tables.
    """

    def __init__(
        self,
        name: str,
        facts: Callable[[], Facts],
        reloader: Reloader,
        store: RetryingStore,
        tasks: Tasks,
        registration: Callable[[], int | None],
    ) -> None:
        self._who = {"name": name, "process": f"{socket.gethostname()}:{os.getpid()}", "version": version("antler")}
        self._facts = facts
        self._reloader = reloader
        self._store = store
        self._tasks = tasks
        self._registration = registration
        self._answering = 0
        self._revision = STEPS.revisions[-1]

    def sign(self) -> dict[str, str]:
        """The values to write with the next sign of life."""
        return self._who | {"facts": to_json(FACTS, self._facts())}

    def heard(self, asked: int, revision: str) -> None:
        """See bot.workers.queue.Life."""
        if revision not in (self._revision, STEPS.revisions[-1]):
            log.warning(
                "a newer version upgraded the database (revision %s); this version continues to use it",
                revision,
            )
        self._revision = revision
        if asked > self._answering:
            self._answering = asked
            self._tasks.spawn("reload", self._reload(asked))

    async def _reload(self, asked: int) -> None:
        outcome = await self._reloader.reload(BY)
        text = "already in force" if outcome.state == "unchanged" else str(outcome)
        said = json.dumps({"text": text, "complete": outcome.complete})
        worker = self._registration()
        if worker is not None:
            await self._store.write(partial(workers.answer, worker=worker, asked=asked, said=said))


def ages(states: tuple[ModelState, ...], clock: Clock) -> tuple[ModelState, ...]:
    """The same states with ages instead of times."""
    now = clock.monotonic()
    return tuple(replace(each, asked=round(now - each.asked, 1), since=round(now - each.since, 1)) for each in states)


def troubles(health: HealthService) -> tuple[str, ...]:
    """What does not work in this process, without its models, which are reported separately."""
    ill = [each for each in health.conditions() if each.problem is not None and each.part is not Part.MODEL]
    return tuple(
        f"{each.part}: {str(each.problem).replace('_', ' ')}{f' ({each.detail})' if each.detail else ''}"
        for each in ill
    )
