"""Confines a command without namespaces: Landlock, a call filter, limits. Where bubblewrap cannot run; restricted.

See landlock(7) and Documentation/userspace-api/landlock.rst of the kernel.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sandbox.base import WORKSPACE, Isolation, SandboxUnavailable
from sandbox.files.workspace import USER_DATA
from sandbox.kernel import seccomp
from sandbox.launcher import linux
from sandbox.launcher.spec import Confinement, LaunchSpec, PathRule
from sandbox.local.caged import CagedProvider
from sandbox.policy import ETC, TEMPORARY, Limits, complete, environment, shell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sandbox.config import SandboxSettings
    from sandbox.files.paths import Bind
    from sandbox.files.workspace import Workspaces
    from sandbox.launcher.client import Launcher
    from sandbox.local.caged import Order

NEEDED_ABI = 6
"""Linux 6.12: older versions cannot refuse signals to, and abstract sockets of, processes outside."""

_RUN = linux.FS_EXECUTE | linux.FS_READ_FILE | linux.FS_READ_DIR
_OWN = linux.FS_ALL & ~linux.FS_MAKE_DEVICES & ~linux.FS_IOCTL_DEVICE
_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_FACTS = ("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/version", "/etc/nsswitch.conf", "/etc/gitconfig")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")

SHORTFALLS = (
    "commands share the host's process table: they see which processes exist, but not their data",
    "names and sizes of the host's files can be queried, but not their contents",
    "`chmod` does nothing, since it could not be confined to the thread's folders; file times can be changed anywhere",
    "shared memory (/dev/shm) is missing, so Python's multiprocessing does not work",
    "in /tmp the size of each file is limited, but not their total",
    "the paths in commands and their output are translated as text, since no folder can be mounted elsewhere",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The setup of commands without virtual paths, which see the host's.

    env: declared variables. runtime: the folder of the runtime for the agent's code, perhaps not built yet.
    memory_bounded, processes_bounded: limited by a control group for all processes together.
    """

    limits: Limits
    env: dict[str, str]
    runtime: Path | None
    memory_bounded: bool
    processes_bounded: bool

    @classmethod
    def of(cls, settings: SandboxSettings, runtime: Path | None, bounded: frozenset[str]) -> Setup:
        """Make it from settings. bounded: the controllers whose limits are enforced."""
        return cls(
            limits=Limits.of(settings.limits),
            env=settings.environment,
            runtime=runtime,
            memory_bounded="memory" in bounded,
            processes_bounded="pids" in bounded,
        )

    def spec(self, order: Order) -> LaunchSpec:
        """The command with its limits, environment and the host's paths, without further confinement."""
        sources = {bind.target: str(bind.source) for bind in order.binds}
        home, temporary = sources[WORKSPACE], sources[TEMPORARY]
        runtime = str(complete(self.runtime) or "")
        env = environment(self.env, self.limits, home=home, temporary=temporary, runtime=runtime)
        return LaunchSpec(
            argv=shell(translated(order.command, order.binds)),
            env=tuple((env | {"TMPDIR": temporary}).items()),
            cwd=home,
            limits=self.limits.of_process(memory=not self.memory_bounded, full=order.full),
            more_tasks=None if self.processes_bounded else self.limits.processes,
        )


class LandlockCage:
    name = "landlock"
    isolation = Isolation.RESTRICTED
    has_own_paths = False

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._filter = b""

    async def start(self, launcher: Launcher) -> tuple[str, ...]:
        abi = linux.landlock_abi()
        if abi < NEEDED_ABI:
            raise SandboxUnavailable(
                f"Landlock is {f'version {abi}' if abi else 'missing or switched off'} here, {NEEDED_ABI} is needed",
                "Linux 6.12 or newer (Debian 13) with landlock among the `lsm=` modules, or bubblewrap",
            )
        if os.geteuid() == 0:
            raise SandboxUnavailable(
                "landlock cannot confine commands of root",
                "run Antler as an ordinary user, in a container with `--user 1000`",
            )
        try:
            more = () if self._setup.memory_bounded else (seccomp.PRIVATE_MEMORY,)
            self._filter = seccomp.program(seccomp.SHARED_MACHINE, seccomp.COMMON, *more)
        except seccomp.UnknownMachine as error:
            raise SandboxUnavailable(f"no system-call filter exists for {error}") from error
        return SHORTFALLS

    def spec(self, order: Order) -> LaunchSpec:
        rules = tuple(self._rules(order.binds, complete(self._setup.runtime)))
        return replace(self._setup.spec(order), confinement=Confinement(rules=rules, seccomp=self._filter))

    def _rules(self, binds: tuple[Bind, ...], runtime: Path | None) -> Iterator[PathRule]:
        programs = (*_PROGRAMS, str(runtime)) if runtime else _PROGRAMS
        for path in programs:
            yield PathRule(path=path, access=_RUN)
        for path in (*ETC, *_FACTS):
            yield PathRule(path=path, access=linux.FS_READ_FILE | linux.FS_READ_DIR)
        for path in _DEVICES:
            yield PathRule(path=path, access=linux.FS_READ_FILE | linux.FS_WRITE_FILE)
        yield PathRule(path=_user_data(binds), access=linux.FS_READ_DIR)
        for bind in binds:
            yield PathRule(path=str(bind.source), access=_RUN if bind.read_only else _OWN)

    def explain(self, output: str) -> str:
        return ""


def translated(command: str, binds: tuple[Bind, ...]) -> str:
    """The command with virtual paths replaced by the host's, as text."""
    sources = {bind.target: str(bind.source) for bind in binds} | {USER_DATA: _user_data(binds)}
    longest_first = sorted(sources, key=len, reverse=True)
    pattern = r"(?<![\w./-])(?:" + "|".join(map(re.escape, longest_first)) + r")(?![\w-])"
    return re.sub(pattern, lambda match: sources[match.group()], command)


def _user_data(binds: tuple[Bind, ...]) -> str:
    """The host's folder above the thread's workspace."""
    return next(str(bind.source.parent) for bind in binds if bind.target == WORKSPACE)


class LandlockProvider(CagedProvider):
    """The provider. Arguments: see BubblewrapProvider."""

    def __init__(
        self, settings: SandboxSettings, workspaces: Workspaces, *, instance: str, runtime: Path | None = None
    ) -> None:
        if settings.network.mode != "none":
            raise SandboxUnavailable("landlock has no network for commands: set sandbox.network to none")

        def make_cage(bounded: frozenset[str]) -> LandlockCage:
            return LandlockCage(Setup.of(settings, runtime, bounded))

        super().__init__(make_cage, settings, workspaces, instance=instance, hosts=())
