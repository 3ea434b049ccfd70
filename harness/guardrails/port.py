"""The port for decisions on tool calls, of the built-in rules (rules.py) and of an operator's own provider.

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
"""Metadata key of an MCP server's tool: {server, name, read_only, destructive, digest}."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRequest:
    """A tool call that is about to be made, and for whom.

    args: as the model wrote them. metadata: the tool's own; with "mcp" for an MCP server's tool. is_group: requested in
    a group. isolation: of the sandbox's commands, as in sandbox.base.Isolation; "none" also without a sandbox.
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
    """A decision. reason: for "deny" shown to the model, for "ask" to the person who is asked; one sentence."""

    decision: Decision
    reason: str = ""


class GuardrailProvider(Protocol):
    """Decides on every tool call. An exception or a timeout counts as a denial."""

    async def evaluate(self, request: GuardRequest) -> Verdict: ...
