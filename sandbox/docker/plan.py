"""The specification of a container, with all of its limits and mounts. Pure."""

from __future__ import annotations

import hashlib
import json
import resource
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox.base import sandbox_id
from sandbox.policy import RUNTIME

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sandbox.files.paths import Bind
    from sandbox.policy import Limits

INSTANCE, SANDBOX, CONFIG, FOLDER = "antler.instance", "antler.sandbox", "antler.config", "antler.folder"
PLACES = "antler.skills"
"""The labels: the gateway, the thread, the settings, the folder on the gateway's machine, and the folders of skills."""

OWN_TASKS = 24
"""Tasks beyond the commands' own: the process that keeps the container running, three around each command, and briefly
those of Docker when it starts one."""

_KEEPERS = (65_534, 65_533)
_ULIMITS = {
    resource.RLIMIT_FSIZE: "fsize",
    resource.RLIMIT_NOFILE: "nofile",
    resource.RLIMIT_CPU: "cpu",
    resource.RLIMIT_CORE: "core",
}

KEY_VARIABLE = "SANDBOX_API_KEY"
"""The variable with the key of an all-in-one image, which then answers only requests with that key."""
_CAPABILITIES = ("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")
"""The capabilities with which an all-in-one image's root creates a user, gives it folders and starts programs as it."""
_WEAKER = (
    "the image needs a writable root file system, whose size is not limited, and a root user with a few capabilities; "
    "commands cannot become this user",
    "processes that the image's own programs start for a command run until the container ends",
)
_DOCKERS_FILTER = (
    "for an image with its own programs only Docker's own filter of system calls applies, which leaves more of the "
    "kernel open than Antler's"
)
_REACHABLE = (
    "the image's own programs can be reached by everything on the containers' network; only those that require the key "
    "that Antler gives each container are protected"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The common specification of a gateway's containers.

    image: its id, so that a new image under the old name counts as a change. uid, gid: of commands. network: the
    daemon's, None: none. runtime: the folder to show at /opt/antler. host_paths: the gateway's folders as seen by the
    daemon. shared: the binds of every thread. system_calls: the filter, None: Docker's own, if it has one.
    """

    instance: str
    image: str
    uid: int
    gid: int
    limits: Limits
    network: str | None
    runtime: Path | None
    host_paths: Mapping[Path, Path]
    shared: tuple[Bind, ...]
    system_calls: str | None

    @property
    def _keeper(self) -> int:
        """The user of the process that keeps the container running: not the commands', so that they cannot end it."""
        return next(each for each in _KEEPERS if each != self.uid)

    def is_no_commands(self, uid: int) -> bool:
        """Whether a user's processes belong to the container itself and stay when commands have ended."""
        return uid == self._keeper

    @property
    def shortfalls(self) -> tuple[str, ...]:
        """What its containers do not enforce, for the report."""
        return ()

    def name(self, sandbox: str) -> str:
        return f"antler-{self.instance}-{sandbox}"

    @property
    def label(self) -> str:
        """The label of all containers of this gateway."""
        return f"{INSTANCE}={self.instance}"

    def digest(self) -> str:
        """A digest of everything that a container is made from, except the thread."""
        return hashlib.sha256(json.dumps(self._common(), sort_keys=True).encode()).hexdigest()[:32]

    def body(self, thread_id: str, folder: Path, own: tuple[Bind, ...], skills: str = "") -> dict[str, object]:
        """The body of `POST /containers/create`.

        folder: the thread's user-data. own: the binds of only this thread. skills: identifies the folders
        among them that are not below the user-data.
        """
        labels = {
            INSTANCE: self.instance,
            SANDBOX: sandbox_id(thread_id),
            CONFIG: self.digest(),
            FOLDER: str(folder),
            PLACES: skills,
        }
        common = self._common()
        host = common["HostConfig"]
        assert isinstance(host, dict)
        mounts = [*host["Mounts"], *(self._mount(bind) for bind in own)]
        return common | {"Labels": labels, "HostConfig": host | {"Mounts": mounts}}

    def _common(self) -> dict[str, object]:
        return {
            "Image": self.image,
            "Entrypoint": ["/bin/sleep"],
            "Cmd": ["2147483647"],
            "User": f"{self._keeper}:{self._keeper}",
            "WorkingDir": "/",
            "Hostname": "sandbox",
            "Healthcheck": {"Test": ["NONE"]},
            "StopSignal": "SIGKILL",
            "HostConfig": self._limits() | self._isolation(),
        }

    def _limits(self) -> dict[str, object]:
        limits = self.limits
        return {
            "Memory": limits.memory,
            "MemorySwap": limits.memory,  # the sum of both: no swap
            "NanoCpus": int(limits.cpus * 1e9),
            "PidsLimit": limits.processes + OWN_TASKS,
            "ShmSize": limits.shared_memory,
            "Tmpfs": {"/tmp": f"rw,exec,nosuid,nodev,mode=1777,size={limits.temporary}"},
            # They are also set around each command (scripts.py), but a command that takes over a wrapper meets these.
            "Ulimits": [
                {"Name": _ULIMITS[number], "Soft": value, "Hard": value}
                for number, value in limits.of_process(memory=False, full=False)
            ],
            "LogConfig": {"Type": "none", "Config": {}},
        }

    def _isolation(self) -> dict[str, object]:
        runtime = [self._bind(self.runtime, RUNTIME, read_only=True)] if self.runtime else []
        calls = [f"seccomp={self.system_calls}"] if self.system_calls else []
        return {
            "NetworkMode": self.network or "none",
            "IpcMode": "private",
            "CgroupnsMode": "private",
            "Privileged": False,
            "ReadonlyRootfs": True,
            "CapDrop": ["ALL"],
            # Docker's AppArmor profile stays. With no-new-privileges runc loads the filter last, so that it hardly
            # affects runc's own work before a command.
            "SecurityOpt": ["no-new-privileges:true", *calls],
            "Init": True,
            "RestartPolicy": {"Name": "no"},
            "Mounts": [*(self._mount(bind) for bind in self.shared), *runtime],
        }

    def _mount(self, bind: Bind) -> dict[str, object]:
        return self._bind(bind.source, bind.target, read_only=bind.read_only)

    def _bind(self, source: Path, target: str, *, read_only: bool) -> dict[str, object]:
        return {
            "Type": "bind",
            "Source": str(self.on_host(source)),
            "Target": target,
            "ReadOnly": read_only,
            "BindOptions": {"Propagation": "rprivate"},
        }

    def on_host(self, path: Path) -> Path:
        """The path as seen by the daemon."""
        for here in sorted(self.host_paths, key=lambda each: len(each.parts), reverse=True):
            if path.is_relative_to(here):
                return self.host_paths[here] / path.relative_to(here)
        return path


class AllInOnePlan(Plan):
    """A plan for an image that starts its own programs, which run as another user than the commands.

    Source: the entrypoint gem.sh of github.com/agent-infra/sandbox 1.11, as far as it reads the environment.
    """

    __slots__ = ()

    @property
    def shortfalls(self) -> tuple[str, ...]:
        found = (*_WEAKER, _DOCKERS_FILTER) if self.system_calls else _WEAKER
        return (*found, _REACHABLE) if self.network else found

    def body(self, thread_id: str, folder: Path, own: tuple[Bind, ...], skills: str = "") -> dict[str, object]:
        """Add a key to Plan's body: unique for each container, and not part of the digest."""
        body = Plan.body(self, thread_id, folder, own, skills)
        environment = body["Env"]
        assert isinstance(environment, list)
        return body | {"Env": [*environment, f"{KEY_VARIABLE}={secrets.token_urlsafe(32)}"]}

    def is_no_commands(self, uid: int) -> bool:
        return uid != self.uid

    def _common(self) -> dict[str, object]:
        user = self.uid + 1
        common = Plan._common(self)
        for name in ("Entrypoint", "Cmd", "User", "WorkingDir"):
            del common[name]
        return common | {
            "Env": [
                f"USER_UID={user}",
                f"USER_GID={user}",
                # The other way in, with a different key.
                "JWT_PUBLIC_KEY=",
                # They would run anything on request, not as a command of the thread.
                "DISABLE_JUPYTER=true",
                "DISABLE_CODE_SERVER=true",
            ]
        }

    def _limits(self) -> dict[str, object]:
        """The image's own programs run permanently, so that the limits of single processes apply only to commands."""
        return Plan._limits(self) | {"Ulimits": [{"Name": "core", "Soft": 0, "Hard": 0}]}

    def _isolation(self) -> dict[str, object]:
        return Plan._isolation(self) | {
            "ReadonlyRootfs": False,
            "CapAdd": list(_CAPABILITIES),
            "SecurityOpt": ["no-new-privileges:true"],
        }
