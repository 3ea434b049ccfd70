"""Limits on memory, processes and processor time of all commands of a thread, by control groups (v1 and v2).

The providers use them where permitted: as root, or in a delegated subtree (systemd's `Delegate=yes`).
See cgroups(7), Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/ in the kernel's documentation.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sandbox.policy import Limits

CONTROLLERS = ("memory", "pids", "cpu")
OWN_PROCESSES = 16
"""Processes added to the commands' own: the launcher's in each group, and bwrap's two for each command."""
_CPU_PERIOD = 100_000
_REMOVAL_SECONDS = 5.0
_LEAF = "antler-gateway"
"""The group for the gateway's own processes: in v2 a group whose children have limits must not contain processes."""


class _Version(Protocol):
    """The operations that differ between the two versions."""

    def limit(self, folder: Path, controller: str, limits: Limits) -> None: ...

    def out_of_memory(self, folder: Path) -> int: ...

    def kill(self, folder: Path) -> None: ...


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Where groups can be created. parents: by available controller; in v2 they are the same folder."""

    version: _Version
    parents: dict[str, Path]

    @property
    def folders(self) -> set[Path]:
        return set(self.parents.values())


class Group:
    """The control group of one thread's commands."""

    def __init__(self, hierarchy: Hierarchy, name: str) -> None:
        self._version = hierarchy.version
        self._folders = {controller: parent / name for controller, parent in hierarchy.parents.items()}

    @property
    def entrances(self) -> tuple[str, ...]:
        """The files to which a process writes 0 to join the group."""
        return tuple(sorted({f"{folder}/cgroup.procs" for folder in self._folders.values()}))

    def make(self, limits: Limits) -> None:
        for controller, folder in self._folders.items():
            folder.mkdir(exist_ok=True)
            self._version.limit(folder, controller, limits)

    def out_of_memory(self) -> int:
        """How often the kernel has killed a member for lack of memory."""
        memory = self._folders.get("memory")
        return self._version.out_of_memory(memory) if memory is not None else 0

    def remove(self) -> None:
        """Kill what is left in it and remove it. May block for seconds if something hangs in the kernel."""
        for folder in set(self._folders.values()):
            _remove(self._version, folder)


class Groups:
    """The control groups of one gateway. name: unique among gateways of this machine, stable across restarts.

    look: finds where they can be created; called by `start`.
    """

    def __init__(self, name: str, look: Callable[[], Hierarchy | None]) -> None:
        self.name = name
        self._look = look
        self._own: Hierarchy | None = None

    @property
    def controllers(self) -> frozenset[str]:
        """The controllers whose limits are enforced."""
        return frozenset(self._own.parents) if self._own is not None else frozenset()

    def start(self, limits: Limits) -> None:
        """Remove leftovers of a killed gateway, and test everything. If that fails there are no groups."""
        try:
            found = self._look()
            if found is None:
                return
            own = Hierarchy(found.version, {key: parent / self.name for key, parent in found.parents.items()})
            _prepare(own, limits)
        except OSError:
            return
        self._own = own

    def group(self, name: str, limits: Limits) -> Group | None:
        """Create or find a group with these limits; None without control groups."""
        if self._own is None:
            return None
        group = Group(self._own, name)
        group.make(limits)
        return group

    def close(self) -> None:
        """Remove all groups and kill what runs in them. Idempotent."""
        if self._own is not None:
            _clear(self._own)


def _prepare(own: Hierarchy, limits: Limits) -> None:
    _clear(own)
    for folder in own.folders:
        folder.mkdir(exist_ok=True)
        if isinstance(own.version, Unified):
            enable(folder, own.parents)
    group = Group(own, "probe")
    group.make(limits)
    group.remove()


def _clear(own: Hierarchy) -> None:
    for folder in own.folders:
        if folder.is_dir():
            for below in [each for each in folder.iterdir() if each.is_dir()]:
                _remove(own.version, below)
            _remove(own.version, folder)


class Separate:
    """Version 1: a hierarchy for each controller."""

    def limit(self, folder: Path, controller: str, limits: Limits) -> None:
        if controller == "memory":
            _write(folder / "memory.limit_in_bytes", limits.memory)
            swap = folder / "memory.memsw.limit_in_bytes"
            if swap.exists():
                _write(swap, limits.memory)
        elif controller == "pids":
            _write(folder / "pids.max", limits.processes + OWN_PROCESSES)
        else:
            _write(folder / "cpu.cfs_period_us", _CPU_PERIOD)
            _write(folder / "cpu.cfs_quota_us", int(limits.cpus * _CPU_PERIOD))

    def out_of_memory(self, folder: Path) -> int:
        return _counter(folder / "memory.oom_control", "oom_kill")

    def kill(self, folder: Path) -> None:
        for pid in (folder / "cgroup.procs").read_text().split():
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                continue


class Unified:
    """Version 2: one hierarchy."""

    def limit(self, folder: Path, controller: str, limits: Limits) -> None:
        if controller == "memory":
            _write(folder / "memory.max", limits.memory)
            swap = folder / "memory.swap.max"
            if swap.exists():
                _write(swap, 0)
        elif controller == "pids":
            _write(folder / "pids.max", limits.processes + OWN_PROCESSES)
        else:
            _write(folder / "cpu.max", f"{int(limits.cpus * _CPU_PERIOD)} {_CPU_PERIOD}")

    def out_of_memory(self, folder: Path) -> int:
        return _counter(folder / "memory.events", "oom_kill")

    def kill(self, folder: Path) -> None:
        at_once = folder / "cgroup.kill"  # Linux 5.14
        if at_once.exists():
            _write(at_once, 1)
        else:
            Separate().kill(folder)


def find(mounts: str, own: str) -> Hierarchy | None:
    """Where this process may create control groups. mounts: /proc/self/mountinfo; own: /proc/self/cgroup.

    v2 if it has a controller, else v1; None if neither permits it.
    """
    places = dict(_mounted(mounts.splitlines(), dict(_memberships(own))))
    unified = places.get("")
    if unified is not None and (found := _delegated(unified)):
        return Hierarchy(Unified(), dict.fromkeys(found, unified))
    parents = {each: places[each] for each in CONTROLLERS if each in places and os.access(places[each], os.W_OK)}
    return Hierarchy(Separate(), parents) if parents else None


def here() -> Hierarchy | None:
    return find(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())


def _memberships(own: str) -> Iterable[tuple[str, str]]:
    """Controller ("" for v2) and path, from lines such as `4:memory:/user` and `0::/user`."""
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            yield controller, path


def _mounted(lines: Iterable[str], own: dict[str, str]) -> Iterable[tuple[str, Path]]:
    """Controller and this process's group in it. A mount shows the tree below its root (proc(5), mountinfo)."""
    for line in lines:
        before, _, after = line.partition(" - ")
        root, mount_point = before.split()[3:5]
        kind, _, options = after.split(" ", 2)
        names = [""] if kind == "cgroup2" else options.split(",") if kind == "cgroup" else []
        for name in names:
            if name in own:
                path = own[name].removeprefix(root) if root != "/" else own[name]
                place = Path(mount_point, path.lstrip("/"))
                yield name, place if place.is_dir() else Path(mount_point)


def _delegated(folder: Path) -> list[str]:
    """The controllers available to children of our own group: none unless we may divide it."""
    try:
        available = (folder / "cgroup.controllers").read_text().split()
    except FileNotFoundError:
        return []
    found = [each for each in CONTROLLERS if each in available]
    if not found or not os.access(folder, os.W_OK) or not os.access(folder / "cgroup.subtree_control", os.W_OK):
        return []
    try:
        enable(folder, found)
    except OSError as error:
        if error.errno != errno.EBUSY:
            return []
        members = (folder / "cgroup.procs").read_text().split()
        if not all(map(_is_ours, members)):
            return []  # For example a login session's group, which we must not rearrange.
        leaf = folder / _LEAF
        leaf.mkdir(exist_ok=True)
        for pid in members:
            _write(leaf / "cgroup.procs", pid)
        enable(folder, found)
    return found


def _is_ours(pid: str) -> bool:
    """Whether a process is this one or its descendant. See proc(5), /proc/pid/stat."""
    while pid not in ("0", str(os.getpid())):
        pid = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[1]
    return pid != "0"


def enable(folder: Path, controllers: Iterable[str]) -> None:
    """Enable these controllers for a v2 group's children."""
    _write(folder / "cgroup.subtree_control", " ".join(f"+{each}" for each in controllers))


def _remove(version: _Version, folder: Path) -> None:
    deadline = time.monotonic() + _REMOVAL_SECONDS
    while folder.is_dir():
        version.kill(folder)
        try:
            folder.rmdir()
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.002)


def _write(path: Path, value: object) -> None:
    path.write_text(str(value))


def _counter(path: Path, name: str) -> int:
    for line in path.read_text().splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0
