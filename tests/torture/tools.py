"""The tool that the simulated model calls: its side effect can be counted from outside."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

from langchain_core.tools import BaseTool, InjectedToolCallId, tool

if TYPE_CHECKING:
    from pathlib import Path

EFFECTS_FILE = "effects"
"""Gets a line MARKER CALL_ID for each time that the tool really ran."""
WORK_SECONDS = 0.05


def make_tools(folder: Path) -> list[BaseTool]:
    """The tools of the launched gateway. folder: where the effects are written."""

    @tool
    async def note(marker: str, call_id: Annotated[str, InjectedToolCallId]) -> str:
        """Write a marker down."""
        with (folder / EFFECTS_FILE).open("a") as file:
            file.write(f"{marker} {call_id}\n")
        await asyncio.sleep(WORK_SECONDS)
        return f"noted {marker}"

    return [note]


def effects(folder: Path) -> list[tuple[str, str]]:
    """(marker, call id) of each time that a tool ran, in order."""
    file = folder / EFFECTS_FILE
    if not file.exists():
        return []
    return [(marker, call) for marker, _, call in (line.partition(" ") for line in file.read_text().splitlines())]
