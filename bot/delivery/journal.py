"""What delivery writes to and reads from the outbox, in its own terms."""

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
    from bot.delivery.redaction import Redactor
    from bot.delivery.reply import Reply
    from bot.store.outbox import Sent
    from bot.store.store import Store
    from channels.base import Clock
    from channels.message import Address, OutboundMessage

log = logging.getLogger(__name__)

STORE_RETRY = 1.0
"""Seconds between two tries to record what has already happened on the platform."""
NOTHING_SHOWN = -1
"""The revision of a message that was only intended, or made and is empty: behind any other."""
NO_PAGE = 0
"""The revision of a message that shows something else than a page of a final, all of which have a later one."""
KNOWN_IDS = 2000
"""How many of the newest messages that were received and sent are named to a channel at the start."""


class Journal:
    """The outbox, as all accounts use it. Recording what happened on the platform is tried until it succeeds; recording
    an intention may fail."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._outage = Outage(
            log.error, "the outbox cannot be written", "the outbox can be written again", clock.monotonic
        )
        self._left: set[tuple[str, int]] = set()
        """Parts that earlier processes intended and that they may or may not have sent."""
        self._left_open: set[tuple[str, int]] = set()
        """Parts in which earlier processes began a stream of which nothing says that it has ended."""
        self._taken_over: frozenset[str] = frozenset()
        """Replies that earlier processes did not deliver whole."""

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
        """Store `message` (redacted) as the reply's last state; part of the caller's unit. unsent: see the outbox."""
        body, now, key = to_json(OUTBOUND_MESSAGE, message), self._clock.now(), idem_key(reply_key, 0)
        outbox.finalize(tx, reply_key, address, reply_to, sent_after, body, now, key, unsent=unsent)

    async def load(self, reply_key: str) -> list[OutboxRow]:
        """Raises StoreUnavailable."""
        return await self._store.read(lambda tx: outbox.load(tx, reply_key))

    async def take_over(self) -> dict[str, list[OutboxRow]]:
        """What earlier processes left, to be asked at the start; as `undelivered`. Raises StoreUnavailable."""
        replies = await self.undelivered()
        self._left = {(row.reply_key, row.part) for rows in replies.values() for row in rows if row.message_id is None}
        self._taken_over = frozenset(replies)
        # What has something below it was given up: it broke, or nothing more could be put into it.
        newest = [rows[-1] for rows in replies.values()]
        begun = [row for row in newest if row.message_id is not None and row.sent_rev == NOTHING_SHOWN]
        self._left_open = {(row.reply_key, row.part) for row in begun}
        return replies

    async def undelivered(self) -> dict[str, list[OutboxRow]]:
        """The parts of each reply that is neither delivered nor given up, oldest reply first. Raises as above."""
        replies: dict[str, list[OutboxRow]] = {}
        for row in await self._store.read(outbox.undelivered):
            replies.setdefault(row.reply_key, []).append(row)
        return replies

    async def intend(self, reply: Reply, state: PartState, question: OutboundMessage | None = None) -> None:
        """Commit that the part is about to be sent. Raises StoreUnavailable: then it must not be.

        question: what the part asks, where the next process could not change it and should not ask it again.
        """
        row = self.intent(reply, state, question)
        await self._store.write(lambda tx: outbox.intend(tx, [row]))

    async def retire(self, reply: Reply, retired: Sequence[PartState], instead: PartState) -> None:
        """Commit that a part is about to be sent in whose favour others go. Raises as above."""
        row, parts = self.intent(reply, instead), [state.index for state in retired]
        await self._store.write(lambda tx: outbox.retire(tx, parts, row))

    def intent(self, reply: Reply, state: PartState, question: OutboundMessage | None = None) -> OutboxRow:
        """What `intend` commits."""
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
        """The part is in the chat and shows that revision."""
        await self._insist(lambda: self._store.add(outbox.RECORD_SENT, [part]))

    async def catch_up(self, reply: Reply) -> None:
        """Record what the reply's newest call has sent, if that is not yet done."""
        if reply.unrecorded is not None:
            await self.sent(reply.unrecorded)
            reply.unrecorded = None

    async def draft_sent(self, part: Sent) -> bool:
        """Like `sent`, of a draft that the next process could not find. False: see Store.recorded."""
        return await self._store.recorded(self.sent(part))

    async def shown(self, reply: Reply, state: PartState, rev: int) -> None:
        """The part's message was changed and shows that revision."""
        row = outbox.Shown(reply_key=reply.key, part=state.index, rev=rev)
        await self._insist(lambda: self._store.add(outbox.RECORD_SHOWN, [row]))

    async def unsent(self, reply: Reply, state: PartState) -> None:
        """Commit that nothing was sent of a part that was going to be a draft. Raises StoreUnavailable."""
        await self._store.write(lambda tx: outbox.mark_unsent(tx, reply.key, state.index))

    async def ends(self, reply: Reply, state: PartState) -> None:
        """Commit that the part's stream is about to end, and not with the final. Raises StoreUnavailable: then it must
        not: the next process takes an ended stream for one that shows the final."""
        row = outbox.Shown(reply_key=reply.key, part=state.index, rev=NO_PAGE)
        await self._store.add(outbox.RECORD_SHOWN, [row])

    async def numbered(self, reply: Reply) -> None:
        """The platform refused the reply's buttons: a numbered list of its options stands for them."""
        await self._insist(lambda: self._store.write(lambda tx: outbox.mark_numbered(tx, reply.key)))

    async def conceded(self, reply: Reply, redact: Redactor) -> None:
        """The platform refused the final's form: the next process is to go on with the one that is shown now, whose
        pages are divided elsewhere. Nothing where a newer final has come."""
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
        """Whether no other reply may have said anything to the message that this one answers. Raises as above."""
        reply_to = reply.reply_to
        if reply_to is None:
            return False
        return not await self._store.read(lambda tx: outbox.others_answer(tx, reply.key, reply.address, reply_to))

    async def overtaken(self, reply: Reply) -> set[int]:
        """The parts of the reply that stand above an answer below which they belong. Raises StoreUnavailable."""
        return await self._store.read(lambda tx: outbox.overtaken(tx, reply.key))

    async def clear(self, reply: Reply, state: PartState) -> None:
        """The part's message does not exist any more."""
        await self._insist(lambda: self._store.write(lambda tx: outbox.clear_message(tx, reply.key, state.index)))

    async def delivered(self, reply: Reply, rev: int) -> None:
        """That revision of the reply is shown."""
        await self._insist(
            lambda: self._store.write(lambda tx: outbox.delivered(tx, reply.key, self._clock.now(), rev))
        )

    async def abandon(self, replies: Sequence[Reply], reason: str) -> None:
        """Give replies up for good."""
        keys = [reply.key for reply in replies]
        await self._insist(lambda: self._store.write(lambda tx: _abandon(tx, keys, reason)))

    async def known_ids(self, account: str, left: Iterable[OutboxRow]) -> frozenset[tuple[str, str]]:
        """(chat, message id) of the account's newest messages, people's and ours, those that are `left` among them.

        Raises StoreUnavailable.
        """
        received = await self._store.read(lambda tx: inbox.newest_ids(tx, account, KNOWN_IDS))
        sent = await self._store.read(lambda tx: outbox.newest_ids(tx, account, KNOWN_IDS))
        open_ones = ((row.address.chat, known) for row in left for known in (row.message_id, row.sent_after))
        return frozenset(received + sent + [(chat, known) for chat, known in open_ones if known is not None])

    def restore(self, reply: Reply, rows: Sequence[OutboxRow]) -> None:
        """Give a fresh Reply what an earlier process, or an earlier reply under its key, left in the outbox."""
        reply.loaded = True
        # A final that was not shown before the crash still calls people as any other, unless that had begun: in its old
        # place it would stand above answers that were sent anew since.
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
