"""The circuit breaker: closed, open, one probe."""

from __future__ import annotations

from harness.events import FailureKind
from harness.models.pool import FAILURES_TO_OPEN, OPEN_SECONDS, Breaker, Breakers
from tests.harness.support import TurnedClock


def opened(clock: TurnedClock) -> Breaker:
    breaker = Breaker(clock)
    for _ in range(FAILURES_TO_OPEN):
        assert breaker.wait() is None
        breaker.failed()
    return breaker


def test_it_opens_after_failures_in_a_row_only() -> None:
    clock = TurnedClock()
    breaker = Breaker(clock)
    for _ in range(FAILURES_TO_OPEN - 1):
        breaker.failed()
    breaker.succeeded()
    breaker.failed()
    assert breaker.wait() is None
    assert opened(clock).wait() == OPEN_SECONDS


def test_one_probe_at_a_time_decides() -> None:
    clock = TurnedClock()
    breaker = opened(clock)
    clock.advance(OPEN_SECONDS)
    assert breaker.wait() is None
    assert breaker.wait() == 1.0
    breaker.failed()
    assert breaker.wait() == OPEN_SECONDS
    clock.advance(OPEN_SECONDS)
    assert breaker.wait() is None
    breaker.succeeded()
    assert breaker.wait() is None


def test_failures_that_do_not_count_close_nothing_but_a_failed_probe_does() -> None:
    clock = TurnedClock()
    breaker = Breaker(clock)
    for _ in range(2 * FAILURES_TO_OPEN):
        breaker.failed(counts=False)
    assert breaker.wait() is None
    breaker = opened(clock)
    clock.advance(OPEN_SECONDS)
    assert breaker.wait() is None
    breaker.failed(FailureKind.OVERLOADED, counts=False)
    assert (breaker.wait(), breaker.kind) == (OPEN_SECONDS, FailureKind.OVERLOADED)


def test_a_cancelled_probe_gives_its_place_back() -> None:
    clock = TurnedClock()
    breaker = opened(clock)
    clock.advance(OPEN_SECONDS)
    assert breaker.wait() is None
    breaker.abandoned()
    assert breaker.wait() is None


def test_models_of_one_provider_share_it() -> None:
    breakers = Breakers(TurnedClock())
    assert breakers.of("api.example.org") is breakers.of("api.example.org")
    assert breakers.of("api.example.org") is not breakers.of("other.example.org")
