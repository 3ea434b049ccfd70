"""The arguments of bwrap: they are the boundary, since bwrap itself decides nothing. See bwrap(1)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox.base import WORKSPACE
from sandbox.policy import ETC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sandbox.local.cage import Bind
    from sandbox.policy import Limits

HOSTNAME = "sandbox"
UID = 1000
"""Who a command thinks it is. On the host it is the gateway's user, or, under root, the sandbox's own."""

_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""Links into /usr on a merged system, folders on others."""

FILES: Mapping[str, str] = {
    "/etc/passwd": f"root:x:0:0:root:/root:/usr/sbin/nologin\nsandbox:x:{UID}:{UID}::{WORKSPACE}:/bin/bash\n",
    "/etc/group": f"root:x:0:\nsandbox:x:{UID}:\n",
    "/etc/hosts": f"127.0.0.1 localhost {HOSTNAME}\n::1 localhost {HOSTNAME}\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
"""Made up: the host's own would name its users."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What this bwrap can do, by its --help."""

    disable_userns: bool
    size: bool

    @classmethod
    def of(cls, help_text: str) -> Features:
        return cls(disable_userns="--disable-userns" in help_text, size="--size BYTES" in help_text)


def arguments(
    binds: Iterable[Bind],
    env: Mapping[str, str],
    limits: Limits,
    features: Features,
    *,
    seccomp: int,
    files: Mapping[str, int],
    has_network: bool,
) -> bytes:
    """Arguments of bwrap, as `--args FD` takes them.

    seccomp: the descriptor of the filter. files: the descriptors of FILES' contents, by path.
    has_network: bwrap is started in the network namespace that the command shall have, and makes none.
    """
    whole = [
        *_namespaces(features),
        *(("--share-net",) if has_network else ()),
        *_environment(env),
        *_system(),
        *_made_up(files),
        *_kernel(limits, features),
        *_bound(binds),
        *("--seccomp", str(seccomp)),
        *("--chdir", WORKSPACE),
        # Last, so that nothing above finds them closed: not even empty files can be left outside the bound folders.
        *("--remount-ro", "/dev", "--remount-ro", "/"),
    ]
    return b"".join(os.fsencode(each) + b"\0" for each in whole)


def _namespaces(features: Features) -> Iterator[str]:
    yield from ("--unshare-all", "--unshare-user", "--uid", str(UID), "--gid", str(UID), "--hostname", HOSTNAME)
    yield from ("--die-with-parent", "--new-session", "--cap-drop", "ALL")
    if features.disable_userns:
        yield "--disable-userns"


def _environment(env: Mapping[str, str]) -> Iterator[str]:
    yield "--clearenv"
    for name, value in env.items():
        yield from ("--setenv", name, value)


def _system() -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for name in _SYSTEM:
        path = f"/{name}"
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.isdir(path):
            yield from ("--ro-bind", path, path)
    for path in ETC:
        yield from ("--ro-bind-try", path, path)
    yield from ("--dir", "/var", "--symlink", "/tmp", "/var/tmp", "--dir", "/run")


def _made_up(files: Mapping[str, int]) -> Iterator[str]:
    for path, descriptor in files.items():
        yield from ("--file", str(descriptor), path)


def _kernel(limits: Limits, features: Features) -> Iterator[str]:
    """/proc/sys is bound read-only: some of its files do not ask for a capability, only for the host's root."""
    yield from ("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev")
    for path, size in (("/tmp", limits.temporary), ("/dev/shm", limits.shared_memory)):
        if features.size:
            yield from ("--size", str(size))
        yield from ("--tmpfs", path)


def _bound(binds: Iterable[Bind]) -> Iterator[str]:
    """Outer ones first, so that a folder below another one is not hidden by it."""
    for bind in sorted(binds, key=lambda each: each.target):
        yield from ("--ro-bind" if bind.read_only else "--bind", str(bind.source), bind.target)
