"""A thread that begins with what another one held: whole turns, with results of tools; the other one stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool

from tests.harness.support import calls, collect, context, said, stopped_after, unpaired

if TYPE_CHECKING:
    from tests.harness.support import Bench, Script


@tool
async def look(place: str) -> str:
    """Look somewhere."""
    return f"seen at {place}"


@pytest.fixture
def bench(bench: Bench) -> Bench:
    bench.tools = [look]
    return bench


async def talked(harness: object, script: Script) -> None:
    """Three turns in thread-1, the second with a tool."""
    script.steps = ["one", calls(("look", {"place": "home"})), "two", "three"]
    for number in (1, 2, 3):
        await collect(harness, context(f"r{number}"), said(f"text {number}"))  # type: ignore[arg-type]  # a runner


def words(script: Script) -> list[str]:
    """What people and tools said in the newest request."""
    asked = script.requests[-1]
    return [str(each.content).split("\n")[0] for each in asked if isinstance(each, HumanMessage | ToolMessage)]


async def test_it_ends_with_a_run_or_before_a_message(bench: Bench, script: Script) -> None:
    async with bench.open() as harness:
        await talked(harness, script)
        before = await harness.history("thread-1")
        assert await harness.fork("thread-1", "after", through="r2")
        assert await harness.fork("thread-1", "edited", before="inbox-text 2")
        assert await harness.fork("thread-1", "all", through="r3")
        assert [each.text for each in await harness.history("after")] == ["text 1", "one", "text 2", "two"]
        assert [each.text for each in await harness.history("edited")] == ["text 1", "one"]
        assert await harness.history("all") == before
        await collect(harness, context("b1", thread="after"), said("go on"))
        assert unpaired(script.requests[-1]) is None
        asked = [each for each in words(script) if each]
        assert asked[0].startswith("text 1")
        assert any("seen at home" in each for each in asked), "results of tools come along"
        assert asked[-1].startswith("go on")
        assert await harness.history("thread-1") == before, "the other one stays as it was"
        assert len(await harness.history("after")) == 6


async def test_it_is_there_after_a_restart(bench: Bench, script: Script) -> None:
    async with bench.open() as harness:
        await talked(harness, script)
        assert await harness.fork("thread-1", "after", through="r1")
    async with bench.open() as harness:
        assert [each.text for each in await harness.history("after")] == ["text 1", "one"]


async def test_a_beginning_without_words_is_a_new_thread(bench: Bench, script: Script) -> None:
    async with bench.open() as harness:
        await talked(harness, script)
        assert await harness.fork("thread-1", "fresh", before="inbox-text 1")
        assert (await harness.head("fresh")).id is None


async def test_what_was_taken_back_is_found_where_its_checkpoint_is_kept(bench: Bench, script: Script) -> None:
    async with bench.open() as harness:
        await collect(harness, context("r1"), said("text 1"))
        base = (await harness.head("thread-1")).id
        await collect(harness, context("r2"), said("text 2"))
        await harness.rewind("thread-1", base)
        assert await harness.fork("thread-1", "edited", before="inbox-text 2", checkpoint_id=base)
        assert [each.text for each in await harness.history("edited")] == ["text 1", "answer 1"]
        for lost in ({"before": "inbox-text 2"}, {"through": "r2"}, {"before": "x", "checkpoint_id": "1ef-none"}):
            assert not await harness.fork("thread-1", "lost", **lost)
        assert (await harness.head("lost")).id is None, "nothing was written"


async def test_an_open_call_gets_an_honest_result(bench: Bench, script: Script) -> None:
    async with bench.open() as harness:
        await stopped_after(harness, script, calls(("look", {"place": "home"})))
        assert await harness.fork("thread-1", "after", through="r1")
        script.steps = ["good"]
        await collect(harness, context("b1", thread="after"), said("go on"))
        assert unpaired(script.requests[-1]) is None
