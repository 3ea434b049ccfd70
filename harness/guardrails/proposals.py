"""Calls that say themselves what they would change: a text for the person instead of the arguments, bound to what it is
about; the port between such a tool and the guardrail.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.graph.signals import HasWriter

PROPOSES = "proposes"
"""Metadata key of a tool whose calls are asked for, unless a rule allows them."""
ONCE, ADMINS = "once", "admins"
"""Kinds of coverage: only this call; only this call, and only an administrator can allow it."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """shown: what would change, all of it. admins_only: whoever asked for it, and whatever the rules say, an
    administrator has to allow it."""

    shown: str
    admins_only: bool = False

    @property
    def kind(self) -> str:
        return ADMINS if self.admins_only else ONCE


@dataclass(frozen=True, slots=True)
class Refused:
    """A call that is not made, and of which nobody is asked. text: for the model."""

    text: str


class Proposing(Protocol):
    """Beside a tool that changes something of which people want to see more than arguments. call: its name within the
    run."""

    async def state(self, runtime: HasWriter, args: Mapping[str, Any], call: str) -> str:
        """What the change depends on besides the arguments: another one makes a decision void. Cheap; raises
        nothing."""

    async def proposal(self, runtime: HasWriter, args: Mapping[str, Any], call: str) -> Proposal | Refused | None:
        """None: the call changes nothing, so nobody need be asked."""
