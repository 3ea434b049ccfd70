"""The agent of this process. It is imported and built while the channels already run; earlier runs wait for it."""

from __future__ import annotations

import asyncio
import importlib
import logging
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING

from bot.store.sql import libpq_url
from bot.tasks import Tasks
from bot.texts import texts_for
from bot.texts.commands import unmarked
from harness.errors import SetupError
from harness.research.config import ResearchParts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from bot.files.sandboxes import Sandboxes
    from bot.process.tracing import OtlpTracing
    from bot.redaction import Redactor
    from bot.settings import Settings
    from harness.agents.parts import Parts
    from harness.agents.profiles import AgentDefinition
    from harness.graph.sandbox import SandboxSetup
    from harness.mcp.pool import McpPool
    from harness.ports import Harness

    MakeHarness = Callable[[Parts, str, Harness | None], Awaitable[Harness]]
    """Builds an agent from its parts and the URL of its checkpoints, to replace the given former one."""

log = logging.getLogger(__name__)


async def load_harness() -> MakeHarness:
    """Return the agent factory. Its import is slow, so it runs in a thread."""
    runner = await asyncio.to_thread(importlib.import_module, "harness.run.runner")
    make: MakeHarness = runner.make_harness
    return make


class Agent:
    """The current agent, and its replacement when the settings change.

    sandboxes: started with the agent, shut down by the caller.
    make_servers: makes the MCP servers for given settings; they are started and closed with the agents that use them.
    parts: makes an agent's parts for given settings, except the sandbox, the servers and the definitions.
    definitions: agent definitions by name.
    load: returns the agent factory; called once.
    """

    def __init__(
        self,
        settings: Settings,
        sandboxes: Sandboxes,
        make_servers: Callable[[Settings], McpPool],
        parts: Callable[[Settings], Parts],
        definitions: Mapping[str, AgentDefinition] | None = None,
        load: Callable[[], Awaitable[MakeHarness]] = load_harness,
    ) -> None:
        self._settings = settings
        self._sandboxes = sandboxes
        self.make_servers = make_servers
        self._servers = make_servers(settings)
        self._parts = parts
        self._definitions = definitions or {}
        self._load = load
        self._harness: asyncio.Future[Harness] = asyncio.get_running_loop().create_future()
        self._made_with: tuple[MakeHarness, SandboxSetup | None] | None = None
        self._tasks = Tasks("agent")
        self._retiring: list[McpPool] = []

    async def harness(self) -> Harness:
        """Wait for the agent to be built and return it. Raises the exception with which the build failed."""
        return await asyncio.shield(self._harness)

    @property
    def servers(self) -> McpPool:
        return self._servers

    @property
    def is_built(self) -> bool:
        return self._harness.done() and not self._harness.exception()

    async def build(self) -> Exception | None:
        """Import and build the agent, once. Returns None, or the error with a text for operators: a SetupError if the
        config has to be changed."""
        try:
            make, sandbox = await asyncio.gather(self._load(), self._sandboxes.start())
            self._sandboxes.tell()
            self._made_with = make, sandbox
            self._harness.set_result(
                await self._made_by(make, sandbox, self._settings, self._servers, self._definitions)
            )
        except SetupError as error:
            self._harness.set_exception(error)
            return error
        except Exception as error:
            # Whatever the error (a missing package, a bad model class), the runs waiting for the agent must receive it.
            log.exception("the agent cannot be built")
            self._harness.set_exception(error)
            return RuntimeError("the agent cannot be built")
        return None

    async def renew(
        self, settings: Settings, definitions: Mapping[str, AgentDefinition], *, other_servers: bool
    ) -> str | None:
        """Replace the agent; active runs finish with the one they started with. Returns the reason for operators if
        that is impossible; then, or if this raises, nothing changes. other_servers: the MCP servers have changed."""
        former, made_with, before = await self.harness(), self._made_with, self._servers
        if made_with is None:
            raise RuntimeError("the agent was not built here")
        servers = self.make_servers(settings) if other_servers else before
        try:
            made = await self._made_by(*made_with, settings, servers, definitions, former=former)
        except BaseException as error:  # cancellation too: only this code has a reference to the new servers
            if servers is not before:
                await servers.close()
            if isinstance(error, SetupError):
                return str(error)
            raise
        self._servers = servers
        self._harness = asyncio.get_running_loop().create_future()
        self._harness.set_result(made)
        self._retiring.append(before)
        self._tasks.spawn("former", self._retire(former, before))
        return None

    async def _retire(self, former: Harness, servers: McpPool) -> None:
        """servers: closed with the last agent that uses them."""
        try:
            await former.retire()
        finally:
            self._retiring.remove(servers)
            if servers is not self._servers and servers not in self._retiring:
                await servers.close()

    async def close(self) -> None:
        """Release the agent's resources, if it was built; its runs must have ended."""
        await self._tasks.drain()
        await self._servers.close()
        if self.is_built:
            await self._harness.result().close()

    async def _made_by(
        self,
        make: MakeHarness,
        sandbox: SandboxSetup | None,
        settings: Settings,
        servers: McpPool,
        definitions: Mapping[str, AgentDefinition],
        former: Harness | None = None,
    ) -> Harness:
        servers.start()
        used = servers if settings.mcp_servers else None
        parts = replace(self._parts(settings), sandbox=sandbox, servers=used, definitions=definitions)
        return await make(parts, libpq_url(settings.checkpoints), former)


def research_parts(settings: Settings) -> ResearchParts | None:
    """The parts that research needs; None if it is disabled."""
    if not settings.research.enabled:
        return None
    return ResearchParts(
        settings=settings.research,
        words=lambda locale: {key: unmarked(text) for key, text in texts_for(locale).research.items()},
    )


def make_tracing(settings: Settings, redact: Redactor) -> OtlpTracing | None:
    """Return the tracing, or None if it is disabled. Raises SetupError if a required package is not installed."""
    if not settings.tracing.is_on:
        return None
    try:
        from bot.process.tracing import OtlpTracing
    except ImportError as error:
        raise SetupError(f"tracing: {error.name} is not installed; pip install 'antler[tracing]'") from error
    return OtlpTracing(settings.tracing, version("antler"), redact, settings.network_route)


def abilities(settings: Settings, sandboxes: Sandboxes) -> list[str]:
    """What the bot can do with these settings on this machine, as keys of Texts.abilities."""
    has = {
        "talk": True,
        "files": sandboxes.has_files,
        "commands": sandboxes.facts.state in ("full", "restricted", "none"),
        "search": settings.web.search.is_on,
        "pages": settings.web.fetch.enabled,
        "voice": settings.transcription is not None,
        "pictures": settings.images is not None and sandboxes.has_files,
        "reminders": settings.schedules.enabled,
        "knowledge": settings.knowledge.enabled,
        "memory": settings.memory.enabled,
    }
    return [ability for ability, there in has.items() if there]
