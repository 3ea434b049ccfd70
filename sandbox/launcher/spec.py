"""What is to be started, and what came of it: what the gateway and its launcher say to each other."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass
from typing import Any

START, BRANCH = b"+", b"<"
"""Requests to the server. START, with a spec (a file), the control socket and the pipe for the output: run a program.
BRANCH, with a list of `cgroup.procs` files (a file) and a socket: go on as two, the other one in these control groups,
answering there. Entering them takes the kernel milliseconds; who is born there pays nothing."""

FIRST_INPUT = 10
"""The descriptor at which a program finds its first input; the others follow."""

LISTENING = b"listening"
"""What comes with the socket of LaunchSpec.listen."""

STAGE = "/run"
"""Where a staged program finds what was bound for it: STAGE/0, STAGE/1 ... in its own mount namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The user a program runs as when the gateway is root."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PathRule:
    """What a program may do below a path, if that exists (Landlock). access: LANDLOCK_ACCESS_FS_* bits."""

    path: str
    access: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """A program that is held without namespaces: Landlock's rules, then a seccomp filter."""

    rules: tuple[PathRule, ...]
    seccomp: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpec:
    """A program to start; in this order.

    stage: host paths that it will find at STAGE/0, STAGE/1 ..., reached as root
    in a mount namespace of its own. identity: who it becomes; None leaves that as it is. limits: (RLIMIT_*, value)
    pairs, soft and hard. more_tasks: how many processes and threads its user may have beyond those of now; None: no
    limit. inputs: contents of the descriptors from FIRST_INPUT on. env: all of its environment. listen: a port; the
    program has a network namespace of its own with nothing but 127.0.0.1, and there a socket that listens at this port
    and belongs to who launched it.
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
