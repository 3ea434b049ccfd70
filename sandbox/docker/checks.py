"""What is looked at before the first container is made: settings that cannot be carried out, and what this daemon does
not enforce. Used by the provider."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox.base import SandboxUnavailable
from sandbox.docker import hints
from sandbox.docker.api import NotFound
from sandbox.docker.system_calls import profile
from sandbox.kernel.seccomp import MACHINES
from sandbox.policy import RUNTIME

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sandbox.base import CommandResult
    from sandbox.config import DockerSettings, SandboxSettings
    from sandbox.docker.api import DockerApi

_SOCKETS = (
    "/var/run/docker.sock",
    "/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/podman/podman.sock",
    "/run/crio/crio.sock",
)
_NOT_ENFORCED = {
    "MemoryLimit": "the daemon cannot limit memory",
    "SwapLimit": "memory is limited, but not the swap beyond it",
    "PidsLimit": "the daemon cannot limit the number of processes",
    "CpuCfsQuota": "a thread's commands can use all processors",
}
_DISK = (
    "the disk share is watched, not a quota: between two looks a command can write more than its share "
    "(sandbox.limits.file_mb bounds each file)"
)
_SHOWN = (
    "commands can read what /sys tells about the machine, and in /proc/self/mountinfo what their folders are called "
    "outside"
)
_NO_FILTER = "the daemon filters no system calls (seccomp is off)"
_DOCKERS_FILTER = (
    "for this processor there is Docker's own filter of system calls only, which leaves more of the kernel open than "
    "Antler's: netlink, 32-bit calls, and before version 23 vsock, before version 25 io_uring"
)
_RUNTIME_CHECK = f"""
version=$({RUNTIME}/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])') &&
[ -d "{RUNTIME}/lib/python$version" ]
"""
_OWN_PACKAGES_CHECK = f"""
PATH=${{PATH#{RUNTIME}/bin:}}
python3 -c 'from importlib.util import find_spec; exit(not (find_spec("pandas") and find_spec("markitdown")))'
"""
_RUNTIME_SECONDS = 30.0
_NO_RUNTIME = (
    f"the packages of {RUNTIME} cannot be used in this image: it needs the same /usr/bin/python3 as this machine; "
    "the image has no such packages of its own either (docs/sandbox-docker.md: three lines make one that has them)"
)


def refuse_settings(settings: SandboxSettings, docker: DockerSettings) -> None:
    """Raises SandboxUnavailable for what cannot be done."""
    if settings.network.mode != "none" and docker.network is None:
        raise SandboxUnavailable(
            "Docker has no network for commands that is held to an allow list",
            "set sandbox.network to none, or name a network of your own in sandbox.docker.network",
        )
    own = docker.host.removeprefix("unix://") if docker.host.startswith("unix://") else ""
    sockets = {os.path.realpath(each) for each in (*_SOCKETS, own) if each}
    for mount in settings.mounts:
        real = Path(os.path.realpath(mount.host))
        if any(Path(each).is_relative_to(real) for each in sockets):
            text = f"sandbox.mounts: {mount.path} would show the daemon's socket, which is as good as root"
            raise SandboxUnavailable(text, "mount a folder below it")


@dataclass(frozen=True, slots=True)
class Image:
    """What is known of an image. path: its own search path, "" if it names none. shortfalls: what is wrong with it."""

    id: str
    path: str
    shortfalls: list[str]


async def find_image(api: DockerApi, name: str) -> Image:
    """Raises SandboxUnavailable where it is not there."""
    try:
        image = await api.image(name)
    except NotFound:
        raise SandboxUnavailable(f"there is no image {name}", f"docker pull {name}") from None
    config = image.get("Config") or {}
    volumes = sorted(config.get("Volumes") or {})
    found = [f"the image has volumes of its own, which have no limit: {', '.join(volumes)}"] if volumes else []
    variables = dict(each.partition("=")[::2] for each in config.get("Env") or [])
    return Image(str(image["Id"]), variables.get("PATH", ""), found)


async def require_network(api: DockerApi, name: str) -> str:
    """What is to be known of it. Raises SandboxUnavailable where it is not there."""
    try:
        await api.require_network(name)
    except NotFound:
        raise SandboxUnavailable(f"there is no network {name}", f"docker network create {name}") from None
    return f"the network {name} decides what commands reach; sandbox.network.allow is not enforced"


def shortfalls(info: dict[str, Any]) -> list[str]:
    """List what a daemon does not enforce, by `docker info`. Raises SandboxUnavailable for one that cannot be used."""
    if str(info.get("OSType", "linux")) != "linux":
        raise SandboxUnavailable("the Docker daemon makes no Linux containers")
    security = [str(each) for each in info.get("SecurityOptions") or []]
    if any(each.startswith(("name=rootless", "name=userns")) for each in security):
        raise SandboxUnavailable("the Docker daemon maps users", hints.USER_NAMESPACES)
    found = [text for name, text in _NOT_ENFORCED.items() if info.get(name) is False]
    if not _filters(info):
        found.append(_NO_FILTER)
    elif system_calls(info) is None:
        found.append(_DOCKERS_FILTER)
    return [*found, _SHOWN, _DISK]


def system_calls(info: dict[str, Any]) -> str | None:
    """The filter for this daemon's containers, by `docker info`. None: it refuses any, or its processor numbers or
    passes the arguments of calls as none that Antler's rules were made for."""
    return profile() if _filters(info) and info.get("Architecture") in MACHINES else None


def _filters(info: dict[str, Any]) -> bool:
    return any(str(each).startswith("name=seccomp") for each in info.get("SecurityOptions") or [])


async def runtime_fits(execute: Callable[..., Awaitable[CommandResult]]) -> bool:
    """Whether the runtime for the agent's code is of use in this image: it is made for the Python of this machine."""
    return (await execute(_RUNTIME_CHECK, timeout=_RUNTIME_SECONDS)).exit_code == 0


async def without_runtime(execute: Callable[..., Awaitable[CommandResult]]) -> list[str]:
    """What the agent's code lacks in an image that the runtime does not fit."""
    own = await execute(_OWN_PACKAGES_CHECK, timeout=_RUNTIME_SECONDS)
    return [] if own.exit_code == 0 else [_NO_RUNTIME]
