"""Prices, budgets and the time zone in the config."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.bot.settings_files import CHANNELS, found, settings_of

if TYPE_CHECKING:
    from pathlib import Path

MODEL = "{{name: {}, model: gpt, price: {{input: 2, output: 8, currency: {}}}}}"


def models(*entries: str) -> str:
    return CHANNELS + "models:\n" + "".join(f"  - {entry}\n" for entry in entries)


def test_nothing_is_limited_and_days_are_utc_by_default(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, CHANNELS)
    assert (settings.budgets.run.tokens, settings.budgets.gateway_day.money) == (None, None)
    assert (settings.zone.key, settings.prices) == ("UTC", {})


def test_what_is_set_is_taken(tmp_path: Path) -> None:
    text = models(MODEL.format("main", "EUR"), "{name: free, use: demo}")
    text += "budgets: {speaker_day: {money: 2.5, tokens: 1000}}\ntimezone: Asia/Shanghai\n"
    settings = settings_of(tmp_path, text)
    assert (settings.budgets.speaker_day.money, settings.budgets.speaker_day.tokens) == (2.5, 1000)
    assert settings.zone.key == "Asia/Shanghai"
    assert {name: price.currency for name, price in settings.prices.items()} == {"main": "EUR"}


@pytest.mark.parametrize("zone", ["Mars/Olympus", "Europe", "/etc/passwd", "../UTC", '""', "Europe/Berlin\\0"])
def test_a_zone_that_does_not_exist(tmp_path: Path, zone: str) -> None:
    told = found(tmp_path, CHANNELS + f"timezone: {zone}\n")
    assert "is not a time zone; use a name such as" in told["timezone"]


@pytest.mark.parametrize("limit", ["{tokens: 0}", "{tokens: -5}", "{money: 0}", "{money: .inf}", "{money: .nan}"])
def test_a_budget_of_nothing_is_a_mistake(tmp_path: Path, limit: str) -> None:
    (key,) = found(tmp_path, models(MODEL.format("main", "USD")) + f"budgets: {{run: {limit}}}\n")
    assert key.startswith("budgets.run.")


def test_money_needs_prices(tmp_path: Path) -> None:
    told = found(tmp_path, CHANNELS + "budgets: {run: {money: 1}, gateway_day: {tokens: 5, money: 2}}\n")
    assert set(told) == {"budgets.run.money", "budgets.gateway_day.money"}
    assert "has no effect: no model has a price" in told["budgets.run.money"]


def test_money_needs_one_currency(tmp_path: Path) -> None:
    text = models(MODEL.format("main", "EUR"), "{name: free, use: demo}", MODEL.format("other", "USD"))
    assert settings_of(tmp_path, text + "budgets: {run: {tokens: 5}}\n").budgets.run.tokens == 5
    told = found(tmp_path, text + "budgets: {run: {money: 1}}\n")
    assert set(told) == {"models[2].price.currency"}
    assert "should be EUR like that of models[0]" in told["models[2].price.currency"]


def test_embeddings_have_prices_in_the_same_currency(tmp_path: Path) -> None:
    text = (
        "knowledge:\n  embeddings: {base_url: http://e/v1, model: m, price: {input: 0.02, currency: EUR}}\n"
        "  services:\n  - {name: w, use: qdrant, base_url: http://q, datasets: [d],\n"
        "     embeddings: {base_url: http://f/v1, model: n, price: {input: 1}}}\n"
    )
    budget = "budgets: {run: {money: 1}}\n"
    told = found(tmp_path, CHANNELS + text + budget)
    assert set(told) == {"knowledge.services[0].embeddings.price.currency"}
    settings = settings_of(tmp_path, CHANNELS + text.replace("input: 1}", "input: 1, currency: EUR}") + budget)
    assert {name: price.input for name, price in settings.prices.items()} == {"embeddings/m": 0.02, "embeddings/n": 1}
