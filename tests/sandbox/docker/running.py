"""How the tests of this folder have a command run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox.base import Sandbox

LONG = 60.0


async def output(sandbox: Sandbox, command: str) -> str:
    return (await sandbox.execute_command(command, timeout=LONG)).output
