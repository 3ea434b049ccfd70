"""From `sandbox.use` to a working provider: the table of providers, imported lazily, and the fallback without one.

The gateway starts the provider; `antler check-config` probes with it. A provider is imported only if it is chosen.
"""

from __future__ import annotations

import asyncio
import importlib
import os
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from sandbox.base import SandboxError, SandboxUnavailable, Watched, direct
from sandbox.files.skills import no_skills

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from sandbox.base import Report, Route, Sandbox, SandboxProvider
    from sandbox.config import SandboxSettings
    from sandbox.files.skills import SkillsOf
    from sandbox.files.workspace import Workspaces
    from sandbox.remote.homes import Homes

OFF = "off"
REMOTE = "remote"
_CLASSES = {
    "bubblewrap": "sandbox.local.bubblewrap:BubblewrapProvider",
    "landlock": "sandbox.local.landlock:LandlockProvider",
    "docker": "sandbox.docker.provider:DockerProvider",
    "host": "sandbox.local.host:host_provider",
    "remote": "sandbox.remote.provider:RemoteProvider",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The location of a gateway's sandboxes.

    folder_of: a thread's user-data folder. instance: identifies this gateway's resources on this machine; stable across
    restarts and unique among gateways. runtime: the folder of the runtime for the agent's code, which may be built
    later; None if there is none. skills: of a thread. route: (proxy, CA file) for an address of sandbox.remote.url.
    servers: a folder for notes on those servers, shared by all processes like the threads' folders; None: no notes.
    """

    folder_of: Callable[[str], Path]
    instance: str
    runtime: Path | None = None
    skills: SkillsOf = no_skills
    route: Callable[[str], Route] = direct
    servers: Path | None = None


class SharedProvider:
    """A SandboxProvider on top of another one: a release takes effect when the thread's sandbox is no longer in use."""

    def __init__(self, provider: SandboxProvider) -> None:
        self._provider = provider
        self._acquired: set[str] = set()
        self._borrowed: Counter[str] = Counter()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @property
    def troubles(self) -> tuple[str, ...]:
        """Current problems, see Watched; () for a provider that does not report any."""
        return self._provider.troubles if isinstance(self._provider, Watched) else ()

    async def start(self) -> Report:
        return await self._provider.start()

    async def acquire(self, thread_id: str) -> Sandbox:
        async with self._lock(thread_id):
            sandbox = await self._provider.acquire(thread_id)
            self._acquired.add(thread_id)
            return sandbox

    @asynccontextmanager
    async def borrow(self, thread_id: str) -> AsyncIterator[Sandbox]:
        """Use the thread's sandbox temporarily, whether or not a run uses it. Raises SandboxError like `acquire`."""
        self._borrowed[thread_id] += 1
        try:
            async with self._lock(thread_id):
                sandbox = await self._provider.acquire(thread_id)
            yield sandbox
        finally:
            self._borrowed[thread_id] -= 1
            await self._release_unused(thread_id)

    def get(self, thread_id: str) -> Sandbox | None:
        return self._provider.get(thread_id)

    async def release(self, thread_id: str) -> None:
        self._acquired.discard(thread_id)
        await self._release_unused(thread_id)

    async def _release_unused(self, thread_id: str) -> None:
        async with self._lock(thread_id):
            if self._borrowed[thread_id] or thread_id in self._acquired:
                return
            del self._borrowed[thread_id]
            await self._provider.release(thread_id)

    async def forget(self, thread_id: str) -> None:
        async with self._lock(thread_id):
            self._acquired.discard(thread_id)
            await self._provider.forget(thread_id)

    async def shutdown(self) -> None:
        await self._provider.shutdown()

    def _lock(self, thread_id: str) -> asyncio.Lock:
        """The lock of one thread's sandbox: a new one is not created before the old one is gone."""
        return self._locks.setdefault(thread_id, asyncio.Lock())


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A working provider, and its report."""

    provider: SharedProvider
    report: Report


async def start(settings: SandboxSettings, site: Site) -> Started:
    """Start the configured provider; not for `off`.

    If it does not work, commands are refused, but files remain available. Raises SandboxError if not even files work,
    or if they are on another machine.
    """
    try:
        await asyncio.to_thread(_loaded, settings.use)  # imports can take a while
        return await _started(make(settings, site))
    except SandboxError as error:
        if settings.use == REMOTE:
            raise  # the threads' files are there, and files on this machine would be others
        return await _files_only(settings, site, error)
    except OSError as error:
        return await _files_only(settings, site, SandboxError(os.strerror(error.errno or 0).lower()))


def make(settings: SandboxSettings, site: Site) -> SandboxProvider:
    """Make the provider without starting it. Raises SandboxUnavailable if that fails.

    A user's own class is called like the built-in ones: Class(settings, workspaces, instance=..., runtime=...).
    """
    provider: SandboxProvider
    made = _loaded(settings.use)
    match settings.use:
        case "remote":
            provider = made(settings, route=site.route, skills=site.skills, homes=_homes(site))
        case "docker":
            provider = made(
                settings, settings.docker, _workspaces(settings, site), instance=site.instance, runtime=site.runtime
            )
        case _:
            provider = made(settings, _workspaces(settings, site), instance=site.instance, runtime=site.runtime)
    return provider


async def _files_only(settings: SandboxSettings, site: Site, refusal: SandboxError) -> Started:
    module = importlib.import_module("sandbox.local.sandbox")
    return await _started(module.FilesOnlyProvider(_workspaces(settings, site), name=settings.use, refusal=refusal))


async def _started(provider: SandboxProvider) -> Started:
    try:
        report = await provider.start()
    except BaseException:  # including a stop during the start
        await provider.shutdown()
        raise
    return Started(provider=SharedProvider(provider), report=report)


def _homes(site: Site) -> Homes | None:
    if site.servers is None:
        return None
    homes: Homes = importlib.import_module("sandbox.remote.homes").Homes(site.folder_of, site.servers)
    return homes


def _workspaces(settings: SandboxSettings, site: Site) -> Workspaces:
    module = importlib.import_module("sandbox.files.workspace")
    workspaces: Workspaces = module.Workspaces(site.folder_of, settings, skills=site.skills)
    return workspaces


def _loaded(use: str) -> Callable[..., Any]:
    """The class of a name. Raises SandboxUnavailable."""
    module, colon, name = _CLASSES.get(use, use).partition(":")
    if not colon:
        raise SandboxUnavailable(f"this version has no provider {use}", f"available: {', '.join(_CLASSES)}")
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise SandboxUnavailable(f"the provider {use} cannot be loaded: {error}") from error
    return found
