"""The configured models by name: each built once, at its first use, and shared by all agents; used by agents.py."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.errors import ModelFailure, ModelSetupError
from harness.events import FailureKind
from harness.models.breaker import Breakers
from harness.models.build import build_model

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.language_models import BaseChatModel

    from harness.config import ModelSettings
    from harness.models.breaker import Breaker
    from harness.models.build import BuiltModel, Route
    from harness.ports import Clock

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Standby:
    """A model that answers when another one cannot. breaker: of its provider."""

    settings: ModelSettings
    chat: BaseChatModel
    breaker: Breaker


class ModelPool:
    """models: the first one is the default. route: name -> how its provider is reached."""

    def __init__(self, models: Sequence[ModelSettings], route: Callable[[str], Route], clock: Clock) -> None:
        self._settings = {model.name: model for model in models}
        self.default = models[0].name
        self._route = route
        self._breakers = Breakers(clock)
        self._built: dict[str, BuiltModel] = {}

    def settings(self, name: str) -> ModelSettings:
        """Raises ModelFailure for a name that is not in the config."""
        settings = self._settings.get(name)
        if settings is None:
            raise ModelFailure(FailureKind.NOT_FOUND, model=name, detail="no such model in the config")
        return settings

    def built(self, name: str) -> BuiltModel:
        """Raises ModelSetupError when it cannot be built, and as `settings`."""
        known = self._built.get(name)
        if known is None:
            known = self._built[name] = build_model(self.settings(name), self._route(name))
        return known

    def breaker(self, name: str) -> Breaker:
        """The one of its provider, which models share."""
        return self._breakers.of(self.built(name).provider)

    def standbys(self, name: str) -> list[Standby]:
        """The model's fallbacks; one that cannot be built is left out."""
        found = []
        for other in self.settings(name).fallbacks:
            try:
                found.append(Standby(self.settings(other), self.built(other).chat, self.breaker(other)))
            except (ModelSetupError, ModelFailure) as error:
                log.error("the model %s cannot stand in for %s: %s", other, name, error)
        return found

    async def close(self) -> None:
        """Give back all connections; nothing may use a model any more."""
        for model in self._built.values():
            await model.close()
        self._built.clear()
