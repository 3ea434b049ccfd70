"""Starts a command on this machine, held by nothing but limits and a cleared environment. Used by the provider."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox.base import WORKSPACE, Isolation, SandboxUnavailable
from sandbox.launcher.spec import LaunchSpec
from sandbox.local.landlock import translated
from sandbox.policy import TEMPORARY, environment, shell
from sandbox.runtime import complete

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox.launcher.client import Launcher
    from sandbox.local.cage import Order
    from sandbox.policy import Limits

NAME = "host"
SHORTFALLS = (
    "commands are held by nothing: they can read and change whatever Antler's own user can, its settings, its secrets "
    "and other people's files among it, and reach the network",
    "what a command hands to another service of this machine (cron, systemd) is not ended with it",
    "the paths in commands and their output are translated as text, since no folder is put elsewhere",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """env: declared variables. runtime: the folder of the runtime for the agent's code, which may not be built yet.

    memory_bounded, processes_bounded: by a control group for all processes together.
    """

    limits: Limits
    env: dict[str, str]
    runtime: Path | None
    memory_bounded: bool
    processes_bounded: bool


class HostCage:
    """Cage port."""

    name = NAME
    isolation = Isolation.NONE
    has_own_paths = False

    def __init__(self, setup: Setup) -> None:
        self._setup = setup

    async def start(self, launcher: Launcher) -> tuple[str, ...]:
        if os.geteuid() == 0:
            raise SandboxUnavailable(
                "commands are not run on this machine as root",
                "run Antler as an ordinary user, or choose another provider",
            )
        return SHORTFALLS

    def spec(self, order: Order) -> LaunchSpec:
        setup = self._setup
        sources = {bind.target: str(bind.source) for bind in order.binds}
        home = sources[WORKSPACE]
        runtime = str(complete(setup.runtime) or "")
        temporary = sources[TEMPORARY]
        env = environment(setup.env, setup.limits, home=home, temporary=temporary, runtime=runtime)
        return LaunchSpec(
            argv=shell(translated(order.command, order.binds)),
            # Nothing holds Python from leaving compiled modules beside the scripts of a skill.
            env=tuple(({"PYTHONDONTWRITEBYTECODE": "1"} | env | {"TMPDIR": temporary}).items()),
            cwd=home,
            limits=setup.limits.of_process(memory=not setup.memory_bounded, full=order.full),
            more_tasks=None if setup.processes_bounded else setup.limits.processes,
        )

    def explain(self, output: str) -> str:
        return ""
