"""Scenario with sandboxes: it measures each provider, and reports unavailable ones."""

from __future__ import annotations

from tests.bench.sandbox_run import BARE, Size
from tests.bench.sandboxes import Subject, sandboxes
from tests.simulators.sandbox.provider import USE

LITTLE = Size(threads=20, commands=2, pauses=1, rounds=1, fresh=1, files=2, seconds=0.5)


async def test_a_provider_is_measured_in_a_process_of_its_own_and_a_missing_one_is_named() -> None:
    subjects = (Subject(BARE, BARE), Subject("memory", USE), Subject("absent", "no_such_module:Provider"))
    outcome = await sandboxes(LITTLE, subjects)
    shown = {figure.name: figure for figure in outcome.figures}
    assert outcome.problems == []
    for subject in ("bare", "memory"):
        assert all((shown[f"{subject}/{name}"].value or 0) > 0 for name in ("command_p50", "per_s_1", "per_s_20"))
    assert all((shown[f"memory/{name}_p50"].value or 0) > 0 for name in ("cold_acquire", "warm_acquire", "grep"))
    assert shown["memory/idle_sandbox_pss"].value == 0
    assert shown["absent/command_p50"].value is None
    assert "no_such_module" in shown["absent/command_p50"].reason


async def test_a_measurement_that_fails_is_a_problem() -> None:
    outcome = await sandboxes(LITTLE, [Subject("settings", "neither a provider nor a class")])
    assert [problem.partition(":")[0] for problem in outcome.problems] == ["settings"]
