"""What the demo model does in the sandbox, by the words of the request: a script; used by demo.py."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.messages.tool import tool_call

from sandbox.base import OUTPUTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import ToolCall

LONGEST_SHOWN = 3000
NO_SANDBOX = (
    "I would use a tool for that, but there is no sandbox here: `sandbox.use` in config.yaml says where commands run "
    "and files live, and Antler's start says what it lacks."
)
NO_COMMANDS = (
    "I would run a command for that, but this machine's sandbox holds none: Antler's start says why. Files I can show: "
    "try `list files` or `write a file`."
)
ASIDE = r"^(?:please |bitte )?"
REQUESTS: tuple[tuple[str, str, dict[str, str]], ...] = (
    (ASIDE + r"(?:show )?uname\b", "bash", {"command": "uname -a"}),
    (ASIDE + r"(?:run|execute|\$) +`*(?P<command>.+?)`*$", "bash", {}),
    (ASIDE + r"(?:list|show)(?: me)?(?: the| my| all)* files\b", "ls", {"path": "/mnt/user-data"}),
    (ASIDE + r"(?:write|make|create)(?: me)? (?:a|some) (?:\w+ )?file\b", "write_file", {}),
)
"""What a request looks like, the tool for it, and its arguments beside those that the request names."""


class Move(NamedTuple):
    """What the model says now, and the tools that it calls."""

    text: str
    calls: tuple[ToolCall, ...] = ()


def next_move(said: str, since: Sequence[BaseMessage], tools: frozenset[str], *, number: int) -> Move | None:
    """The next step for a request; None when it asks for no tool. since: what happened after it was said.

    number: makes the names of files differ.
    """
    results = [message for message in since if isinstance(message, ToolMessage)]
    if results:
        return _after(results, tools)
    for pattern, tool, arguments in REQUESTS:
        match = re.search(pattern, said.strip(), re.IGNORECASE | re.DOTALL)
        if match is None:
            continue
        if tool not in tools:
            return Move(NO_COMMANDS if "ls" in tools else NO_SANDBOX)
        if tool == "write_file":
            arguments = {"path": f"{OUTPUTS}/hello-{number}.txt", "content": "Hello from Antler's demo model.\n"}
        return _call(tool, {**arguments, **match.groupdict()})
    return None


def _call(tool: str, arguments: dict[str, Any]) -> Move:
    salient = arguments.get("command") or arguments.get("path") or ", ".join(arguments.get("paths", []))
    call = tool_call(name=tool, args=arguments, id=f"demo-{tool}")
    return Move(f"I use the tool `{tool}`: `{salient}`", (call,))


def _after(results: list[ToolMessage], tools: frozenset[str]) -> Move:
    """Present what was written; else show what came out."""
    newest = results[-1]
    written = re.search(rf"{OUTPUTS}/hello-\d+\.txt", str(newest.content))
    if newest.name == "write_file" and newest.status != "error" and written and "present_files" in tools:
        return _call("present_files", {"paths": [written.group()]})
    text = str(newest.content)
    shown = text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "\n…"
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", shown)), default=0))
    begin = "This did not work" if newest.status == "error" else "Done"
    return Move(f"{begin}. What `{newest.name}` answered:\n\n{fence}\n{shown}\n{fence}")
