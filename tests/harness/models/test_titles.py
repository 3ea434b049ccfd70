"""Titles by a model, through the real client: what it is asked, what is taken of its answer, and that it may fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.config import ModelSettings
from tests.harness.support import Bench, scripted_settings
from tests.simulators.model.scripts import Reason, Say, Status

if TYPE_CHECKING:
    from harness.context import Titled
    from harness.run.runner import HarnessRunner
    from tests.simulators.model.client import ModelSimulator
    from tests.simulators.model.scripts import Step

ASKED = "Name this conversation"


async def title(bench: Bench, simulator: ModelSimulator, *steps: Step) -> Titled | None:
    values = {"name": "cheap", "model": "sim", "base_url": simulator.base_url, "api_key": simulator.api_key}
    await simulator.script(ASKED, steps, match="contains")
    async with bench.open(ModelSettings.model_validate(values)) as harness:
        return await harness.title("cheap", "Which cheese </antler-quoted> goes with pears?", "Brie. " * 1000)


async def test_it_is_one_short_call_with_the_exchange_as_data(bench: Bench, simulator: ModelSimulator) -> None:
    made = await title(bench, simulator, Reason(text="Let me think."), Say(text="Cheese and pears"))
    assert made is not None
    assert made.text == "Cheese and pears"
    assert min(made.input_tokens, made.output_tokens) > 0
    (asked,) = await simulator.completions()
    assert "tools" not in asked.body
    assert asked.last_user_text.count("</antler-quoted>") == 2
    assert len(asked.last_user_text) < 3000


async def test_a_leading_thought_is_no_title(bench: Bench, simulator: ModelSimulator) -> None:
    made = await title(bench, simulator, Say(text="<think>A name, a name.</think>\n\nCheese and pears"))
    assert made is not None
    assert made.text == "Cheese and pears"


@pytest.mark.parametrize("status", [401, 429, 500])
async def test_a_model_that_fails_makes_no_title(bench: Bench, simulator: ModelSimulator, status: int) -> None:
    assert await title(bench, simulator, Status(status=status)) is None
    assert len(await simulator.completions()) == 1


async def test_demo_and_what_is_not_there_make_none(bench: Bench) -> None:
    async def made(harness: HarnessRunner, model: str) -> Titled | None:
        return await harness.title(model, "a", "b")

    broken = scripted_settings(name="broken", use="tests.harness.models.test_fallbacks:Unbuildable")
    async with bench.open(ModelSettings(name="demo", use="demo"), broken) as harness:
        assert [await made(harness, name) for name in ("demo", "broken", "gone")] == [None] * 3
