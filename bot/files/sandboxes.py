"""The sandboxes of this process: started with the agent, lent to conversions, shut down with the process.

`antler check-config` and `antler doctor` probe with the same code.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import tempfile
from collections import OrderedDict
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bot.store.identity import sources_folder, thread_folder
from harness.graph.sandbox import SandboxSetup
from harness.web.sources import FileSources
from sandbox import policy, providers
from sandbox.base import SandboxError, direct
from sandbox.files.beneath import Owner, owner_of
from sandbox.files.skills import no_skills
from sandbox.files.workspace import Workspaces
from sandbox.providers import OFF, REMOTE, Site, Started

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from bot.settings import Settings
    from sandbox.base import Route, Sandbox
    from sandbox.config import SandboxSettings
    from sandbox.files.skills import SkillsOf

log = logging.getLogger(__name__)

START_SECONDS = 60.0
MOST_OWNERS = 10_000
"""Threads whose owners are remembered; beyond that the least recently seen one is forgotten, until its next message."""
State = Literal["starting", "off", "failed", "files", "none", "restricted", "full"]
"""files: commands are refused, files work. failed: not even files work. The last three: how well commands are
isolated."""
WORDS: dict[State, str] = {
    "starting": "still starting",
    "off": "the agent has no files and runs no commands",
    "failed": "the agent has no files and runs no commands",
    "files": "the agent has files but runs no commands",
    "none": "commands run as this process's own user",
    "restricted": "commands are confined, but less well than in namespaces of their own",
    "full": "commands run isolated",
}
"""Descriptions for operators: the log, `antler status` and `antler check-config`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxFacts:
    """What is known of the sandbox. provider: as in the settings. shortfalls: what falls short on this machine, a
    sentence each. troubles: what does not work right now though the rest does, each with a hint in brackets."""

    provider: str
    state: State
    shortfalls: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()

    def __str__(self) -> str:
        missing = "".join(f"; {each}" for each in (*self.troubles, *self.shortfalls))
        return f"{self.provider}: {WORDS[self.state]}{missing}"


def sources_in(data_dir: Path) -> FileSources:
    """The pages that threads have read, stored next to their files but out of reach of commands."""
    return FileSources(partial(sources_folder, data_dir))


class ThreadOwners:
    """The owners of active threads, learned where a message's files arrive and where a run begins; the sandboxes query
    it to show a thread its owner's own skills. A thread always belongs to one owner, whose name changes only where a
    chat gets another id."""

    def __init__(self) -> None:
        self._owners: OrderedDict[str, str] = OrderedDict()

    def learn(self, thread_id: str, owner: str) -> None:
        self._owners[thread_id] = owner
        self._owners.move_to_end(thread_id)
        if len(self._owners) > MOST_OWNERS:
            self._owners.popitem(last=False)

    def of(self, thread_id: str) -> str | None:
        """The owner of a thread; None for an unknown thread: that of a probe, or an idle one."""
        return self._owners.get(thread_id)


def instance_of(folder: Path, name: str = "") -> str:
    """The part that the names of a process's sandboxes have in common on this machine; the same after a restart. For
    the parameters see Sandboxes."""
    return hashlib.sha256(f"{folder.resolve()}{name}".encode()).hexdigest()[:12]


class Sandboxes:
    """The sandboxes of one process. folder: the data folder, which holds the threads' files. route: (proxy, CA file)
    for a URL. skills: the folders of a thread's skills. name: distinguishes processes that share the folder."""

    def __init__(
        self,
        settings: SandboxSettings,
        folder: Path,
        route: Callable[[str], Route] = direct,
        *,
        skills: SkillsOf = no_skills,
        name: str = "",
    ) -> None:
        self._settings = settings
        self._packages = settings.runtime or policy.DEFAULT_FOLDER
        self._site = Site(
            folder_of=partial(thread_folder, folder),
            instance=instance_of(folder, name),
            runtime=self._packages,
            skills=skills,
            route=route,
            servers=folder / "threads" / ".sandbox-servers",
        )
        self._started: Started | None = None
        self._failure: SandboxError | None = None
        self._done = asyncio.Event()
        self._begun = False

    async def start(self) -> SandboxSetup | None:
        """Start what the settings ask for; called once. Returns the agent's setup, None where it gets no sandbox."""
        self._begun = True
        try:
            if self._settings.use != OFF:
                await self._start()
        finally:
            self._done.set()
        return self._setup()

    def tell(self) -> None:
        """Log one line: a warning where this machine does not provide what the settings ask for."""
        as_asked = self._settings.use == OFF or (self._started is not None and not self._started.report.shortfalls)
        log.log(logging.INFO if as_asked else logging.WARNING, "sandbox %s", self.facts)

    async def _start(self) -> None:
        try:
            async with asyncio.timeout(START_SECONDS):
                self._started = await providers.start(self._settings, self._site)
        except SandboxError as error:
            self._failure = error
        except TimeoutError:
            self._failure = SandboxError(f"it did not start within {START_SECONDS:g} seconds")

    def _setup(self) -> SandboxSetup | None:
        if self._started is None:
            return None
        limits = self._settings.limits
        return SandboxSetup(
            provider=self._started.provider,
            report=self._started.report,
            command_seconds=limits.command_seconds,
            most_command_seconds=limits.most_command_seconds,
        )

    @property
    def facts(self) -> SandboxFacts:
        use = self._settings.use
        if use == OFF:
            return SandboxFacts(provider=use, state="off")
        if self._failure is not None:
            hint = f" ({self._failure.hint})" if self._failure.hint else ""
            return SandboxFacts(provider=use, state="failed", shortfalls=(f"{self._failure}{hint}",))
        if self._started is None:
            return SandboxFacts(provider=use, state="starting")
        report = self._started.report
        state: State = report.isolation.value if report.bash else "files"
        without = [policy.RUNTIME_MISSING] if report.bash and not self.has_runtime else []
        troubles = self._started.provider.troubles
        return SandboxFacts(provider=use, state=state, shortfalls=(*report.shortfalls, *without), troubles=troubles)

    @property
    def has_files(self) -> bool:
        """Whether agents have files, or will have them once the sandbox has started."""
        return self.facts.state not in ("off", "failed")

    @property
    def owner(self) -> Owner | None:
        """The user that commands run as, who must own the files of a thread, where that is not this process's user."""
        return owner_of(self._settings) if self._settings.use not in (OFF, REMOTE) else None

    @property
    def has_runtime(self) -> bool:
        """Whether commands find the packages for the agent's code, as far as is known here."""
        return self._settings.use == REMOTE or policy.complete(self._packages) is not None

    @property
    def elsewhere(self) -> bool:
        """Whether the files of threads are not in their folders on this machine, so that received files have to be
        written into the sandbox."""
        return self._settings.use == REMOTE

    @asynccontextmanager
    async def borrow(self, thread_id: str) -> AsyncIterator[Sandbox]:
        """Borrow a thread's sandbox, which others may use concurrently. Waits for the start.

        Raises SandboxError where there is none.
        """
        await self._done.wait()
        if self._started is None:
            raise SandboxError("no sandbox is available")
        async with self._started.provider.borrow(thread_id) as sandbox:
            yield sandbox

    async def forget(self, thread_id: str) -> None:
        """Delete a thread's files, here and at its provider, and end what runs in it. Idempotent. Waits for the start.
        Raises SandboxError."""
        await self._done.wait()
        if self._started is not None:
            await self._started.provider.forget(thread_id)
        elif self.elsewhere:
            raise SandboxError("the sandbox that keeps the files does not work")
        workspaces = Workspaces(self._site.folder_of, self._settings)
        try:
            await workspaces.delete(thread_id)
        finally:
            workspaces.close()

    async def copy(self, thread_id: str, other: str) -> bool:
        """Copy a thread's files to another thread, which has none yet. Returns False where not all could be copied:
        they are too many, or not on this machine. Raises SandboxError."""
        if self.elsewhere:
            return False
        workspaces = Workspaces(self._site.folder_of, self._settings)
        try:
            return await workspaces.copy(thread_id, other)
        finally:
            workspaces.close()

    async def shutdown(self, seconds: float) -> None:
        """End what runs; what takes longer than these seconds is left to the next start. Idempotent."""
        if self._begun:
            with contextlib.suppress(TimeoutError):  # a cancelled start cleans up after itself
                async with asyncio.timeout(seconds):
                    await self._done.wait()
        started, self._started = self._started, None
        if started is None:
            return
        try:
            async with asyncio.timeout(seconds):
                await started.provider.shutdown()
        except TimeoutError:
            log.warning("the sandbox did not stop within %.1f s", seconds)
        except SandboxError as error:
            log.warning("the sandbox did not stop cleanly: %s %s", error, error.hint)


async def probe(settings: Settings) -> SandboxFacts:
    """Try the sandbox that the settings ask for, on the file system of the data folder, and shut it down again."""
    existing = next(path for path in (settings.data_dir, *settings.data_dir.parents) if path.is_dir())
    with tempfile.TemporaryDirectory(prefix=".antler-probe-", dir=existing) as folder:
        sandboxes = Sandboxes(settings.sandbox, Path(folder), settings.network_route)
        try:
            await sandboxes.start()
            return sandboxes.facts
        finally:
            await sandboxes.shutdown(START_SECONDS)
