"""Budgets: limits on the spending of one answer and, per day, of a conversation, a person, and all together.

They are checked before a run starts, before each of its model calls (harness.ports.Budget), and at its end, for the
warning under its answer. Spending is determined from the store's usage, so that a restart changes nothing.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Literal

from bot.store import accounts, runs, usage
from bot.store.usage import NANO, Spent
from harness.events import Failed, FailureKind, Finished
from harness.ports import Overdraft

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date, datetime

    from sqlalchemy import Connection

    from bot.settings.sections import BudgetSettings, BudgetsSettings
    from bot.store.retrying import RetryingStore
    from bot.store.rows import RunRow
    from bot.texts.catalogue import Texts
    from bot.usage.days import Days
    from bot.usage.meter import Meter
    from harness.context import RunContext
    from harness.events import AnyRunEvent
    from harness.knowledge.port import Asker

WARN_SHARE = 0.8
"""Share of a budget from which on people are warned."""
SMALL_SHARE = 1.2
"""Share of a budget up to which a last call may sum up; it costs about as much as the previous call."""
NOTHING_SPENT = Spent()
UNDER_WAY_SECONDS = 60.0
"""Seconds longer than any transaction that records calls may take."""
REMEMBERED = 10_000
"""Maximum number of a day's warnings that are remembered."""


class Scope(StrEnum):
    """The keys of `budgets` in the config."""

    RUN = "run"
    CONVERSATION = "conversation_day"
    SPEAKER = "speaker_day"
    GATEWAY = "gateway_day"


@dataclass(frozen=True, slots=True)
class Payer:
    """The payer of a model call. run_id: empty outside of runs."""

    conversation: str
    speaker: str
    run_id: str = ""
    thread_id: str = ""

    def subject(self, scope: Scope) -> str:
        """The subject whose budget of that scope applies."""
        subjects = {Scope.RUN: self.run_id, Scope.CONVERSATION: self.conversation, Scope.SPEAKER: self.speaker}
        return subjects.get(scope, "")


@dataclass(frozen=True, slots=True)
class BudgetAccount:
    """One limit and its spent amount: tokens, or billionths of the currency."""

    scope: Scope
    unit: Literal["tokens", "money"]
    limit: int
    spent: int

    @property
    def key(self) -> str:
        """The budget's key below `budgets` in the config."""
        return f"{self.scope}.{self.unit}"

    @property
    def share(self) -> float:
        return self.spent / self.limit


NOBODY = Payer("", "")
"""The payer of nothing: to query the budget of all together."""


class Today:
    """Today's spending by person and conversation: running totals, so that each stored call is read once.

    Several workers write calls concurrently, and one with a smaller id may be committed after one with a larger id:
    missing ids are queried again, until no transaction can still have them.
    """

    def __init__(self, store: RetryingStore, days: Days) -> None:
        self._store = store
        self._days = days
        self._one = asyncio.Lock()
        self._spent: defaultdict[tuple[Scope, str], Spent] = defaultdict(Spent)
        self._known: tuple[datetime, int] | None = None
        self._last = 0
        self._missing: dict[int, float] = {}

    async def catch_up(self) -> None:
        """Catch up with the store. The whole day is summed up only at its beginning, and after a chat has moved, which
        assigns its calls to another conversation."""
        async with self._one:
            since = self._days.starts(self._days.today)

            def query(tx: Connection) -> tuple[int, bool, usage.Read]:
                moves = accounts.moves(tx)
                if self._known != (since, moves):
                    return moves, False, usage.of_day(tx, since)
                return moves, True, usage.since_then(tx, since, self._last, tuple(self._missing))

            moves, known, read = await self._store.read(query)
            last = self._last
            if not known:
                self._spent.clear()
                self._missing.clear()
                last = max(0, read.newest - usage.NEAR)
            self._known, self._last = (since, moves), read.newest
            self._note_missing(last, read)
            for call in read.calls:
                self._spent[Scope.GATEWAY, ""] += call.spent
                self._spent[Scope.CONVERSATION, call.conversation] += call.spent
                self._spent[Scope.SPEAKER, call.speaker] += call.spent

    def _note_missing(self, last: int, read: usage.Read) -> None:
        now = self._store.clock.monotonic()
        late = {number: at for number, at in self._missing.items() if now - at < UNDER_WAY_SECONDS}
        new = {number: now for number in range(last + 1, read.newest)}
        self._missing = {number: at for number, at in (new | late).items() if number not in read.ids}

    def spent(self, scope: Scope, payer: Payer) -> Spent:
        """The spending as of the last catch_up."""
        return self._spent.get((scope, payer.subject(scope)), NOTHING_SPENT)


class Budgets:
    """harness.ports.Budget for all runs. currency: of the money; None if no model has a price."""

    def __init__(
        self, limits: BudgetsSettings, store: RetryingStore, meter: Meter, days: Days, currency: str | None
    ) -> None:
        self._store = store
        self._meter = meter
        self._days = days
        self._today = Today(store, days)
        self.adopt(limits, currency)
        self._warned: set[tuple[str, str, date]] = set()

    def adopt(self, limits: BudgetsSettings, currency: str | None) -> None:
        """Replace the limits; earlier spending counts."""
        self._limits: Mapping[Scope, BudgetSettings] = {scope: getattr(limits, scope) for scope in Scope}
        self.currency = currency

    @property
    def none(self) -> bool:
        """Whether nothing is limited."""
        return not any(map(self._limited, Scope))

    async def overdraft(self, ctx: RunContext) -> Overdraft | None:
        """See harness.ports.Budget."""
        payer = Payer(ctx.conversation, ctx.speaker.id, ctx.run_id, ctx.thread_id)
        worst = max(await self.purses(payer), key=lambda purse: purse.share, default=None)
        if worst is None or worst.share < 1:
            return None
        return Overdraft(worst.key, small=worst.share <= SMALL_SHARE)

    async def refusal(self, payer: Payer, texts: Texts) -> tuple[str, str] | None:
        """Why a run, or a call outside of runs, must not start: the budget's key, and the text. None: it may."""
        for purse in await self.purses(payer):
            if purse.share >= 1:
                return purse.key, self._sentence("refused", purse.key, texts)
        return None

    async def notices(self, run: RunRow, last: AnyRunEvent | None, texts: Texts) -> list[str]:
        """The notices below the answer of a run that has ended: the budget that stopped it, and, once a day, budgets
        that are mostly spent now."""
        stopped_by = _stopped_by(last)
        notices = [] if stopped_by is None else [self._sentence("stopped", stopped_by, texts)]
        payer = payer_of(run)
        purses = [purse for purse in await self.purses(payer) if purse.share >= WARN_SHARE and purse.key != stopped_by]
        for purse in purses:
            before = purse.spent - await self._own(payer, purse)
            if before < WARN_SHARE * purse.limit and self._first_time(purse, payer):
                notices.append(self._sentence("warning", purse.key, texts, percent=int(purse.share * 100)))
        return notices

    async def purses(self, payer: Payer, scopes: Sequence[Scope] = tuple(Scope)) -> list[BudgetAccount]:
        """All limits that apply to a payer, with their spending. Without run, chat or person, only the budget of all
        together applies."""
        named = [scope for scope in scopes if scope is Scope.GATEWAY or payer.subject(scope)]
        limited = [scope for scope in named if self._limited(scope)]
        if not limited:
            return []
        await self._meter.write(payer.run_id)
        if Scope.CONVERSATION in limited and payer.run_id:  # its chat may have moved since it began
            where = await self._store.read(partial(runs.conversation_of, run_id=payer.run_id))
            payer = replace(payer, conversation=where or payer.conversation)
        if set(limited) - {Scope.RUN}:
            await self._today.catch_up()
        return [purse for scope in limited for purse in self._purses(scope, await self._spent(scope, payer))]

    def _limited(self, scope: Scope) -> bool:
        return self._limits[scope].tokens is not None or self._limits[scope].money is not None

    async def _spent(self, scope: Scope, payer: Payer) -> Spent:
        if scope is not Scope.RUN:
            return self._today.spent(scope, payer)
        return await self._store.read(lambda tx: usage.spent(tx, run_id=payer.run_id, thread_id=payer.thread_id))

    def _purses(self, scope: Scope, spent: Spent) -> list[BudgetAccount]:
        limit, purses = self._limits[scope], []
        if limit.tokens is not None:
            purses.append(BudgetAccount(scope, "tokens", limit.tokens, spent.tokens))
        if limit.money is not None:
            purses.append(
                BudgetAccount(scope, "money", round(limit.money * NANO), spent.costs.get(self.currency or "", 0))
            )
        return purses

    async def _own(self, payer: Payer, purse: BudgetAccount) -> int:
        """The part of the spending that is this run's."""
        since = None if purse.scope is Scope.RUN else self._days.starts(self._days.today)
        own = await self._store.read(
            lambda tx: usage.spent(tx, run_id=payer.run_id, thread_id=payer.thread_id, since=since)
        )
        return own.tokens if purse.unit == "tokens" else own.costs.get(self.currency or "", 0)

    def _first_time(self, purse: BudgetAccount, payer: Payer) -> bool:
        """Whether the warning is new today: otherwise runs that end together would repeat it."""
        today = self._days.today
        warning = (purse.key, payer.subject(purse.scope), today)
        if warning in self._warned:
            return False
        if len(self._warned) >= REMEMBERED:
            self._warned.clear()
        self._warned = {known for known in self._warned if known[2] == today} | {warning}
        return True

    def _sentence(self, kind: str, key: str, texts: Texts, percent: int = 100) -> str:
        scope = key.partition(".")[0]
        sentence = texts.budgets[kind].format(budget=texts.budget_of[scope], percent=percent)
        if scope == Scope.RUN:
            return sentence
        left = texts.duration(self._days.left)
        return sentence + texts.budgets["resets"].format(duration=left, zone=self._days.zone)


def payer_of(who: RunRow | Asker) -> Payer:
    return Payer(who.conversation, who.speaker, who.run_id, who.thread_id)


def _stopped_by(last: AnyRunEvent | None) -> str | None:
    """The key of the budget that stopped a run; other text is never shown."""
    key = last.budget if isinstance(last, Finished) else None
    if isinstance(last, Failed) and last.kind is FailureKind.BUDGET:
        key = last.detail_for_log
    return key if key is not None and key.partition(".")[0] in set(Scope) else None
