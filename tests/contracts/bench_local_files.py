"""The bench of the file half that providers with folders on this machine share: a provider without commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox.base import CommandResult, Isolation, Report, SandboxUnavailable
from sandbox.files.workspace import Workspaces
from sandbox.local.sandbox import LocalSandbox
from tests.contracts.sandbox_bench import SETTINGS, Ability, SandboxBench

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sandbox.files.skills import SkillsOf


class FilesOnly(LocalSandbox):
    """Sandbox port without commands."""

    async def execute_command(
        self, command: str, *, timeout: float, on_output: Callable[[str], None] | None = None
    ) -> CommandResult:
        raise SandboxUnavailable("this sandbox has files only")


class FilesOnlyProvider:
    """SandboxProvider port."""

    def __init__(self, folder_of: Callable[[str], Path], skills: SkillsOf) -> None:
        self._workspaces = Workspaces(folder_of, SETTINGS, skills=skills)
        self._held: dict[str, FilesOnly] = {}

    async def start(self) -> Report:
        shortfalls = await self._workspaces.start()
        return Report(provider="files", isolation=Isolation.NONE, bash=False, shortfalls=shortfalls)

    async def acquire(self, thread_id: str) -> FilesOnly:
        made = FilesOnly(thread_id, await self._workspaces.open(thread_id))
        return self._held.setdefault(thread_id, made)

    def get(self, thread_id: str) -> FilesOnly | None:
        return self._held.get(thread_id)

    async def release(self, thread_id: str) -> None:
        self._held.pop(thread_id, None)

    async def forget(self, thread_id: str) -> None:
        await self.release(thread_id)

    async def shutdown(self) -> None:
        self._held.clear()
        self._workspaces.close()


LOCAL_FILES = SandboxBench(
    FilesOnlyProvider,
    lacks={Ability.COMMANDS: "it has files only", Ability.SHELL: "it has files only"},
)
