"""Tools for the simulated model, whose side effects can be counted from outside."""

from __future__ import annotations

import asyncio
import os
import resource
from typing import TYPE_CHECKING, Annotated

from langchain_core.tools import BaseTool, InjectedToolCallId, tool

if TYPE_CHECKING:
    from pathlib import Path

EFFECTS_FILE = "effects"
"""Gets a line MARKER CALL_ID each time a tool actually runs."""
WORK_SECONDS = 0.05


def make_tools(folder: Path) -> list[BaseTool]:
    """The tools of the launched gateway. folder: for the file of effects."""

    async def act(marker: str, call_id: str) -> None:
        with (folder / EFFECTS_FILE).open("a") as file:
            file.write(f"{marker} {call_id}\n")
        await asyncio.sleep(WORK_SECONDS)

    @tool
    async def note(marker: str, call_id: Annotated[str, InjectedToolCallId]) -> str:
        """Write a marker down."""
        await act(marker, call_id)
        return f"noted {marker}"

    @tool
    async def sign(marker: str, call_id: Annotated[str, InjectedToolCallId]) -> str:
        """Sign with a marker, which a person has to allow."""
        await act(marker, call_id)
        return f"signed with {marker}"

    @tool
    async def abort(marker: str) -> str:
        """Bring the whole process down."""
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.abort()

    @tool
    async def abort_again(marker: str) -> str:
        """Bring the whole process down, at every start: it may be called again when its outcome is unknown."""
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.abort()

    abort_again.metadata = {"idempotent": True}
    return [note, sign, abort, abort_again]


def effects(folder: Path) -> list[tuple[str, str]]:
    """(marker, call id) of each run of a tool, in order."""
    file = folder / EFFECTS_FILE
    if not file.exists():
        return []
    return [(marker, call) for marker, _, call in (line.partition(" ") for line in file.read_text().splitlines())]
