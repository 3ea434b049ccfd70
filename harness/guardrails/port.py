"""What decides on a tool call: the port of the built-in rules (rules.py) and of a provider of the operator's own.

Light: an operator's module imports this and nothing heavy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.context import Speaker

Decision = Literal["allow", "deny", "ask"]

MCP = "mcp"
"""Metadata key of a server's tool: {server, name, read_only, destructive, digest}."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRequest:
    """A tool call that is about to be made, and for whom.

    args: as the model wrote them. metadata: the tool's own; key "mcp" of a server's tool. is_group: it was asked for in
    a group. isolation: of the sandbox's commands, as in sandbox.base.Isolation; "none" also where there is none.
    """

    tool: str
    args: Mapping[str, Any]
    speaker: Speaker
    is_group: bool
    account: str
    conversation: str
    isolation: str = "none"
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """reason: of "deny" for the model, of "ask" for the person who is asked; one sentence."""

    decision: Decision
    reason: str = ""


class GuardrailProvider(Protocol):
    """Decides on every tool call. What it raises, or takes too long for, is a denial."""

    async def evaluate(self, request: GuardRequest) -> Verdict: ...
