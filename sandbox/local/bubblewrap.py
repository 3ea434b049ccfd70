"""The provider `bubblewrap`: each command in separate namespaces, by bwrap(1). The default where it works.

The arguments of bwrap are the boundary, since bwrap itself has no policy.
"""

from __future__ import annotations

import os
import resource
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox.base import WORKSPACE, Isolation, SandboxUnavailable
from sandbox.egress.proxy import EgressProxy
from sandbox.files.paths import Bind
from sandbox.kernel import seccomp
from sandbox.launcher.spec import FIRST_INPUT, STAGE, Identity, LaunchSpec
from sandbox.local.caged import CagedProvider
from sandbox.local.process import run
from sandbox.policy import ETC, RUNTIME, Limits, complete, environment, shell

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sandbox.config import SandboxSettings
    from sandbox.files.workspace import Workspaces
    from sandbox.launcher.client import Launcher
    from sandbox.local.caged import Order


PROGRAMS = "/usr/bin:/bin"
"""Only the system's bwrap: AppArmor's exceptions are bound to its path."""
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
"""The names of prlimit(1)."""
_MISSING = "apt-get install bubblewrap (or your system's package of that name)"
_OLD = "bubblewrap 0.5 or newer is needed"
_USER_NAMESPACES = (
    "user namespaces are switched off for ordinary users; on Debian and Ubuntu: "
    "sysctl -w kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000"
)
_APPARMOR = (
    "AppArmor denies user namespaces to bwrap (Ubuntu 23.10 and newer): install the profile bwrap-userns-restrict of "
    "the package apparmor-profiles, or give /usr/bin/bwrap a profile with `userns,`"
)
_CONTAINER = (
    "inside a container /proc is masked and namespaces are forbidden: use `sandbox.use: landlock` there, which needs "
    "no privileges, rather than a privileged container"
)
_HINTS = (
    ("setting up uid map", _APPARMOR),
    ("RTM_NEWADDR", _APPARMOR),
    ("mount proc on", _CONTAINER),
    ("Failed to make / slave", _CONTAINER),
    ("pivot_root", _CONTAINER),
    ("No permissions to create", _USER_NAMESPACES),
    ("Creating new namespace failed", _USER_NAMESPACES),
    ("max_user_namespaces", _USER_NAMESPACES),
    ("Unknown option", _OLD),
    ("unshare: Operation not permitted", _CONTAINER),
)
HOSTNAME = "sandbox"
UID = 1000
"""The user as seen by a command. On the host it is the gateway's user, or, under root, the sandbox's own."""
_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""Links into /usr on a merged system, folders on others."""
FILES: Mapping[str, str] = {
    "/etc/passwd": f"root:x:0:0:root:/root:/usr/sbin/nologin\nsandbox:x:{UID}:{UID}::{WORKSPACE}:/bin/bash\n",
    "/etc/group": f"root:x:0:\nsandbox:x:{UID}:\n",
    "/etc/hosts": f"127.0.0.1 localhost {HOSTNAME}\n::1 localhost {HOSTNAME}\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
"""Artificial contents: the host's own files would reveal its users."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """The features of this bwrap, according to its --help."""

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
    """Arguments of bwrap for `--args FD`.

    seccomp: the descriptor of the filter. files: the descriptors of FILES' contents, by path.
    has_network: bwrap is started in the network namespace for the command, and creates none.
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
        # Last, since the steps above write there; afterwards not even empty files can be created outside the binds.
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
    """The kernel's file systems. /proc/sys is read-only: some of its files require host root, but no capability."""
    yield from ("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev")
    for path, size in (("/tmp", limits.temporary), ("/dev/shm", limits.shared_memory)):
        if features.size:
            yield from ("--size", str(size))
        yield from ("--tmpfs", path)


def _bound(binds: Iterable[Bind]) -> Iterator[str]:
    """The binds, outer ones first, so that a folder below another one is not hidden by it."""
    for bind in sorted(binds, key=lambda each: each.target):
        yield from ("--ro-bind" if bind.read_only else "--bind", str(bind.source), bind.target)


def hint(output: str) -> str:
    """The advice for a message of bwrap, or of the launcher before it; "" for an unknown one."""
    return next((text for fragment, text in _HINTS if fragment in output), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The setup of commands. env: declared variables. runtime: the host's folder of the runtime, perhaps built later.

    identity: the user of commands on the host if the gateway is root, else None. memory_bounded: a control group limits
    the memory of all processes together. egress: there is an HTTP proxy at 127.0.0.1 in their network namespace.
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
        """programs: where to search for bwrap, like PATH."""
        self._setup = setup
        self._programs = programs
        self._program = ""
        self._features = Features(disable_userns=True, size=True)
        self._filter = b""

    async def start(self, launcher: Launcher) -> tuple[str, ...]:
        found = shutil.which("bwrap", path=self._programs)
        if found is None:
            raise SandboxUnavailable("bubblewrap is not installed", _MISSING)
        if os.geteuid() == 0 and self._setup.identity is None:
            raise SandboxUnavailable("commands must not run as root", "set sandbox.uid to an unprivileged user")
        try:
            more = () if self._setup.memory_bounded else (seccomp.PRIVATE_MEMORY,)
            self._filter = seccomp.program(seccomp.COMMON, seccomp.INTERNET_ONLY, *more)
        except seccomp.UnknownMachine as error:
            raise SandboxUnavailable(f"no system-call filter exists for {error}") from error
        self._program = found
        asked = await run(launcher, LaunchSpec(argv=(found, "--help")), timeout=_HELP_SECONDS)
        self._features = Features.of(asked.text.output)
        return tuple(self._shortfalls())

    def _shortfalls(self) -> list[str]:
        missing = []
        if not self._features.size:
            missing.append("bwrap is older than 0.7: /tmp and /dev/shm of a command have no separate size limit")
        if not self._features.disable_userns:
            missing.append("bwrap is older than 0.8: nested user namespaces are blocked only by the system-call filter")
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
            # bwrap is the first process inside, where its command line can be read: all else is passed by descriptor.
            argv=(self._program, "--args", str(FIRST_INPUT), "--", *self._limited(order), *shell(order.command)),
            stage=stage,
            identity=setup.identity,
            listen=PROXY_PORT if setup.egress else None,
            inputs=(given, self._filter, *(text.encode() for text in FILES.values())),
        )

    def _limited(self, order: Order) -> tuple[str, ...]:
        """The wrapper that sets the limits, as the first step inside: the number of processes is counted per user
        namespace, and outside the gateway's own would count."""
        limits = self._setup.limits.of_process(memory=not self._setup.memory_bounded, full=order.full)
        named = ((_PRLIMIT[name], value) for name, value in limits)
        return (
            "/usr/bin/prlimit",
            f"--nproc={self._setup.limits.processes}",
            *(f"--{name}={value}" for name, value in named),
            "--",
        )

    def explain(self, output: str) -> str:
        return hint(output)


def _staged(binds: tuple[Bind, ...]) -> tuple[tuple[Bind, ...], tuple[str, ...]]:
    """The binds as seen by an unprivileged user, for whom root's launcher binds each source below STAGE."""
    moved = tuple(replace(bind, source=Path(STAGE, str(place))) for place, bind in enumerate(binds))
    return moved, tuple(str(bind.source) for bind in binds)


class BubblewrapProvider(CagedProvider):
    """The provider. workspaces: closed with it. instance: identifies this gateway's control groups; stable across
    restarts, unique on this machine. runtime: the folder to show at /opt/antler. programs: where to search for bwrap.
    proxy: used instead of the configured one.
    """

    def __init__(
        self,
        settings: SandboxSettings,
        workspaces: Workspaces,
        *,
        instance: str,
        runtime: Path | None = None,
        programs: str = PROGRAMS,
        proxy: EgressProxy | None = None,
    ) -> None:
        if settings.network.mode == "egress" and proxy is None:
            proxy = EgressProxy(settings.network.allow)
        owner = workspaces.owner

        def make_cage(bounded: frozenset[str]) -> BubblewrapCage:
            return BubblewrapCage(
                Setup(
                    limits=Limits.of(settings.limits),
                    env=settings.environment,
                    runtime=runtime,
                    identity=Identity(uid=owner.uid, gid=owner.gid) if owner is not None else None,
                    memory_bounded="memory" in bounded,
                    egress=proxy is not None,
                ),
                programs,
            )

        hosts = settings.network.allow
        super().__init__(make_cage, settings, workspaces, instance=instance, proxy=proxy, hosts=hosts)
