"""The state of the configured models, as known from their calls: which cannot answer, and why."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness.events import FailureKind as Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.config import ModelSettings
    from harness.errors import ModelFailure

FAILURES_IN_A_ROW = 5
"""Failed calls, across all runs, after which a model counts as out of order."""

REFUSED = frozenset({Kind.AUTH, Kind.QUOTA, Kind.NOT_FOUND})
"""Failures that no retry changes: they count at the first call."""

ANSWERED = frozenset({Kind.CONTENT_FILTER, Kind.CONTEXT_LENGTH})
"""Failures of a single request: the provider accepted the request and its key."""

NOT_ITS = frozenset({Kind.BUDGET, Kind.INTERNAL})
"""Failures unrelated to the model."""


@dataclass(frozen=True, slots=True)
class ModelState:
    """One model's newest calls. kind: of the newest failure, None after a success. failures: consecutive, up to now.
    asked: monotonic time of the newest call; since: of the call that began the current working or failing state. at:
    the worker that called it, "" for this process."""

    model: str
    kind: Kind | None = None
    failures: int = 0
    asked: float = 0.0
    since: float = 0.0
    at: str = ""

    @property
    def works(self) -> bool:
        return self.kind is None or (self.kind not in REFUSED and self.failures < FAILURES_IN_A_ROW)


class ModelHealth:
    """The states of the models, by name. One object for the life of a process: it survives changes of the config."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._states: dict[str, ModelState] = {}
        self._settings: dict[str, ModelSettings] = {}
        self.calls: Counter[tuple[str, str]] = Counter()
        """Calls since the start, by model and result: answered, or the kind of failure; retries count."""
        self.elsewhere: Callable[[], Sequence[ModelState]] = tuple
        """Workers' reports on the same models."""

    def configure(self, models: Sequence[ModelSettings]) -> None:
        """Set the models; the state of one with changed settings (a new key) is reset."""
        self._settings, before = {model.name: model for model in models}, self._settings
        same = {name for name, settings in self._settings.items() if before.get(name, settings) == settings}
        self._states = {name: state for name, state in self._states.items() if name in same}

    def full_name(self, model: str) -> str:
        """The model's name with the provider's name, from the current config."""
        settings = self._settings.get(model)
        return settings.full_name if settings is not None else model

    def described(self, failure: ModelFailure) -> str:
        """A failure for the log."""
        return f"{self.full_name(failure.model)}: {failure.kind}: {failure.detail}"

    def succeeded(self, model: str) -> None:
        """Record an answered call."""
        self.calls[model, "answered"] += 1
        self._note(ModelState(model))

    def failed(self, model: str, kind: Kind) -> None:
        """Record a failed call; each retry counts."""
        self.calls[model, str(kind)] += 1
        if kind in ANSWERED:
            self._note(ModelState(model))
        elif kind not in NOT_ITS:
            known = self._states.get(model, ModelState(model))
            self._note(ModelState(model, kind, known.failures + 1))

    def _note(self, state: ModelState) -> None:
        now, known = self._monotonic(), self._states.get(state.model)
        since = known.since if known is not None and known.works == state.works else now
        self._states[state.model] = replace(state, asked=now, since=since)

    def known(self) -> dict[str, ModelState | None]:
        """All configured models, in the config's order; None for one that was not called yet."""
        states = {state.model: state for state in self.states}
        return {name: states.get(name) for name in self._settings or states}

    @property
    def own(self) -> tuple[ModelState, ...]:
        """The states known to this process."""
        return tuple(self._states.values())

    @property
    def states(self) -> tuple[ModelState, ...]:
        """States of the models called since the start, or since their settings changed."""
        found: dict[str, ModelState] = dict(self._states)
        for told in self.elsewhere():
            known = found.get(told.model)
            if told.model in (self._settings or found) and (known is None or _weight(told) > _weight(known)):
                found[told.model] = told
        return tuple(found.values())


def _weight(state: ModelState) -> tuple[bool, float]:
    """The weight of a process's report on a model: a refusal, which lasts and may be its alone, else the newest."""
    return state.kind in REFUSED, state.asked
