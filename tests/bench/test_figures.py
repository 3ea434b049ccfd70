"""The statistics of the bench."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.figures import Figure, Outcome, Target, busiest_window, mean, percentile, slope, spread

NUMBERS = st.floats(-1e6, 1e6)


@pytest.mark.parametrize(("percent", "value"), [(0, 1), (25, 1.75), (50, 2.5), (95, 3.85), (100, 4)])
def test_percentiles_lie_between_their_neighbours(percent: float, value: float) -> None:
    assert percentile([4, 1, 3, 2], percent) == pytest.approx(value)


@given(st.lists(NUMBERS, min_size=1), st.floats(0, 100))
def test_a_percentile_never_leaves_the_values(values: list[float], percent: float) -> None:
    assert min(values) - 1e-6 <= percentile(values, percent) <= max(values) + 1e-6


def test_nothing_measured_has_no_percentile_and_no_mean() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)
    with pytest.raises(ValueError, match="no values"):
        mean([])
    assert [(figure.value, figure.reason) for figure in spread("final", [], "ms")] == [
        (None, "nothing was measured")
    ] * 2


def test_a_slope_is_the_growth_per_unit() -> None:
    assert slope((x, 3 * x + 7) for x in range(10)) == pytest.approx(3)
    assert slope([(1, 5), (1, 9)]) == 0
    assert slope([]) == 0


def test_the_busiest_window_is_open_at_its_end() -> None:
    assert busiest_window([0, 0.4, 0.9, 1.0, 1.3], 1.0) == 4
    assert busiest_window([5, 3, 1], 1.0) == 1
    assert busiest_window([], 1.0) == 0


def test_a_target_is_met_or_not_or_unknown() -> None:
    assert Figure("cpu", 14.0, "ms", Target(15)).met is True
    assert Figure("speed", 59.0, "/s", Target(60, at_least=True)).met is False
    assert Figure("speed", None, "/s", Target(60, at_least=True), reason="no profiler").met is None
    assert Figure("speed", 59.0, "/s").met is None


def test_what_could_not_be_measured_is_null_with_its_reason() -> None:
    outcome = Outcome([Figure("store", None, "ms", reason="py-spy is not installed")], problems=["one is missing"])
    assert outcome.to_json() == {
        "figures": {"store": {"value": None, "unit": "ms", "reason": "py-spy is not installed"}},
        "details": {},
        "problems": ["one is missing"],
    }
