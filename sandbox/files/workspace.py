"""The folders of the threads on this machine: created, counted, deleted."""

from __future__ import annotations

import os
import pwd
import stat
import time
from contextlib import suppress
from itertools import islice
from threading import Event
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from sandbox.base import OUTPUTS, RESULTS, UPLOADS, WORKSPACE, SandboxError, SandboxUnavailable
from sandbox.files.beneath import Folder, Refused, acting_as, owner_of, probe
from sandbox.files.copying import Copying, TooMuch, copy_tree
from sandbox.files.local import FileThreads, Ground, LocalFiles, PathLocks
from sandbox.files.paths import Layout, Root
from sandbox.files.skills import no_skills, skill_roots
from sandbox.files.trees import Usage, opened_up, remove_tree, usage_of
from sandbox.files.writing import Disk, Share

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sandbox.config import SandboxSettings
    from sandbox.files.beneath import Owner
    from sandbox.files.skills import SkillsOf

P = ParamSpec("P")
T = TypeVar("T")

MEGABYTE = 1 << 20
COPIED_BYTES, COPIED_INODES = 256 * MEGABYTE, 20_000
"""Limits on a copy of a thread's files for another thread."""
OWN = {WORKSPACE: "workspace", UPLOADS: "uploads", OUTPUTS: "outputs"}
USER_DATA = "/mnt/user-data"
LINKS = "skills"
"""A folder next to a thread's user-data with links to the places of skills, for commands without virtual paths."""
OLDEST_SECONDS = 7 * 24 * 3600.0
MOST_BYTES = 64 << 20
SUFFIX = ".txt"
"""File name extension of stored tool results."""
_MOST_ENTRIES = 10_000
"""Maximum number of entries that are checked: a command may have created any number."""


def prune(folder: Folder, now: float) -> None:
    """Delete files that are too old, and the oldest of the others beyond the size limit. now: as time.time().

    Everything else stays: folders, links, files with other names. Raises OSError.
    """
    kept = 0
    for name, found in sorted(_results(folder), key=lambda each: each[1].st_mtime, reverse=True):
        kept += found.st_size
        if kept > MOST_BYTES or found.st_mtime < now - OLDEST_SECONDS:
            with suppress(FileNotFoundError):  # a command was faster
                os.unlink(name, dir_fd=folder.fd)


def _results(folder: Folder) -> list[tuple[str, os.stat_result]]:
    found = []
    with os.scandir(folder.fd) as entries:
        for entry in islice(entries, _MOST_ENTRIES):
            if entry.name.endswith(SUFFIX):
                with suppress(FileNotFoundError):
                    found.append((entry.name, entry.stat(follow_symlinks=False)))
    return [(name, each) for name, each in found if stat.S_ISREG(each.st_mode)]


class Workspaces:
    """The folders of all threads of a provider. folder_of: a thread's user-data folder, below folders that only the
    gateway can change.

    owner: the user of commands and owner of files, None: the gateway's own user. Other code that creates a file there
    sets this owner, via the descriptor that created it. skills: of a thread.
    """

    def __init__(
        self, folder_of: Callable[[str], Path], settings: SandboxSettings, *, skills: SkillsOf = no_skills
    ) -> None:
        self._folder_of = folder_of
        self._settings = settings
        self.skills_of = skills
        self.owner = owner_of(settings)
        limits = settings.limits
        disk = Disk(limits.file_mb * MEGABYTE, limits.free_disk_mb * MEGABYTE)
        self._ground = Ground(threads=FileThreads(), locks=PathLocks(), disk=disk, owner=self.owner)

    async def start(self) -> tuple[str, ...]:
        """Probe this machine; returns the shortfalls, one sentence each. Raises SandboxUnavailable."""
        return await self._ground.threads.run(self._probe)

    async def open(self, thread_id: str) -> LocalFiles:
        """Open the thread's files; missing folders are created and given to the owner.

        Old tool results are deleted.
        """
        user_data = self._folder_of(thread_id)
        await self._run(Event(), self._make, user_data)
        limits = self._settings.limits
        share = Share(
            lambda: self._count(user_data, Event()),
            most_bytes=limits.disk_mb * MEGABYTE,
            most_inodes=limits.inodes,
            largest_file=limits.file_mb * MEGABYTE,
            keep_free=limits.free_disk_mb * MEGABYTE,
        )
        return LocalFiles(self._latest_layout(thread_id), share, self._ground)

    def layout(self, thread_id: str) -> Layout:
        """The folders that the thread's sandbox sees now, and their locations on this machine."""
        user_data = self._folder_of(thread_id)
        return Layout(self._roots(thread_id), {str(user_data): USER_DATA, str(user_data.parent): "/mnt"})

    def _roots(self, thread_id: str) -> list[Root]:
        user_data = self._folder_of(thread_id)
        roots = [
            Root(virtual=virtual, host=user_data / name, own=True, of_thread=True) for virtual, name in OWN.items()
        ]
        roots += skill_roots(self.skills_of(thread_id))
        for mount in self._settings.mounts:
            roots.append(Root(virtual=mount.path, host=mount.host, read_only=mount.read_only))
        return roots

    def _latest_layout(self, thread_id: str) -> Callable[[], Layout]:
        """A function that returns `layout`, remade only if a place of skills has appeared or disappeared."""
        latest = self.layout(thread_id)

        def layout() -> Layout:
            nonlocal latest
            if list(latest.roots.values()) != self._roots(thread_id):
                latest = self.layout(thread_id)
            return latest

        return layout

    async def usage(self, thread_id: str) -> Usage:
        """Count the usage of the thread's folders; the count stops a little above the thread's share of inodes."""
        stop = Event()
        return await self._run(stop, self._count, self._folder_of(thread_id), stop)

    async def delete(self, thread_id: str) -> None:
        """Delete the thread's folders with all their contents. Idempotent. Raises SandboxError if that fails."""
        await self._run(Event(), _delete, self._folder_of(thread_id).parent)

    async def copy(self, thread_id: str, other: str) -> bool:
        """Copy this thread's files to another one, which has none yet. False: something was left out, or everything,
        because it is too much. Raises SandboxError."""
        stop = Event()
        return await self._run(stop, self._copy, self._folder_of(thread_id), self._folder_of(other), stop)

    async def _run(self, stop: Event, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run it in a thread. Raises only SandboxError, whatever commands have done to the folders."""
        try:
            return await self._ground.threads.run_stoppable(stop, work, *args, **kwargs)
        except Refused as refused:
            reason = refused.detail or refused.code
            raise SandboxError(f"the thread's folders cannot be used: {reason}") from refused

    def close(self) -> None:
        """Close the threads. Idempotent."""
        self._ground.threads.close()

    def _probe(self) -> tuple[str, ...]:
        probe()
        with acting_as(self.owner):
            pass  # raises if root may not assume another user's rights
        for mount in self._settings.mounts:
            try:
                Folder.at(mount.host).close()
            except OSError as error:
                reason = os.strerror(error.errno or 0).lower()
                hint = "host should be the folder itself, not a link to it"
                raise SandboxUnavailable(f"sandbox.mounts: {mount.path}: {reason}", hint) from error
        return tuple(_stranger(self.owner)) if self.owner else ()

    def _make(self, user_data: Path) -> None:
        user_data.mkdir(mode=0o700, parents=True, exist_ok=True)
        with Folder.at(user_data) as folder:
            for name in OWN.values():
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=folder.fd)
                with opened_up(folder, name) as own:
                    if self.owner is not None and os.fstat(own.fd).st_uid != self.owner.uid:
                        self._give(own, self.owner)
            with opened_up(folder, OWN[OUTPUTS]) as outputs:
                self._prune(outputs)

    def _prune(self, outputs: Folder) -> None:
        name = RESULTS.removeprefix(f"{OUTPUTS}/")
        # Usually there is none; one that a command has closed or replaced counts against the thread's own disk share.
        with acting_as(self.owner), suppress(OSError, Refused), outputs.folder(name) as results:
            prune(results, time.time())

    def _give(self, folder: Folder, owner: Owner) -> None:
        """Give a folder that no command could access so far to its owner, with the files that the gateway put there.

        Later files must have their owner from the beginning: from now on a command could replace any name.
        """
        with os.scandir(folder.fd) as entries:
            names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
        for name in names:
            with suppress(Refused):  # a file with a second name stays unchanged
                fd, _ = folder.file(name)
                try:
                    os.fchown(fd, owner.uid, owner.gid)
                finally:
                    os.close(fd)
        os.fchown(folder.fd, owner.uid, owner.gid)

    def _copy(self, source: Path, target: Path, stop: Event) -> bool:
        try:
            top = Folder.at(source)
        except FileNotFoundError:
            return True
        limits = self._settings.limits
        most_bytes = min(COPIED_BYTES, limits.disk_mb * MEGABYTE)
        with top:
            self._make(target)
            with Folder.at(target) as into:

                def free() -> int:
                    there = os.fstatvfs(into.fd)
                    return there.f_bavail * there.f_frsize - limits.free_disk_mb * MEGABYTE

                copying = Copying(most_bytes, min(COPIED_INODES, limits.inodes), stop, free)
                try:
                    for name in OWN.values():
                        self._copy_one(top, into, name, copying)
                except FileExistsError:  # the other thread has its own files, which stay
                    raise
                except (TooMuch, OSError):
                    _delete(target.parent)
                    return False
        return copying.complete

    def _copy_one(self, top: Folder, into: Folder, name: str, copying: Copying) -> None:
        try:
            own = opened_up(top, name)
        except FileNotFoundError:
            return
        with own, opened_up(into, name) as new, acting_as(self.owner):
            copy_tree(own, new, copying)

    def _count(self, user_data: Path, stop: Event) -> Usage:
        usage = Usage()
        most = self._settings.limits.inodes * 2
        try:
            top = Folder.at(user_data)
        except FileNotFoundError:
            return usage
        with top as folder:
            for name in OWN.values():
                with opened_up(folder, name) as own:
                    usage += usage_of(own, most_inodes=most, stop=stop)
        return usage


def _stranger(owner: Owner) -> list[str]:
    try:
        name = pwd.getpwuid(owner.uid).pw_name
    except KeyError:
        return []
    return [f"commands share the user {name} ({owner.uid}) with other programs of this machine: choose sandbox.uid"]


def _delete(thread: Path) -> None:
    try:
        parent = Folder.at(thread.parent)
    except FileNotFoundError:
        return
    with parent:
        remove_tree(parent, thread.name)
