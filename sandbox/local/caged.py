"""Common parts of the providers of commands on this machine; bubblewrap, landlock and host differ in their `Cage`: how
each confines a command.

These are the threads' folders, limits, control groups, the disk watch, and the life cycle of a sandbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from sandbox.base import SKILLS, WORKSPACE, CommandResult, Report, SandboxError, SandboxUnavailable, sandbox_id
from sandbox.files.beneath import Folder
from sandbox.files.paths import Bind
from sandbox.files.trees import remove_tree
from sandbox.files.workspace import LINKS
from sandbox.kernel import cgroups
from sandbox.launcher.client import Branch, Launcher
from sandbox.local.disk import DiskShare
from sandbox.local.probe import packages, probe, probe_thread
from sandbox.local.process import Commands, NotStarted, Outcome, Running, ended, run
from sandbox.local.sandbox import HeldByThread, LocalSandbox
from sandbox.policy import TEMPORARY, Limits

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sandbox.base import Isolation, OnOutput
    from sandbox.config import SandboxSettings
    from sandbox.egress.proxy import EgressProxy
    from sandbox.files.local import LocalFiles
    from sandbox.files.paths import Layout
    from sandbox.files.workspace import Workspaces
    from sandbox.kernel.cgroups import Group
    from sandbox.launcher.client import Starter
    from sandbox.launcher.spec import LaunchSpec


_UNBOUNDED = {
    "memory": "memory is limited for each process, not for a thread's processes together",
    "cpu": "a thread's commands can use all processors",
}
_NO_GROUPS = "; a limit needs control groups: root, or `Delegate=yes` in its systemd unit"
_TEMPORARY = "tmp"
_OWN_FILES = 1024
"""Open files of this process besides those that it exchanges with commands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A command to run. binds: everything visible of the host apart from the system's programs.

    full: the thread's share of the disk is used up, so that files can be deleted but not grow.
    """

    command: str
    binds: tuple[Bind, ...]
    full: bool = False


class Cage(Protocol):
    """How a provider confines a command. It has no state of threads."""

    @property
    def name(self) -> str: ...

    @property
    def isolation(self) -> Isolation: ...

    @property
    def has_own_paths(self) -> bool:
        """Whether commands see the virtual paths. Otherwise they see the host's, and /tmp must be bound."""

    async def start(self, launcher: Launcher) -> tuple[str, ...]:
        """Check this machine; returns the shortfalls, a sentence each. Raises SandboxUnavailable."""

    def spec(self, order: Order) -> LaunchSpec: ...

    def explain(self, output: str) -> str:
        """Advice to an operator if the very first command failed with this output, or ""."""


class CagedCommands(Commands):
    """Runs the commands of one thread. binds: called before each command. group: their control group, None: there is
    none. proxy: their only network."""

    def __init__(
        self,
        cage: Cage,
        launcher: Launcher,
        binds: Callable[[], tuple[Bind, ...]],
        disk: DiskShare,
        group: Group | None,
        proxy: EgressProxy | None = None,
    ) -> None:
        super().__init__(disk)
        self._cage = cage
        self._branch = Branch(launcher, group.entrances) if group else None
        self._starter: Starter = self._branch or launcher
        self._binds = binds
        self._group = group
        self._proxy = proxy

    async def _execute(self, command: str, timeout: float, on_output: OnOutput, *, full: bool) -> CommandResult:
        order = Order(command=command, binds=self._binds(), full=full)
        killed_before = self._group.out_of_memory() if self._group else 0
        outcome = await self._watched(order, timeout, on_output)
        killed = self._group.out_of_memory() > killed_before if self._group else False
        return ended(
            outcome.text,
            exit_code=outcome.exit_code,
            stopped=outcome.stopped,
            seconds=outcome.seconds,
            out_of_memory=killed,
            full=full,
        )

    async def _watched(self, order: Order, timeout: float, on_output: OnOutput) -> Outcome:
        watching: list[asyncio.Task[None]] = []
        known: list[Running] = []

        def watch(running: Running) -> None:
            known.append(running)
            self._begun(running)
            watching.append(asyncio.create_task(self._disk.watch(running), name="disk of a command"))
            if self._proxy is not None:
                watching.append(asyncio.create_task(_serve(self._proxy, running, self), name="network of a command"))

        try:
            return await run(self._starter, self._cage.spec(order), timeout=timeout, on_output=on_output, watch=watch)
        finally:
            self._running.difference_update(known)
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)

    async def close(self) -> None:
        """Kill what runs and wait for it; afterwards nothing can be run. Idempotent."""
        await self._end_all()
        if self._branch is not None:
            self._branch.close()


async def _serve(proxy: EgressProxy, running: Running, whose: CagedCommands) -> None:
    """Serve the command's proxy until cancelled."""
    async with proxy.serve(await running.listener(), whose):
        await asyncio.Event().wait()


def _allow_open_files(least: int) -> None:
    """Raise this process's limit to at least that many, if permitted: the kernel compares it with the descriptors that
    all processes of the user are sending to each other, and commands may leave as many of them unread as they can open.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(least, hard)), hard))


class StandInFolders:
    """The folders of one thread that replace /tmp and /mnt/skills if commands have no virtual paths."""

    def __init__(self, user_data: Path) -> None:
        self._user_data = user_data
        self._links = user_data.parent / LINKS

    @property
    def binds(self) -> tuple[Bind, ...]:
        return (
            Bind(source=self._user_data / _TEMPORARY, target=TEMPORARY, read_only=False),
            Bind(source=self._links, target=SKILLS, read_only=True),
        )

    def make(self, layout: Layout) -> None:
        """Create the folders. Raises OSError."""
        with Folder.at(self._user_data) as folder, contextlib.suppress(FileExistsError):
            os.mkdir(_TEMPORARY, 0o700, dir_fd=folder.fd)
        with Folder.at(self._links.parent) as folder:
            remove_tree(folder, LINKS)
            os.mkdir(LINKS, 0o700, dir_fd=folder.fd)
            for root in layout.roots.values():
                place = root.virtual.removeprefix(f"{SKILLS}/")
                if place != root.virtual:
                    os.symlink(root.host.absolute(), f"{LINKS}/{place}", dir_fd=folder.fd)

    def remove(self) -> None:
        """Remove the folders. Raises OSError."""
        with Folder.at(self._user_data) as folder:
            remove_tree(folder, _TEMPORARY)
        with Folder.at(self._links.parent) as folder:
            remove_tree(folder, LINKS)


class CagedSandbox(LocalSandbox):
    """The sandbox of one thread, whose commands run on this machine, each confined by the provider's cage."""

    def __init__(self, thread_id: str, files: LocalFiles, commands: CagedCommands) -> None:
        super().__init__(thread_id, files)
        self._commands = commands
        self._files = files

    async def execute_command(self, command: str, *, timeout: float, on_output: OnOutput = None) -> CommandResult:
        # Even if commands have virtual paths, the kernel's mount table reveals the host's.
        layout = self._files.layout
        masking = layout.masking()

        def tell(piece: str) -> None:
            if on_output is not None and (shown := masking.feed(piece)):
                on_output(shown)

        result = await self._commands.execute(command, timeout=timeout, on_output=tell if on_output else None)
        if on_output is not None and (rest := masking.end()):
            on_output(rest)
        first, last = (layout.mask(each) for each in (result.output[: result.gap], result.output[result.gap :]))
        return replace(result, output=first + last, gap=len(first))


@dataclass(frozen=True, slots=True)
class _Held:
    sandbox: CagedSandbox
    commands: CagedCommands
    group: Group | None
    folders: StandInFolders | None


class CagedProvider:
    """A provider with a cage. make_cage: receives the controllers whose limits are enforced. hosts: reachable by
    commands, None: any. It closes `workspaces` and `proxy`."""

    def __init__(
        self,
        make_cage: Callable[[frozenset[str]], Cage],
        settings: SandboxSettings,
        workspaces: Workspaces,
        *,
        instance: str,
        proxy: EgressProxy | None = None,
        hosts: tuple[str, ...] | None = None,
    ) -> None:
        self._hosts = hosts
        self._make_cage = make_cage
        self._workspaces = workspaces
        self._limits = Limits.of(settings.limits)
        self._groups = cgroups.Groups(f"antler-{instance}", cgroups.here)
        self._proxy = proxy
        self._launcher = Launcher()
        self._cage: Cage | None = None
        self._held = HeldByThread(self._make)

    async def start(self) -> Report:
        _allow_open_files(2 * self._limits.open_files + _OWN_FILES)
        await self._launcher.start()
        try:
            shortfalls = list(await self._workspaces.start())
            bounded = await self._bounded()
            shortfalls += [_UNBOUNDED[each] + _NO_GROUPS for each in _UNBOUNDED if each not in bounded]
            self._cage = self._make_cage(bounded)
            shortfalls += await self._cage.start(self._launcher)
            found = await self._probe(self._cage)
        except SandboxUnavailable:
            await self.shutdown()
            raise
        return Report(
            provider=self._cage.name,
            isolation=self._cage.isolation,
            bash=True,
            shortfalls=tuple(shortfalls),
            hosts=self._hosts,
            packages=found,
        )

    async def _bounded(self) -> frozenset[str]:
        """The controllers for which there are control groups."""
        await asyncio.to_thread(self._groups.start, self._limits)
        return self._groups.controllers

    async def _probe(self, cage: Cage) -> tuple[str, ...]:
        """Verify that commands run and are confined; returns the Python packages available to them."""
        thread = probe_thread(self._groups.name)
        await self._workspaces.delete(thread)
        workspace = self._workspaces.layout(thread).roots[WORKSPACE].host
        try:
            sandbox = await self.acquire(thread)
            await self._prove(sandbox, workspace, cage)
            return await packages(sandbox.execute_command)
        except NotStarted as error:
            raise SandboxUnavailable(f"commands cannot be run: {error.problem}", cage.explain(error.problem)) from error
        finally:
            await self.forget(thread)
            await self._workspaces.delete(thread)

    async def _prove(self, sandbox: CagedSandbox, workspace: Path, cage: Cage) -> None:
        """Verify that commands run and are confined. workspace: its folder on the host. Raises SandboxUnavailable."""
        await probe(sandbox.execute_command, workspace, cage.explain)

    async def acquire(self, thread_id: str) -> CagedSandbox:
        try:
            return (await self._held.get_or_make(thread_id)).sandbox
        except OSError as error:
            raise SandboxError(f"a sandbox cannot be created: {error.strerror}") from error

    async def _make(self, thread_id: str) -> _Held:
        if self._cage is None:
            raise SandboxError("the sandbox is not started")
        files = await self._workspaces.open(thread_id)
        user_data = files.layout.roots[WORKSPACE].host.parent
        folders = None if self._cage.has_own_paths else StandInFolders(user_data)
        if folders is not None:
            await asyncio.to_thread(folders.make, files.layout)

        def binds() -> tuple[Bind, ...]:
            shown = (root.bind for root in files.layout.roots.values())
            return (*shown, *(folders.binds if folders else ()))

        group = await asyncio.to_thread(self._groups.group, sandbox_id(thread_id), self._limits)
        disk = DiskShare(user_data, lambda: self._workspaces.usage(thread_id), self._limits)
        commands = CagedCommands(self._cage, self._launcher, binds, disk, group, self._proxy)
        return _Held(CagedSandbox(thread_id, files, commands), commands, group, folders)

    def get(self, thread_id: str) -> CagedSandbox | None:
        held = self._held.get(thread_id)
        return held.sandbox if held is not None else None

    async def release(self, thread_id: str) -> None:
        """End everything: nothing is kept warm, since remaking a sandbox costs nothing."""
        held = await self._held.pop(thread_id)
        if held is None:
            return
        await held.commands.close()
        with contextlib.suppress(OSError):  # What cannot be removed now is removed at the next start.
            if held.group is not None:
                await asyncio.to_thread(held.group.remove)
            if held.folders is not None:
                await asyncio.to_thread(held.folders.remove)

    async def forget(self, thread_id: str) -> None:
        await self.release(thread_id)

    async def shutdown(self) -> None:
        for thread_id in list(self._held):
            await self.release(thread_id)
        await self._launcher.close()
        await asyncio.to_thread(self._groups.close)
        if self._proxy is not None:
            self._proxy.close()
        self._workspaces.close()
