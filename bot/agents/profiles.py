"""The agent of a conversation, and its model; agents are read from their folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.settings.load import agents_of
from harness.agents.profiles import DEFAULT, OWN, AgentDefinition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bot.settings import Settings
    from bot.store.rows import ConversationRow
    from bot.texts.catalogue import Texts


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A configured model, as /models shows it. detail: its display name or its name at the provider, or empty. thinks:
    whether it thinks before it answers."""

    name: str
    detail: str = ""
    thinks: bool = False

    def told(self, texts: Texts) -> str:
        return self.detail + (texts.models_thinks if self.thinks else "")


class AgentChoices:
    """The available agents and models. definitions: agents by name. by_account: the agent of conversations without a
    chosen one; accounts not listed use the default. models: the first one is the default."""

    def __init__(
        self,
        definitions: Mapping[str, AgentDefinition] | None = None,
        by_account: Mapping[str, str] | None = None,
        models: Sequence[ModelChoice] = (ModelChoice("demo"),),
    ) -> None:
        self.definitions = definitions or {DEFAULT: AgentDefinition()}
        self._by_account = by_account or {}
        self.models = models

    @classmethod
    def of(cls, settings: Settings) -> AgentChoices:
        """The choices of the settings and the folder of agents; both were checked when they were loaded."""
        choices = cls()
        choices.adopt(settings, agents_of(settings).definitions)
        return choices

    def adopt(self, settings: Settings, definitions: Mapping[str, AgentDefinition]) -> None:
        """Replace the available agents and models."""
        self.definitions = definitions
        named = {account: settings.agent_for(account) for account in settings.channels}
        self._by_account = {account: name for account, name in named.items() if name in definitions}
        self.models = [
            ModelChoice(model.name, model.display_name or model.model, model.thinks) for model in settings.models
        ]

    @property
    def descriptions(self) -> Mapping[str, str]:
        """One-line descriptions of the agents, by name."""
        return {name: " ".join(each.settings.description.split()) for name, each in self.definitions.items()}

    def agent_of(self, row: ConversationRow) -> str:
        """The agent chosen in the conversation if it exists, else the account's."""
        chosen = row.agent or ""
        if chosen in self.definitions:
            return chosen
        return self._by_account.get(row.account, DEFAULT)

    def memory_of(self, agent: str) -> str | None:
        """The name of the agent's own memory, "" for the one that agents share, None for no memory. A removed agent
        counts as the default one."""
        known = self.definitions.get(agent) or self.definitions.get(DEFAULT) or AgentDefinition()
        if known.settings.features.memory == OWN:
            return known.name
        return "" if known.settings.features.memory else None

    def answering(self, row: ConversationRow | None) -> tuple[str, str]:
        """(model, agent) of a conversation. row: None if it is not stored yet."""
        return (self.models[0].name, DEFAULT) if row is None else (self.model_of(row), self.agent_of(row))

    def model_of(self, row: ConversationRow) -> str:
        """The model chosen in the conversation if it exists, else its agent's own, else the default."""
        if row.model and any(model.name == row.model for model in self.models):
            return row.model
        return self.definitions[self.agent_of(row)].settings.model or self.models[0].name
