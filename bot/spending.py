"""What belongs to tokens and money, put together for the composition root."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.budgets import Budgets
from bot.days import Days
from bot.meter import Meter
from bot.usage import UsagePage

if TYPE_CHECKING:
    from collections.abc import Mapping
    from zoneinfo import ZoneInfo

    from bot.patience import PatientStore
    from bot.settings.sections import BudgetsSettings
    from channels.base import Clock
    from harness.config import PriceSettings


@dataclass(frozen=True, slots=True)
class Spending:
    """days: as people there count them. meter: of what runs use. budgets: on that. page: what /usage tells."""

    days: Days
    meter: Meter
    budgets: Budgets
    page: UsagePage


def make_spending(
    store: PatientStore, clock: Clock, limits: BudgetsSettings, prices: Mapping[str, PriceSettings], zone: ZoneInfo
) -> Spending:
    """prices: of the models that have one, by name; budgets of money count the first one's currency."""
    currency = next((price.currency for price in prices.values()), None)
    days = Days(zone, clock)
    meter = Meter(store, clock, prices)
    budgets = Budgets(limits, store, meter, days, currency)
    return Spending(days, meter, budgets, UsagePage(store, meter, budgets, days, currency))
