"""A harness that another one has replaced gives back its connections only when nothing uses them any more."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from harness.config import ModelSettings
from tests.harness.support import Bench, context, said
from tests.simulators.model.scripts import Pause, Say

if TYPE_CHECKING:
    from tests.simulators.model.client import ModelSimulator


async def test_titles_that_are_under_way_are_made_first(bench: Bench, simulator: ModelSimulator) -> None:
    values = {"name": "sim", "model": "sim", "base_url": simulator.base_url, "api_key": simulator.api_key}
    await simulator.script("Name this", (Pause(name="held"), Say(text="Cheese")), match="contains")
    async with bench.open(ModelSettings.model_validate(values)) as harness:
        title = asyncio.create_task(harness.title("sim", "Which cheese?", "Brie."))
        await simulator.wait_for_pause("held")
        retiring = asyncio.create_task(harness.retire())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not retiring.done()
        await simulator.release("held")
        made = await asyncio.wait_for(title, 20)
        await asyncio.wait_for(retiring, 20)
    assert made is not None
    assert made.text == "Cheese"


async def test_so_do_runs(bench: Bench) -> None:
    async with bench.open(ModelSettings(name="demo", use="demo")) as harness:
        async with aclosing(harness.run(context("r", model="demo"), said("hello"))) as events:
            await anext(events)
            retiring = asyncio.create_task(harness.retire())
            for _ in range(20):
                await asyncio.sleep(0)
            assert not retiring.done()
        await asyncio.wait_for(retiring, 20)
