"""A user's own sandbox provider that does not work on this machine, for the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sandbox.base import SandboxUnavailable
from tests.simulators.sandbox.provider import MemoryProvider

if TYPE_CHECKING:
    from sandbox.base import Report


class BrokenProvider(MemoryProvider):
    def __init__(self, settings: Any, workspaces: Any, *, instance: str, runtime: Any = None) -> None:
        super().__init__(settings)

    async def start(self) -> Report:
        raise SandboxUnavailable("it is not installed", "install it")
