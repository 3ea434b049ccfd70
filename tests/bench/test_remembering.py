"""The memory scenario runs and reports its figures; times are not tested."""

from __future__ import annotations

from tests.bench.remembering import FACTS, full_memory, memory_cost


async def test_all_of_it_is_measured() -> None:
    outcome = await memory_cost(1)
    assert outcome.problems == []
    figures = {figure.name: figure.value for figure in outcome.figures}
    assert all(value is not None and value > 0 for value in figures.values())
    assert figures["merge_10000_offered_kept"] == FACTS == len(full_memory().facts)
    assert (figures["thread_told"] or 0) <= 2000
