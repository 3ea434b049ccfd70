"""The provider `bubblewrap`, put together from the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox.bubblewrap.cage import PROGRAMS, BubblewrapCage, Setup
from sandbox.egress.proxy import EgressProxy
from sandbox.kernel import cgroups
from sandbox.launcher.spec import Identity
from sandbox.local.caged import CagedProvider
from sandbox.policy import Limits

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox.config import SandboxSettings
    from sandbox.files.workspace import Workspaces


class BubblewrapProvider(CagedProvider):
    """workspaces: closed with it. instance: names this gateway's control groups; the same after a restart, and of no
    other gateway on this machine. runtime: the folder to show at /opt/antler. programs: where bwrap is looked for.
    proxy: in place of the one that the settings ask for.
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
        limits = Limits.of(settings.limits)
        owner = workspaces.owner

        def make_cage(bounded: frozenset[str]) -> BubblewrapCage:
            return BubblewrapCage(
                Setup(
                    limits=limits,
                    env=settings.environment,
                    runtime=runtime,
                    identity=Identity(uid=owner.uid, gid=owner.gid) if owner is not None else None,
                    memory_bounded="memory" in bounded,
                    egress=proxy is not None,
                ),
                programs,
            )

        super().__init__(make_cage, workspaces, limits, cgroups.Groups(f"antler-{instance}", cgroups.here), proxy)
