"""What is wrong with `budgets:` beyond its schema: money needs prices, in one currency; for checks.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bot.settings.problems import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def check_budgets(values: Mapping[str, Any]) -> Iterator[Finding]:
    budgets = values.get("budgets")
    limits = budgets.items() if isinstance(budgets, dict) else ()
    money = [scope for scope, limit in limits if isinstance(limit, dict) and limit.get("money") is not None]
    if not money:
        return
    priced = list(_prices(values))
    if not priced:
        for scope in money:
            yield Finding(("budgets", scope, "money"), "counts nothing: no model has a price", "see models[].price")
    for index, price in priced[1:]:
        first, other = (each.get("currency", "USD") for each in (priced[0][1], price))
        if first != other:
            path = ("models", index, "price", "currency")
            yield Finding(path, f"should be {first} as that of models[{priced[0][0]}]: budgets count one currency")


def _prices(values: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    models = values.get("models")
    for index, model in enumerate(models if isinstance(models, list) else ()):
        if isinstance(model, dict) and isinstance(model.get("price"), dict):
            yield index, model["price"]
