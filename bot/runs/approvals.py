"""ApprovalService submits tool calls to people for approval, waits for their decisions, and shows them. StoreApprovals
is the harness's access to the decisions.

A request, the run's waiting state and the message that asks are one transaction; so are a decision and its message.
After a crash the run repeats the same request, which is recognized, and a decision made in between counts.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.runs import approval_cards
from bot.runs.reasons import reads_as_reason
from bot.store import outbox, prompts, runs
from bot.store.prompts import ApprovalRow, Decided
from channels.supervision import until_first

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from bot.delivery import Delivery
    from bot.runs.active import ActiveRun
    from bot.store.prompts import GrantRow
    from bot.store.retrying import RetryingStore
    from bot.store.rows import RunRow
    from bot.texts.catalogue import Texts
    from channels.base import Clock
    from channels.message import Message, OutboundMessage
    from harness.context import RunContext
    from harness.events import ApprovalRequested
    from harness.guardrails.approvals import Approval, CallKey

log = logging.getLogger(__name__)

LONGEST_REASON = 300
REASON_TIME = timedelta(minutes=2)
"""Time in which the next message can be the reason without being a reply."""
MOST_OF_A_RUN = 10
MOST_OF_A_CHAT = 20
"""Most requests within WINDOW. A person who is prompted too often approves without reading."""
WINDOW = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Change:
    """The new state of a request's message. key: of the reply that shows it."""

    row: ApprovalRow
    run: RunRow
    message: OutboundMessage
    key: str


class ApprovalService:
    """Asks people for approvals and records their decisions. active: the runs that this process works on."""

    def __init__(self, store: RetryingStore, delivery: Delivery, clock: Clock, active: Mapping[str, ActiveRun]) -> None:
        self._store = store
        self._delivery = delivery
        self._clock = clock
        self._active = active
        self._invited: dict[str, datetime] = {}
        """When a person was asked for a reason. Lost at a restart; from then on only a reply counts as a reason."""

    # For the run that waits.

    async def ask(self, active: ActiveRun, requests: Sequence[ApprovalRequested]) -> None:
        """Submit calls for approval, once each, and mark the run as waiting."""
        now = self._clock.now()
        ids = [request.prompt_id for request in requests]
        known = set(await self._store.read(lambda tx: [prompt for prompt in ids if prompts.load_approval(tx, prompt)]))
        active.record.flush()
        record = active.record.taken()

        def unit(tx: Connection) -> list[Change]:
            run = runs.load(tx, active.row.run_id) or active.row  # its chat may have moved since it was started
            rows = [_row(run, request, now) for request in requests if request.prompt_id not in known]
            if runs.wait(tx, run.run_id):  # else a retry after a lost connection: committed the first time
                record.commit(tx, run, now)
                for row in prompts.ask_approvals(tx, [(row, approval_cards.prompt_of(row)) for row in rows]):
                    self._finalize(tx, _open_request(row, run))
            return [_open_request(row, run) for row in rows if prompts.load_approval(tx, row.prompt_id)]

        asked = await self._store.write(unit)
        self._show(asked)
        for change in asked:
            _log(change)

    async def wait(self, active: ActiveRun) -> None:
        """Wait until all requests of the run are decided or have expired."""
        while True:
            active.rests = False
            active.decided.clear()
            open_ = await self._store.read(lambda tx: prompts.open_approvals(tx, active.row.run_id))
            active.asking = tuple(open_)
            active.asking_changed()
            if not open_:
                return
            left = (min(row.expires_at for row in open_) - self._clock.now()).total_seconds()
            if left <= 0:
                await self._expire(active.row)
            else:
                active.rests = not active.decided.is_set()
                await until_first(active.decided.wait(), self._clock.sleep(left))

    async def _expire(self, run: RunRow) -> None:
        now = self._clock.now()

        def unit(tx: Connection) -> list[Change]:
            return self._closed(tx, run.run_id, prompts.expire_approvals(tx, run.run_id, now))

        self._show(await self._store.write(unit))

    # For the end of a run.

    def stop(self, tx: Connection, run: RunRow, now: datetime) -> list[Change]:
        """Deny the run's open requests; part of the unit that ends it, before `show`."""
        return self._closed(tx, run.run_id, prompts.stop_approvals(tx, run.run_id, now))

    def show(self, changes: Sequence[Change]) -> None:
        """Show the changes made by `stop`, once they are committed."""
        self._show(changes)

    # For the people who decide.

    async def find(self, prompt_id: str) -> ApprovalRow | None:
        """The request behind a button."""
        return await self._store.read(lambda tx: prompts.load_approval(tx, prompt_id))

    async def over(self, prompt_id: str, reader: str, texts: Texts) -> str:
        """The decision on a request, for a person who pressed a button too late; "" while it is open."""

        def query(tx: Connection) -> tuple[ApprovalRow | None, RunRow | None]:
            row = prompts.load_approval(tx, prompt_id)
            return row, runs.load(tx, row.run_id) if row is not None else None

        row, run = await self._store.read(query)
        if row is None or row.decision is None:
            return ""
        return approval_cards.over(row, run, reader, texts)

    async def decide(
        self,
        prompt_id: str,
        decision: Decided,
        by: str,
        *,
        also: Callable[[Connection], object],
        reason: str = "",
        for_all: bool = False,
    ) -> bool:
        """Record a decision by a person who is entitled to it; `also` runs in the same transaction. False if it is too
        late: then only `also` took effect."""
        now = self._clock.now()

        def unit(tx: Connection) -> Change | None:
            also(tx)
            row = prompts.decide(tx, prompt_id, decision, by, now, reason=reason, for_all=for_all)
            if row is None:  # perhaps only a retry after a lost connection
                row = prompts.load_approval(tx, prompt_id)
                if row is None or (row.decision, row.decided_by) != (decision, by):
                    return None
            return next(iter(self._closed(tx, row.run_id, [row])), None)

        change = await self._store.write(unit)
        if change is not None:
            self._show([change])
            self._wake(change.row.run_id)
        return change is not None

    async def await_reason(self, prompt_id: str, person: str, *, also: Callable[[Connection], object]) -> bool:
        """Ask the person for the reason for a denial. False if the request is already decided."""
        now = self._clock.now()

        def unit(tx: Connection) -> list[Change]:
            also(tx)
            row = prompts.await_reason(tx, prompt_id, person, now)
            run = runs.load(tx, row.run_id) if row is not None else None
            if row is None or run is None:
                return []
            change, key = _open_request(row, run), approval_cards.why_key(prompt_id)
            self._finalize(tx, change)
            if outbox.load(tx, key):  # asked before, and such a message never changes
                return [change]
            asking = Change(row, run, approval_cards.why(row, run), key)
            self._finalize(tx, asking)
            return [change, asking]

        changes = await self._store.write(unit)
        if changes:
            self._invited[prompt_id] = now
            self._show(changes)
            self._wake(changes[0].row.run_id)
        return bool(changes)

    async def take_reason(
        self, run_id: str, person: str, message: Message, *, also: Callable[[Connection], object]
    ) -> bool:
        """Whether a message is the reason that a run waits for; if so, the call is denied with it, and `also` ran.

        Any other message of that person denies without a reason and is a new request, as is a doubtful message or one
        too long to be kept whole as a reason. run_id: of the run working where it was sent, "" for none; a message in a
        thread below the question answers that question, even if the thread is a separate conversation.
        """
        awaited, replied = await self._store.read(lambda tx: _awaited(tx, run_id, person, message))
        if awaited is None:
            return False
        reason = " ".join(message.text.split())
        invited = self._invited.pop(awaited.prompt_id, None)
        in_time = invited is not None and self._clock.now() - invited <= REASON_TIME
        can_be = 0 < len(reason) <= LONGEST_REASON and not message.attachments
        if can_be and (replied or (in_time and _may_be_reason(message) and reads_as_reason(reason))):
            return await self.decide(awaited.prompt_id, Decided.DENY, person, reason=reason, also=also)
        await self.decide(awaited.prompt_id, Decided.DENY, person, also=lambda tx: None)
        return False

    async def grants(self, conversation: str) -> list[GrantRow]:
        """The grants that apply to a whole chat."""
        return await self._store.read(lambda tx: prompts.grants(tx, conversation))

    async def revoke(self, conversation: str, ids: Sequence[int]) -> None:
        """Revoke the grants: from the next call on, approval is requested again."""
        await self._store.write(lambda tx: prompts.revoke_grants(tx, conversation, ids))

    def blocking(self, run: RunRow | None) -> ApprovalRow | None:
        """The first request that a run waits for; None when it is not waiting for anyone."""
        active = self._active.get(run.run_id) if run is not None else None
        return active.asking[0] if active is not None and active.asking else None

    def rests(self, run: RunRow) -> bool:
        """Whether a run is idle until a person decides; False from the moment of their decision."""
        active = self._active.get(run.run_id)
        return active is not None and active.rests

    def _wake(self, run_id: str) -> None:
        active = self._active.get(run_id)
        if active is not None:
            active.rests = False
            active.decided.set()

    def _closed(self, tx: Connection, run_id: str, rows: Sequence[ApprovalRow]) -> list[Change]:
        run = runs.load(tx, run_id) if rows else None
        changes = [Change(r, run, approval_cards.decided(r, run), r.prompt_id) for r in rows if run is not None]
        for change in changes:
            self._finalize(tx, change)
        return changes

    def _finalize(self, tx: Connection, change: Change) -> None:
        run = change.run
        self._delivery.finalize(tx, change.key, run.address, run.reply_to, change.message)

    def _show(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self._finished(change)
            if change.row.decision is not None:
                _log(change)

    def _finished(self, change: Change) -> None:
        run = change.run
        self._delivery.finished(change.key, run.address, run.reply_to, change.message)


class StoreApprovals:
    """The harness's port `Approvals` on the store: the decisions, and how many more requests may be shown."""

    def __init__(self, store: RetryingStore) -> None:
        self._store = store

    async def decisions(self, run_id: str) -> Mapping[CallKey, Approval]:
        return await self._store.read(lambda tx: prompts.decisions(tx, run_id))

    async def granted(self, ctx: RunContext, tool: str, coverage: str) -> bool:
        return await self._store.read(lambda tx: prompts.granted(tx, ctx.conversation, ctx.speaker.id, tool, coverage))

    async def room(self, ctx: RunContext) -> int:
        since = self._store.clock.now() - WINDOW
        of_run, of_chat = await self._store.read(
            lambda tx: prompts.count_approvals(tx, ctx.run_id, ctx.conversation, since)
        )
        return max(0, min(MOST_OF_A_RUN - of_run, MOST_OF_A_CHAT - of_chat))


def _log(change: Change) -> None:
    row = change.row
    by = f", by {row.decided_by}" if row.decided_by else ""  # nobody, once the time or the run is over
    told = "asked of a person" if row.decision is None else f"{row.decision}{by}"
    about = {
        "event": "approval",
        "account": change.run.address.account,
        "conversation": row.conversation,
        "run": row.run_id,
        "person": row.requester,
        "tool": row.tool,
        "state": row.decision or "asked",
        "by": row.decided_by,
    }
    log.info("approval of %s in run %s: %s", row.tool, row.run_id, told, extra=about)


def _awaited(tx: Connection, run_id: str, person: str, message: Message) -> tuple[ApprovalRow | None, bool]:
    """The request whose denial the person was asked to explain, and whether the message is a reply to it."""
    if (below := _asked_above(tx, person, message)) is not None:
        return below, True
    awaited = [row for row in prompts.open_approvals(tx, run_id) if row.reason_from == person]
    if not awaited or message.reply_to is None:
        return next(iter(awaited), None), False
    key = outbox.reply_of(tx, message.account, message.address.chat, message.reply_to.message_id)
    meant = next((row for row in awaited if key in (row.prompt_id, approval_cards.why_key(row.prompt_id))), None)
    return meant or awaited[0], meant is not None


def _asked_above(tx: Connection, person: str, message: Message) -> ApprovalRow | None:
    """The request, if the message is in a direct chat's thread below its card or below the question for the reason."""
    address = message.address
    if address.kind != "dm" or address.topic is None:
        return None
    key = outbox.reply_of(tx, address.account, address.chat, address.topic) or ""
    row = prompts.load_approval(tx, approval_cards.request_of(key))
    return row if row is not None and row.decision is None and row.reason_from == person else None


def _may_be_reason(message: Message) -> bool:
    """Whether the message can be about the latest question: addressed to the bot, and not a reply."""
    addressed = message.address.kind == "dm" or message.mention or message.continues
    return addressed and message.reply_to is None and message.bundle_key is None


def _open_request(row: ApprovalRow, run: RunRow) -> Change:
    return Change(row, run, approval_cards.asked(row, run), row.prompt_id)


def _row(run: RunRow, request: ApprovalRequested, now: datetime) -> ApprovalRow:
    return ApprovalRow(
        prompt_id=request.prompt_id,
        run_id=run.run_id,
        call_id=request.call_id,
        args_hash=request.args_hash,
        conversation=run.conversation,
        requester=run.speaker,
        tool=request.tool,
        shown=request.args_masked,
        why=request.reason,
        coverage=request.coverage,
        asked_at=now,
        expires_at=request.expires_at,
    )
