"""The provider `host`: files under their virtual names; commands only if the settings explicitly allow them."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from sandbox.base import Isolation, SandboxUnavailable
from sandbox.local.caged import CagedProvider
from sandbox.local.landlock import Setup
from sandbox.local.sandbox import FilesOnlyProvider

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox.base import Report, SandboxProvider
    from sandbox.config import SandboxSettings
    from sandbox.files.workspace import Workspaces
    from sandbox.launcher.client import Launcher
    from sandbox.launcher.spec import LaunchSpec
    from sandbox.local.caged import Cage, CagedSandbox, Order

log = logging.getLogger(__name__)

WARNING = (
    "sandbox.host.allow_host_bash is on: THE AGENT'S COMMANDS RUN ON THIS MACHINE AS ANTLER'S OWN USER, WITHOUT ANY "
    "ISOLATION. Anyone whose text the agent reads, including the author of a web page or file, can read this "
    "machine's secrets and change its files. Use bubblewrap or docker instead."
)
_ALIVE = 7
_SECONDS = 30.0
NAME = "host"
SHORTFALLS = (
    "commands are not isolated: they can read and change whatever Antler's own user can, including its settings, its "
    "secrets and other people's files, and reach the network",
    "work that a command hands to another service of this machine (cron, systemd) outlives the command",
    "the paths in commands and their output are translated as text, since no folder is mounted elsewhere",
)


class HostCage:
    """Cage port: commands run as Antler's own user, confined only by limits."""

    name = NAME
    isolation = Isolation.NONE
    has_own_paths = False

    def __init__(self, setup: Setup) -> None:
        self._setup = setup

    async def start(self, launcher: Launcher) -> tuple[str, ...]:
        if os.geteuid() == 0:
            raise SandboxUnavailable(
                "commands are not run as root on this machine",
                "run Antler as an ordinary user, or choose another provider",
            )
        return SHORTFALLS

    def spec(self, order: Order) -> LaunchSpec:
        spec = self._setup.spec(order)
        # Otherwise Python would leave compiled modules next to the scripts of a skill.
        return replace(spec, env=tuple(({"PYTHONDONTWRITEBYTECODE": "1"} | dict(spec.env)).items()))

    def explain(self, output: str) -> str:
        return ""


def host_provider(
    settings: SandboxSettings, workspaces: Workspaces, *, instance: str, runtime: Path | None = None
) -> SandboxProvider:
    """The provider for the settings. Arguments: see BubblewrapProvider; workspaces are closed with it.

    That every sender must be an admin for commands is not checked here: see SandboxSettings.trusts_senders.
    """
    if settings.host.allow_host_bash:
        return HostProvider(settings, workspaces, instance=instance, runtime=runtime)
    refusal = SandboxUnavailable(
        f"the provider {NAME} runs none by default", "choose bubblewrap, landlock or docker for commands"
    )
    return FilesOnlyProvider(workspaces, name=NAME, refusal=refusal)


class HostProvider(CagedProvider):
    """A provider that runs commands. Raises SandboxUnavailable for settings that it cannot carry out."""

    def __init__(
        self, settings: SandboxSettings, workspaces: Workspaces, *, instance: str, runtime: Path | None = None
    ) -> None:
        if settings.network.mode != "none":
            raise SandboxUnavailable(
                "the provider host cannot restrict commands to some hosts", "omit sandbox.network: they reach all"
            )

        def make_cage(bounded: frozenset[str]) -> HostCage:
            return HostCage(Setup.of(settings, runtime, bounded))

        super().__init__(make_cage, settings, workspaces, instance=instance)

    async def start(self) -> Report:
        log.warning(WARNING)
        return await super().start()

    async def _prove(self, sandbox: CagedSandbox, workspace: Path, cage: Cage) -> None:
        """Verify only that commands run, since they are not confined."""
        result = await sandbox.execute_command(f"exit {_ALIVE}", timeout=_SECONDS)
        if result.exit_code != _ALIVE:
            raise SandboxUnavailable("commands cannot be run on this machine")
