"""What the scenario with sandboxes measures, and how it says that a provider is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.bench.report import sections
from tests.bench.sandbox_run import BARE, Findings, Size
from tests.bench.sandboxes import Measured, Subject, figures, sandboxes
from tests.simulators.sandbox.provider import USE

if TYPE_CHECKING:
    from collections.abc import Mapping

LITTLE = Size(threads=20, commands=2, pauses=1, rounds=1, fresh=1, files=2, seconds=0.5)
FOUND = Findings(
    times={"command": [20.0, 30.0, 40.0], "bare": [2.0, 3.0, 4.0], "after_pause": [25.0], "read": [0.2]},
    values={"start": 0.1, "per_s_1": 40.0, "per_s_20": 90.0, "gateway_cpu": 1.5},
)
HELD = Subject("held", "bubblewrap", target=15)
HELD_ELSEWHERE = Subject("elsewhere", "docker", target=80)
MISSING = Findings(unavailable="no daemon")


def test_the_figures_stand_beside_the_target_the_floor_and_the_memory_of_what_runs() -> None:
    shown = {figure.name: figure for figure in figures(HELD, Measured(FOUND, [7.0, 27.0], 20))}
    assert shown["held/command_p50"].value == 30
    assert shown["held/command_p50"].met is False
    assert shown["held/command_least"].value == 20
    assert shown["held/command_to_target"].value == 2
    assert shown["held/command_to_bare"].value == 10
    assert shown["held/read_p50"].value == 0.2
    assert (shown["held/per_s_20"].value, shown["held/per_s_20"].unit) == (90, "/s")
    assert shown["held/idle_sandbox_pss"].value == pytest.approx(1)
    assert shown["held/pss_without_sandboxes"].value == 7


def test_memory_that_may_not_be_read_is_named() -> None:
    shown = {figure.name: figure for figure in figures(HELD, Measured(FOUND, [None, None], 20))}
    assert shown["held/idle_sandbox_pss"].value is None
    assert "root" in shown["held/idle_sandbox_pss"].reason


def test_providers_stand_side_by_side_in_the_docs() -> None:
    shown = [*figures(HELD, Measured(FOUND, [], 20)), *figures(HELD_ELSEWHERE, Measured(MISSING, [], 0))]
    found = {"figures": {figure.name: figure.to_json() for figure in shown}, "problems": []}
    lines = sections(document(found))["sandboxes"].splitlines()
    assert lines[0] == "|  | held | elsewhere |"
    assert lines[2] == "| command p50 | 30 ms | not measured: no daemon |"
    assert lines[3] == "| command p95 | 39 ms |  |"


def document(found: Mapping[str, object]) -> dict[str, object]:
    machine = {"cores": 2, "processor": "CPU", "memory_mb": 1024, "system": "Linux", "python": "3.11", "packages": {}}
    return {
        "machine": machine | {"commit": "abc", "load_before": [0.0]},
        "quick": False,
        "scenarios": {"sandboxes": found},
    }


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
