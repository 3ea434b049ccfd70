"""The daemon's API, as far as the provider needs it: the only module that uses aiodocker.

Its errors are translated here. Calls have a timeout; the streams of commands do not.
Source: Docker Engine API v1.41 (docs.docker.com/engine/api).
"""

from __future__ import annotations

import errno
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiodocker
import aiohttp

from sandbox.base import SandboxError, SandboxUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aiodocker.stream import Stream


_CALL = aiohttp.ClientTimeout(total=120, sock_connect=10)
_UNIX = "unix://"
_NO_CONNECTION = 900
"""aiodocker's status for a daemon that cannot be reached."""
_ENDED = " is not running: "
"""Part of the daemon's error (500) for a container that ends just before a program starts in it."""

START = "start the daemon (systemctl start docker), or set sandbox.docker.host"
PERMISSION = (
    "add the user that Antler runs as to the group docker (usermod -aG docker USER) and restart Antler; note that "
    "this group is equivalent to root on this machine"
)
HOST_PATHS = (
    "if Antler itself runs in a container, or the daemon on another machine, sandbox.docker.host_paths must say where "
    "the daemon finds Antler's folders"
)
USER_NAMESPACES = (
    "this daemon maps users (rootless or userns-remap), so commands could not write the thread's files: use an "
    "ordinary daemon, or `sandbox.use: bubblewrap`"
)
IMAGE = "sandbox.docker.image should name an image with /bin/sh and /bin/sleep"
REPLICAS = "raise sandbox.docker.replicas, or let fewer agents run concurrently"
_HINTS = (
    ("docker-init", "the daemon has no init process: install tini (Debian: apt-get install tini)"),
    ("/bin/sh", IMAGE),
    ("/bin/sleep", IMAGE),
    ("cannot exec in a stopped state", IMAGE),  # without /bin/sleep the container ends before a program starts in it
)


def hint(output: str) -> str:
    """The advice for a message of the daemon or its programs; "" for an unknown one."""
    return next((text for fragment, text in _HINTS if fragment in output), "")


class NotFound(SandboxError):
    """The daemon has no such container, image or network."""


class Conflict(SandboxError):
    """The name is taken, or the container is in the wrong state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A container. labels: including ours."""

    id: str
    running: bool
    labels: Mapping[str, str]


class Attached:
    """A running program in a container: its input and outputs."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    async def write(self, data: bytes) -> None:
        """Write to the program's input. Raises SandboxError."""
        try:
            await self._stream.write_in(data)
        except (OSError, AssertionError, RuntimeError) as error:  # aiodocker asserts that the connection exists
            raise SandboxError("the connection to the Docker daemon broke") from error

    async def read(self) -> tuple[int, bytes] | None:
        """Read (1 or 2 for stdout or stderr, data); None at the end. Raises SandboxError."""
        try:
            message = await self._stream.read_out()
        except (aiohttp.ClientError, OSError) as error:
            raise SandboxError("the connection to the Docker daemon broke") from error
        return None if message is None else (message.stream, message.data)

    async def close(self) -> None:
        """Close the connection, which ends the program's input."""
        try:
            await self._stream.close()
        except AssertionError:  # the connection is already closed
            return


class DockerApi:
    """A client of the daemon. host: unix:///path or tcp://host:port."""

    def __init__(self, host: str) -> None:
        self._connector: aiohttp.UnixConnector | None = None
        if host.startswith(_UNIX):
            # Our own, without aiohttp's limit of 100 connections, which would limit concurrent commands; aiodocker then
            # expects no host.
            self._connector = aiohttp.UnixConnector(host.removeprefix(_UNIX), limit=0)
            host = f"{_UNIX}localhost"
        self._docker = aiodocker.Docker(host, connector=self._connector, timeout=_CALL)

    async def close(self) -> None:
        """Idempotent."""
        await self._docker.close()
        if self._connector is not None:
            await self._connector.close()

    async def info(self) -> dict[str, Any]:
        """The daemon's description of itself (`docker info`)."""
        told: dict[str, Any] = await self._call("info")
        return told

    async def image(self, name: str) -> dict[str, Any]:
        """Inspect an image. Raises NotFound."""
        told: dict[str, Any] = await self._call(f"images/{name}/json")
        return told

    async def require_network(self, name: str) -> None:
        """Check that a network exists. Raises NotFound."""
        await self._call(f"networks/{name}")

    async def containers(self, label: str) -> list[Found]:
        """All containers with a label (`name=value`), including stopped ones."""
        filters = json.dumps({"label": [label]})
        listed: list[dict[str, Any]] = await self._call("containers/json", params={"all": "1", "filters": filters})
        return [Found(id=each["Id"], running=each["State"] == "running", labels=each["Labels"]) for each in listed]

    async def find(self, name: str) -> Found:
        """Find a container. Raises NotFound."""
        found = await self._call(f"containers/{name}/json")
        return Found(
            id=found["Id"],
            running=found["State"]["Running"],
            labels=found["Config"]["Labels"] or {},
        )

    async def create(self, name: str, body: Mapping[str, object]) -> str:
        """Create a container; returns its id. Raises Conflict if the name is taken, NotFound without the image."""
        made = await self._call("containers/create", "POST", params={"name": name}, data=body)
        return str(made["Id"])

    async def start(self, container: str) -> None:
        """Start a container, unless it is already running."""
        await self._call(f"containers/{container}/start", "POST")

    async def restart(self, container: str) -> None:
        """Kill everything in a container, and start it."""
        await self._call(f"containers/{container}/restart", "POST", params={"t": "0"})

    async def processes(self, container: str) -> list[int]:
        """The user of each process in it, per the daemon. Raises NotFound, and Conflict if it is not running."""
        told: dict[str, Any] = await self._call(f"containers/{container}/top", params={"ps_args": "-eo pid,uid"})
        return [int(owner) for _, owner in told["Processes"]]

    async def remove(self, container: str) -> None:
        """Kill and remove it with its volumes. Raises NotFound, and Conflict while another call removes it."""
        await self._call(f"containers/{container}", "DELETE", params={"force": "1", "v": "1"})

    async def attach(
        self, container: str, command: Sequence[str], *, user: str, folder: str, environment: Mapping[str, str | None]
    ) -> Attached:
        """Start a program in a running container. environment: beyond the container's own; None removes a variable.

        Raises NotFound, and Conflict if it is not running.
        """
        body = {
            "Cmd": list(command),
            "AttachStdin": True,
            "AttachStdout": True,
            "AttachStderr": True,
            "Tty": False,
            "User": user,
            "WorkingDir": folder,
            "Env": [name if value is None else f"{name}={value}" for name, value in environment.items()],
        }
        made = await self._call(f"containers/{container}/exec", "POST", data=body)
        stream = aiodocker.execs.Exec(self._docker, made["Id"], tty=False).start()
        try:
            await stream.__aenter__()
        except aiodocker.DockerError as error:
            raise self._ours(error) from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise SandboxError("the connection to the Docker daemon broke") from error
        return Attached(stream)

    async def _call(self, path: str, method: str = "GET", **request: Any) -> Any:
        # With the low-level call: aiodocker's methods lose the status of wrapped errors, or are untyped.
        try:
            return await self._docker._query_json(path, method, **request)
        except aiodocker.DockerError as error:
            raise self._ours(error) from error
        except TimeoutError as error:
            raise SandboxError("the Docker daemon does not answer", START) from error
        except aiohttp.ClientError as error:
            raise SandboxError("the connection to the Docker daemon broke") from error

    def _ours(self, error: aiodocker.DockerError) -> SandboxError:
        text = f"Docker: {_short(error)}"
        if error.status == _NO_CONNECTION:
            return _unreachable(error)
        if error.status == 400 and "bind source path does not exist" in error.message:
            return SandboxUnavailable("the Docker daemon cannot find the sandbox's folders", HOST_PATHS)
        if error.status == 404:
            return NotFound(text)
        if error.status == 409 or _ENDED in error.message:
            return Conflict(text)
        return SandboxError(text, hint(error.message))


def _unreachable(error: aiodocker.DockerError) -> SandboxUnavailable:
    """The error for an unreachable daemon. aiodocker keeps the reason only as the exception's context."""
    reason = error.__context__
    number = reason.os_error.errno if isinstance(reason, aiohttp.ClientConnectorError) else None
    if number in (errno.EACCES, errno.EPERM):
        return SandboxUnavailable("Antler has no permission to use the Docker daemon", PERMISSION)
    return SandboxUnavailable("the Docker daemon cannot be reached", START)


def _short(error: aiodocker.DockerError) -> str:
    """The first line, without paths."""
    words = error.message.strip().splitlines()[0].split() if error.message.strip() else ["no reason given"]
    return " ".join(word for word in words if "/" not in word)[:200]
