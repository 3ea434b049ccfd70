"""Access to the outbox for delivery, in terms of replies and parts."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

from bot.delivery.plan import button_data, idem_key
from bot.delivery.redaction import redact_message
from bot.store import inbox, outbox
from bot.store.errors import StoreUnavailable
from bot.store.rows import OutboxRow
from bot.store.sql import to_json
from channels.message import OUTBOUND_MESSAGE
from harness.threads.outage import Outage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from sqlalchemy import Connection

    from bot.delivery.plan import PartState
    from bot.delivery.reply import Reply
    from bot.redaction import Redactor
    from bot.store.outbox import Sent
    from bot.store.store import Store
    from channels.base import Clock
    from channels.message import Address, OutboundMessage

log = logging.getLogger(__name__)

STORE_RETRY = 1.0
"""Seconds between two attempts to record what has already happened on the platform."""
NOTHING_SHOWN = -1
"""The revision of a message that was only intended, or created empty: lower than any other."""
NO_PAGE = 0
"""The revision of a message that does not show a page of a final; those have higher ones."""
KNOWN_IDS = 2000
"""Number of the newest received, and of the newest sent, messages whose ids are passed to a channel at the start."""


class Journal:
    """The outbox, shared by all accounts. Recording what happened on the platform is retried until it succeeds;
    recording an intent may fail."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._outage = Outage(
            log.error, "the outbox cannot be written", "the outbox can be written again", clock.monotonic
        )
        self._left: set[tuple[str, int]] = set()
        """Parts that earlier processes intended to send, and may or may not have sent."""
        self._left_open: set[tuple[str, int]] = set()
        """Parts in which earlier processes began a stream that is not known to have ended."""
        self._taken_over: frozenset[str] = frozenset()
        """Replies that earlier processes did not deliver completely."""

    def finalize(
        self,
        tx: Connection,
        reply_key: str,
        address: Address,
        reply_to: str | None,
        sent_after: str | None,
        message: OutboundMessage,
        *,
        unsent: bool = False,
    ) -> None:
        """Store `message` (redacted) as the reply's last state, in the caller's unit. unsent: see `outbox.finalize`."""
        body, now, key = to_json(OUTBOUND_MESSAGE, message), self._clock.now(), idem_key(reply_key, 0)
        outbox.finalize(tx, reply_key, address, reply_to, sent_after, body, now, key, unsent=unsent)

    async def load(self, reply_key: str) -> list[OutboxRow]:
        """The reply's parts in their order. Raises StoreUnavailable."""
        return await self._store.read(lambda tx: outbox.load(tx, reply_key))

    async def take_over(self) -> dict[str, list[OutboxRow]]:
        """Read at the start what earlier processes left; as `undelivered`. Raises StoreUnavailable."""
        replies = await self.undelivered()
        self._left = {(row.reply_key, row.part) for rows in replies.values() for row in rows if row.message_id is None}
        self._taken_over = frozenset(replies)
        # A stream with another part below it has ended: it broke, or nothing more could be added to it.
        newest = [rows[-1] for rows in replies.values()]
        begun = [row for row in newest if row.message_id is not None and row.sent_rev == NOTHING_SHOWN]
        self._left_open = {(row.reply_key, row.part) for row in begun}
        return replies

    async def undelivered(self) -> dict[str, list[OutboxRow]]:
        """The parts of each reply neither delivered nor given up, oldest reply first. Raises StoreUnavailable."""
        replies: dict[str, list[OutboxRow]] = {}
        for row in await self._store.read(outbox.undelivered):
            replies.setdefault(row.reply_key, []).append(row)
        return replies

    async def intend(self, reply: Reply, state: PartState, question: OutboundMessage | None = None) -> None:
        """Commit that the part is about to be sent. Raises StoreUnavailable; the part must not be sent then.

        question: the question in the part, where the next process could not change it and should not ask it again.
        """
        row = self.intent(reply, state, question)
        await self._store.write(lambda tx: outbox.intend(tx, [row]))

    async def retire(self, reply: Reply, retired: Sequence[PartState], instead: PartState) -> None:
        """Commit that a part is about to be sent that replaces others. Raises StoreUnavailable, as `intend`."""
        row, parts = self.intent(reply, instead), [state.index for state in retired]
        await self._store.write(lambda tx: outbox.retire(tx, parts, row))

    def intent(self, reply: Reply, state: PartState, question: OutboundMessage | None = None) -> OutboxRow:
        """The row that `intend` commits."""
        return OutboxRow(
            reply_key=reply.key,
            part=state.index,
            idem_key=state.idem_key,
            address=reply.address,
            reply_to=reply.reply_to,
            sent_after=state.sent_after,
            message_id=None,
            body="" if question is None else to_json(OUTBOUND_MESSAGE, question),
            desired_rev=reply.rev,
            sent_rev=NOTHING_SHOWN,
            final=reply.final,
            created_at=self._clock.now(),
        )

    async def sent(self, part: Sent) -> None:
        """Record that the part is in the chat and shows that revision."""
        await self._insist(lambda: self._store.add(outbox.RECORD_SENT, [part]))

    async def catch_up(self, reply: Reply) -> None:
        """Record the message sent by the reply's latest call, unless that is already done."""
        if reply.unrecorded is not None:
            await self.sent(reply.unrecorded)
            reply.unrecorded = None

    async def draft_sent(self, part: Sent) -> bool:
        """`sent` for a draft that the next process could not find. False: see `Store.recorded`."""
        return await self._store.recorded(self.sent(part))

    async def shown(self, reply: Reply, state: PartState, rev: int) -> None:
        """Record that the part's message was changed and shows that revision."""
        row = outbox.Shown(reply_key=reply.key, part=state.index, rev=rev)
        await self._insist(lambda: self._store.add(outbox.RECORD_SHOWN, [row]))

    async def unsent(self, reply: Reply, state: PartState) -> None:
        """Commit that nothing was sent of a part intended as a draft. Raises StoreUnavailable."""
        await self._store.write(lambda tx: outbox.mark_unsent(tx, reply.key, state.index))

    async def ends(self, reply: Reply, state: PartState) -> None:
        """Commit that the part's stream is about to end, but not with the final. Raises StoreUnavailable; the stream
        must not end then, as the next process would assume that it shows the final."""
        row = outbox.Shown(reply_key=reply.key, part=state.index, rev=NO_PAGE)
        await self._store.add(outbox.RECORD_SHOWN, [row])

    async def numbered(self, reply: Reply) -> None:
        """Record that a numbered list replaces the reply's buttons, which the platform refused."""
        await self._insist(lambda: self._store.write(lambda tx: outbox.mark_numbered(tx, reply.key)))

    async def conceded(self, reply: Reply, redact: Redactor) -> None:
        """Record the form of the final that is shown now, after the platform refused another one: its pages are divided
        differently, and the next process has to continue it. No change if a newer final has arrived."""
        assert reply.wanted is not None
        rev, message = reply.rev, redact_message(reply.wanted, redact)

        def unit(tx: Connection) -> bool:
            first = outbox.load(tx, reply.key)[0]
            if first.desired_rev == rev:
                self.finalize(tx, reply.key, reply.address, reply.reply_to, None, message)
            return first.desired_rev == rev or first.body == to_json(OUTBOUND_MESSAGE, message)

        async def write() -> None:
            reply.rev += await self._store.write(unit)

        await self._insist(write)

    async def only_answer(self, reply: Reply) -> bool:
        """Whether no other reply may have answered the message that this one answers. Raises StoreUnavailable."""
        reply_to = reply.reply_to
        if reply_to is None:
            return False
        return not await self._store.read(lambda tx: outbox.others_answer(tx, reply.key, reply.address, reply_to))

    async def overtaken(self, reply: Reply) -> set[int]:
        """The parts of the reply that are above an answer that they belong below. Raises StoreUnavailable."""
        return await self._store.read(lambda tx: outbox.overtaken(tx, reply.key))

    async def clear(self, reply: Reply, state: PartState) -> None:
        """Record that the part's message no longer exists."""
        await self._insist(lambda: self._store.write(lambda tx: outbox.clear_message(tx, reply.key, state.index)))

    async def delivered(self, reply: Reply, rev: int) -> None:
        """Record that this revision of the reply is shown."""
        await self._insist(
            lambda: self._store.write(lambda tx: outbox.delivered(tx, reply.key, self._clock.now(), rev))
        )

    async def abandon(self, replies: Sequence[Reply], reason: str) -> None:
        """Give up replies for good."""
        keys = [reply.key for reply in replies]
        await self._insist(lambda: self._store.write(lambda tx: _abandon(tx, keys, reason)))

    async def known_ids(self, account: str, left: Iterable[OutboxRow]) -> frozenset[tuple[str, str]]:
        """(chat, message id) of the account's newest messages, received and sent, including those of `left`.

        Raises StoreUnavailable.
        """
        received = await self._store.read(lambda tx: inbox.newest_ids(tx, account, KNOWN_IDS))
        sent = await self._store.read(lambda tx: outbox.newest_ids(tx, account, KNOWN_IDS))
        open_ones = ((row.address.chat, known) for row in left for known in (row.message_id, row.sent_after))
        return frozenset(received + sent + [(chat, known) for chat, known in open_ones if known is not None])

    def restore(self, reply: Reply, rows: Sequence[OutboxRow]) -> None:
        """Restore a fresh Reply from the rows that an earlier process, or an earlier reply with its key, left."""
        reply.loaded = True
        # A final that was not shown before the crash still notifies people like any other, unless that had begun: in
        # its old place it would be above answers that were sent again since.
        shown = any(row.sent_rev == outbox.RETIRED or row.sent_rev >= row.desired_rev for row in rows)
        unseen = reply.key in self._taken_over and not shown
        reply.fresh = unseen or not (rows and rows[0].final)
        now, wall = self._clock.monotonic(), self._clock.now()
        for row in rows:
            state = reply.state(row.part)
            state.intended = True
            state.sent_after = row.sent_after
            state.message_id = row.message_id
            state.final_shown = row.final and row.message_id is not None and row.sent_rev >= row.desired_rev
            state.retired = row.sent_rev == outbox.RETIRED
            lost = row.message_id is None and not state.retired
            state.crashed = lost and (row.reply_key, row.part) in self._left
            state.drafted = row.sent_rev == NOTHING_SHOWN
            state.left_open = (row.reply_key, row.part) in self._left_open
            age = (wall - row.created_at).total_seconds()
            state.begun = now - age if age >= 0 else -math.inf  # the machine's clock was set back
            if row.body and row.message_id is not None and not row.final:
                state.asked = button_data(OUTBOUND_MESSAGE.validate_json(row.body))
            reply.rev = max(reply.rev, row.desired_rev)
            reply.reply_to = reply.reply_to or row.reply_to
        if reply.wanted is None and rows and rows[0].final and rows[0].body:
            reply.wanted = OUTBOUND_MESSAGE.validate_json(rows[0].body)
            reply.dirty = True

    async def _insist(self, write: Callable[[], Awaitable[object]]) -> None:
        try:
            while True:
                try:
                    await write()
                except StoreUnavailable as error:
                    self._outage.failed(write, error)
                else:
                    self._outage.succeeded(write)
                    return
                await self._clock.sleep(STORE_RETRY)
        finally:
            self._outage.left(write)


def _abandon(tx: Connection, reply_keys: Sequence[str], reason: str) -> None:
    for key in reply_keys:
        outbox.abandon(tx, key, reason)
