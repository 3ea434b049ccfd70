"""/models: the configured models as a list with buttons; who may control the conversation switches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.commands.choosing import Choice, ChoiceCommands
from bot.store import conversations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bot.agents.profiles import AgentChoices
    from bot.commands.group import Answers
    from bot.texts.catalogue import Texts
    from channels.base import Clock

MODEL_PROMPT = "model"


def model_commands(answers: Answers, agents: AgentChoices, clock: Clock) -> ChoiceCommands:
    choice = Choice(
        command="models",
        kind=MODEL_PROMPT,
        options=lambda: {model.name: model.told for model in agents.models},
        current=agents.model_of,
        choose=conversations.set_model,
        words=_words,
    )
    return ChoiceCommands(answers, choice, clock)


def _words(texts: Texts) -> Mapping[str, str]:
    return texts.models
