"""What one thread's commands may see, and the port of what holds them. bubblewrap and landlock are such cages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox.base import Isolation
    from sandbox.launcher.client import Launcher
    from sandbox.launcher.spec import LaunchSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """A host path and where a command sees it."""

    source: Path
    target: str
    read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A command to run. binds: all that it sees of the host beside the system's own programs.

    full: the thread's share of the disk is used up, so that files can be deleted but not grow.
    """

    command: str
    binds: tuple[Bind, ...]
    full: bool = False


class Cage(Protocol):
    """How a provider holds a command. Without state of any thread."""

    @property
    def name(self) -> str: ...

    @property
    def isolation(self) -> Isolation: ...

    @property
    def has_own_paths(self) -> bool:
        """Whether commands see the virtual paths. If not, they see the host's, and /tmp must be bound."""

    async def start(self, launcher: Launcher) -> tuple[str, ...]:
        """Look at this machine. Gives what it cannot do here, a sentence each. Raises SandboxUnavailable."""

    def spec(self, order: Order) -> LaunchSpec: ...

    def explain(self, output: str) -> str:
        """What an operator can do when the very first command failed with this output, or ""."""
