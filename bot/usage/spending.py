"""What belongs to tokens and money, put together for the composition root."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.usage.budgets import Budgets
from bot.usage.days import Days
from bot.usage.meter import Meter
from bot.usage.report import UsagePage

if TYPE_CHECKING:
    from collections.abc import Mapping
    from zoneinfo import ZoneInfo

    from bot.settings.sections import BudgetsSettings
    from bot.store.retrying import PatientStore
    from channels.base import Clock
    from harness.config import PriceSettings


@dataclass(frozen=True, slots=True)
class Spending:
    """days: as people there count them. meter: of what runs use. budgets: on that. page: what /usage tells. prices: of
    the models that have one, by name, as they are now."""

    days: Days
    meter: Meter
    budgets: Budgets
    page: UsagePage
    prices: dict[str, PriceSettings]

    def adopt(self, limits: BudgetsSettings, prices: Mapping[str, PriceSettings]) -> None:
        """Replace limits and prices; what was spent keeps the price that it had."""
        self.prices.clear()
        self.prices.update(prices)
        self.budgets.adopt(limits, _currency(prices))


def make_spending(
    store: PatientStore, clock: Clock, limits: BudgetsSettings, prices: Mapping[str, PriceSettings], zone: ZoneInfo
) -> Spending:
    """prices: of the models that have one, by name; budgets of money count the first one's currency."""
    days, current = Days(zone, clock), dict(prices)
    meter = Meter(store, clock, current)
    budgets = Budgets(limits, store, meter, days, _currency(prices))
    return Spending(days, meter, budgets, UsagePage(store, meter, budgets, days), current)


def _currency(prices: Mapping[str, PriceSettings]) -> str | None:
    return next((price.currency for price in prices.values()), None)
