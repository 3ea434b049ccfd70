"""The scenario that compares the agent with and without its chain runs on the same requests; times are not tested."""

from __future__ import annotations

from typing import Any

from tests.bench.chains import MODEL_ROUNDS, chain_cost, unlike
from tests.simulators.model.records import Record


async def test_all_variants_take_their_turns() -> None:
    outcome = await chain_cost(10)
    assert outcome.problems == []
    assert [figure.name for figure in outcome.figures] == [
        "cpu_per_round_agent_without_chain",
        "cpu_per_round_default_chain",
        "cpu_per_round_default_chain_on_store",
        "added_by_chain",
        "added_by_chain_on_store",
    ]
    assert all(figure.value is not None and figure.unit == "ms" for figure in outcome.figures)
    assert [str(figure.target) for figure in outcome.figures if figure.target is not None] == ["<= 3"]
    variants, batches, at_once = 3, 2, 10  # one of the batches is the warm-up
    assert outcome.details["model_calls"] == variants * batches * at_once * MODEL_ROUNDS


def test_requests_that_differ_make_it_no_comparison() -> None:
    def record(system: str, tools: list[Any], error: str = "") -> Record:
        body = {"messages": [{"role": "system", "content": system}], "tools": tools}
        return Record(id=1, method="POST", path="/", headers={}, started=1.0, body=body, error=error)

    assert unlike([record("a", [1]), record("a", [1])]) == []
    assert len(unlike([record("a", [1]), record("b", [1])])) == 1
    assert len(unlike([record("a", [1]), record("a", [])])) == 1
    assert unlike([record("a", [], "no content")]) == ["a request was refused: no content"]
