"""Which agent answers in a conversation, and with which model; agents are read from their folder at the start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.settings.agent_folders import agents_of
from harness.souls import DEFAULT, AgentDefinition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bot.settings import Settings
    from bot.store.rows import ConversationRow


class AgentChoices:
    """definitions: by name. by_account: of conversations that have chosen none; those not named have the default."""

    def __init__(
        self,
        definitions: Mapping[str, AgentDefinition] | None = None,
        by_account: Mapping[str, str] | None = None,
    ) -> None:
        self.definitions = definitions or {DEFAULT: AgentDefinition()}
        self._by_account = by_account or {}

    @classmethod
    def of(cls, settings: Settings) -> AgentChoices:
        """As the settings and the folder say; both were checked when they were loaded."""
        by_account = {account: settings.agent_for(account) for account in settings.channels}
        return cls(agents_of(settings).definitions, by_account)

    @property
    def descriptions(self) -> Mapping[str, str]:
        """What each is for, by name, in one line."""
        return {name: " ".join(each.settings.description.split()) for name, each in self.definitions.items()}

    def agent_of(self, row: ConversationRow) -> str:
        """The one that was chosen in the conversation, as long as there is one of that name."""
        chosen = row.agent or ""
        if chosen in self.definitions:
            return chosen
        return self._by_account.get(row.account, DEFAULT)

    def answering(self, row: ConversationRow | None, default: str) -> tuple[str, str]:
        """(model, agent). row: None for a conversation that is not stored yet."""
        return (default, DEFAULT) if row is None else (self.model_of(row, default), self.agent_of(row))

    def model_of(self, row: ConversationRow, default: str) -> str:
        """The model that was chosen in the conversation, else its agent's own, else the default."""
        return row.model or self.definitions[self.agent_of(row)].settings.model or default
