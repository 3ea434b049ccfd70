"""What a container is created from whose image brings an API of its own and starts it. Pure; used by the provider."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from sandbox.docker.http_api import KEY_VARIABLE
from sandbox.docker.plan import Plan

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox.cage import Bind

_RELAY_TASKS = 64
"""Of the programs that pass on what Antler says to the API: three for each connection."""
_CAPABILITIES = ("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")
"""Of the image's own root: it makes a user, gives it its folders, and starts its programs as that one."""
_SESSION_SECONDS = 7 * 24 * 3600
_SESSIONS = 10_000

_WEAKER = (
    "the image's own programs, the API that starts commands among them, run beside a thread's commands and as the same "
    "user: a command can disturb or misuse those of its own thread",
    "the image needs a writable root file system, whose size is not limited, and a root user with a few capabilities; "
    "commands cannot become that one",
    "what a command has the image's other programs start ends with the container",
)
_FILTER = (
    "for an image with programs of its own there is Docker's own filter of system calls only, which leaves more of the "
    "kernel open than Antler's"
)


class AllInOnePlan(Plan):
    """The image keeps its entrypoint, which starts as root and its API as the commands' user.

    Source: the entrypoint gem.sh of github.com/agent-infra/sandbox 1.11, as far as it reads the environment.
    """

    __slots__ = ()

    @property
    def shortfalls(self) -> tuple[str, ...]:
        return (*_WEAKER, _FILTER) if self.system_calls else _WEAKER

    def body(self, thread_id: str, folder: Path, own: tuple[Bind, ...], skills: str = "") -> dict[str, object]:
        """As in Plan. Each container has a key of its own, which the daemon tells whoever finds it again."""
        body = Plan.body(self, thread_id, folder, own, skills)
        environment = body["Env"]
        assert isinstance(environment, list)
        return body | {"Env": [*environment, f"{KEY_VARIABLE}={secrets.token_urlsafe(32)}"]}

    def _common(self) -> dict[str, object]:
        return {
            "Image": self.image,
            "Env": [
                f"USER_UID={self.uid}",
                f"USER_GID={self.gid}",
                # The other way in, whose key would be another one.
                "JWT_PUBLIC_KEY=",
                # Otherwise it forgets commands while they run: those of an hour ago, and all but fifty.
                f"BASH_SESSION_TIMEOUT={_SESSION_SECONDS}",
                f"MAX_BASH_SESSIONS={_SESSIONS}",
                # They would start what they are told, as nobody's command.
                "DISABLE_JUPYTER=true",
                "DISABLE_CODE_SERVER=true",
            ],
            "Hostname": "sandbox",
            "Healthcheck": {"Test": ["NONE"]},
            "StopSignal": "SIGKILL",
            "HostConfig": self._limits() | self._isolation(),
        }

    def _limits(self) -> dict[str, object]:
        limits = Plan._limits(self)
        tasks = limits["PidsLimit"]
        assert isinstance(tasks, int)
        # The limits of single processes are set around each command: what the image itself runs is there to stay.
        return limits | {"PidsLimit": tasks + _RELAY_TASKS, "Ulimits": [{"Name": "core", "Soft": 0, "Hard": 0}]}

    def _isolation(self) -> dict[str, object]:
        return Plan._isolation(self) | {
            "ReadonlyRootfs": False,
            "CapAdd": list(_CAPABILITIES),
            "SecurityOpt": ["no-new-privileges:true"],
        }
