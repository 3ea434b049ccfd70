"""Tokens and money over time, by model, chat or person: of everyone for operators, else the caller's own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING

from bot.http.resources.transcripts import Cost, cost_of
from bot.store import overview
from bot.store.overview import By
from bot.store.usage import NANO, Spent
from bot.usage.budgets import NOBODY, Payer, Scope

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from bot.http.auth import Caller
    from bot.http.parts import HttpParts
    from bot.usage.budgets import BudgetAccount

MOST_DAYS = 90
MOST_SERIES = 8
"""Names that are listed separately; the others are summed up."""
OTHERS = ""
"""The name of that sum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One model, chat or person. name: its id, "" for all the others together. label: its displayed name. days: tokens
    of each day, oldest first."""

    name: str
    label: str
    cost: Cost
    days: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The use of a budget today. unit: tokens, or a currency; key: of the config."""

    key: str
    share: float
    spent: float
    limit: float
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Usage over some days. everybody: not the caller's own alone. days: those shown, today last. today: its cost."""

    by: By
    everybody: bool
    days: tuple[date, ...]
    series: tuple[Series, ...]
    total: Cost
    today: Cost
    budgets: tuple[Budget, ...]


class Accounting:
    """Reads recorded usage; what a running answer has used since its last write appears with the next one."""

    def __init__(self, parts: HttpParts) -> None:
        self._parts = parts

    async def usage(self, caller: Caller, by: By, days: int, *, everybody: bool) -> Usage:
        """The usage of some days. days: 1 to MOST_DAYS, in the gateway's time zone."""
        everybody = everybody and caller.may("operate")
        speaker = None if everybody else caller.person
        counted = self._parts.spending.days
        dates = [counted.today - timedelta(days=back) for back in reversed(range(max(1, min(days, MOST_DAYS))))]

        def read(tx: Connection) -> list[dict[str, Spent]]:
            return [
                overview.spent_by(tx, by, counted.starts(day), counted.starts(day + timedelta(days=1)), speaker=speaker)
                for day in dates
            ]

        each_day = await self._parts.store.read(read)
        return Usage(
            by=by,
            everybody=everybody,
            days=tuple(dates),
            series=tuple(self._series(each_day, by)),
            total=cost_of(spent for day in each_day for spent in day.values()),
            today=cost_of(each_day[-1].values()),
            budgets=tuple(await self._budgets(caller, everybody=everybody)),
        )

    def _series(self, each_day: list[dict[str, Spent]], by: By) -> list[Series]:
        sums: dict[str, Spent] = {}
        for day in each_day:
            for name, spent in day.items():
                sums[name] = sums.get(name, Spent()) + spent
        names = sorted(sums, key=lambda name: (-sums[name].tokens, name))
        shown = names if len(names) <= MOST_SERIES else names[: MOST_SERIES - 1]
        rest = names[len(shown) :]
        found = [
            Series(
                name=name,
                label=self._label(name, by),
                cost=cost_of([sums[name]]),
                days=tuple(day[name].tokens if name in day else 0 for day in each_day),
            )
            for name in shown
        ]
        if rest:
            counts = tuple(sum(day[name].tokens for name in rest if name in day) for day in each_day)
            found.append(Series(name=OTHERS, label="", cost=cost_of(sums[name] for name in rest), days=counts))
        return found

    def _label(self, name: str, by: By) -> str:
        """The name of a person or a group in the access list, else its id."""
        if by == "model":
            return name
        book = self._parts.editor.book
        row = book.row("person", name) or book.row("group", name)
        return row.name if row is not None and row.name else name

    async def _budgets(self, caller: Caller, *, everybody: bool) -> list[Budget]:
        budgets = self._parts.spending.budgets
        payer = NOBODY if everybody else Payer("", caller.person)
        purses = await budgets.purses(payer, (Scope.GATEWAY,) if everybody else (Scope.SPEAKER,))
        return [_budget(purse, budgets.currency or "") for purse in purses]


def _budget(purse: BudgetAccount, currency: str) -> Budget:
    tokens = purse.unit == "tokens"
    per = 1 if tokens else NANO
    return Budget(
        key=f"budgets.{purse.key}",
        share=round(purse.share, 4),
        spent=purse.spent / per,
        limit=purse.limit / per,
        unit="tokens" if tokens else currency,
    )
