"""The containers of one gateway: found again by their names, made, replaced, removed. Used by the provider.

The daemon keeps names unique, which is the lock between processes.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox.base import SandboxError, SandboxUnavailable, sandbox_id
from sandbox.docker.api import Conflict, NotFound
from sandbox.docker.plan import CONFIG, FOLDER, INSTANCE, PLACES, SANDBOX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox.docker.api import DockerApi, Found
    from sandbox.docker.plan import Plan
    from sandbox.local.cage import Bind

_TRIES = 20
_PAUSE_SECONDS = 0.25
"""Between tries, while another call removes or makes the same container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A container that runs. found: it did already, and something may run in it."""

    id: str
    found: bool


class Containers:
    def __init__(self, api: DockerApi, plan: Plan) -> None:
        self._api = api
        self._plan = plan
        self._digest = plan.digest()

    async def ready(self, thread_id: str, folder: Path, own: tuple[Bind, ...], skills: str = "") -> Ready:
        """The thread's container, found or made. Arguments as Plan.body's.

        One that was made from other settings, for another folder, or with other folders of skills (one that was
        removed and made again would stay empty in it), is replaced. Raises SandboxError.
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
        raise SandboxError(f"the container could not be made: {problem}")

    async def _find(self, name: str, folder: Path, skills: str) -> Found | None:
        """The container if there is one that fits; another one is removed."""
        try:
            found = await self._api.find(name)
        except NotFound:
            return None
        if found.labels.get(INSTANCE) != self._plan.instance:
            raise SandboxError("a container that is not Antler's has the name of a sandbox", f"docker rm {name}")
        if self._fits(found.labels, folder) and found.labels.get(PLACES, "") == skills:
            return found
        await self._api.remove(found.id)
        return None

    async def _create(self, name: str, body: dict[str, object]) -> str:
        try:
            return await self._api.create(name, body)
        except NotFound as error:
            raise SandboxUnavailable("the image of the sandbox is gone", "docker pull it again") from error

    def _fits(self, labels: Mapping[str, str], folder: Path) -> bool:
        return labels.get(CONFIG) == self._digest and labels.get(FOLDER) == str(folder)

    async def remove(self, sandbox: str) -> None:
        """Kill and remove a sandbox's container and wait until it is gone. Idempotent. Raises SandboxError."""
        for attempt in range(_TRIES):
            if attempt:
                await asyncio.sleep(_PAUSE_SECONDS)
            try:
                await self._api.remove(self._plan.name(sandbox))
            except Conflict:  # Somebody else removes it.
                continue
            except NotFound:
                pass
            return
        raise SandboxError("a container cannot be removed")

    async def clean(self, most: int) -> list[str]:
        """After a start: the sandboxes whose containers can be used on. All others of this gateway are removed: made
        from other settings, stopped, of threads that are gone, and more than `most`.
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
