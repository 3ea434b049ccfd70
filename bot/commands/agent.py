"""/agent: the operator's agents as a list with buttons; who may control the conversation switches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.commands.choosing import Choice, ChoiceCommands
from bot.store import conversations

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bot.agents.profiles import AgentChoices
    from bot.commands.group import Answers
    from bot.texts.catalogue import Texts
    from channels.base import Clock

AGENT_PROMPT = "agent"


def agent_commands(answers: Answers, agents: AgentChoices, clock: Clock) -> ChoiceCommands:
    choice = Choice(
        command="agent",
        kind=AGENT_PROMPT,
        options=lambda: {name: _told(description) for name, description in agents.descriptions.items()},
        current=agents.agent_of,
        choose=conversations.set_agent,
        words=_words,
    )
    return ChoiceCommands(answers, choice, clock)


def _told(description: str) -> Callable[[Texts], str]:
    return lambda texts: description


def _words(texts: Texts) -> Mapping[str, str]:
    return texts.agents
