"""The sandboxes of this process: started with the agent, lent to conversions, ended at the stop.

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
"""Threads whose owner is known; the one that was told of longest ago is forgotten, until its next message."""
State = Literal["starting", "off", "failed", "files", "none", "restricted", "full"]
"""files: commands are refused, files work. failed: not even files. The last three: how well commands are held."""
WORDS: dict[State, str] = {
    "starting": "still starting",
    "off": "the agent has no files and runs no commands",
    "failed": "the agent has no files and runs no commands",
    "files": "the agent has files but runs no commands",
    "none": "commands run as this process's own user",
    "restricted": "commands are held, but less well than in namespaces of their own",
    "full": "commands run isolated",
}
"""For operators: the log, `antler status` and `antler check-config`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxFacts:
    """provider: as the settings name it. shortfalls: what is not as it should be on this machine, a sentence each.
    troubles: what does not work at this moment, though the rest does; each with a hint in brackets."""

    provider: str
    state: State
    shortfalls: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()

    def __str__(self) -> str:
        missing = "".join(f"; {each}" for each in (*self.troubles, *self.shortfalls))
        return f"{self.provider}: {WORDS[self.state]}{missing}"


def sources_in(data_dir: Path) -> FileSources:
    """The pages that threads have read, kept beside their files, where commands do not reach them."""
    return FileSources(partial(sources_folder, data_dir))


class ThreadOwners:
    """Whose the threads are that work now: told where a message's files come in and where a run begins, asked by the
    sandboxes, which show a thread its owner's own skills. A thread always belongs to one owner, who gets another name
    only where a chat gets another id.
    """

    def __init__(self) -> None:
        self._owners: OrderedDict[str, str] = OrderedDict()

    def learn(self, thread_id: str, owner: str) -> None:
        self._owners[thread_id] = owner
        self._owners.move_to_end(thread_id)
        if len(self._owners) > MOST_OWNERS:
            self._owners.popitem(last=False)

    def of(self, thread_id: str) -> str | None:
        """None of a thread that nobody told of: a probe's, or one that is at rest."""
        return self._owners.get(thread_id)


def instance_of(folder: Path, name: str = "") -> str:
    """What a process's sandboxes have in their names on this machine; the same after a restart. For the parameters see
    Sandboxes."""
    return hashlib.sha256(f"{folder.resolve()}{name}".encode()).hexdigest()[:12]


class Sandboxes:
    """folder: the data folder, which the threads' files are in. route: (proxy, CA file) for a URL. skills: the folders
    of the skills that a thread has. name: tells processes apart that share the folder."""

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
        """Once: start what the settings ask for; for the agent, None where it gets no sandbox."""
        self._begun = True
        try:
            if self._settings.use != OFF:
                await self._start()
        finally:
            self._done.set()
        return self._setup()

    def tell(self) -> None:
        """One line for the log: a warning where this machine does not give what the settings ask for."""
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
        """What is known now."""
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
        """Agents have files, or will have as soon as it has started."""
        return self.facts.state not in ("off", "failed")

    @property
    def owner(self) -> Owner | None:
        """Who commands run as, and so whose the files of a thread must be, where that is not this process's user."""
        return owner_of(self._settings) if self._settings.use not in (OFF, REMOTE) else None

    @property
    def has_runtime(self) -> bool:
        """Commands find the packages for the agent's code, as far as is known here."""
        return self._settings.use == REMOTE or policy.complete(self._packages) is not None

    @property
    def elsewhere(self) -> bool:
        """The files of threads are not in their folders on this machine, so what comes has to be put into the
        sandbox."""
        return self._settings.use == REMOTE

    @asynccontextmanager
    async def borrow(self, thread_id: str) -> AsyncIterator[Sandbox]:
        """A thread's sandbox, next to anything else that happens in it. Waits for the start.

        Raises SandboxError where there is none.
        """
        await self._done.wait()
        if self._started is None:
            raise SandboxError("there is no sandbox")
        async with self._started.provider.borrow(thread_id) as sandbox:
            yield sandbox

    async def forget(self, thread_id: str) -> None:
        """Delete a thread's files, here and where its provider keeps them; what runs in it is ended. Idempotent. Waits
        for the start. Raises SandboxError."""
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
        """Give another thread, which has no files yet, a copy of a thread's. False: not all of them: they are too many,
        or not on this machine. Raises SandboxError."""
        if self.elsewhere:
            return False
        workspaces = Workspaces(self._site.folder_of, self._settings)
        try:
            return await workspaces.copy(thread_id, other)
        finally:
            workspaces.close()

    async def shutdown(self, seconds: float) -> None:
        """End what runs; what hangs longer than that is left to the next start. Idempotent."""
        if self._begun:
            with contextlib.suppress(TimeoutError):  # a start that was cancelled takes back what it has begun
                async with asyncio.timeout(seconds):
                    await self._done.wait()
        started, self._started = self._started, None
        if started is None:
            return
        try:
            async with asyncio.timeout(seconds):
                await started.provider.shutdown()
        except TimeoutError:
            log.warning("the sandbox did not end within %.1f s", seconds)
        except SandboxError as error:
            log.warning("the sandbox did not end as it should: %s %s", error, error.hint)


async def probe(settings: Settings) -> SandboxFacts:
    """Try the sandbox that the settings ask for, on the file system of the data folder, and end it again."""
    existing = next(path for path in (settings.data_dir, *settings.data_dir.parents) if path.is_dir())
    with tempfile.TemporaryDirectory(prefix=".antler-probe-", dir=existing) as folder:
        sandboxes = Sandboxes(settings.sandbox, Path(folder), settings.network_route)
        try:
            await sandboxes.start()
            return sandboxes.facts
        finally:
            await sandboxes.shutdown(START_SECONDS)
