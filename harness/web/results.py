"""How the web's tools answer: a line of ours, and what was found in a block that marks it as data; for web_*.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_core.messages import ToolMessage

from harness.text.frames import OUTSIDE, framed, harmless

if TYPE_CHECKING:
    from harness.graph.results import Runtime


def found(runtime: Runtime, tool: str, note: str, text: str) -> ToolMessage:
    """A result. note: of ours, in front. text: of strangers."""
    return ToolMessage(f"{harmless(note)}\n{outside(text)}", tool_call_id=runtime.tool_call_id or "", name=tool)


def outside(text: str) -> str:
    """Foreign text as a block: it cannot end the block, and nothing in it is hidden from a reader."""
    return framed(OUTSIDE, harmless(text))
