"""Base of the sandboxes over folders of this machine, and the provider of files without commands, which is what is left
where another one does not work."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from sandbox.base import Isolation, Report, SandboxError, sandbox_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from sandbox.files.local import LocalFiles
    from sandbox.files.workspace import Workspaces


class LocalSandbox:
    """One thread's. Its file half is LocalFiles', whose methods it has as its own; who inherits it runs commands."""

    def __init__(self, thread_id: str, files: LocalFiles) -> None:
        self._id = sandbox_id(thread_id)
        self.read_file = files.read_file
        self.fetch = files.fetch
        self.write_file = files.write_file
        self.update_file = files.update_file
        self.list_dir = files.list_dir
        self.glob = files.glob
        self.grep = files.grep

    @property
    def id(self) -> str:
        return self._id


class FilesOnlySandbox(LocalSandbox):
    """One thread's."""

    def __init__(self, thread_id: str, files: LocalFiles, refusal: SandboxError) -> None:
        super().__init__(thread_id, files)
        self._refusal = refusal

    async def execute_command(
        self, command: str, *, timeout: float, on_output: Callable[[str], None] | None = None
    ) -> NoReturn:
        """Raises SandboxError, always: no command is run in a weaker way than the settings ask for."""
        raise SandboxError(f"commands cannot be run: {self._refusal}", self._refusal.hint)


class FilesOnlyProvider:
    """SandboxProvider port. name: of the provider that does not work, and why. It closes `workspaces`."""

    def __init__(self, workspaces: Workspaces, *, name: str, refusal: SandboxError) -> None:
        self._workspaces = workspaces
        self._name = name
        self._refusal = refusal
        self._held: dict[str, FilesOnlySandbox] = {}

    async def start(self) -> Report:
        shortfalls = await self._workspaces.start()
        hint = f" ({self._refusal.hint})" if self._refusal.hint else ""
        why = f"commands are refused: {self._refusal}{hint}"
        return Report(provider=self._name, isolation=Isolation.NONE, bash=False, shortfalls=(why, *shortfalls))

    async def acquire(self, thread_id: str) -> FilesOnlySandbox:
        if thread_id not in self._held:
            sandbox = FilesOnlySandbox(thread_id, await self._workspaces.open(thread_id), self._refusal)
            self._held.setdefault(thread_id, sandbox)
        return self._held[thread_id]

    def get(self, thread_id: str) -> FilesOnlySandbox | None:
        return self._held.get(thread_id)

    async def release(self, thread_id: str) -> None:
        self._held.pop(thread_id, None)

    async def forget(self, thread_id: str) -> None:
        await self.release(thread_id)

    async def shutdown(self) -> None:
        self._held.clear()
        self._workspaces.close()
