"""Ownership of the data folder by one process at a time, with a file lock that the kernel releases however the process
ends; and execution of a command's request where the data is held: in the running process, else in this one."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.clock import SystemClock
from bot.control import logs
from bot.control.server import ANSWER_SECONDS, NotRunning, Refused, ask, connection
from bot.redaction import Redactor
from bot.store import Store
from bot.store.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from types import TracebackType

    from bot.settings import Settings

    Here = Callable[[Settings, Store, Mapping[str, Any]], Coroutine[Any, Any, dict[str, Any]]]

FILE = "antler.lock"
SHARED = Path("threads", ".gateway")
"""A file below the data folder that tells workers that a gateway has these threads' files. Where gateways and workers
run in containers, they share only what belongs to conversations, and each has its own data folder around it."""


class DataDirInUse(Exception):
    """Another process holds the folder. pid: of that process, None when it is not known."""

    def __init__(self, data_dir: Path, pid: int | None) -> None:
        who = f"process {pid}" if pid else "another process"
        super().__init__(f"{data_dir} is in use by {who}: stop it, or use another data_dir")
        self.pid = pid


class DataDirUnusable(OSError):
    """The folder cannot be created, or the lock in it cannot be opened."""

    def __str__(self) -> str:
        return (
            f"{self.filename}: {self.strerror}; the data folder and all in it must belong to the user that runs antler"
        )


def holder(data_dir: Path) -> int | None:
    """The id of the process that holds the folder, 0 when it is unknown; None when no process does. Changes nothing."""
    try:
        fd = os.open(data_dir / FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # released at once, so that a start hardly ever meets it
    except BlockingIOError:
        text = os.read(fd, 32).decode("ascii", "replace").strip()
        return int(text) if text.isdecimal() else 0
    else:
        return None
    finally:
        os.close(fd)


class DataDirLock:
    """A lock held within the block. Raises DataDirInUse, DataDirUnusable.

    file: the file to lock, for other processes that share the folder with its holder.
    """

    def __init__(self, data_dir: Path, file: str = FILE) -> None:
        self._data_dir = data_dir
        self._file = file
        self._fd: int | None = None

    def __enter__(self) -> None:
        try:
            self._data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(self._data_dir / self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DataDirUnusable(error.errno, error.strerror, error.filename) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(fd, 32).decode("ascii", "replace").strip()
            os.close(fd)
            raise DataDirInUse(self._data_dir, int(holder) if holder.isdecimal() else None) from None
        with contextlib.suppress(OSError):  # it is only for messages, and the disk may be full
            os.ftruncate(fd, 0)
            os.write(fd, f"{os.getpid()}\n".encode())
        self._fd = fd

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def mark_shared(data_dir: Path) -> None:
    """Create the mark SHARED. Raises OSError."""
    mark = data_dir / SHARED
    mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    mark.touch(mode=0o600)


def do_there_or_here(
    settings: Settings,
    operation: str,
    request: Mapping[str, Any],
    here: Here,
    *,
    as_json: bool = False,
    within: float = ANSWER_SECONDS,
) -> int:
    """Have a request done and print the answer; returns the exit code. within: seconds granted to a running process.

    here: does it while no process runs, with the data folder locked and the store opened; like a running process it
    answers with "text" and whether it is "done", and with "data" where that has a form in JSON. as_json: print that.
    """
    try:
        answer = asyncio.run(_ask(settings, operation, request, within))
    except Refused as error:
        return logs.complain(error)
    except NotRunning:
        try:
            with DataDirLock(settings.data_dir), logs.written(settings):
                answer = asyncio.run(_do_here(settings, request, here))
        except DataDirInUse as error:
            who = f"process {error.pid}" if error.pid else "another process"
            return logs.complain(
                f"{who} holds {settings.data_dir} and has not answered; it may still do this, see its log"
            )
        except (DataDirUnusable, StoreError) as error:
            return logs.complain(Redactor(settings.secrets())(str(error)))
    if not answer.get("done"):
        return logs.complain(str(answer.get("text")))
    if as_json and "data" not in answer:
        return logs.complain("the running antler is an older version without JSON output: restart it")
    print(json.dumps(answer["data"], ensure_ascii=False, indent=2) if as_json else answer.get("text"))
    return 0


async def _do_here(settings: Settings, request: Mapping[str, Any], here: Here) -> dict[str, Any]:
    store = await Store.open(settings.database_url, clock=SystemClock())
    try:
        return await here(settings, store, request)
    finally:
        await store.close()


async def _ask(settings: Settings, operation: str, request: Mapping[str, Any], within: float) -> dict[str, Any]:
    async with connection(settings.data_dir) as (reader, writer):
        answer = await ask(reader, writer, operation, within=within, **request)
    if not isinstance(answer, dict):
        raise Refused("the antler process sent an unexpected answer")
    return answer
