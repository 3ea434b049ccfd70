"""The provider `host`: files under their virtual names; commands only where the settings allow them by name."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from sandbox.base import SandboxUnavailable
from sandbox.host.cage import NAME, HostCage, Setup
from sandbox.kernel import cgroups
from sandbox.local.caged import CagedProvider
from sandbox.local.files_only import FilesOnlyProvider
from sandbox.policy import Limits

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox.base import Report, SandboxProvider
    from sandbox.config import SandboxSettings
    from sandbox.files.workspace import Workspaces
    from sandbox.local.cage import Cage
    from sandbox.local.caged import CagedSandbox

log = logging.getLogger(__name__)

WARNING = (
    "sandbox.host.allow_host_bash is on: THE AGENT'S COMMANDS RUN ON THIS MACHINE AS ANTLER'S OWN USER AND ARE HELD BY "
    "NOTHING. Whoever can put words before the agent, the author of a web page or of a file too, can read this "
    "machine's secrets and change its files. Use bubblewrap or docker instead."
)
_ALIVE = 7
_SECONDS = 30.0


def host_provider(
    settings: SandboxSettings, workspaces: Workspaces, *, instance: str, runtime: Path | None = None
) -> SandboxProvider:
    """The provider that the settings ask for. Arguments as BubblewrapProvider's; workspaces are closed with it.

    That commands are allowed only where every sender is an admin is not known here: see SandboxSettings.trusts_senders.
    """
    if settings.host.allow_host_bash:
        return HostProvider(settings, workspaces, instance=instance, runtime=runtime)
    refusal = SandboxUnavailable(
        f"the provider {NAME} runs none by default", "choose bubblewrap, landlock or docker for commands"
    )
    return FilesOnlyProvider(workspaces, name=NAME, refusal=refusal)


class HostProvider(CagedProvider):
    """With commands. Raises SandboxUnavailable for settings that it cannot carry out."""

    def __init__(
        self, settings: SandboxSettings, workspaces: Workspaces, *, instance: str, runtime: Path | None = None
    ) -> None:
        if settings.network.mode != "none":
            raise SandboxUnavailable(
                "the provider host cannot hold commands to some hosts", "leave sandbox.network out: they reach all"
            )
        limits = Limits.of(settings.limits)

        def make_cage(bounded: frozenset[str]) -> HostCage:
            return HostCage(
                Setup(
                    limits=limits,
                    env=settings.environment,
                    runtime=runtime,
                    memory_bounded="memory" in bounded,
                    processes_bounded="pids" in bounded,
                )
            )

        super().__init__(make_cage, workspaces, limits, cgroups.Groups(f"antler-{instance}", cgroups.here))

    async def start(self) -> Report:
        log.warning(WARNING)
        return await super().start()

    async def _prove(self, sandbox: CagedSandbox, workspace: Path, cage: Cage) -> None:
        """Nothing is held, so there is only one thing to be proven."""
        result = await sandbox.execute_command(f"exit {_ALIVE}", timeout=_SECONDS)
        if result.exit_code != _ALIVE:
            raise SandboxUnavailable("commands cannot be run on this machine")
