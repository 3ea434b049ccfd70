"""Responder: answers that need no run (commands, notices), committed together with their effects."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bot.store import inbox, outbox
from bot.store.rows import InboxState
from bot.texts.markdown import plain
from channels.message import OUTBOUND_MESSAGE, OutboundMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection

    from bot.delivery import Delivery
    from bot.store.retrying import RetryingStore
    from bot.tasks import Tasks
    from channels.message import Address, Message


class Responder:
    def __init__(self, store: RetryingStore, delivery: Delivery, tasks: Tasks) -> None:
        self._store = store
        self._delivery = delivery
        self._tasks = tasks
        self._dropped: dict[str, list[int]] = {}
        self._dropping = False

    async def answer(
        self,
        event_id: int,
        address: Address,
        reply_to: str | None,
        message: OutboundMessage,
        *,
        reason: str,
        also: Callable[[Connection], object] | None = None,
        reply_key: str | None = None,
    ) -> None:
        """Settle an inbox row and answer it, `also` in the same transaction. A known reply_key edits that reply."""

        def unit(tx: Connection) -> None:
            if also is not None:
                also(tx)
            self.answered(tx, [event_id], reason)

        await self.tell(reply_key or f"event:{event_id}", address, reply_to, message, also=unit)

    async def say(
        self,
        event_id: int,
        message: Message,
        text: str,
        reason: str,
        *,
        also: Callable[[Connection], object] | None = None,
        reply_key: str | None = None,
    ) -> None:
        """`answer` a message with a sentence."""
        answer = OutboundMessage(text=text, final=True)
        reply_to = message.platform_message_id or None
        await self.answer(event_id, message.address, reply_to, answer, reason=reason, also=also, reply_key=reply_key)

    async def tell(
        self,
        reply_key: str,
        address: Address,
        reply_to: str | None,
        message: OutboundMessage,
        *,
        also: Callable[[Connection], object] | None = None,
    ) -> None:
        """Show a message, `also` committed in the same transaction. reply_to: None or "" if it replies to none."""
        reply_to = reply_to or None

        def unit(tx: Connection) -> None:
            if also is not None:
                also(tx)
            self._delivery.finalize(tx, reply_key, address, reply_to, message)

        await self._store.write(unit)
        self._delivery.finished(reply_key, address, reply_to, message)

    async def take_buttons_off(self, event_id: int, reply_key: str, address: Address, reason: str) -> None:
        """Settle a pressed button and remove all buttons from the final reply that shows it."""
        rows = await self._store.read(lambda tx: outbox.load(tx, reply_key))
        if not rows or not (rows[0].final and rows[0].body):
            return await self.settle([event_id], reason)
        message = replace(OUTBOUND_MESSAGE.validate_json(rows[0].body), buttons=())
        await self.answer(event_id, address, rows[0].reply_to, message, reason=reason, reply_key=reply_key)

    async def show_choice(self, reply_key: str, address: Address, choice: str) -> None:
        """Replace the buttons of a final reply by the chosen answer."""
        rows = await self._store.read(lambda tx: outbox.load(tx, reply_key))
        if rows and rows[0].final and rows[0].body:
            shown = OUTBOUND_MESSAGE.validate_json(rows[0].body)
            text = "\n\n".join(part for part in (shown.text, f"☑ {plain(choice)}" if choice else "") if part)
            await self.tell(reply_key, address, rows[0].reply_to, replace(shown, text=text, buttons=()))

    async def settle(
        self, event_ids: Sequence[int], reason: str, also: Callable[[Connection], object] | None = None
    ) -> None:
        """Settle inbox rows that get no answer, `also` in the same transaction; the reason is stored."""

        def unit(tx: Connection) -> None:
            if also is not None:
                also(tx)
            inbox.settle(tx, event_ids, InboxState.DONE, reason)

        await self._store.write(unit)

    def settle_soon(self, event_id: int, reason: str) -> None:
        """`settle` without waiting, in batches: for dropped events, so that a flood of them does not delay others.

        After a crash the event is decided again.
        """
        self._dropped.setdefault(reason, []).append(event_id)
        if not self._dropping:
            self._dropping = True
            self._tasks.spawn("settle", self._settle_dropped())

    async def _settle_dropped(self) -> None:
        try:
            while self._dropped:
                reason, event_ids = self._dropped.popitem()
                await self.settle(event_ids, reason)
        finally:
            self._dropping = False

    def answered(self, tx: Connection, event_ids: Sequence[int], reason: str) -> None:
        """Settle inbox rows that are answered in this transaction."""
        inbox.settle(tx, event_ids, InboxState.DONE, reason)
