"""Number of examples on which Hypothesis tries a property: fewer in `make test` and `make check`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

PROFILES = {"quick": 20, "full": 100}
"""Examples of a property that asks for no number of its own."""
FEWEST = 5


def choose_profile(name: str) -> None:
    """No deadline and no complaint about slowness: a loaded machine is no failure."""
    settings.register_profile(
        name, max_examples=PROFILES[name], deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile(name)


def examples(full: int) -> int:
    """`full` of them in `make test-all`, a fifth of them elsewhere; the environment may ask for another number."""
    if asked := os.environ.get("HYPOTHESIS_EXAMPLES"):
        return int(asked)
    return max(full * settings().max_examples // PROFILES["full"], min(full, FEWEST))
