"""The base of sandboxes with folders on this machine, the registry of sandboxes by thread, and the provider of files
without commands, the fallback if another one does not work."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from sandbox.base import Isolation, Report, SandboxError, sandbox_id

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from sandbox.base import OnOutput
    from sandbox.files.local import LocalFiles
    from sandbox.files.workspace import Workspaces


T = TypeVar("T")


class HeldByThread(Generic[T]):
    """A provider's object for each thread; it is made once, even with concurrent requests."""

    def __init__(self, make: Callable[[str], Coroutine[Any, Any, T]]) -> None:
        self._make = make
        self._made: dict[str, asyncio.Task[T]] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    async def get_or_make(self, thread_id: str) -> T:
        """The thread's object; after a SandboxError or an OSError the next call tries again."""
        if thread_id not in self._made:
            self._made[thread_id] = asyncio.create_task(self._make(thread_id), name="acquire a sandbox")
        making = self._made[thread_id]
        try:
            return await asyncio.shield(making)
        except (SandboxError, OSError):
            if self._made.get(thread_id) is making:
                del self._made[thread_id]
            raise

    def get(self, thread_id: str) -> T | None:
        """The thread's object, if it already exists."""
        making = self._made.get(thread_id)
        if making is None or not making.done() or making.cancelled() or making.exception() is not None:
            return None
        return making.result()

    async def pop(self, thread_id: str) -> T | None:
        """Remove and return it; None if there was none, or if it could not be made."""
        making = self._made.pop(thread_id, None)
        try:
            return None if making is None else await making
        except (SandboxError, OSError):
            return None  # the requester has received the error


class LocalSandbox:
    """The sandbox of one thread, with the methods of LocalFiles; subclasses run commands."""

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
    """The sandbox of one thread that has files and refuses commands."""

    def __init__(self, thread_id: str, files: LocalFiles, refusal: SandboxError) -> None:
        super().__init__(thread_id, files)
        self._refusal = refusal

    async def execute_command(self, command: str, *, timeout: float, on_output: OnOutput = None) -> NoReturn:
        """Raises SandboxError, always: no command is run with less isolation than configured."""
        raise SandboxError(f"commands cannot be run: {self._refusal}", self._refusal.hint)


class FilesOnlyProvider:
    """SandboxProvider port. name, refusal: of the provider that does not work. It closes `workspaces`."""

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
