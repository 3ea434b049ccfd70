"""Adoption: makes what changed in the config hold in the running process; called by reload.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.reload import Outcome
from bot.runs.active import RunLimits
from bot.settings.agent_folders import agents_of
from harness.config import SAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from bot.admission import FloodGate
    from bot.agent import Agent
    from bot.connections import Connections
    from bot.runs.manager import RunManager
    from bot.settings import Settings
    from bot.settings.live import Change
    from bot.skills.service import SkillService
    from bot.souls import AgentChoices
    from bot.spending import Spending
    from bot.titles import Titles
    from harness.mcp.pool import McpPool
    from harness.souls import AgentDefinition

NOT_THE_AGENT = frozenset({"access", "conversations", "title"})
"""Keys that are not the agent's; whatever else changes, another one is made."""
GONE = "memory.model is {model} until antler is restarted, and `models` has no such model any more"


@dataclass(slots=True, kw_only=True)
class Adoption:
    """settings: those that hold. know: is told of all their secrets. servers: makes those of some settings.
    review_access: ends what is under way for those who have no access any more."""

    settings: Settings
    know: Callable[[Iterable[str]], None]
    servers: Callable[[Settings], McpPool]
    connections: Connections
    agents: AgentChoices
    skills: SkillService
    agent: Agent
    spending: Spending
    runs: RunManager
    flood: FloodGate
    titles: Titles
    review_access: Callable[[], None]

    async def adopt(self, change: Change) -> Outcome:
        """All that can hold at once does, or nothing: then the outcome says why."""
        settings, applied = change.settings, list(change.applied)
        definitions = agents_of(settings).definitions
        if definitions != self.agents.definitions:
            applied.append("agents")
        if settings.memory.model not in {"", SAME, *(model.name for model in settings.models)}:
            return Outcome(problems=(GONE.format(model=settings.memory.model),))
        self.know(settings.secrets())
        if any(key not in NOT_THE_AGENT and not key.startswith("channels.") for key in applied):
            why = await self._renewed(settings, definitions, other_servers="mcp_servers" in applied)
            if why is not None:
                return Outcome(problems=(why,))
        self.agents.adopt(settings, definitions)
        self.skills.adopt(settings)
        self.connections.adopt(settings)
        self.review_access()
        self.titles.settings = settings.title
        self.runs.limit(RunLimits.of(settings.limits))
        self.flood.allow(settings.limits.messages_per_minute, settings.limits.message_burst)
        self.settings = settings
        return Outcome(tuple(applied), change.restart)

    async def _renewed(
        self, settings: Settings, definitions: Mapping[str, AgentDefinition], *, other_servers: bool
    ) -> str | None:
        """See Agent.renew. The budgets come first: an agent without any asks for none."""
        servers = self.servers(settings) if other_servers else self.agent.servers
        why: str | None = "something unexpected"
        self.spending.adopt(settings.budgets, settings.prices)
        try:
            why = await self.agent.renew(settings, servers, definitions)
        finally:
            if why is not None:
                self.spending.adopt(self.settings.budgets, self.settings.prices)
        return why
