"""The home of each thread among several sandbox servers: the order in which new threads are assigned, and notes of the
assignments, which all processes share."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from sandbox.base import SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

P = ParamSpec("P")
T = TypeVar("T")

NOTE = "sandbox-server"
"""A file next to a thread's user-data with the address of the server that has its files."""


def in_order(urls: Sequence[str], sandbox: str) -> list[str]:
    """Servers by their weight for a sandbox, the first of which is its home (rendezvous hashing, Thaler and Ravishankar
    1998): the same in every process, and adding or removing a server changes only the homes of its own share."""
    return sorted(urls, key=lambda url: hashlib.sha256(f"{url}\n{sandbox}".encode()).digest(), reverse=True)


class Homes:
    """Notes of the threads' homes, in the folder of each. folder_of: a thread's user-data folder, in a folder shared by
    all processes. lists: a shared folder with the sandboxes that each server had before notes were kept.

    Its methods raise SandboxError.
    """

    def __init__(self, folder_of: Callable[[str], Path], lists: Path) -> None:
        self._folder_of = folder_of
        self._lists = lists

    async def of(self, thread_id: str) -> str | None:
        """The address of the server that has a thread; None if there is no note."""
        return await _run(_read, self._note(thread_id))

    async def settle(self, thread_id: str, url: str) -> str:
        """Note the home of a new thread; returns it, or the noted one if another process was faster."""
        return await _run(_settle, self._note(thread_id), url)

    async def move(self, thread_id: str, url: str) -> None:
        """Note a new home."""
        await _run(_write, self._note(thread_id), f"{url}\n")

    async def forget(self, thread_id: str) -> None:
        """Remove the note. Idempotent."""
        await _run(_remove, self._note(thread_id))

    async def unlisted(self, urls: Collection[str]) -> list[str]:
        """The servers without a list of what they had before notes were kept."""
        return await _run(lambda: [url for url in urls if not self._list(url).exists()])

    async def enlist(self, url: str, sandboxes: Collection[str]) -> None:
        """List what a server has when it is first contacted; everything later has its own note."""
        await _run(_write, self._list(url), "".join(f"{each}\n" for each in sandboxes))

    async def may_keep(self, url: str, sandbox: str) -> bool:
        """Whether a server may have files of a sandbox without a note."""
        kept = await _run(_read, self._list(url))
        return kept is None or sandbox in kept

    def _note(self, thread_id: str) -> Path:
        return self._folder_of(thread_id).with_name(NOTE)

    def _list(self, url: str) -> Path:
        return self._lists / hashlib.sha256(url.encode()).hexdigest()[:32]


async def _run(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    try:
        return await asyncio.to_thread(work, *args, **kwargs)
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        raise SandboxError(f"the location of threads' files cannot be recorded in the data folder: {reason}") from error


def _read(file: Path) -> str | None:
    try:
        return file.read_text().strip()
    except FileNotFoundError:
        return None


def _settle(file: Path, url: str) -> str:
    new = _written(file, f"{url}\n")
    try:
        os.link(new, file)  # unlike a rename this does not replace an existing file
    except FileExistsError:
        return _read(file) or url
    finally:
        new.unlink()
    return url


def _write(file: Path, text: str) -> None:
    _written(file, text).rename(file)


def _written(file: Path, text: str) -> Path:
    """Write a file with another name in the same folder."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    new.touch(mode=0o600)
    new.write_text(text)
    return new


def _remove(file: Path) -> None:
    with suppress(FileNotFoundError):
        file.unlink()
