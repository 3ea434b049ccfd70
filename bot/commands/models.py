"""/models: the configured models as a list with buttons; who may control the conversation switches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from bot.commands.choosing import Choice, ChoiceCommands
from bot.store import conversations

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bot.commands.group import Answers
    from bot.souls import AgentChoices
    from bot.texts.catalogue import Texts
    from channels.base import Clock

MODEL_PROMPT = "model"


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A configured model, as /models shows it. detail: what it is called elsewhere, or empty. thinks: before it
    answers."""

    name: str
    detail: str
    thinks: bool = False

    def told(self, texts: Texts) -> str:
        return self.detail + (texts.models_thinks if self.thinks else "")


def model_commands(
    answers: Answers, models: Sequence[ModelChoice], agents: AgentChoices, clock: Clock
) -> ChoiceCommands:
    """models: the first one is the default, where the conversation's agent has none of its own."""
    choice = Choice(
        command="models",
        kind=MODEL_PROMPT,
        options={model.name: model.told for model in models},
        current=partial(agents.model_of, default=models[0].name),
        choose=conversations.set_model,
        words=_words,
    )
    return ChoiceCommands(answers, choice, clock)


def _words(texts: Texts) -> Mapping[str, str]:
    return texts.models
