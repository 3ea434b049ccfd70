"""MemoryService: lets the agent's model learn from the queued turns in the background, without delaying conversations.

One task finds due turns and starts updates, the owner not served for the longest time first. Nothing is drained at a
stop, since the queue is persistent.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from pydantic import ValidationError

from bot.clock import Alarm
from bot.memory.feeding import Feeding
from bot.memory.keeper import MemoryKeeper, hashed
from bot.memory.tool import MemoryTool
from bot.runs.endings import NO_AFTERMATH
from bot.store import memories
from bot.store.errors import StoreError
from bot.store.identity import folder_name
from bot.store.retrying import every
from bot.texts import DEFAULT, texts_for
from bot.usage.budgets import Payer
from harness.events import Usage
from harness.memory.model import EXCHANGE
from harness.memory.store import MemoryUnavailable, Remembering

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime

    from bot.agents.profiles import AgentChoices
    from bot.runs.endings import Aftermath, Ending
    from bot.settings import Settings
    from bot.store.memories import QueuedTurn
    from bot.store.retrying import RetryingStore
    from bot.store.rows import RunRow
    from bot.tasks import Tasks
    from bot.usage.budgets import Budgets
    from bot.usage.meter import Meter
    from bot.usage.report import Spending
    from channels.base import Clock
    from harness.memory.config import MemorySettings
    from harness.memory.model import Exchange, Updated
    from harness.memory.store import MemoryStore
    from harness.ports import Harness


log = logging.getLogger(__name__)
AT_ONCE = 4
"""Maximum number of concurrent updates."""
LOOKED_AT = 100
"""Number of waiting owners from whom the next one is chosen."""
REMEMBERED = 1000
"""Number of owners whose last update is remembered."""
TRIES = 12
"""Attempts after which turns are dropped; with the delays, some six hours."""
TRIES_OF_UNREADABLE = 3
"""Attempts if the model answers, at a cost, but its answer is unusable."""
FIRST_DELAY, LONGEST_DELAY = timedelta(minutes=1), timedelta(hours=1)
WITHOUT_BUDGET = timedelta(hours=1)
AGAIN_SECONDS = 10.0
"""Delay after an unexpected error."""

TIDY_SECONDS = 3600.0
KEPT = timedelta(days=7)
"""How long waiting turns, and the numbers of lists, are kept."""


class MemoryParts:
    """The parts of the memory, assembled. kept: stores memories. harness: learns; available once it is built."""

    def __init__(
        self,
        settings: Settings,
        kept: MemoryStore,
        store: RetryingStore,
        spending: Spending,
        tasks: Tasks,
        harness: Callable[[], Awaitable[Harness]],
        agents: AgentChoices,
    ) -> None:
        clock = store.clock
        self._settings = settings.memory
        self._store = store
        self._clock = clock
        alone = not settings.workers.enabled
        self.book = MemoryKeeper(kept, store, settings.memory, agents.memory_of, alone=alone)
        self.tool = MemoryTool(self.book)
        self.service = MemoryService(
            self.book,
            store=store,
            harness=harness,
            budgets=spending.budgets,
            meter=spending.meter,
            clock=clock,
            tasks=tasks,
            quiet=settings.memory.debounce_seconds,
        )
        self._feeding = Feeding(settings.memory, clock, self.service.queued, agents.memory_of)

    def adopt(self, settings: MemorySettings) -> None:
        """Apply new settings from now on, except for the storage of memories."""
        self._settings = self.book.settings = self._feeding.settings = settings
        self.service.quiet = settings.debounce_seconds

    def remembering(self, settings: MemorySettings) -> Remembering | None:
        """What an agent with these settings needs; None if nothing is remembered."""
        return Remembering(memories=self.book, settings=settings) if settings.enabled else None

    def after(self, row: RunRow, ending: Ending, text: str) -> Aftermath:
        return self._feeding.after(row, ending, text) if self._settings.enabled else NO_AFTERMATH

    async def tidy(self) -> None:
        """Remove what is no longer needed, once an hour until cancelled."""
        await every(TIDY_SECONDS, self._clock, "removing old memories", self._prune)

    async def _prune(self) -> None:
        before = self._clock.now() - KEPT
        await self._store.write(lambda tx: memories.prune_turns(tx, before))
        await self._store.write(lambda tx: memories.prune_lists(tx, before))
        if gone := await self.book.prune():
            log.info("forgot %d memories that had not been used for long", gone)


class MemoryService:
    """Updates memories. harness: available once it is built. quiet: seconds until a new turn is due."""

    def __init__(
        self,
        book: MemoryKeeper,
        *,
        store: RetryingStore,
        harness: Callable[[], Awaitable[Harness]],
        budgets: Budgets,
        meter: Meter,
        clock: Clock,
        tasks: Tasks,
        quiet: float,
    ) -> None:
        self._book = book
        self._store = store
        self._harness = harness
        self._budgets = budgets
        self._meter = meter
        self._clock = clock
        self._tasks = tasks
        self.quiet = quiet
        self._alarm = Alarm(clock)
        self._asleep_until: datetime | None = None
        self._working: set[str] = set()
        self._served: OrderedDict[str, None] = OrderedDict()

    def queued(self) -> None:
        """Note that a turn was queued. Returns at once; wakes the service unless it wakes before the turn is due."""
        until = self._asleep_until
        if until is None or until > self._clock.now() + timedelta(seconds=self.quiet):
            self._alarm.ring()

    async def serve(self) -> None:
        """Run until cancelled."""
        await every(AGAIN_SECONDS, self._clock, "beginning updates of memories", self._serve)

    async def _serve(self) -> None:
        while True:
            self._alarm.set()
            await self._sleep_until(await self._begin_due())

    async def _begin_due(self) -> datetime | None:
        """Start updates up to the limit; returns when the next one is due, None: wait to be woken."""
        while len(self._working) < AT_ONCE:
            waiting = await self._store.read(lambda tx: memories.waiting_owners(tx, LOOKED_AT))
            now = self._clock.now()
            free = {owner: at for owner, at in waiting if owner not in self._working}
            due = [owner for owner, at in free.items() if at <= now]
            if not due:
                return min(free.values(), default=None)
            owner = self._next_of(due)
            self._working.add(owner)
            self._tasks.spawn(f"memory {folder_name(owner)}", self._update(owner))
        return None

    def _next_of(self, due: Sequence[str]) -> str:
        """The owner never served, else the one whose last update is the oldest."""
        fresh = next((owner for owner in due if owner not in self._served), None)
        owner = fresh or next(owner for owner in self._served if owner in due)
        self._served[owner] = None
        self._served.move_to_end(owner)
        if len(self._served) > REMEMBERED:
            self._served.popitem(last=False)
        return owner

    async def _sleep_until(self, at: datetime | None) -> None:
        self._asleep_until = at
        await self._alarm.sleep_until(at)
        self._asleep_until = None

    # One update.

    async def _update(self, owner: str) -> None:
        turns = _learnt_together(await self._store.read(lambda tx: memories.first_turns(tx, owner)))
        try:
            if turns:
                await self._learn(owner, turns)
        except StoreError:
            raise  # another process has the database, or it is closed
        except MemoryUnavailable as error:
            await self._failed(turns, str(error))
        except Exception as error:
            # Any error: one owner's turns must neither stop the others' updates nor be retried without a pause.
            log.exception("the memory %s could not be updated", folder_name(owner))
            await self._failed(turns, type(error).__name__)
        self._working.discard(owner)
        self._alarm.ring()

    async def _learn(self, owner: str, turns: Sequence[QueuedTurn]) -> None:
        last, now = turns[-1], self._clock.now()
        agent = last.agent or ""
        payer = Payer(last.conversation, last.speaker, thread_id=last.thread_id)
        if await self._budgets.refusal(payer, texts_for(DEFAULT)) is not None:
            return await self._postpone(turns, now + WITHOUT_BUDGET, last.tries)
        base, exchanges = await self._book.show(owner, agent), _exchanges(turns)
        if exchanges:
            updated = await (await self._harness()).remember(base, exchanges)
            if updated is None:
                return await self._failed(turns, "the model returned nothing usable")
            await self._charge(updated, payer)
            if updated.trouble:
                return await self._failed(turns, updated.trouble, TRIES_OF_UNREADABLE)
            kept = await self._book.learn(owner, [turn.id for turn in turns], base, updated.changes, agent)
            name, runs = hashed(owner, agent), ", ".join(turn.run_id for turn in turns)
            if kept:
                log.info("the memory %s was updated after run(s) %s", name, runs)
            else:
                log.info("the memory %s was not updated after run(s) %s: it changed during the update", name, runs)
        else:
            await self._done(turns)

    async def _charge(self, updated: Updated, payer: Payer) -> None:
        if updated.input_tokens or updated.output_tokens:
            read, written = updated.input_tokens, updated.output_tokens
            call = Usage(run_id="", seq=0, model=updated.model, input_tokens=read, output_tokens=written)
            await self._meter.charge(call, payer)

    async def _failed(self, turns: Sequence[QueuedTurn], why: str, most: int = TRIES) -> None:
        """Try again later, with doubled delays; drop the turns after `most` attempts."""
        tries = max(turn.tries for turn in turns) + 1
        name = hashed(turns[0].owner, turns[0].agent or "")
        if tries >= most:
            log.warning("%d turn(s) not learned for the memory %s after %d attempts: %s", len(turns), name, tries, why)
            return await self._done(turns)
        delay = min(FIRST_DELAY * 2 ** (tries - 1), LONGEST_DELAY)
        log.info("the memory %s will be updated later (attempt %d of %d): %s", name, tries, most, why)
        await self._postpone(turns, self._clock.now() + delay, tries)

    async def _postpone(self, turns: Sequence[QueuedTurn], until: datetime, tries: int) -> None:
        ids = [turn.id for turn in turns]
        await self._store.write(lambda tx: memories.postpone_turns(tx, ids, until, tries))

    async def _done(self, turns: Sequence[QueuedTurn]) -> None:
        ids = [turn.id for turn in turns]
        await self._store.write(lambda tx: memories.drop_turns(tx, ids))


def _learnt_together(turns: Sequence[QueuedTurn]) -> Sequence[QueuedTurn]:
    """The first turns that can share one call: turns of another model, or for another memory, wait for a separate
    one."""
    kinds = [(_model_of(turn), turn.agent) for turn in turns]
    return turns[: next((place for place, kind in enumerate(kinds) if kind != kinds[0]), len(turns))]


def _model_of(turn: QueuedTurn) -> str:
    try:
        return EXCHANGE.validate_json(turn.exchange).model
    except ValidationError:  # reported when the turn is processed
        return ""


def _exchanges(turns: Sequence[QueuedTurn]) -> list[Exchange]:
    """The turns for the harness; owner and speaker are the row's, which moves with its chat."""
    exchanges = []
    for turn in turns:
        try:
            exchange = EXCHANGE.validate_json(turn.exchange)
        except ValidationError:
            log.error("turn %s was queued by another version and cannot be read; it is dropped", turn.run_id)
            continue
        exchanges.append(replace(exchange, owner=turn.owner, speaker=turn.speaker))
    return exchanges
