"""Circuit breakers, one per provider, shared by all runs: not every chat at once asks a provider that is down."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.ports import Clock

FAILURES_TO_OPEN = 8
"""Failures in a row, over all runs. One run alone (1 + max_retries calls) does not open it."""

OPEN_SECONDS = 20.0


@dataclass(slots=True)
class Breaker:
    """Closed; open after FAILURES_TO_OPEN failures in a row; after OPEN_SECONDS a probe; then closed or open again."""

    clock: Clock
    failures: int = 0
    open_until: float = 0.0
    probing: bool = False

    def wait(self) -> float | None:
        """None: call now (and report succeeded, failed or abandoned). Else the seconds until a call makes sense."""
        if self.failures < FAILURES_TO_OPEN:
            return None
        left = self.open_until - self.clock.monotonic()
        if left > 0:
            return left
        if self.probing:
            return 1.0
        self.probing = True
        return None

    def succeeded(self) -> None:
        """The provider answered, be it with an error of ours (401, 400)."""
        self.failures = 0
        self.probing = False

    def failed(self) -> None:
        """The provider did not answer, or with a server error."""
        self.failures += 1
        self.probing = False
        if self.failures >= FAILURES_TO_OPEN:
            self.open_until = self.clock.monotonic() + OPEN_SECONDS

    def abandoned(self) -> None:
        """The call was cancelled: nothing is known."""
        self.probing = False


@dataclass(slots=True)
class Breakers:
    """By provider; bounded by the number of configured models."""

    clock: Clock
    by_provider: dict[str, Breaker] = field(default_factory=dict)

    def of(self, provider: str) -> Breaker:
        return self.by_provider.setdefault(provider, Breaker(self.clock))
