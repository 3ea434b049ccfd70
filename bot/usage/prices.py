"""What model calls cost in money: the models' prices, as the config has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.config import PriceSettings
    from harness.events import Usage

NANO_PER_TOKEN = 1000
"""A price of 1 for a million tokens is a thousand billionths for one."""


def cost(usage: Usage, price: PriceSettings) -> int:
    """What one call cost, in billionths of the price's currency."""
    cached = min(usage.cached_tokens, usage.input_tokens)
    cached_price = price.input if price.cached is None else price.cached
    read = (usage.input_tokens - cached) * price.input + cached * cached_price
    return round((read + usage.output_tokens * price.output) * NANO_PER_TOKEN)
