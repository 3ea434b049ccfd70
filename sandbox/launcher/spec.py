"""The protocol between the gateway and its launcher: what to start, and the result."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass
from typing import Any

START, BRANCH = b"+", b"<"
"""Requests to the server. START, with a spec (a file), the control socket and the pipe for the output: run a program.
BRANCH, with a list of `cgroup.procs` files (a file) and a socket: fork a second server in these control groups, which
serves the socket. Entering them takes the kernel milliseconds; processes created in them avoid that."""

FIRST_INPUT = 10
"""The descriptor of a program's first input; the others follow."""

LISTENING = b"listening"
"""The message that carries the socket of LaunchSpec.listen."""

STAGE = "/run"
"""The folder of a staged program's binds: STAGE/0, STAGE/1 ... in its own mount namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The user that a program runs as if the gateway is root."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PathRule:
    """A program's rights below a path, if that exists (Landlock). access: LANDLOCK_ACCESS_FS_* bits."""

    path: str
    access: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """The confinement of a program without namespaces: Landlock's rules, then a seccomp filter."""

    rules: tuple[PathRule, ...]
    seccomp: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpec:
    """A program to start; the fields are applied in this order.

    stage: host paths that will be at STAGE/0, STAGE/1 ..., opened as root, in a
    separate mount namespace. identity: the user it becomes; None: unchanged. limits: (RLIMIT_*, value) pairs, soft and
    hard. more_tasks: how many processes and threads its user may have in addition to the current ones; None: no
    limit. inputs: contents of the descriptors from FIRST_INPUT on. env: its whole environment. listen: a port; the
    program gets a separate network namespace with only 127.0.0.1, and in it a socket that listens at this port and
    belongs to the launching process.
    """

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    cwd: str = "/"
    stage: tuple[str, ...] = ()
    identity: Identity | None = None
    limits: tuple[tuple[int, int], ...] = ()
    more_tasks: int | None = None
    inputs: tuple[bytes, ...] = ()
    confinement: Confinement | None = None
    listen: int | None = None

    def encode(self) -> bytes:
        return json.dumps(asdict(self), default=_encode_bytes).encode()

    @classmethod
    def decode(cls, data: bytes) -> LaunchSpec:
        fields: dict[str, Any] = json.loads(data)
        identity, confinement = fields["identity"], fields["confinement"]
        return cls(
            argv=tuple(fields["argv"]),
            env=tuple((name, value) for name, value in fields["env"]),
            cwd=fields["cwd"],
            stage=tuple(fields["stage"]),
            identity=identity and Identity(**identity),
            limits=tuple((name, value) for name, value in fields["limits"]),
            listen=fields["listen"],
            more_tasks=fields["more_tasks"],
            inputs=tuple(base64.b64decode(each) for each in fields["inputs"]),
            confinement=confinement
            and Confinement(
                rules=tuple(PathRule(**rule) for rule in confinement["rules"]),
                seccomp=base64.b64decode(confinement["seccomp"]),
            ),
        )


def _encode_bytes(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(type(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a program ended. exit_code: 128 + signal for a killed one. problem: why it could not be started, or ""."""

    exit_code: int
    problem: str = ""

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> Ended:
        return cls(**json.loads(data))
