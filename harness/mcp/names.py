"""The names under which the model has the servers' tools: fit for every provider, and never those of our own. Pure."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from harness.mcp.definitions import RemoteTool

LONGEST = 64
"""What OpenAI takes, and others with it: ^[a-zA-Z0-9_-]{1,64}$."""
RESERVED = frozenset(
    [
        *("bash", "ls", "glob", "grep", "read_file", "write_file", "str_replace", "present_files", "view_image"),
        *("ask_clarification", "task", "tool_search", "skill_manage", "write_todos", "schedule"),
        *("web_search", "web_fetch"),
    ]
)
"""Kept even where they are switched off: what says `bash` to the model, to people and to the audit log is ours."""


_OTHERS = re.compile(r"[^a-zA-Z0-9_-]+")


def shown_names(tools: Sequence[RemoteTool], own: Collection[str]) -> dict[str, RemoteTool]:
    """Name for the model -> tool, sorted. own: names of our tools.

    A name that two servers have, or we, gets its server's in front, for each of them: so it does not matter who came
    first.
    """
    counts = Counter(_fit(tool.name) for tool in tools)
    taken = RESERVED | set(own)
    shown: dict[str, RemoteTool] = {}
    for tool in sorted(tools, key=lambda tool: (tool.server, tool.name)):
        name = _fit(tool.name)
        if counts[name] > 1 or name in taken:
            name = _fit(f"{tool.server}_{tool.name}")
        if name in shown or name in taken:
            name = _cut(name, _digest(tool))
        shown[name] = tool
    return dict(sorted(shown.items()))


def _fit(name: str) -> str:
    fit = _OTHERS.sub("_", name).strip("_") or "tool"
    return fit if len(fit) <= LONGEST else _cut(fit, hashlib.sha256(name.encode()).hexdigest()[:8])


def _cut(name: str, digest: str) -> str:
    return f"{name[: LONGEST - 1 - len(digest)]}_{digest}"


def _digest(tool: RemoteTool) -> str:
    return hashlib.sha256(f"{tool.server}/{tool.name}".encode()).hexdigest()[:8]
