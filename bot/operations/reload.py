"""Reload: a config that was edited holds without a restart, or says what of it needs one; watched by the gateway.

A config with a fault changes nothing: the process goes on as before and says so in the log and in `antler status`.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel

from bot.runs.active import RunLimits
from bot.settings.load import agents_of
from bot.settings.problems import ConfigError
from harness.config import SAME

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from typing import Any

    from bot.agents.profiles import AgentChoices
    from bot.inbound.connections import Connections
    from bot.inbound.manager import ChannelManager
    from bot.process.agent import Agent
    from bot.runs.manager import RunManager
    from bot.runs.titles import Titles
    from bot.settings import Settings
    from bot.settings.load import SettingsSource, Signature
    from bot.settings.model import ChannelSettings
    from bot.skills.service import SkillService
    from bot.usage.report import Spending
    from channels.base import Clock
    from harness.agents.profiles import AgentDefinition


log = logging.getLogger(__name__)
LOOK_SECONDS = 2.0
"""Between two looks at the files. An edit counts when two looks see the same: editors write in steps."""
NOT_THE_AGENT = frozenset({"access", "conversations", "title"})
"""Keys that are not the agent's; when anything else changes, another one is made."""
GONE = "memory.model is {model} until antler is restarted, and `models` has no such model any more"

LIVE = frozenset(
    {
        "access",
        "agents_dir",
        "budgets",
        "conversations",
        "guardrails",
        "limits",
        "llm",
        "loop",
        "mcp_servers",
        "models",
        "skill_evolution",
        "skills",
        "subagents",
        "summarization",
        "title",
        "tool_groups",
        "tool_search",
        "tools",
        "web",
    }
)
"""Sections that a running process takes over as they are."""
LIVE_OF_CHANNEL = frozenset({"access", "conversations", "agent", "locale"})


@dataclass(frozen=True, slots=True)
class Change:
    """settings: what holds from now on. applied, restart: the keys that differ, and whether they hold already."""

    settings: Settings
    applied: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()


def change(old: Settings, new: Settings) -> Change:
    """The step from what a process runs with to what its config says now."""
    differing = [name for name in type(new).model_fields if getattr(old, name) != getattr(new, name)]
    live = [name for name in differing if name in LIVE]
    applied, restart = list(live), [name for name in differing if name not in LIVE and name != "channels"]
    update = {name: getattr(new, name) for name in live}
    if "channels" in differing:
        update["channels"] = {
            account: _channel(account, old, new.channels.get(account), applied, restart) for account in old.channels
        }
        restart += [f"channels.{account}" for account in new.channels if account not in old.channels]
    return Change(old.model_copy(update=update), tuple(applied), tuple(restart))


def _channel(
    account: str, settings: Settings, new: ChannelSettings | None, applied: list[str], restart: list[str]
) -> ChannelSettings:
    """What holds of one account; its differing keys are added to the lists."""
    old = settings.channels[account]
    if new is None or new.type != old.type:
        restart.append(f"channels.{account}")
        # Until then it goes on as it was: a general section that was written without a thought of it opens nothing.
        kept = {"access": settings.access_for(account), "conversations": settings.conversations_for(account)}
        return old.model_copy(update={name: _whole(section) for name, section in kept.items()})
    differing = [name for name in type(new).model_fields if getattr(old, name) != getattr(new, name)]
    live = [name for name in differing if name in LIVE_OF_CHANNEL]
    applied += [f"channels.{account}.{name}" for name in live]
    if len(live) < len(differing):
        restart.append(f"channels.{account}")
    return old.model_copy(update={name: getattr(new, name) for name in live})


def _whole(section: BaseModel) -> BaseModel:
    """The section with every key as its own, so that it inherits none."""
    values = {name: getattr(section, name) for name in type(section).model_fields}
    return section.model_copy(
        update={name: _whole(value) if isinstance(value, BaseModel) else value for name, value in values.items()}
    )


@dataclass(slots=True, kw_only=True)
class Adoption:
    """Makes changed settings hold, in all parts that use them. settings: those that hold. know: is told of all their
    secrets."""

    settings: Settings
    know: Callable[[Iterable[str]], None]
    connections: Connections
    agents: AgentChoices
    skills: SkillService
    agent: Agent
    spending: Spending
    runs: RunManager
    titles: Titles
    manager: ChannelManager

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
        self.manager.review_access()
        self.titles.settings = settings.title
        self.runs.limit(RunLimits.of(settings.limits))
        self.manager.flood.allow(settings.limits.messages_per_minute, settings.limits.message_burst)
        self.settings = settings
        return Outcome(tuple(applied), change.restart)

    async def _renewed(
        self, settings: Settings, definitions: Mapping[str, AgentDefinition], *, other_servers: bool
    ) -> str | None:
        """See Agent.renew. The budgets come first: an agent without any asks for none."""
        why: str | None = "something unexpected"
        self.spending.adopt(settings.budgets, settings.prices)
        try:
            why = await self.agent.renew(settings, definitions, other_servers=other_servers)
        finally:
            if why is not None:
                self.spending.adopt(self.settings.budgets, self.settings.prices)
        return why


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of reading the config. applied, restart: changed keys. problems: why nothing was applied, a line each."""

    applied: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.problems:
            return "the config was not applied, the previous one stays in force:\n" + "\n".join(self.problems)
        said = [f"now in force: {', '.join(self.applied)}"] if self.applied else []
        said += [f"these need a restart of antler: {', '.join(self.restart)}"] if self.restart else []
        return "; ".join(said) or "the config has not changed"


class Reloader:
    """current: the settings that hold. adopt: makes others hold. retry: called after each reading; what platforms
    refused may have been mended there."""

    def __init__(
        self,
        source: SettingsSource,
        current: Callable[[], Settings],
        adopt: Callable[[Change], Awaitable[Outcome]],
        clock: Clock,
        retry: Callable[[], None] = lambda: None,
    ) -> None:
        self._source = source
        self._current = current
        self._adopt = adopt
        self._clock = clock
        self._retry = retry
        self._one = asyncio.Lock()
        self.told: Callable[[bool], None] = lambda under_way: None
        """Told when the config is being read, and when it has been."""
        self.last = Outcome()

    async def serve(self) -> None:
        """Until cancelled: take over what is written to the files, and at a SIGHUP."""
        asked = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, asked.set)
        known, seen = self._source.seen, await self._signature()
        while True:
            await self._pause(asked)
            now = await self._signature()
            if asked.is_set() or (now != known and now == seen):
                asked.clear()
                known = now
                await self.reload()
            seen = now

    async def reload(self) -> Outcome:
        """Read the config and make it hold, at once."""
        async with self._one:
            self.told(True)
            try:
                self.last = await self._reloaded()
            finally:
                self.told(False)
        self._retry()
        level = logging.WARNING if self.last.problems or self.last.restart else logging.INFO
        log.log(level, "%s", self.last)
        return self.last

    async def operation(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The reload operation of the control socket."""
        outcome = await self.reload()
        return {"ok": not outcome.problems, "text": str(outcome)}

    async def _reloaded(self) -> Outcome:
        try:
            settings = await asyncio.to_thread(self._source.read)
            return await self._adopt(change(self._current(), settings))
        except ConfigError as error:
            return Outcome(problems=tuple(str(problem) for problem in error.problems))
        except Exception as error:
            # Any error (a bad model class, a provider of guardrails), the next edit has to be heard.
            log.exception("the config could not be applied")
            return Outcome(problems=(f"unexpected: {type(error).__name__}; the log has more",))

    async def _signature(self) -> Signature:
        return await asyncio.to_thread(self._source.signature, self._current().agents_dir)

    async def _pause(self, asked: asyncio.Event) -> None:
        sleeping = asyncio.ensure_future(self._clock.sleep(LOOK_SECONDS))
        waiting = asyncio.ensure_future(asked.wait())
        try:
            await asyncio.wait({sleeping, waiting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waiting.cancel()
