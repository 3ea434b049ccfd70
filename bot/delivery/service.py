"""Delivery: shows the gateway's replies to users; the entry point for runs and commands."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.delivery.account import Account, AccountSnapshot, Shared
from bot.delivery.journal import Journal
from bot.delivery.redaction import redact_message
from bot.delivery.reply import Outcome, Reply
from bot.store.errors import StoreUnavailable
from bot.tasks import Tasks
from bot.texts import language_of, texts_for
from channels.errors import ChannelError, OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection

    from bot.redaction import Redactor
    from bot.store.rows import OutboxRow
    from bot.store.store import Store
    from bot.texts.catalogue import Texts
    from channels.base import Channel, Clock
    from channels.message import Address, OutboundMessage

log = logging.getLogger(__name__)

STORE_RETRY = 1.0
LAST_CALLS = 5.0
"""Seconds granted to calls in flight when their channel is removed; the outcome of longer ones stays unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDraft:
    """A reply of an earlier process that never became final and has not been reopened."""

    reply_key: str
    address: Address
    reply_to: str | None


class Delivery:
    """Shows replies through the registered channels.

    redact: removes secrets from everything shown. lease_valid: whether this process may act externally; nothing is
    sent without the lease. on_shown: called with (reply key, account, seconds) when a final is settled, that long after
    it was decided. on_moved: called with (account, old chat, new chat) when a platform gives a chat a new id.
    texts: the sentences to use for (account, text), in the account's language or that of the text.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        redact: Redactor,
        lease_valid: Callable[[], bool] = lambda: True,
        on_moved: Callable[[str, str, str], None] = lambda account, old, new: None,
        texts: Callable[[str, str], Texts] = lambda account, text: texts_for(language_of("auto", None, text)),
        on_shown: Callable[[str, str, float], None] = lambda key, account, seconds: None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._redact = redact
        self._journal = Journal(store, clock)
        self._tasks = Tasks("delivery")
        self._shared = Shared(
            journal=self._journal,
            clock=clock,
            redact=redact,
            lease_valid=lease_valid,
            moved=on_moved,
            progressed=self._progressed,
            shown=on_shown,
            say=self.say,
            texts=texts,
            tasks=self._tasks,
        )
        self._accounts: dict[str, Account] = {}
        self._channels: dict[str, Channel] = {}
        self._lease_valid = lease_valid
        self._progress = asyncio.Event()
        self._order = 0
        self._closed = False

    def register(self, channel: Channel) -> None:
        """Send the account's replies, waiting ones included, through `channel`. The account must not have a channel."""
        self._channels[channel.account] = channel
        self._account(channel.account).connect(channel)

    async def disconnect(self, account: str) -> None:
        """Stop sending through the account's channel: its replies wait until another one is registered."""
        self._channels.pop(account, None)
        if account in self._accounts:
            await self._accounts[account].disconnect(LAST_CALLS)

    async def reconnect(self, channel: Channel) -> None:
        """Register a channel for an account that may have had another one: it is given the ids of earlier messages, and
        undelivered replies continue. Waits for an unavailable store: without it, lost messages could not be found."""
        await self.disconnect(channel.account)
        while True:
            try:
                rows = [row for rows in (await self._journal.undelivered()).values() for row in rows]
                its = [row for row in rows if row.address.account == channel.account]
                known = await self._journal.known_ids(channel.account, its)
                break
            except StoreUnavailable:
                await self._clock.sleep(STORE_RETRY)
        self._account(channel.account).recall(known)
        self.register(channel)

    def rearm(self, account: str) -> None:
        """Retry at once what could not be sent, as the account's platform has accepted its credential."""
        if account in self._accounts:
            self._accounts[account].rearm()

    async def start(self) -> None:
        """Take over the finals that earlier processes left undelivered. Raises StoreUnavailable."""
        left = await self._journal.take_over()
        for account in {*self._accounts, *(rows[0].address.account for rows in left.values())}:
            its = [row for rows in left.values() for row in rows if row.address.account == account]
            self._account(account).recall(await self._journal.known_ids(account, its))
        for key, rows in left.items():
            if rows[0].final and self._find(key, rows[0].address) is None:
                reply = self._make(key, rows[0].address, rows[0].reply_to)
                self._restore(reply, rows)

    async def undelivered_drafts(self) -> list[OpenDraft]:
        """Replies of earlier processes that are neither final nor open here, oldest first. Raises StoreUnavailable."""
        return [
            OpenDraft(
                reply_key=key,
                address=rows[0].address,
                reply_to=rows[0].reply_to,
            )
            for key, rows in (await self._journal.undelivered()).items()
            if not rows[0].final and self._find(key, rows[0].address) is None
        ]

    async def open(self, reply_key: str, address: Address, reply_to: str | None, *, new: bool = False) -> Reply:
        """Open a reply; it continues the messages that the outbox has under this key.

        new: the outbox has none. Raises StoreUnavailable.
        """
        if new:
            reply = self.expect(reply_key, address, reply_to)
            reply.loaded = True
            return reply
        standing = self._find(reply_key, address)
        if standing is not None and standing.loaded:
            return standing
        rows = await self._journal.load(reply_key)
        reply = self.expect(reply_key, address, reply_to)
        if not reply.loaded:
            self._restore(reply, rows)
        return reply

    def intent(self, reply: Reply) -> OutboxRow | None:
        """The intent to send a new reply's first message, to be committed with the start of its run (then call
        `Reply.intended_early`), so that the first words need no separate commit. None where it has to be committed
        later."""
        account = self._account(reply.address.account)
        if not account.intends_early or reply.state(0).intended:
            return None
        first = reply.state(0)
        first.sent_after = account.newest(reply.address)
        return self._journal.intent(reply, first)

    def expect(self, reply_key: str, address: Address, reply_to: str | None) -> Reply:
        """Reserve the reply's place in the order of its chat, above replies that are opened later. The caller opens it
        right afterwards."""
        return self._find(reply_key, address) or self._make(reply_key, address, reply_to)

    def finalize(
        self, tx: Connection, reply_key: str, address: Address, reply_to: str | None, message: OutboundMessage
    ) -> None:
        """Store the reply's final state, redacted, in the caller's unit (`Store.write`); call `finished` afterwards."""
        assert message.final
        account, message = self._accounts.get(address.account), redact_message(message, self._redact)
        reply = None if account is None else account.replies.get(reply_key)
        unsent = reply is not None and any(state.unsent for state in reply.states)
        self._journal.finalize(tx, reply_key, address, reply_to, self._newest(address), message, unsent=unsent)

    def _newest(self, address: Address) -> str | None:
        account = self._accounts.get(address.account)
        return None if account is None else account.newest(address)

    def finished(
        self,
        reply_key: str,
        address: Address,
        reply_to: str | None,
        message: OutboundMessage,
        *,
        awaited: bool = True,
    ) -> Reply:
        """Get the final shown, after the commit of `finalize`. Takes the same arguments; never blocks. awaited: see
        Reply.finish."""
        assert message.final
        reply = self._find(reply_key, address)
        if reply is None:
            reply = self._make(reply_key, address, reply_to)
        reply.finish(message, self._clock.monotonic(), self._newest(address), awaited=awaited)
        return reply

    async def say(self, reply_key: str, address: Address, reply_to: str | None, message: OutboundMessage) -> Reply:
        """`finalize` in a separate transaction, then `finished`. Raises StoreUnavailable; nothing is shown then."""
        await self._store.write(lambda tx: self.finalize(tx, reply_key, address, reply_to, message))
        return self.finished(reply_key, address, reply_to, message)

    async def send_unrecorded(self, idem_key: str, address: Address, message: OutboundMessage) -> bool:
        """Send a short message without the outbox, to report an outage of the store itself: one attempt, at most once,
        nothing is recorded. Returns whether it was sent, or may have been."""
        channel = self._channels.get(address.account)
        if channel is None or self._closed or not self._lease_valid():
            return False
        try:
            for part in channel.layout(redact_message(message, self._redact))[:1]:
                await channel.send(address, part, idem_key)
        except OutcomeUnknown:
            return True
        except ChannelError as error:
            log.warning("account %s: a notice could not be sent: %s", address.account, error)
            return False
        return True

    async def drained(self, account: str = "") -> None:
        """Wait until every final is shown or given up, or the delivery is closed. Accounts that cannot send are
        skipped. account: wait for this one only."""
        while not self._closed and self._undelivered(account):
            self._progress.clear()
            await self._progress.wait()

    async def close(self, grace: float) -> None:
        """Show finals and suspended drafts for at most `grace` seconds (0: none), then stop every call. Idempotent.

        What is not shown by then remains in the outbox; callers waiting for it are released.
        """
        if not self._closed and grace > 0:
            timer = self._tasks.spawn("grace", self._clock.sleep(grace))
            timer.add_done_callback(lambda _: self._progressed())
            while self._unfinished() and not timer.done():
                self._progress.clear()
                await self._progress.wait()
        self._closed = True
        for account in self._accounts.values():
            if scheduler := account.detach("closed"):
                await scheduler.close()
        await self._tasks.cancel()
        for reply in self._replies():
            reply.settle(Outcome.PENDING)
        self._progressed()

    def snapshot(self) -> tuple[AccountSnapshot, ...]:
        """How busy each account is, for /status."""
        return tuple(account.snapshot() for account in self._accounts.values())

    def _unfinished(self) -> bool:
        """Whether anything is left that could be shown now."""
        return any(account.unfinished for account in self._accounts.values())

    def _undelivered(self, only: str) -> bool:
        able = (each for name, each in self._accounts.items() if not each.stopped and only in ("", name))
        return any(reply.final for account in able for reply in account.replies.values())

    def _replies(self) -> list[Reply]:
        return [reply for account in self._accounts.values() for reply in account.replies.values()]

    def _account(self, name: str) -> Account:
        if name not in self._accounts:
            self._accounts[name] = Account(name, self._shared)
        return self._accounts[name]

    def _find(self, reply_key: str, address: Address) -> Reply | None:
        return self._account(address.account).replies.get(reply_key)

    def _make(self, reply_key: str, address: Address, reply_to: str | None) -> Reply:
        account = self._account(address.account)
        self._order += 1
        reply = Reply(reply_key, address, reply_to, self._order, self._clock.monotonic, account.changed)
        account.add(reply)
        return reply

    def _restore(self, reply: Reply, rows: Sequence[OutboxRow]) -> None:
        self._journal.restore(reply, rows)
        if reply.final:
            reply.final_since = self._clock.monotonic()
        self._account(reply.address.account).changed(reply)

    def _progressed(self) -> None:
        self._progress.set()
