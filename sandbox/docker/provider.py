"""The provider `docker`: threads, their containers and which of these are kept warm."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from sandbox.base import WORKSPACE, Isolation, Report, SandboxError, SandboxUnavailable, sandbox_id
from sandbox.docker import checks
from sandbox.docker.api import DockerApi, hint
from sandbox.docker.commands import ContainerCommands
from sandbox.docker.containers import Containers, Pool
from sandbox.docker.plan import KEY_VARIABLE, AllInOnePlan, Plan
from sandbox.docker.shells import Access, Shells
from sandbox.files.skills import identity
from sandbox.local.disk import DiskShare
from sandbox.local.probe import packages, probe, probe_thread
from sandbox.local.sandbox import LocalSandbox
from sandbox.policy import RUNTIME, Limits, complete, environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from sandbox.base import CommandResult, OnOutput
    from sandbox.config import DockerSettings, SandboxSettings
    from sandbox.docker.containers import Ready
    from sandbox.files.local import LocalFiles
    from sandbox.files.paths import Layout
    from sandbox.files.workspace import Workspaces

_LOOK_SECONDS = 15.0
"""Seconds between two searches for idle containers."""
_SHUTDOWN_SECONDS = 30.0


class DockerSandbox(LocalSandbox):
    """The sandbox of one thread, whose commands run in its container."""

    def __init__(self, thread_id: str, files: LocalFiles, commands: ContainerCommands) -> None:
        super().__init__(thread_id, files)
        self._commands = commands

    async def execute_command(self, command: str, *, timeout: float, on_output: OnOutput = None) -> CommandResult:
        return await self._commands.execute(command, timeout=timeout, on_output=on_output)


@dataclass(frozen=True, slots=True)
class _Held:
    sandbox: DockerSandbox
    commands: ContainerCommands
    shells: Shells


@dataclass(frozen=True, slots=True)
class _Parts:
    """Parts that exist from the start on. path: the image's own search path."""

    api: DockerApi
    plan: Plan
    containers: Containers
    path: str


class DockerProvider:
    """SandboxProvider port. workspaces: closed with it. instance: identifies this gateway's containers; stable across
    restarts, unique on this daemon. runtime: the folder to show at /opt/antler. now: seconds of a monotonic clock.

    Raises SandboxUnavailable for settings that it cannot carry out.
    """

    def __init__(
        self,
        settings: SandboxSettings,
        docker: DockerSettings,
        workspaces: Workspaces,
        *,
        instance: str,
        runtime: Path | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        checks.refuse_settings(settings, docker)
        self._settings = settings
        self._docker = docker
        self._workspaces = workspaces
        self._instance = instance
        self._runtime = complete(runtime)
        self._limits = Limits.of(settings.limits)
        self._pool = Pool(docker.replicas, docker.acquire_timeout, now)
        self._parts: _Parts | None = None
        self._held: dict[str, _Held] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._tidying: asyncio.Task[None] | None = None

    async def start(self) -> Report:
        api = DockerApi(self._docker.host)
        try:
            shortfalls = await self._prepare(api)
            added, found = await self._probe()
        except BaseException as error:  # A stop during the start must leave no container and no connection, either.
            await self.shutdown()
            await api.close()
            if isinstance(error, SandboxError) and not isinstance(error, SandboxUnavailable):
                raise SandboxUnavailable(str(error), error.hint) from error
            raise
        self._tidying = asyncio.create_task(self._tidy(), name="removal of idle containers")
        return Report(
            provider="docker",
            isolation=Isolation.FULL,
            bash=True,
            shortfalls=(*shortfalls, *added),
            # An operator's own network determines what commands can reach.
            hosts=() if self._settings.network.mode == "none" else None,
            packages=found,
        )

    async def _prepare(self, api: DockerApi) -> list[str]:
        """Check the daemon, and what a former gateway left there."""
        owner = self._workspaces.owner
        uid, gid = (owner.uid, owner.gid) if owner else (os.geteuid(), os.getegid())
        if uid == 0:
            raise SandboxUnavailable("commands must not run as root", "set sandbox.uid to an unprivileged user")
        info = await api.info()
        found = checks.shortfalls(info)
        image = await checks.find_image(api, self._docker.image)
        found += image.shortfalls
        network = self._docker.network if self._settings.network.mode != "none" else None
        if network is not None:
            found.append(await checks.require_network(api, network))
        found += await self._workspaces.start()
        roots = self._workspaces.layout("any").roots.values()
        plan = (AllInOnePlan if self._docker.api == "all_in_one" else Plan)(
            instance=self._instance,
            image=image.id,
            uid=uid,
            gid=gid,
            limits=self._limits,
            network=network,
            runtime=self._runtime,
            host_paths=self._docker.host_paths,
            shared=tuple(root.bind for root in roots if not root.of_thread),
            system_calls=checks.system_calls(info),
        )
        self._parts = _Parts(api, plan, Containers(api, plan), image.path)
        found += plan.shortfalls
        for sandbox in await self._parts.containers.clean(self._docker.replicas):
            self._pool.rest(sandbox)
        return found

    async def _probe(self) -> tuple[list[str], tuple[str, ...]]:
        """Verify that commands run and are isolated; returns shortfalls, and the Python packages of commands."""
        thread = probe_thread(self._instance)
        await self._remove_one(sandbox_id(thread))
        await self._workspaces.delete(thread)
        workspace = self._workspaces.layout(thread).roots[WORKSPACE].host
        try:
            held = await self._open(thread)
            try:
                await probe(held.sandbox.execute_command, workspace, hint)
                shown, shortfalls = self._runtime, await self._try_runtime(held.sandbox)
                # If the runtime was withdrawn, this container still has it, but later ones do not.
                found = await packages(held.sandbox.execute_command) if shown == self._runtime else ()
                return shortfalls, found
            finally:
                await held.commands.close(sweep=False)
        finally:
            await self._started().containers.remove(sandbox_id(thread))
            await self._workspaces.delete(thread)

    async def _try_runtime(self, sandbox: DockerSandbox) -> list[str]:
        if self._runtime is None or await checks.runtime_fits(sandbox.execute_command):
            return []
        self._runtime = None  # Its interpreter, first in PATH, would hide the image's packages.
        return await checks.without_runtime(sandbox.execute_command)

    async def acquire(self, thread_id: str) -> DockerSandbox:
        async with self._lock(thread_id):
            if thread_id not in self._held:
                self._held[thread_id] = await self._make(thread_id)
            return self._held[thread_id].sandbox

    async def _make(self, thread_id: str) -> _Held:
        sandbox = sandbox_id(thread_id)
        await self._make_room(sandbox)
        try:
            held = await self._open(thread_id)
        except BaseException:  # Including cancellation: there may be a container, so its slot stays taken.
            self._pool.rest(sandbox)
            raise
        held.shells.prepare()
        return held

    async def _make_room(self, sandbox: str) -> None:
        evicted = await self._pool.enter(sandbox)
        if evicted is None:
            return
        try:
            await self._started().containers.remove(evicted)
        except BaseException:  # Including cancellation: the slot still belongs to the evicted container.
            self._pool.leave(sandbox)
            self._pool.rest(evicted)
            raise
        self._pool.leave(evicted)

    async def _open(self, thread_id: str) -> _Held:
        parts = self._started()
        files = await self._workspaces.open(thread_id)
        ready = await self._ready(thread_id, files.layout)

        async def revive() -> str:
            return (await self._ready(thread_id, files.layout)).id

        variables = self._variables(parts.path)
        shells = Shells(Access(parts.api, parts.plan, variables, revive), ready.id)
        folder = files.layout.roots[WORKSPACE].host.parent
        disk = DiskShare(folder, lambda: self._workspaces.usage(thread_id), self._limits)
        await shells.open(found=ready.found)
        commands = ContainerCommands(shells, disk)
        return _Held(DockerSandbox(thread_id, files, commands), commands, shells)

    def _variables(self, path: str) -> dict[str, str | None]:
        """The environment of commands. path: the image's own, searched last."""
        own = self._settings.environment
        variables = environment(own, self._limits, runtime=RUNTIME if self._runtime else "")
        if path and "PATH" not in own:
            variables["PATH"] += f":{path}"
        return {KEY_VARIABLE: None} | variables  # commands must not see the key of the image's own programs

    async def _ready(self, thread_id: str, layout: Layout) -> Ready:
        own = [root for root in layout.roots.values() if root.of_thread]
        folder = layout.roots[WORKSPACE].host.parent
        skills = " ".join(f"{root.virtual}={identity(root.host)}" for root in own if not root.own)
        return await self._started().containers.ready(thread_id, folder, tuple(root.bind for root in own), skills)

    def get(self, thread_id: str) -> DockerSandbox | None:
        held = self._held.get(thread_id)
        return held.sandbox if held else None

    async def release(self, thread_id: str) -> None:
        """End what runs. The container stays until it has been idle for too long or its slot is needed."""
        async with self._lock(thread_id):
            await self._let_go(thread_id, keep=True)

    async def _let_go(self, thread_id: str, *, keep: bool) -> None:
        held = self._held.pop(thread_id, None)
        if held is None:
            return
        try:
            with contextlib.suppress(SandboxError):  # The daemon fails; the next user of the container sweeps it.
                await held.commands.close(sweep=keep)
        finally:
            self._pool.rest(sandbox_id(thread_id))

    async def forget(self, thread_id: str) -> None:
        async with self._lock(thread_id):
            await self._let_go(thread_id, keep=False)
            if self._parts is not None:
                await self._parts.containers.remove(sandbox_id(thread_id))
                self._pool.leave(sandbox_id(thread_id))

    async def remove_idle(self) -> None:
        """Remove containers that have been idle for too long."""
        await self._remove(self._pool.expire(self._docker.idle_timeout))

    async def _remove(self, sandboxes: Iterable[str]) -> None:
        await asyncio.gather(*map(self._remove_one, sandboxes))

    async def _remove_one(self, sandbox: str) -> None:
        try:
            await self._started().containers.remove(sandbox)
        except SandboxError:
            self._pool.rest(sandbox)  # It is retried later.
        else:
            self._pool.leave(sandbox)

    async def _tidy(self) -> None:
        while True:
            await asyncio.sleep(min(_LOOK_SECONDS, self._docker.idle_timeout + 1))
            await self.remove_idle()

    async def shutdown(self) -> None:
        """End what runs and remove the containers; those that cannot be removed now are handled at the next start."""
        if self._tidying is not None:
            self._tidying.cancel()
            await asyncio.gather(self._tidying, return_exceptions=True)
            self._tidying = None
        await asyncio.gather(*(self._let_go(thread_id, keep=False) for thread_id in list(self._held)))
        if self._parts is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_SHUTDOWN_SECONDS):
                    await self._remove(self._pool.all)
            await self._parts.api.close()
            self._parts = None
        self._workspaces.close()

    def _started(self) -> _Parts:
        if self._parts is None:
            raise SandboxError("the sandbox is not started")
        return self._parts

    def _lock(self, thread_id: str) -> asyncio.Lock:
        return self._locks.setdefault(thread_id, asyncio.Lock())
