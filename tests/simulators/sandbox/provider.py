"""An in-memory sandbox and its provider for tests of the tools; it interprets a few simple commands."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING

from sandbox.base import (
    OUTPUTS,
    SKILLS,
    UPLOADS,
    WORKSPACE,
    CommandResult,
    Ending,
    Entries,
    FileInfo,
    FileText,
    Hits,
    Isolation,
    Problem,
    Report,
    SandboxError,
    Updated,
    sandbox_id,
)
from sandbox.config import SandboxSettings
from sandbox.files.beneath import Refused
from sandbox.files.content import CHUNK
from sandbox.files.paths import shown
from sandbox.files.patterns import Glob, LinePattern, split_glob
from sandbox.files.skills import no_skills
from sandbox.local.process import Capture
from tests.simulators.sandbox.drive import Drive
from tests.simulators.sandbox.shell import Shell
from tests.simulators.sandbox.skills import read_skills

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from sandbox.files.skills import SkillsOf
    from sandbox.files.workspace import Workspaces
    from tests.simulators.sandbox.drive import MemoryFile

MEGABYTE = 1 << 20
HEAD = TAIL = 256 * 1024
"""Bytes of a command's output that are kept from each of its beginning and its end."""


class MemorySandbox:
    """Sandbox port. drive: its files, for its maker. skills: the folders of skills."""

    def __init__(self, thread_id: str, drive: Drive, skills: Callable[[], Mapping[str, Path]] = dict) -> None:
        self.id = sandbox_id(thread_id)
        self.drive = drive
        self._skills = skills
        self._running: set[asyncio.Task[int]] = set()
        self._closed = False

    async def execute_command(
        self, command: str, *, timeout: float, on_output: Callable[[str], None] | None = None
    ) -> CommandResult:
        if self._closed:
            raise SandboxError("the sandbox is closed")
        await self._look_at_skills(command)
        capture = Capture(HEAD, TAIL, on_output)
        begun = time.monotonic()
        running = asyncio.create_task(Shell(self.drive, capture.add).run(command), name="command in memory")
        self._running.add(running)
        try:
            done, _ = await asyncio.wait({running}, timeout=timeout)
        finally:
            self._running.discard(running)
            running.cancel()
            await asyncio.wait({running})
        if self._closed:
            raise SandboxError("the sandbox was closed while the command ran")
        text = capture.finish()
        return CommandResult(
            ending=Ending.EXITED if done else Ending.TIMED_OUT,
            exit_code=running.result() if done else None,
            output=text.output,
            seconds=time.monotonic() - begun,
            omitted=text.omitted,
            gap=text.gap,
        )

    async def read_file(
        self, path: str, *, first_line: int = 1, last_line: int | None = None, max_bytes: int = 200_000
    ) -> FileText | Problem:
        await self._look_at_skills(path)
        try:
            lines = self.drive.lines(path, first_line, last_line, max_bytes)
            info = self._info(path, self.drive.file(path))
        except Refused as refused:
            return _problem(path, refused)
        return FileText(
            info=info,
            text=lines.text,
            first_line=lines.first,
            last_line=lines.last,
            total_lines=lines.total,
            cut=lines.cut,
        )

    async def fetch(
        self, path: str, write: Callable[[bytes], Awaitable[None]], *, max_bytes: int
    ) -> FileInfo | Problem:
        await self._look_at_skills(path)
        try:
            file = self.drive.file(path, most=max_bytes)
        except Refused as refused:
            return _problem(path, refused)
        for begin in range(0, len(file.data), CHUNK):
            await write(file.data[begin : begin + CHUNK])
        return self._info(path, file)

    async def write_file(
        self, path: str, content: str | bytes, *, append: bool = False, expected: str | None = None
    ) -> FileInfo | Problem:
        try:
            return self._info(path, self.drive.write(path, content, append=append, expected=expected))
        except Refused as refused:
            return _problem(path, refused)

    async def update_file(
        self, path: str, old: str, new: str, *, replace_all: bool = False, expected: str | None = None
    ) -> Updated | Problem:
        try:
            file, count = self.drive.update(path, old, new, everywhere=replace_all, expected=expected)
        except Refused as refused:
            return _problem(path, refused)
        return Updated(info=self._info(path, file), replaced=count)

    async def list_dir(self, path: str, *, depth: int = 2, most: int = 1000) -> Entries | Problem:
        await self._look_at_skills(path)
        try:
            entries = self.drive.listed(path, depth, most + 1)
        except Refused as refused:
            return _problem(path, refused)
        return Entries(entries=tuple(entries[:most]), more=len(entries) > most)

    async def glob(self, pattern: str, path: str = WORKSPACE, *, most: int = 200) -> Entries | Problem:
        await self._look_at_skills(path, pattern)
        try:
            rest, start = split_glob(pattern, path)
            entries = self.drive.glob(Glob(rest), start, most + 1)
        except Refused as refused:
            return _problem(path, refused)
        return Entries(entries=tuple(entries[:most]), more=len(entries) > most)

    async def grep(
        self, pattern: str, path: str = WORKSPACE, *, glob: str = "", ignore_case: bool = False, most: int = 100
    ) -> Hits | Problem:
        await self._look_at_skills(path)
        try:
            names = Glob.of_names(glob) if glob else None
            hits = self.drive.grep(LinePattern(pattern, ignore_case=ignore_case), path, names, most + 1)
        except Refused as refused:
            return _problem(path, refused)
        return Hits(hits=tuple(hits[:most]), more=len(hits) > most)

    async def _look_at_skills(self, *texts: str) -> None:
        """Reload the skills if one of these texts may refer to them."""
        if any(SKILLS in text or text.rstrip("/") in ("", "/mnt") for text in texts):
            folders = self._skills()
            if folders or self.drive.shows:
                self.drive.show(await asyncio.to_thread(read_skills, folders))

    def _info(self, path: str, file: MemoryFile) -> FileInfo:
        return FileInfo(path=shown(self.drive.place(path).virtual), size=len(file.data), version=file.version)

    async def close(self) -> None:
        """End running commands; none can be started any more."""
        self._closed = True
        for running in self._running:
            running.cancel()


def _problem(path: str, refused: Refused) -> Problem:
    return Problem(code=refused.code, path=path, detail=refused.detail)


USE = "tests.simulators.sandbox.provider:make"
"""The value of `sandbox.use` in the settings of a test."""


class MemoryProvider:
    """SandboxProvider port. A thread's files are kept until it is forgotten or the process ends."""

    def __init__(
        self,
        settings: SandboxSettings | None = None,
        *,
        skills: SkillsOf = no_skills,
        workspaces: Workspaces | None = None,
    ) -> None:
        """Make a provider. skills: of a thread; read whenever they are requested. workspaces: closed with it."""
        self._settings = settings or SandboxSettings(use=USE)
        self._skills = skills
        self._workspaces = workspaces
        self._drives: dict[str, Drive] = {}
        self._held: dict[str, MemorySandbox] = {}

    async def start(self) -> Report:
        return Report(
            provider="memory",
            isolation=Isolation.FULL,
            bash=True,
            shortfalls=("Files are kept in memory only, and a few simple commands are known.",),
        )

    async def acquire(self, thread_id: str) -> MemorySandbox:
        if thread_id not in self._held:
            skills = partial(self._skills, thread_id)
            self._held[thread_id] = MemorySandbox(thread_id, self.drive(thread_id), skills)
        return self._held[thread_id]

    def drive(self, thread_id: str) -> Drive:
        """The thread's files, created if there are none yet."""
        limits = self._settings.limits
        roots = {WORKSPACE: False, UPLOADS: False, OUTPUTS: False, SKILLS: True}
        roots |= {mount.path: mount.read_only for mount in self._settings.mounts}
        if thread_id not in self._drives:
            self._drives[thread_id] = Drive(
                roots,
                largest_file=limits.file_mb * MEGABYTE,
                most_bytes=limits.disk_mb * MEGABYTE,
                most_entries=limits.inodes,
            )
        return self._drives[thread_id]

    def get(self, thread_id: str) -> MemorySandbox | None:
        return self._held.get(thread_id)

    async def release(self, thread_id: str) -> None:
        held = self._held.pop(thread_id, None)
        if held is not None:
            await held.close()

    async def forget(self, thread_id: str) -> None:
        await self.release(thread_id)
        self._drives.pop(thread_id, None)

    async def shutdown(self) -> None:
        for thread_id in tuple(self._held):
            await self.release(thread_id)
        if self._workspaces is not None:
            self._workspaces.close()


def make(
    settings: SandboxSettings, workspaces: Workspaces, *, instance: str, runtime: Path | None = None
) -> MemoryProvider:
    """Make a provider with the signature by which the gateway calls a user's own class."""
    return MemoryProvider(settings, skills=workspaces.skills_of, workspaces=workspaces)
