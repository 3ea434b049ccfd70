"""Holds a command in namespaces of its own. Used by the provider and, as it is, by the tests of escapes."""

from __future__ import annotations

import os
import resource
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox.base import Isolation, SandboxUnavailable
from sandbox.bubblewrap import hints
from sandbox.bubblewrap.arguments import FILES, Features, arguments
from sandbox.kernel import seccomp
from sandbox.launcher.spec import FIRST_INPUT, STAGE, Identity, LaunchSpec
from sandbox.local.cage import Bind
from sandbox.local.process import run
from sandbox.policy import RUNTIME, Limits, environment, shell
from sandbox.runtime import complete

if TYPE_CHECKING:
    from sandbox.launcher.client import Launcher
    from sandbox.local.cage import Order

PROGRAMS = "/usr/bin:/bin"
"""Only the system's own bwrap: AppArmor's exceptions are bound to its path."""
PROXY_PORT = 3128
PROXIES = {
    name: f"http://127.0.0.1:{PROXY_PORT}" for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
}
_HELP_SECONDS = 20.0
_PRLIMIT = {
    resource.RLIMIT_FSIZE: "fsize",
    resource.RLIMIT_NOFILE: "nofile",
    resource.RLIMIT_CPU: "cpu",
    resource.RLIMIT_CORE: "core",
    resource.RLIMIT_AS: "as",
}
"""prlimit(1)'s names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """env: declared variables. runtime: the host's folder of the runtime for the agent's code; it may be built later.

    identity: who commands are on the host when the gateway is root, else None. memory_bounded: a control group bounds
    the memory of all processes together. egress: commands find an HTTP proxy at 127.0.0.1 in their network namespace.
    """

    limits: Limits
    env: dict[str, str]
    runtime: Path | None
    identity: Identity | None
    memory_bounded: bool
    egress: bool = False


class BubblewrapCage:
    name = "bubblewrap"
    isolation = Isolation.FULL
    has_own_paths = True

    def __init__(self, setup: Setup, programs: str = PROGRAMS) -> None:
        """programs: where bwrap is looked for, as in PATH."""
        self._setup = setup
        self._programs = programs
        self._program = ""
        self._features = Features(disable_userns=True, size=True)
        self._filter = b""

    async def start(self, launcher: Launcher) -> tuple[str, ...]:
        found = shutil.which("bwrap", path=self._programs)
        if found is None:
            raise SandboxUnavailable("bubblewrap is not installed", hints.MISSING)
        if os.geteuid() == 0 and self._setup.identity is None:
            raise SandboxUnavailable("commands must not run as root", "set sandbox.uid to an unprivileged user")
        try:
            more = () if self._setup.memory_bounded else (seccomp.PRIVATE_MEMORY,)
            self._filter = seccomp.program(seccomp.COMMON, seccomp.INTERNET_ONLY, *more)
        except seccomp.UnknownMachine as error:
            raise SandboxUnavailable(f"there is no filter of system calls for {error}") from error
        self._program = found
        asked = await run(launcher, LaunchSpec(argv=(found, "--help")), timeout=_HELP_SECONDS)
        self._features = Features.of(asked.text.output)
        return tuple(self._shortfalls())

    def _shortfalls(self) -> list[str]:
        missing = []
        if not self._features.size:
            missing.append("bwrap is older than 0.7: /tmp and /dev/shm of a command have no size limit of their own")
        if not self._features.disable_userns:
            missing.append("bwrap is older than 0.8: nested user namespaces are kept away by the call filter only")
        return missing

    def spec(self, order: Order) -> LaunchSpec:
        setup = self._setup
        binds: tuple[Bind, ...] = order.binds
        stage: tuple[str, ...] = ()
        if (runtime := complete(setup.runtime)) is not None:
            binds = (*binds, Bind(source=runtime, target=RUNTIME, read_only=True))
        if setup.identity is not None:
            binds, stage = _staged(binds)
        seccomp_at = FIRST_INPUT + 1
        proxies = PROXIES if setup.egress else {}
        files = {path: seccomp_at + 1 + place for place, path in enumerate(FILES)}
        given = arguments(
            binds,
            environment(proxies | setup.env, setup.limits, runtime=RUNTIME if runtime else ""),
            setup.limits,
            self._features,
            seccomp=seccomp_at,
            files=files,
            has_network=setup.egress,
        )
        return LaunchSpec(
            # bwrap is the first process inside, where its own command line can be read: all else goes by descriptor.
            argv=(self._program, "--args", str(FIRST_INPUT), "--", *self._limited(order), *shell(order.command)),
            stage=stage,
            identity=setup.identity,
            listen=PROXY_PORT if setup.egress else None,
            inputs=(given, self._filter, *(text.encode() for text in FILES.values())),
        )

    def _limited(self, order: Order) -> tuple[str, ...]:
        """Set inside, as the first step: the number of processes is counted for each user namespace, and outside the
        gateway's own would count."""
        limits = self._setup.limits.of_process(memory=not self._setup.memory_bounded, full=order.full)
        named = ((_PRLIMIT[name], value) for name, value in limits)
        return (
            "/usr/bin/prlimit",
            f"--nproc={self._setup.limits.processes}",
            *(f"--{name}={value}" for name, value in named),
            "--",
        )

    def explain(self, output: str) -> str:
        return hints.hint(output)


def _staged(binds: tuple[Bind, ...]) -> tuple[tuple[Bind, ...], tuple[str, ...]]:
    """The same as seen by an unprivileged user, for whom root's launcher binds each source below STAGE."""
    moved = tuple(replace(bind, source=Path(STAGE, str(place))) for place, bind in enumerate(binds))
    return moved, tuple(str(bind.source) for bind in binds)
