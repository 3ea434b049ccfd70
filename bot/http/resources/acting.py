"""A caller's actions on the gateway's live state: stop, run now and drop turns, decide requests, give people access.

Everything takes the same path as the chats' buttons: in the conversation's own order, recorded before it shows.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeVar

from bot.access import pairing
from bot.access.editor import AccessRefused, problem
from bot.access.tool import entries
from bot.control.actions import Action, log_action
from bot.http.errors import HttpProblem
from bot.http.resources.requests import Answer, Requests, request_id
from bot.http.resources.sight import Sight, log_act, unknown
from bot.store import prompts, runs
from bot.store.access import SubjectKind
from bot.store.prompts import Decided
from bot.store.rows import StopReason
from bot.texts import texts_for
from bot.texts.commands import unmarked

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bot.access.editor import Change
    from bot.access.tool import Entry
    from bot.conversations.actor import Conversation
    from bot.http.auth import Caller
    from bot.http.parts import HttpParts
    from bot.store.rows import RunRow

T = TypeVar("T")

IN_ORDER_SECONDS = 10.0
"""Seconds that a request waits for its turn in a conversation."""
LONGEST_REASON = 300
Done = Literal["stop", "stopping", "now", "drop", "begun", "over"]
"""The result of a request to change a turn. stopping: it was about to end already; begun: it has started, so it can
only be stopped; over: it has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The decision on a person or a group. key: of the config that lists it. expires_in: seconds that a request still
    waits."""

    kind: SubjectKind
    subject: str
    state: str
    name: str
    key: str
    since: datetime | None
    by: str
    expires_in: float | None


class Acting:
    """Changes what `Live` shows; each method raises HttpProblem, 404 also for what belongs to others."""

    def __init__(self, parts: HttpParts) -> None:
        self._parts = parts
        self._sight = Sight(parts)
        self._requests = Requests(parts)
        self._tries = pairing.Tries(parts.clock)

    # Turns.

    async def stop(self, caller: Caller, run_id: str) -> Done:
        """Stop a running answer; a waiting one is dropped."""
        row = await self._run(caller, run_id)

        async def do(actor: Conversation) -> Done:
            if not actor.is_active(run_id):
                return await self._drop(actor, caller, row)
            if not actor.stop_active(StopReason.STOPPED):
                return "stopping"
            await self._parts.store.write(actor.stop_unit(StopReason.STOPPED))
            return "stop"

        return _told(caller, Action.STOP, row, await self._in_order(row.conversation, do))

    async def run_now(self, caller: Caller, run_id: str) -> Done:
        """Stop what runs in its conversation, and let this one be the next."""
        row = await self._run(caller, run_id)

        async def do(actor: Conversation) -> Done:
            waiting = actor.line.find(run_id)
            if waiting is None:
                return "begun" if actor.is_active(run_id) else "over"
            if actor.active is not None and not self._sight.acts(caller, actor.active.speaker):
                raise HttpProblem(409, "not_yours_to_stop", "the active run there belongs to another person")
            stopped = actor.active
            await actor.run_next(waiting)
            if stopped is not None:
                _told(caller, Action.STOP, stopped, "stop")
            return "now"

        return _told(caller, Action.RUN_NEXT, row, await self._in_order(row.conversation, do))

    async def drop(self, caller: Caller, run_id: str) -> Done:
        """End a waiting turn, with a sentence in its chat."""
        row = await self._run(caller, run_id)
        done = await self._in_order(row.conversation, lambda actor: self._drop(actor, caller, row))
        return _told(caller, Action.DROP, row, done)

    async def _drop(self, actor: Conversation, caller: Caller, row: RunRow) -> Done:
        waiting, who = actor.line.find(row.run_id), "author" if row.speaker == caller.person else "admin"
        if waiting is None:
            return "begun" if actor.is_active(row.run_id) else "over"
        await actor.drop(waiting, lambda texts: texts.dropped_by[who])
        return "drop"

    async def _run(self, caller: Caller, run_id: str) -> RunRow:
        row = await self._parts.store.read(lambda tx: runs.load(tx, run_id))
        if row is None or not self._sight.acts(caller, row.speaker):
            raise unknown("run")
        return row

    async def _in_order(self, key: str, do: Callable[[Conversation], Awaitable[T]]) -> T:
        """Have a conversation do it in its own order, and return the result."""
        done = self._parts.manager.in_order(key, do, HttpProblem)
        await asyncio.wait({done}, timeout=IN_ORDER_SECONDS)
        if not done.done():
            raise HttpProblem(503, "busy", "the conversation is busy: check again in a moment whether it was done")
        if done.exception() is not None and not isinstance(done.exception(), HttpProblem):
            raise HttpProblem(500, "failed", "it could not be done; see the log")
        return done.result()

    # Requests for approval.

    async def decide(
        self, caller: Caller, approval: str, decision: Answer, reason: str = ""
    ) -> Answer | Literal["over"]:
        """Answer a request, as its buttons do. reason: of a denial, passed on to the agent."""
        known = await self._parts.store.read(
            lambda tx: (row, runs.load(tx, row.run_id)) if (row := prompts.load_approval(tx, approval)) else None
        )
        if known is None or known[1] is None or not self._sight.acts(caller, known[0].requester):
            raise unknown("approval")
        row, run = known[0], known[1]
        if row.decision is not None:
            return "over"
        about = {"account": run.address.account, "conversation": row.conversation, "run": run.run_id, "what": row.tool}
        allowed = self._requests.decisions(caller, row, run)
        if decision == "chat" and row.is_exact:
            decision = "once"  # it has no button for that
        if decision not in allowed:
            text = "only an administrator can allow this" if row.admins_only else "you cannot read it, only deny it"
            raise HttpProblem(403, "not_allowed", text)
        reason = " ".join(reason.split())[:LONGEST_REASON] if decision == "deny" else ""
        taken = await self._parts.runs.approvals.decide(
            approval,
            Decided(decision),
            caller.person,
            also=lambda tx: None,
            reason=reason,
            for_all=caller.may("operate"),
        )
        done: Answer | Literal["over"] = decision if taken else "over"
        log_act(caller, Action.APPROVAL, of=row.requester, state=done, **about)
        return done

    # Access.

    async def answer_request(self, caller: Caller, request: str, *, let_in: bool) -> Access:
        """Give access to a person or a group that asks for it, or refuse it for thirty days; they are notified."""
        row = next((row for row in self._requests.requests() if request_id(row) == request), None)
        if row is None:
            raise HttpProblem(404, "not_found", "this request is no longer waiting: it was decided or expired")
        change = self._parts.editor.answer(row.kind, row.subject, row.code_hash or "", caller.person, let_in=let_in)
        if change is None:
            raise HttpProblem(409, "decided", "someone else has just decided this")
        return await self._make(change, caller, Action.ACCESS_ALLOW if let_in else Action.ACCESS_REFUSE)

    async def pair(self, caller: Caller, typed: str) -> Access:
        """Give access to the person who received a code."""
        if self._tries.exhausted(caller.person):
            raise HttpProblem(429, "too_many_codes", "too many wrong codes: try again later")
        code = pairing.read(typed)
        applicant = self._parts.editor.applicant(code) if code is not None else None
        if applicant is None:
            self._tries.wrong(caller.person)
            raise HttpProblem(404, "no_such_code", "no one is waiting with this code")
        return await self._make(self._parts.editor.approval(applicant, caller.person), caller, Action.ACCESS_ALLOW)

    async def allow(
        self, caller: Caller, subject: str, *, kind: SubjectKind | None, admin: bool, language: str = "en"
    ) -> Access:
        """Give access to a person or a group by id. language: of the reason why it cannot be given."""
        editor, action = self._parts.editor, Action.ACCESS_ALLOW
        return await self._edit(
            lambda: editor.allow(subject, caller.person, kind=kind, admin=admin), caller, action, language
        )

    async def revoke(self, caller: Caller, subject: str, *, kind: SubjectKind | None, language: str = "en") -> Access:
        """Block a person or a group, and end what runs for them. language: as for allow."""
        editor, action = self._parts.editor, Action.ACCESS_REVOKE
        return await self._edit(lambda: editor.revoke(subject, caller.person, kind=kind), caller, action, language)

    def access(self, account: str | None = None) -> list[Access]:
        """All people and groups with a decision or a request, as `antler access list` shows them."""
        book = self._parts.editor.book
        if account is not None and account not in book.accounts:
            raise unknown("account")
        return [_access(each) for each in entries(book, self._parts.clock.now(), account)]

    async def _edit(self, change: Callable[[], Change], caller: Caller, action: Action, language: str) -> Access:
        try:
            made = change()
        except AccessRefused as refused:
            text = unmarked(problem(refused, texts_for(language))).replace("`", "")
            raise HttpProblem(422, refused.kind, text) from None
        return await self._make(made, caller, action)

    async def _make(self, change: Change, caller: Caller, action: Action) -> Access:
        await self._parts.store.write(change.write)
        change.committed()
        row = change.row
        known = entries(self._parts.editor.book, self._parts.clock.now(), row.account)
        made = next(_access(each) for each in known if (each.kind, each.subject) == (row.kind, row.subject))
        whose = {"person" if made.kind == "person" else "conversation": made.subject}
        log_action(action, caller.by, account=row.account, state=made.state, **whose)
        return made


def _told(caller: Caller, action: Action, row: RunRow, done: Done) -> Done:
    """Return the result, logged where it concerns another person's turn."""
    about = {"account": row.address.account, "conversation": row.conversation, "run": row.run_id}
    log_act(caller, action, of=row.speaker, state=done, **about)
    return done


def _access(entry: Entry) -> Access:
    return Access(
        kind=entry.kind,
        subject=entry.subject,
        state=str(entry.state),
        name=entry.name,
        key=entry.key,
        since=entry.since,
        by=entry.by,
        expires_in=entry.left,
    )
