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
NO_SUBAGENTS = "I would delegate that, but subagents are switched off here (`subagents.enabled` in config.yaml)."
MOST_DELEGATED = 3
ASIDE = r"^(?:please |bitte )?"
DELEGATE = re.compile(ASIDE + r"delegate[: ]+(?P<tasks>.+)$", re.IGNORECASE | re.DOTALL)
NO_SCHEDULES = "I would put that off, but that is switched off here (`schedules.enabled` in config.yaml)."
REMIND = re.compile(
    ASIDE + r"remind me in (?P<count>\d{1,4}) ?(?P<unit>second|minute|hour)s? (?:to |of |about )?(?P<what>.+)$",
    re.IGNORECASE | re.DOTALL,
)
MINUTES = {"second": 1 / 60, "minute": 1.0, "hour": 60.0}
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
    if (match := DELEGATE.search(said.strip())) is not None:
        return _delegate(match["tasks"]) if "task" in tools else Move(NO_SUBAGENTS)
    if (match := REMIND.search(said.strip())) is not None:
        return _remind(match) if "schedule" in tools else Move(NO_SCHEDULES)
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


def _delegate(tasks: str) -> Move:
    """Each part of the request to a subagent of its own, which is a demo model too."""
    parts = [part.strip() for part in re.split(r"[;\n]|,? and ", tasks) if part.strip()][:MOST_DELEGATED]
    calls = tuple(
        tool_call(
            name="task",
            args={"description": part, "prompt": part, "subagent_type": "general-purpose"},
            id=f"demo-task-{number}",
        )
        for number, part in enumerate(parts)
    )
    return Move(f"I delegate {len(parts)} part{'s' if len(parts) > 1 else ''} of this to subagents.", calls)


def _remind(asked: re.Match[str]) -> Move:
    minutes = int(asked["count"]) * MINUTES[asked["unit"].lower()]
    arguments = {"action": "create", "text": asked["what"].strip(), "in_minutes": minutes}
    return Move("I use the tool `schedule`.", (tool_call(name="schedule", args=arguments, id="demo-schedule"),))


def _after(results: list[ToolMessage], tools: frozenset[str]) -> Move:
    """Present what was written; tell what subagents reported; else show what came out."""
    newest = results[-1]
    if newest.name == "task":
        reports = [str(result.content)[:LONGEST_SHOWN].replace("\n", "\n> ") for result in results]
        return Move("My subagents reported:\n\n" + "\n\n".join(f"> {report}" for report in reports))
    written = re.search(rf"{OUTPUTS}/hello-\d+\.txt", str(newest.content))
    if newest.name == "write_file" and newest.status != "error" and written and "present_files" in tools:
        return _call("present_files", {"paths": [written.group()]})
    text = str(newest.content)
    shown = text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "\n…"
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", shown)), default=0))
    begin = "This did not work" if newest.status == "error" else "Done"
    return Move(f"{begin}. What `{newest.name}` answered:\n\n{fence}\n{shown}\n{fence}")
