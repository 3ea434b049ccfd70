"""Number of Hypothesis' examples per property: fewer in `make test` and `make check`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

PROFILES = {"quick": 20, "full": 100}
"""Number of examples of properties without their own number."""
FEWEST = 5


def choose_profile(name: str) -> None:
    """Choose a profile, without deadlines and checks of slowness: a loaded machine is no failure."""
    settings.register_profile(
        name, max_examples=PROFILES[name], deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile(name)


def examples(full: int) -> int:
    """Number of examples: `full` in `make test-all`, a fifth elsewhere; the environment may set another number."""
    if asked := os.environ.get("HYPOTHESIS_EXAMPLES"):
        return int(asked)
    return max(full * settings().max_examples // PROFILES["full"], min(full, FEWEST))
