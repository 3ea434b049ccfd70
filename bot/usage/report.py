"""The contents of /usage: tokens and money of an answer, a thread, a chat and, for administrators, all; and by day.

Spending combines the parts that count, limit and report them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.store import usage
from bot.store.usage import NANO, Spent
from bot.usage.budgets import Budgets, Payer, Scope
from bot.usage.days import Days
from bot.usage.meter import Meter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date
    from zoneinfo import ZoneInfo

    from sqlalchemy import Connection

    from bot.settings.sections import BudgetsSettings
    from bot.store.retrying import RetryingStore
    from bot.store.rows import ConversationRow
    from bot.texts.catalogue import Texts
    from bot.usage.budgets import BudgetAccount
    from channels.base import Clock
    from harness.config import PriceSettings


DAYS = 7
"""Number of days in the chart; today is the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """A request for usage. run: the conversation's active run, else its last; None if there is none. everything: of all
    chats too, for an administrator in private."""

    row: ConversationRow
    speaker: str
    run: str | None
    running: bool
    private: bool
    everything: bool


@dataclass(frozen=True, slots=True)
class UsageFacts:
    """Usage figures. rows: by the key of their name in the texts. days: oldest first; of all chats if requested."""

    rows: tuple[tuple[str, Spent], ...]
    days: tuple[tuple[date, Spent], ...]
    purses: tuple[BudgetAccount, ...]


class UsagePage:
    def __init__(self, store: RetryingStore, meter: Meter, budgets: Budgets, days: Days) -> None:
        self._store = store
        self._meter = meter
        self._budgets = budgets
        self._days = days

    async def facts(self, asking: Asking) -> UsageFacts:
        run_id, thread_id = asking.run or "", asking.row.thread_id
        await self._meter.write(run_id)
        rows = await self._store.read(lambda tx: self._rows(tx, asking))
        days = await self._store.read(lambda tx: self._by_day(tx, asking))
        scopes = [Scope.RUN, Scope.CONVERSATION]
        scopes += [Scope.SPEAKER] if asking.private else []  # a person's use elsewhere is not shown in a group
        scopes += [Scope.GATEWAY] if asking.everything else []
        payer = Payer(asking.row.key, asking.speaker, run_id if asking.running else "", thread_id)
        return UsageFacts(tuple(rows), tuple(days), tuple(await self._budgets.purses(payer, scopes)))

    def _rows(self, tx: Connection, asking: Asking) -> list[tuple[str, Spent]]:
        days = self._days.of(asking.row)
        key, thread_id, today = asking.row.key, asking.row.thread_id, days.starts(days.today)
        rows = []
        if asking.run is not None:
            name = "running" if asking.running else "last"
            rows.append((name, usage.spent(tx, run_id=asking.run, thread_id=thread_id)))
        rows.append(("thread", usage.spent(tx, thread_id=thread_id)))
        rows.append(("today", usage.spent(tx, conversation=key, since=today)))
        rows.append(("chat", usage.spent(tx, conversation=key)))
        if asking.everything:
            rows.append(("all_today", usage.spent(tx, since=today)))
            rows.append(("all", usage.spent(tx)))
        return rows

    def _by_day(self, tx: Connection, asking: Asking) -> list[tuple[date, Spent]]:
        days = self._days.of(asking.row)
        conversation, today = None if asking.everything else asking.row.key, days.today
        found = []
        for back in reversed(range(DAYS)):
            day = today - timedelta(days=back)
            since, until = days.starts(day), days.starts(day + timedelta(days=1))
            found.append((day, usage.spent(tx, conversation=conversation, since=since, until=until)))
        return found

    # As Markdown.

    def text(self, facts: UsageFacts, texts: Texts) -> str:
        """The table, and the budgets that apply."""
        named = [(texts.usage[name], spent) for name, spent in facts.rows]
        parts = [texts.usage["title"], _table("", named, texts)]
        if facts.purses:
            parts.append("\n".join(self._purse(purse, texts) for purse in facts.purses))
        return "\n\n".join(parts)

    def _purse(self, purse: BudgetAccount, texts: Texts) -> str:
        amounts = [
            short(amount) if purse.unit == "tokens" else money(amount, self._budgets.currency or "")
            for amount in (purse.spent, purse.limit)
        ]
        return "- " + texts.usage["budget"].format(
            percent=int(purse.share * 100),
            budget=texts.budget_of[purse.scope],
            spent=amounts[0],
            limit=amounts[1],
            key=f"budgets.{purse.key}",
        )

    def days_text(self, facts: UsageFacts, texts: Texts) -> str:
        """The days as a table, if a picture cannot be shown."""
        return _table(texts.usage["day"], [(label_of(day), spent) for day, spent in facts.days], texts)


def label_of(day: date) -> str:
    """A day in digits, the same in every language: 11-21."""
    return day.strftime("%m-%d")


def short(number: int) -> str:
    """A number in short form: 950, 12.3k, 4.56M."""
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1000, "k")):
        if number >= size * 0.9995:
            scaled = number / size
            digits = 0 if scaled >= 99.95 else 1 if scaled >= 9.995 else 2
            return f"{scaled:.{digits}f}{unit}"
    return str(number)


def money(nano: int, currency: str) -> str:
    """A readable amount: 12.30 USD; small ones with more digits."""
    return f"{_amount(nano)} {currency}".strip()


def _amount(nano: int) -> str:
    return f"{nano / NANO:.{2 if nano >= NANO or nano == 0 else 4}f}"


def _table(of: str, lines: Sequence[tuple[str, Spent]], texts: Texts) -> str:
    """A table narrow enough for a phone. It has a column of costs if anything had a price."""
    say, currencies = texts.usage, sorted({currency for _, spent in lines for currency in spent.costs})
    head = [of, say["tokens"], say["cached"]]
    if currencies:
        head.append(f"{say['cost']} {currencies[0]}" if len(currencies) == 1 else say["cost"])
    rows = [[name, *_cells(spent, currencies)] for name, spent in lines]
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *rows))


def _cells(spent: Spent, currencies: Sequence[str]) -> list[str]:
    totals = spent.totals
    cells = [short(spent.tokens), f"{round(100 * totals.cached / totals.input)}%" if totals.input else "–"]
    if len(currencies) == 1:
        cells.append(_amount(spent.costs[currencies[0]]) if spent.costs else "–")
    elif currencies:
        cells.append(" + ".join(money(nano, currency) for currency, nano in sorted(spent.costs.items())) or "–")
    return cells


@dataclass(frozen=True, slots=True)
class Spending:
    """The parts of spending. days: in the gateway's time zone. meter: records usage. budgets: limit it. page: /usage.
    prices: the current ones, of models with a price, by name."""

    days: Days
    meter: Meter
    budgets: Budgets
    page: UsagePage
    prices: dict[str, PriceSettings]

    def adopt(self, limits: BudgetsSettings, prices: Mapping[str, PriceSettings], zone: ZoneInfo) -> None:
        """Replace limits, prices and the time zone of days; earlier spending keeps its price."""
        self.days.adopt(zone)
        self.prices.clear()
        self.prices.update(prices)
        self.budgets.adopt(limits, _currency(prices))


def make_spending(
    store: RetryingStore, clock: Clock, limits: BudgetsSettings, prices: Mapping[str, PriceSettings], zone: ZoneInfo
) -> Spending:
    """Assemble the parts. prices: of models with a price, by name; money budgets use the first one's currency."""
    days, current = Days(zone, clock), dict(prices)
    meter = Meter(store, clock, current)
    budgets = Budgets(limits, store, meter, days, _currency(prices))
    return Spending(days, meter, budgets, UsagePage(store, meter, budgets, days), current)


def _currency(prices: Mapping[str, PriceSettings]) -> str | None:
    return next((price.currency for price in prices.values()), None)
