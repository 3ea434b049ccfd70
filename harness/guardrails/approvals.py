"""People's decisions on tool calls: the port behind "ask" with an in-memory implementation, and the proposals that
people see."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.context import RunContext
    from harness.graph.signals import HasWriter

CallKey = tuple[str, str]
"""(call within its run, hash of its exact arguments): what a decision applies to."""

PROPOSES = "proposes"
"""Metadata key of a tool whose calls need approval unless a rule allows them."""
ONCE, ADMINS = "once", "admins"
"""Kinds of coverage: only this call; only this call, and only an administrator can allow it."""


@dataclass(frozen=True, slots=True)
class Approval:
    """A decision on one call. reason: why it was denied, in the person's own words, or ""."""

    allowed: bool
    reason: str = ""


class Approvals(Protocol):
    """The durable record of decisions; the gateway adds people's answers."""

    async def decisions(self, run_id: str) -> Mapping[CallKey, Approval]:
        """All decisions for a run."""

    async def granted(self, ctx: RunContext, tool: str, coverage: str) -> bool:
        """Whether this coverage was granted for the whole chat, for this speaker."""

    async def room(self, ctx: RunContext) -> int:
        """How many more requests people may be sent now, in this run and this chat."""


@dataclass(slots=True)
class MemoryApprovals:
    """Approvals in memory. grants: (tool, coverage)."""

    most: int = 10
    by_run: dict[str, dict[CallKey, Approval]] = field(default_factory=dict)
    grants: set[tuple[str, str]] = field(default_factory=set)

    async def decisions(self, run_id: str) -> Mapping[CallKey, Approval]:
        return dict(self.by_run.get(run_id, {}))

    async def granted(self, ctx: RunContext, tool: str, coverage: str) -> bool:
        return (tool, coverage) in self.grants

    async def room(self, ctx: RunContext) -> int:
        return self.most - len(self.by_run.get(ctx.run_id, {}))

    def decide(self, run_id: str, key: CallKey, approval: Approval) -> None:
        """Record a person's answer; the first one counts."""
        self.by_run.setdefault(run_id, {}).setdefault(key, approval)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change that people must approve. shown: the entire change. admins_only: an administrator has to allow it, no
    matter who requested it and what the rules say."""

    shown: str
    admins_only: bool = False

    @property
    def kind(self) -> str:
        return ADMINS if self.admins_only else ONCE


@dataclass(frozen=True, slots=True)
class Refused:
    """A call that is rejected without asking anyone. text: for the model."""

    text: str


class Proposing(Protocol):
    """What a tool shows people who need to see more of a change than arguments. call: its name within the run."""

    async def state(self, runtime: HasWriter, args: Mapping[str, Any], call: str) -> str:
        """What the change depends on besides the arguments: if it differs, a decision is void. Cheap; raises
        nothing."""

    async def proposal(self, runtime: HasWriter, args: Mapping[str, Any], call: str) -> Proposal | Refused | None:
        """The change to approve. None: the call changes nothing, so no approval is needed."""
