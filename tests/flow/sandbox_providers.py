"""The sandbox providers as configured by an operator, for a test that is the same for all of them.

A bench prepares a world that has not started: its config, its user, and its requirements.
"""

from __future__ import annotations

import os
import uuid
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from bot.store.identity import thread_folder
from sandbox.docker.plan import FOLDER
from sandbox.launcher.linux import landlock_abi
from sandbox.remote.homes import Homes
from tests.flow.sandboxed import MISSING
from tests.parts import missing
from tests.sandbox.docker.daemon import IMAGE, Daemon, the_daemon
from tests.sandbox.modes import ORDINARY_USER
from tests.sandbox.remote.served import TOKEN, server_process

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from tests.flow.gateway import World


@dataclass(frozen=True, slots=True)
class Provided:
    """A prepared world. told: output of /status for an administrator. daemon: of its containers, if it has any."""

    told: tuple[str, ...]
    daemon: Daemon | None = None

    def containers(self, world: World) -> dict[str, str]:
        """The world's containers: ids by name."""
        if self.daemon is None:
            return {}
        below = f"{world.data_dir}/"
        return self.daemon.containers(lambda labels: labels.get(FOLDER, "").startswith(below))


def _use(world: World, use: str, **section: Any) -> None:
    sandbox = {"use": use, "limits": {"free_disk_mb": 1}, **section}
    world.settings = world.settings | {"sandbox": sandbox}


def _as_ordinary_user(world: World) -> None:
    """Run the gateway as an ordinary user if the current one is root."""
    if os.geteuid() != 0:
        return
    user = str(ORDINARY_USER)
    world.prefix = ("/usr/bin/setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--")
    world.data_dir.mkdir(mode=0o700)
    os.chown(world.data_dir, ORDINARY_USER, ORDINARY_USER)


def _needs_bubblewrap() -> None:
    if MISSING:
        missing(MISSING)


@asynccontextmanager
async def bubblewrap_of_an_ordinary_user(world: World) -> AsyncIterator[Provided]:
    _needs_bubblewrap()
    _as_ordinary_user(world)
    _use(world, "bubblewrap")
    yield Provided(("Sandbox: bubblewrap, commands run isolated",))


@asynccontextmanager
async def landlock_of_an_ordinary_user(world: World) -> AsyncIterator[Provided]:
    if landlock_abi() < 6:
        missing("the kernel's Landlock is too old")
    _as_ordinary_user(world)
    _use(world, "landlock")
    yield Provided(
        ("Sandbox: landlock, commands run restricted, with weaker isolation", "commands share the host's process table")
    )


@asynccontextmanager
async def docker(world: World) -> AsyncIterator[Provided]:
    daemon = the_daemon()
    _use(world, "docker", docker={"image": IMAGE, "host": daemon.host})
    yield Provided(("Sandbox: docker, commands run isolated", "disk use is polled, not limited by a quota"), daemon)


@asynccontextmanager
async def remote(world: World) -> AsyncIterator[Provided]:
    """The reference server, with bubblewrap behind it."""
    _needs_bubblewrap()
    folder = world.folder / "server"
    folder.mkdir()
    own = {"use": "bubblewrap", "limits": {"free_disk_mb": 1}}
    async with server_process(folder, instance=f"flow-{uuid.uuid4().hex[:8]}", sandbox=own) as server:
        _use(world, "remote", remote={"url": f"http://{server.address}", "token": TOKEN})
        yield Provided(("Sandbox: remote, commands run isolated", "on another machine, isolated there by bubblewrap"))


@asynccontextmanager
async def remote_servers(world: World) -> AsyncIterator[Provided]:
    """Two reference servers, and a third one that is down."""
    _needs_bubblewrap()
    own = {"use": "bubblewrap", "limits": {"free_disk_mb": 1}}
    async with AsyncExitStack() as stack:
        urls = []
        for name in ("one", "two", "three"):
            folder = world.folder / name
            folder.mkdir()
            started = server_process(folder, instance=f"flow-{uuid.uuid4().hex[:8]}", sandbox=own)
            server = await stack.enter_async_context(started)
            urls.append(f"http://{server.address}")
        server.process.kill()
        await server.process.wait()
        notes = Homes(partial(thread_folder, world.data_dir), world.data_dir / "threads" / ".sandbox-servers")
        await notes.enlist(urls[2], [])  # it is known, and had no sandboxes
        _use(world, "remote", remote={"url": urls, "token": TOKEN})
        away = f"the sandbox server {urls[2]} cannot be reached"
        yield Provided(
            ("Sandbox: remote, commands run isolated", away, "on 3 other machines, isolated there by bubblewrap")
        )


BENCHES: dict[str, Callable[[World], AbstractAsyncContextManager[Provided]]] = {
    "bubblewrap, ordinary user": bubblewrap_of_an_ordinary_user,
    "landlock, ordinary user": landlock_of_an_ordinary_user,
    "docker": docker,
    "remote": remote,
    "remote servers": remote_servers,
}
