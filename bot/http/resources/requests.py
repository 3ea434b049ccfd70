"""Pending decisions: tool calls, and people and groups that ask for access.

Read by /api/approvals, /api/pairings and the pages Now and People; decided by `acting`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from bot.http.resources.sight import Sight
from bot.store import overview, prompts, runs
from bot.store.access import AccessState

if TYPE_CHECKING:
    from bot.http.auth import Caller
    from bot.http.parts import HttpParts
    from bot.store.access import AccessRow
    from bot.store.prompts import ApprovalRow
    from bot.store.rows import RunRow

SHOWN = 100
"""Tool calls in one list."""
Answer = Literal["once", "chat", "deny"]
"""Possible answers to a tool call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A tool call that waits for a decision. arguments, why: None where the caller may not read them, who then may only
    deny it. decisions: the answers that the caller may give. expires_in: seconds."""

    id: str
    run_id: str
    conversation: str
    person: str
    name: str
    tool: str
    arguments: str | None
    why: str | None
    admins_only: bool
    asked_at: datetime
    expires_in: float
    own: bool
    decisions: tuple[Answer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """A person or a group that asks for access. expires_in: seconds, None: it does not expire."""

    id: str
    kind: Literal["person", "group"]
    account: str
    subject: str
    name: str
    asked_at: datetime
    expires_in: float | None


def request_id(row: AccessRow) -> str:
    """The name of an access request, which does not reveal the code that its person received."""
    return hashlib.sha256(f"request {row.code_hash}".encode()).hexdigest()[:24]


class Requests:
    """Reads the store and the access list; keeps no state."""

    def __init__(self, parts: HttpParts) -> None:
        self._parts = parts
        self._sight = Sight(parts)
        self._clock = parts.clock

    async def approvals(self, caller: Caller) -> tuple[Approval, ...]:
        """Pending requests: those of everyone for operators, else the caller's own."""
        now, of = self._clock.now(), None if caller.may("operate") else caller.person
        rows = await self._parts.store.read(
            lambda tx: [
                (row, run)
                for each in overview.open_approvals(tx, now, SHOWN, of)
                if (row := prompts.load_approval(tx, each)) is not None
                and (run := runs.load(tx, row.run_id)) is not None
            ]
        )
        return tuple(self._approval(caller, row, run) for row, run in rows)

    def _approval(self, caller: Caller, row: ApprovalRow, run: RunRow) -> Approval:
        own, reads = row.requester == caller.person, self.reads_call(caller, row, run)
        return Approval(
            id=row.prompt_id,
            run_id=row.run_id,
            conversation=row.conversation,
            person=row.requester,
            name=run.context.speaker.display_name,
            tool=row.tool,
            arguments=row.shown if reads else None,
            why=row.why if reads else None,
            admins_only=row.admins_only,
            asked_at=row.asked_at,
            expires_in=round((row.expires_at - self._clock.now()).total_seconds(), 1),
            own=own,
            decisions=self.decisions(caller, row, run),
        )

    def reads_call(self, caller: Caller, row: ApprovalRow, run: RunRow) -> bool:
        """Whether the caller may read a request: their own, in a thread they may read, or for administrators only."""
        if row.requester == caller.person or self._sight.reads(caller, run.context.owner):
            return True
        return row.admins_only and caller.may("operate")

    def decisions(self, caller: Caller, row: ApprovalRow, run: RunRow) -> tuple[Answer, ...]:
        """The answers that a caller may give: no one allows what they cannot read."""
        if not self._sight.acts(caller, row.requester):
            return ()
        if not self.reads_call(caller, row, run) or (row.admins_only and not caller.may("operate")):
            return ("deny",)
        return ("once", "deny") if row.is_exact else ("once", "chat", "deny")

    def pairings(self) -> tuple[Pairing, ...]:
        """People and groups that ask for access, the oldest request first."""
        now = self._clock.now()
        return tuple(
            Pairing(
                id=request_id(row),
                kind=row.kind,
                account=row.account,
                subject=row.subject,
                name=row.name,
                asked_at=row.created_at,
                expires_in=None if row.expires_at is None else round((row.expires_at - now).total_seconds(), 1),
            )
            for row in self.requests()
        )

    def requests(self) -> list[AccessRow]:
        """The rows behind `pairings`."""
        now = self._clock.now()
        return [
            row
            for row in self._parts.editor.book.rows()
            if row.state is AccessState.PENDING
            and row.code_hash is not None
            and (row.expires_at is None or row.expires_at > now)
        ]
