"""The wrapper shells of a container whose image has an API that starts them. Used by the provider and commands.py."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox.base import WORKSPACE, SandboxError
from sandbox.docker import hints, http_scripts
from sandbox.docker.api import Conflict, NotFound
from sandbox.docker.http_api import KEY_VARIABLE, Gone, ImageApi, Silent
from sandbox.docker.http_session import Session
from sandbox.docker.shells import Access, Shells

if TYPE_CHECKING:
    from sandbox.docker.api import Found
    from sandbox.docker.config import DockerSettings
    from sandbox.docker.shell import Attached
    from sandbox.policy import Limits

_READY_PAUSE_SECONDS = 0.2
_LOOK_SECONDS = 15.0
_LONGEST_LOOK = 256 * 1024
_MOST_KNOWN = 2000
"""Containers; one that is forgotten is started anew when it is found again."""
_ROOT = "0:0"
_OPEN = "the image's API does not ask for a key: whatever is on the same network can run commands in every container"
_SERVER = re.compile(r"[1-9]\d{0,9}\n")
_OWN = re.compile(rb"own((?: \d{1,10}\.\d{1,20})+)\n")


@dataclass(frozen=True, slots=True)
class Own:
    """What runs in a container before the first command: its processes as http_scripts.py tells them apart, and the one
    that runs the API."""

    processes: str
    server: str


class Images:
    """What this process knows of its containers with an API. keeper: the user who passes bytes on inside. reachable:
    they are on a network."""

    def __init__(self, settings: DockerSettings, limits: Limits, keeper: str, *, reachable: bool) -> None:
        self.settings = settings
        self.reachable = reachable
        self.limits = limits
        self.keeper = keeper
        self._own: dict[str, tuple[str, Own]] = {}

    def own(self, found: Found) -> Own | None:
        """None: somebody else started it, or it was started anew since."""
        started, own = self._own.get(found.id, ("", None))
        return own if started == found.started else None

    def learn(self, found: Found, own: Own) -> None:
        self._own[found.id] = (found.started, own)
        while len(self._own) > _MOST_KNOWN:
            del self._own[next(iter(self._own))]

    def forget(self, container: str) -> None:
        self._own.pop(container, None)


class ApiShells(Shells):
    """Of one container, given by its id. `open` comes first. All methods raise SandboxError."""

    def __init__(self, access: Access, container: str, images: Images) -> None:
        super().__init__(access, container)
        self._images = images
        self._api: ImageApi | None = None
        self._own: Own | None = None
        self._since = ""
        self._recovering = asyncio.Lock()
        self._restarting = asyncio.Lock()

    async def open(self, *, found: bool) -> None:
        """Wait until the image's API answers. found: the container ran before, so that commands may run in it."""
        state = await self._access.api.find(self._container)
        self._own = self._images.own(state)
        self._since = state.started
        try:
            if found and self._own is not None:
                await self._connect(state)
                await self.sweep()
            elif found:
                await self._restart()
            else:
                await self._learn(state)
        except BaseException:  # a cancellation too: nobody else would close the connection
            await self._disconnect()
            raise

    async def shortfalls(self) -> list[str]:
        asks = not self._images.reachable or await self._connected().asks_for_the_key()
        return [] if asks else [_OPEN]

    async def close(self, *, sweep: bool) -> None:
        try:
            await super().close(sweep=sweep)
        finally:
            await self._disconnect()

    async def _learn(self, state: Found) -> None:
        """After the container was started: connect, and see what the image itself runs."""
        api = await self._connect(state)
        await self._until_ready(api)
        server = await api.ask("echo $PPID")
        own = await self._look()
        if not _SERVER.fullmatch(server) or own is None:
            raise Silent("what the sandbox's image itself runs cannot be found out")
        self._own = Own(own, server.strip())
        self._since = state.started
        self._images.learn(state, self._own)

    async def _connect(self, state: Found) -> ImageApi:
        if self._api is not None and self._api.container == state.id:
            return self._api
        await self._disconnect()
        key = next((each for each in state.environment if each.startswith(f"{KEY_VARIABLE}=")), "").partition("=")[2]
        images = self._images
        self._api = ImageApi(self._access.api, state.id, user=images.keeper, port=images.settings.api_port, key=key)
        return self._api

    async def _disconnect(self) -> None:
        api, self._api = self._api, None
        if api is not None:
            await api.close()

    def _connected(self) -> ImageApi:
        if self._api is None:
            raise Silent
        return self._api

    async def _until_ready(self, api: ImageApi) -> None:
        seconds = self._images.settings.api_seconds
        try:
            async with asyncio.timeout(seconds):
                while True:
                    if await api.is_there():
                        return
                    await asyncio.sleep(_READY_PAUSE_SECONDS)
        except TimeoutError as error:
            raise Silent(f"the API of the sandbox's image did not answer within {seconds:g} seconds") from error
        except Conflict as error:
            raise SandboxError("the container ends as soon as it is started", hints.IMAGE_API) from error

    async def _look(self) -> str | None:
        looking = await self._attach_as_root(http_scripts.look_at_own())
        said = bytearray()
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                while (piece := await looking.read()) is not None and len(said) < _LONGEST_LOOK:
                    said += piece[1]
        except TimeoutError:
            return None
        finally:
            await looking.close()
        found = _OWN.fullmatch(said)
        return found[1].decode().strip() if found else None

    async def _wrapper(self, mark: str) -> Attached:
        restarts, container = self.restarts, self._container
        try:
            return await self._session(mark)
        except (NotFound, Conflict, Silent, Gone):
            await self._recover(restarts, container)
        return await self._session(mark)

    async def _session(self, mark: str) -> Session:
        variables = dict(self._access.environment)
        line = http_scripts.wrapper(mark, self._images.limits)
        command = http_scripts.in_environment(line, variables, secret=KEY_VARIABLE)
        del variables["PATH"]
        api = self._connected()
        started = await api.execute(command, session=mark, folder=WORKSPACE, environment=variables)
        return Session(api, mark, started.command_id)

    async def _recover(self, restarts: int, container: str) -> None:
        """The container is gone, or its API is: have it anew, unless that just happened, or one connection broke."""
        async with self._recovering:
            if (restarts, container) != (self.restarts, self._container):
                return
            self._container = await self._access.revive()
            if self._container != container:
                self._images.forget(container)
                await self._learn(await self._access.api.find(self._container))
            elif not await self._connected().is_there():
                await self._restart()

    async def _restart(self) -> None:
        since = self._since
        async with self._restarting:
            if since != self._since:
                return
            state = await self._access.api.find(self._container)
            if self._own is None or self._images.own(state) is not None:
                await super()._restart()
                state = await self._access.api.find(self._container)
            else:  # Another process did that; what we knew of ended with it.
                self.restarts += 1
            await self._learn(state)

    async def _sweeper(self, kept: set[str]) -> Attached:
        own = self._own
        if own is None:
            raise Conflict("nobody knows what runs in the container")
        return await self._attach_as_root(http_scripts.sweeper(own.processes, own.server, sorted(kept)))

    async def _is_empty(self) -> bool:
        """The sweeper said so, and it is stronger than any command; what the daemon counts is the image's own too."""
        return True

    async def _attach_as_root(self, program: tuple[str, ...]) -> Attached:
        environment = {"PATH": "/usr/bin:/bin"}
        return await self._access.api.attach(self._container, program, user=_ROOT, folder="/", environment=environment)
