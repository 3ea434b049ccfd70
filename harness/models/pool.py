"""The configured models by name: each built once, on first use, and shared by all agents; a circuit breaker per
provider."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.errors import ModelFailure, ModelSetupError
from harness.events import FailureKind
from harness.models.build import build_model

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.language_models import BaseChatModel

    from harness.config import ModelSettings
    from harness.models.build import BuiltModel
    from harness.models.transport import Route
    from harness.ports import Clock

log = logging.getLogger(__name__)

FAILURES_TO_OPEN = 8
"""Consecutive failures, across all runs."""

COUNTED_OF_ONE_CALL = 4
"""Failed attempts of one model call that count: a single run, however patient, does not open the breaker."""

OPEN_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Standby:
    """A model that answers when another one cannot. breaker: of its provider."""

    settings: ModelSettings
    chat: BaseChatModel
    breaker: Breaker


class ModelPool:
    """The pool. models: the first one is the default. route: name -> how its provider is reached."""

    def __init__(self, models: Sequence[ModelSettings], route: Callable[[str], Route], clock: Clock) -> None:
        self._settings = {model.name: model for model in models}
        self.default = models[0].name
        self._route = route
        self._breakers = Breakers(clock)
        self._built: dict[str, BuiltModel] = {}

    def settings(self, name: str) -> ModelSettings:
        """A model's settings. Raises ModelFailure for a name that is not in the config."""
        settings = self._settings.get(name)
        if settings is None:
            raise ModelFailure(FailureKind.NOT_FOUND, model=name, detail="no such model in the config")
        return settings

    def built(self, name: str) -> BuiltModel:
        """The built model. Raises ModelSetupError if it cannot be built, and the errors of `settings`."""
        known = self._built.get(name)
        if known is None:
            known = self._built[name] = build_model(self.settings(name), self._route(name))
        return known

    def breaker(self, name: str) -> Breaker:
        """The circuit breaker of its provider, shared by models."""
        return self._breakers.of(self.built(name).provider)

    def standbys(self, name: str) -> list[Standby]:
        """The model's fallbacks, without any that cannot be built."""
        found = []
        for other in self.settings(name).fallbacks:
            try:
                found.append(Standby(self.settings(other), self.built(other).chat, self.breaker(other)))
            except (ModelSetupError, ModelFailure) as error:
                log.error("model %s cannot be a fallback for %s: %s", other, name, error)
        return found

    async def close(self) -> None:
        """Close all connections; no model may be in use any more."""
        for model in self._built.values():
            await model.close()
        self._built.clear()


@dataclass(slots=True)
class Breaker:
    """Closed; open after FAILURES_TO_OPEN failures in a row; after OPEN_SECONDS a probe; then closed or open again."""

    clock: Clock
    failures: int = 0
    kind: FailureKind = FailureKind.UNAVAILABLE
    """The kind of the newest failure."""
    open_until: float = 0.0
    probing: bool = False

    def wait(self) -> float | None:
        """None: call now (and report succeeded, failed or abandoned). Else the seconds until a call is worthwhile."""
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
        """Record an answer of the provider, even a rejection of the request (401, 400)."""
        self.failures = 0
        self.probing = False

    def failed(self, kind: FailureKind = FailureKind.UNAVAILABLE, *, counts: bool = True) -> None:
        """Record no answer, or a server error. counts: a failed probe counts in any case."""
        self.failures += counts
        self.kind, self.probing = kind, False
        if self.failures >= FAILURES_TO_OPEN:
            self.open_until = self.clock.monotonic() + OPEN_SECONDS

    def abandoned(self) -> None:
        """Record a cancelled call, which says nothing."""
        self.probing = False


@dataclass(slots=True)
class Breakers:
    """A breaker for each provider; bounded by the number of configured models."""

    clock: Clock
    by_provider: dict[str, Breaker] = field(default_factory=dict)

    def of(self, provider: str) -> Breaker:
        return self.by_provider.setdefault(provider, Breaker(self.clock))
