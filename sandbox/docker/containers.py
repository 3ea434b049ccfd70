"""The containers of one gateway: found by name, created, replaced, removed, and limited in number.

Processes are synchronized by the daemon, which keeps names unique.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox.base import SandboxError, SandboxUnavailable, sandbox_id
from sandbox.docker.api import REPLICAS, Conflict, NotFound
from sandbox.docker.plan import CONFIG, FOLDER, INSTANCE, PLACES, SANDBOX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sandbox.docker.api import DockerApi, Found
    from sandbox.docker.plan import Plan
    from sandbox.files.paths import Bind


_TRIES = 20
_PAUSE_SECONDS = 0.25
"""Seconds between attempts while another call removes or creates the same container."""


class Pool:
    """Slots for containers, by sandbox id: in use, idle or leaving. replicas: the number of slots.

    wait_seconds: how long to wait for a slot. now: seconds of a monotonic clock.
    """

    def __init__(self, replicas: int, wait_seconds: float, now: Callable[[], float]) -> None:
        self._replicas = replicas
        self._wait_seconds = wait_seconds
        self._now = now
        self._used: set[str] = set()
        self._idle: OrderedDict[str, float] = OrderedDict()  # start of idleness; the least recently used first
        self._expired: set[str] = set()
        self._evicted: set[str] = set()  # their slots are already taken
        self._changed = asyncio.Event()

    @property
    def all(self) -> frozenset[str]:
        """The sandboxes that may have a container."""
        return frozenset(self._used | self._idle.keys() | self._expired | self._evicted)

    async def enter(self, sandbox: str) -> str | None:
        """Take a slot, its own or a free one. Returns the sandbox whose container has to be removed first, if any; call
        `leave` when it is gone.
        Raises SandboxError if all slots stay in use for too long.
        """
        try:
            async with asyncio.timeout(self._wait_seconds):
                while not self._has_place(sandbox):
                    await self._changed.wait()
        except TimeoutError:
            raise SandboxError(f"all {self._replicas} sandboxes are in use", REPLICAS) from None
        evicted = None
        if sandbox not in self._used and self._idle.pop(sandbox, None) is None and self._count() >= self._replicas:
            evicted, _ = self._idle.popitem(last=False)
            self._evicted.add(evicted)
        self._used.add(sandbox)
        return evicted

    def _has_place(self, sandbox: str) -> bool:
        if sandbox in self._evicted or sandbox in self._expired:
            return False
        return sandbox in self._used or bool(self._idle) or self._count() < self._replicas

    def _count(self) -> int:
        return len(self._used) + len(self._idle) + len(self._expired)

    def rest(self, sandbox: str) -> None:
        """Mark its container, if there is one, as idle: it may be evicted, and expires after a while."""
        self._forget(sandbox)
        self._idle[sandbox] = self._now()
        self._tell()

    def leave(self, sandbox: str) -> None:
        """Free the slot: its container is gone."""
        self._forget(sandbox)
        self._tell()

    def expire(self, seconds: float) -> list[str]:
        """The sandboxes idle for that long, whose containers have to be removed; call `leave` when they are gone."""
        since = self._now() - seconds
        old = [sandbox for sandbox, began in self._idle.items() if began <= since]
        for sandbox in old:
            del self._idle[sandbox]
        self._expired.update(old)
        return old

    def _forget(self, sandbox: str) -> None:
        for group in (self._used, self._expired, self._evicted):
            group.discard(sandbox)
        self._idle.pop(sandbox, None)

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A running container. found: it was already running, so something may run in it."""

    id: str
    found: bool


class Containers:
    def __init__(self, api: DockerApi, plan: Plan) -> None:
        self._api = api
        self._plan = plan
        self._digest = plan.digest()

    async def ready(self, thread_id: str, folder: Path, own: tuple[Bind, ...], skills: str = "") -> Ready:
        """Find or create the thread's container. Arguments: see Plan.body.

        A container with other settings, another folder, or other folders of skills (a recreated one would stay empty
        in it) is replaced. Raises SandboxError.
        """
        name = self._plan.name(sandbox_id(thread_id))
        for attempt in range(_TRIES):
            if attempt:
                await asyncio.sleep(_PAUSE_SECONDS)
            try:
                found = await self._find(name, folder, skills)
                made = found.id if found else await self._create(name, self._plan.body(thread_id, folder, own, skills))
                await self._api.start(made)
            except (Conflict, NotFound) as error:  # Another process was faster with the name, or with the removal.
                problem = str(error)
            else:
                return Ready(id=made, found=found is not None and found.running)
        raise SandboxError(f"the container could not be created: {problem}")

    async def _find(self, name: str, folder: Path, skills: str) -> Found | None:
        """The container if it fits; otherwise it is removed."""
        try:
            found = await self._api.find(name)
        except NotFound:
            return None
        if found.labels.get(INSTANCE) != self._plan.instance:
            raise SandboxError("a container that is not Antler's uses the name of a sandbox", f"docker rm {name}")
        if self._fits(found.labels, folder) and found.labels.get(PLACES, "") == skills:
            return found
        await self._api.remove(found.id)
        return None

    async def _create(self, name: str, body: dict[str, object]) -> str:
        try:
            return await self._api.create(name, body)
        except NotFound as error:
            raise SandboxUnavailable("the image of the sandbox no longer exists", "docker pull it again") from error

    def _fits(self, labels: Mapping[str, str], folder: Path) -> bool:
        return labels.get(CONFIG) == self._digest and labels.get(FOLDER) == str(folder)

    async def remove(self, sandbox: str) -> None:
        """Kill and remove a sandbox's container and wait until it is gone. Idempotent. Raises SandboxError."""
        for attempt in range(_TRIES):
            if attempt:
                await asyncio.sleep(_PAUSE_SECONDS)
            try:
                await self._api.remove(self._plan.name(sandbox))
            except Conflict:  # Another process is removing it.
                continue
            except NotFound:
                pass
            return
        raise SandboxError("a container cannot be removed")

    async def clean(self, most: int) -> list[str]:
        """After a start, return the sandboxes whose containers can still be used. All others of this gateway are
        removed: those with other settings, stopped ones, those of deleted threads, and more than `most`.
        """
        useful: list[str] = []
        for found in await self._api.containers(self._plan.label):
            sandbox = found.labels.get(SANDBOX, "")
            if await self._is_useful(found) and len(useful) < most:
                useful.append(sandbox)
            else:
                with contextlib.suppress(NotFound, Conflict):
                    await self._api.remove(found.id)
        return useful

    async def _is_useful(self, found: Found) -> bool:
        folder = Path(found.labels.get(FOLDER, ""))
        if not found.running or not self._fits(found.labels, folder):
            return False
        return await asyncio.to_thread(folder.is_dir)
