"""What the tests of subagents share: a bench with them, calls of `task`, and a model that answers by who asks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from harness.graph.messages import is_users, users_text
from tests.harness.support import Script, calls, unpaired

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.events import AnyRunEvent

LONG = 45.0
"""Seconds that matter only when something fails."""

Said = str | AIMessage | Exception
Line = Said | Callable[[], Awaitable[Said]]


@dataclass
class Cast:
    """Answers each agent by its own lines, whatever the order in which they ask: the lead agent's are under "lead", a
    subagent's under its prompt. asked: the requests of each; offered: the tools with the newest."""

    lines: dict[str, list[Line]]
    asked: dict[str, list[list[BaseMessage]]] = field(default_factory=dict)
    offered: dict[str, set[str]] = field(default_factory=dict)

    def play(self, script: Script) -> None:
        """Give the scripted model these lines for all of its calls."""
        script.check = _require_pairs
        script.steps = [self._step(script)] * 1000

    def _step(self, script: Script) -> Callable[[], Awaitable[Any]]:
        async def step() -> Any:
            messages = script.requests[-1]
            who = role(messages)
            self.asked.setdefault(who, []).append(messages)
            self.offered[who] = set(script.tool_names[-1])
            line = self.lines[who].pop(0)
            if callable(line):
                line = await line()
            if isinstance(line, Exception):
                raise line
            return line

        return step

    def results(self, who: str = "lead") -> list[str]:
        """What the tools answered, in the newest request of an agent."""
        return [str(m.content) for m in self.asked[who][-1] if isinstance(m, ToolMessage)]


def role(messages: Sequence[BaseMessage]) -> str:
    """Who asks: "lead", or a subagent by its prompt."""
    if "You are a subagent of Antler" not in str(messages[0].content):
        return "lead"
    first = next(message for message in messages if isinstance(message, HumanMessage) and is_users(message))
    return users_text(first)


def _require_pairs(messages: list[BaseMessage]) -> None:
    assert unpaired(messages) is None


def task(prompt: str, kind: str = "general-purpose", description: str = "") -> tuple[str, dict[str, Any]]:
    """One call, for `calls`."""
    return "task", {"description": description or f"do {prompt}", "prompt": prompt, "subagent_type": kind}


def delegates(*prompts: str, kind: str = "general-purpose") -> AIMessage:
    """The lead agent hands these to subagents, side by side."""
    return calls(*(task(prompt, kind) for prompt in prompts), ids=[f"task-{prompt}" for prompt in prompts])


@dataclass
class Stuck:
    """A line at which an agent stays. entered: somebody asked for it; left: and was stopped there."""

    entered: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self) -> str:
        self.entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()
        return ""


def of_type(events: Sequence[AnyRunEvent], kind: str) -> list[Any]:
    return [event for event in events if event.type == kind]
