"""The demo model: says what it is, streams, needs nothing."""

from __future__ import annotations

import pytest

from harness.config import ModelSettings, SummarizationSettings
from tests.harness.support import Bench, collect, context, finished, said, visible

DEMO = ModelSettings(name="demo", use="demo")


@pytest.mark.parametrize("text", ["hello", "what can you do?", "markdown", "tell me a story", "你好", "", "你会什么？"])
async def test_it_says_what_it_is_and_how_to_get_a_real_one(bench: Bench, text: str) -> None:
    async with bench.open(DEMO) as harness:
        events = await collect(harness, context("r1", model="demo"), said(text, "m1"))
    end = finished(events)
    assert "demo model" in end.text
    assert "config.yaml" in end.text
    assert visible(events) == end.text
    assert sum(e.type == "text_delta" for e in events) > 10


async def test_it_repeats_what_it_heard_and_not_the_context_around_it(bench: Bench) -> None:
    async with bench.open(DEMO) as harness:
        end = finished(await collect(harness, context("r1", model="demo"), said("the moon is round", "m1")))
    assert end.text.startswith("You wrote: “the moon is round”.")
    assert "context" not in end.text


async def test_it_copes_with_its_own_summaries(bench: Bench) -> None:
    bench.summarization = SummarizationSettings(max_messages=4, keep=2)
    async with bench.open(DEMO) as harness:
        for number in range(5):
            events = await collect(harness, context(f"r{number}", model="demo"), said(f"message {number}"))
            assert f"message {number}" in finished(events).text
