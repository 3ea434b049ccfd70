"""Reload: an edited config takes effect without a restart, or what needs one is reported; the gateway watches it.

A faulty config changes nothing: the process continues as before, as the log and `antler status` report.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bot.control.actions import EVENT, MACHINE, Action
from bot.settings.load import agents_of
from bot.settings.model import COMMON_KEYS
from bot.settings.problems import ConfigError
from channels.registry import OWN
from channels.supervision import until_first
from sandbox.providers import REMOTE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
    from typing import Any

    from bot.agents.profiles import AgentChoices
    from bot.process.agent import Agent
    from bot.settings import Settings
    from bot.settings.http import HttpSettings
    from bot.settings.load import SettingsSource, Signature
    from bot.settings.model import ChannelSettings
    from bot.usage.report import Spending
    from channels.base import Clock
    from harness.agents.profiles import AgentDefinition


log = logging.getLogger(__name__)
LOOK_SECONDS = 2.0
"""Seconds between two checks of the files. An edit counts once two checks see the same: editors write in steps."""
NOT_THE_AGENT = frozenset(
    {"access", "conversations", "data", "http", "locale", "log", "shutdown_grace_seconds", "timezone", "title"}
    | {"transcription", "uploads"}
)
"""Keys that do not concern the agent; when any other key changes, a new agent is built."""

RESTART = ("data_dir", "database", "memory.storage", "sandbox", "tracing", "workers")
"""Keys that a running process does not adopt: where everything is stored, what confines the agent's commands, and
libraries that are set up once."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change. settings: in force from now on. applied, restart: changed keys in force, or needing a restart."""

    settings: Settings
    applied: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()


def change(old: Settings, new: Settings) -> Change:
    """The change from the settings that a process runs with to those of its config."""
    restart = [key for key in RESTART if _value(old, key) != _value(new, key)]
    if old.network != new.network:
        # Their routes were chosen at the start.
        restart += [key for key in ("sandbox", "tracing") if key not in restart and _goes_out(old, new, key)]
    kept = {key: getattr(old, key) for key in RESTART if "." not in key}
    memory = new.memory.model_copy(update={"storage": old.memory.storage})
    # Antler's own accounts were set up with the folder of the start.
    own = {name: old.channels[name] for name in OWN & old.channels.keys() & new.channels.keys()}
    held = new.model_copy(update=kept | {"memory": memory, "channels": new.channels | own})
    differing = [name for name in type(new).model_fields if getattr(old, name) != getattr(held, name)]
    applied = [name for name in differing if name != "channels"]
    if "channels" in differing:
        applied += _of_accounts(old.channels, new.channels)
    return Change(held, tuple(applied), tuple(restart))


def _of_accounts(old: Mapping[str, ChannelSettings], new: Mapping[str, ChannelSettings]) -> Iterator[str]:
    """The keys of `channels` that differ."""
    for account in [name for name in {**old, **new} if name not in OWN]:  # they come and go with `http`
        before, now = old.get(account), new.get(account)
        if before is None or now is None or (before.type, before.adapter) != (now.type, now.adapter):
            yield f"channels.{account}"
        else:
            yield from (f"channels.{account}.{key}" for key in COMMON_KEYS if getattr(before, key) != getattr(now, key))


def _goes_out(old: Settings, new: Settings, key: str) -> bool:
    """Whether what the key configures connects to a server, over another route than before."""
    if key == "tracing":
        return old.tracing.is_on
    urls = old.sandbox.remote.urls
    return old.sandbox.use == REMOTE and any(old.network_route(url) != new.network_route(url) for url in urls)


def _value(settings: Settings, key: str) -> object:
    value: object = settings
    for name in key.split("."):
        value = getattr(value, name)
    return value


async def _nowhere(wanted: HttpSettings) -> str:
    return ""


@dataclass(slots=True, kw_only=True)
class Adoption:
    """Puts changed settings into force, in all parts that use them.

    settings: those in force. know: called with all their secrets. hold: has the other parts use them. follow: has what
    serves people use them, and returns why, for each account that continues as before. listen: reopens the HTTP
    listener and returns "", or why it continues as before.
    """

    settings: Settings
    know: Callable[[Iterable[str]], None]
    agent: Agent
    agents: AgentChoices
    spending: Spending
    hold: Callable[[Settings], None]
    follow: Callable[[Settings], Awaitable[Mapping[str, str]]]
    listen: Callable[[HttpSettings], Awaitable[str]] = _nowhere

    async def adopt(self, change: Change) -> Outcome:
        """Put everything that does not need a restart into force, or nothing: then the outcome says why. Each account's
        connection is separate: where the platform refuses a changed one, the former continues."""
        settings, applied = change.settings, list(change.applied)
        definitions = agents_of(settings).definitions
        if definitions != self.agents.definitions:
            applied.append("agents")
        self.know(settings.secrets())
        if any(key not in NOT_THE_AGENT and not key.startswith("channels.") for key in applied):
            other_servers = "mcp_servers" in applied or "network" in applied
            why = await self._renewed(settings, definitions, other_servers=other_servers)
            if why is not None:
                return Outcome(problems=(why,))
        else:
            self.spending.adopt(settings.budgets, settings.prices, settings.zone)
        refused = {}
        if "http" in applied and (why := await self.listen(settings.http)):
            refused["http"], settings = why, settings.model_copy(update={"http": self.settings.http})
        self.agents.adopt(settings, definitions)
        self.settings = settings
        self.hold(settings)
        kept = await self.follow(settings)
        refused |= {f"channels.{account}": why for account, why in kept.items()}
        held = [key for key in applied if key.removesuffix(".proxy") not in refused]
        return Outcome(tuple(held), change.restart, refused=tuple(refused.items()))

    async def _renewed(
        self, settings: Settings, definitions: Mapping[str, AgentDefinition], *, other_servers: bool
    ) -> str | None:
        """See Agent.renew. The budgets are adopted first, since an agent built without any checks none."""
        why: str | None = "something unexpected"
        self.spending.adopt(settings.budgets, settings.prices, settings.zone)
        try:
            why = await self.agent.renew(settings, definitions, other_servers=other_servers)
        finally:
            if why is not None:
                self.spending.adopt(self.settings.budgets, self.settings.prices, self.settings.zone)
        return why


@dataclass(frozen=True, slots=True)
class WorkerOutcome:
    """The outcome at a worker. complete: everything that needs no restart is in force there."""

    name: str
    text: str
    complete: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of reading the config. applied, restart: changed keys. problems: why nothing was applied, a line each.
    refused: keys of an account's connection or the listener that continue as before, and why. workers: the outcome at
    each; they are only asked where the gateway's own config has no fault."""

    applied: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    workers: tuple[WorkerOutcome, ...] = ()

    @property
    def state(self) -> str:
        """The outcome as one word for the log."""
        if self.problems:
            return "refused"
        return "partly" if self.refused or self.restart else "applied" if self.applied else "unchanged"

    @property
    def complete(self) -> bool:
        """Whether everything that needs no restart is in force."""
        return not (self.problems or self.refused) and all(worker.complete for worker in self.workers)

    @property
    def pending(self) -> str:
        """What of the config on disk is not in force in this process, "" for nothing."""
        own = replace(self, workers=())
        return str(own) if own.restart or not own.complete else ""

    def __str__(self) -> str:
        if self.problems:
            return "the config was not applied, the previous one stays in force:\n" + "\n".join(self.problems)
        said = [f"now in force: {', '.join(self.applied)}"] if self.applied else []
        said += [f"these need a restart of antler: {', '.join(self.restart)}"] if self.restart else []
        said += [f"{key} was not changed and continues as before: {why}" for key, why in self.refused]
        own = "; ".join(said) or "the config has not changed"
        return "\n".join([own, *(f"worker {worker.name}: {worker.text}" for worker in self.workers)])


class Reloader:
    """Reads and applies the config. source: of the config. current: the settings in force. adopt: applies others.
    retry: called after each reading, as refusals of platforms may be fixed by now. others: reloads other processes."""

    def __init__(
        self,
        source: SettingsSource,
        current: Callable[[], Settings],
        adopt: Callable[[Change], Awaitable[Outcome]],
        clock: Clock,
        retry: Callable[[], None] = lambda: None,
        others: Callable[[], Awaitable[tuple[WorkerOutcome, ...]]] | None = None,
    ) -> None:
        self.source = source
        self._current = current
        self._adopt = adopt
        self._clock = clock
        self._retry = retry
        self._others = others
        self._one = asyncio.Lock()
        self.told: Callable[[bool], None] = lambda under_way: None
        """Called when reading the config begins, and when it has ended."""
        self.last = Outcome()

    async def serve(self) -> None:
        """Reload when the files have changed, and at SIGHUP; runs until cancelled."""
        asked = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, asked.set)
        known, seen = self.source.seen, await self._signature()
        while True:
            await until_first(self._clock.sleep(LOOK_SECONDS), asked.wait())
            now = await self._signature()
            if (hangup := asked.is_set()) or (now != known and now == seen):
                asked.clear()
                known = now
                await self.reload("SIGHUP" if hangup else "the config's files")
            seen = now

    async def reload(self, by: str) -> Outcome:
        """Read the config and apply it at once. by: the origin of the request, for the log."""
        async with self._one:
            self.told(True)
            try:
                self.last = await self._reloaded()
                if self._others is not None and not self.last.problems:
                    self.last = replace(self.last, workers=await self._others())
            finally:
                self.told(False)
        self._retry()
        level = logging.INFO if self.last.complete and not self.last.restart else logging.WARNING
        keys = (*self.last.applied, *self.last.restart, *(key for key, _ in self.last.refused))
        about = {"event": EVENT, "action": str(Action.RELOAD), "by": by, "what": ", ".join(dict.fromkeys(keys))}
        log.log(level, "%s, by %s", self.last, by, extra=about | {"state": self.last.state})
        return self.last

    async def operation(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The reload operation of the control socket."""
        outcome = await self.reload(MACHINE)
        return {"ok": outcome.complete, "text": str(outcome)}

    async def _reloaded(self) -> Outcome:
        try:
            settings = await asyncio.to_thread(self.source.read)
            return await self._adopt(change(self._current(), settings))
        except ConfigError as error:
            return Outcome(problems=tuple(str(problem) for problem in error.problems))
        except Exception as error:
            # Any error (a bad model class, a provider of guardrails): the next edit must still be noticed.
            log.exception("the config could not be applied")
            return Outcome(problems=(f"unexpected error: {type(error).__name__}; see the log",))

    async def _signature(self) -> Signature:
        return await asyncio.to_thread(self.source.signature, self._current().agents_dir)
