"""What the gateway's own accounts show is read from the inbox and the outbox, and kept as long as it has a thread."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from sqlalchemy import update

from bot.store import conversations, inbox, outbox, shown
from bot.store.inbox import ADD_EVENTS
from bot.store.rows import InboxState
from bot.store.sql import to_json
from bot.store.tables import threads
from channels.message import OUTBOUND_MESSAGE, Address, OutboundMessage
from tests.bot.store.samples import LATER, NOW, message, pruned

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from bot.store import Store

WEB = Address(account="web", chat="a-1")
ANN = "telegram:7"
MUCH_LATER = NOW + timedelta(days=400)


async def answer(store: Store, key: str, text: str, *, message_id: str | None, at: timedelta = timedelta()) -> None:
    body = to_json(OUTBOUND_MESSAGE, OutboundMessage(text=text, final=True)) if text else ""

    def unit(tx: Connection) -> None:
        outbox.finalize(tx, key, WEB, None, None, body, NOW + at, key)
        if message_id is not None:
            outbox.RECORD_SENT.run(tx, [outbox.Sent(reply_key=key, part=0, message_id=message_id, rev=1)])
        outbox.delivered(tx, key, LATER)

    await store.write(unit)


async def test_what_stands_in_a_conversation_is_told_newest_first(store: Store) -> None:
    await store.add(ADD_EVENTS, [message("1", account="web", chat=WEB.chat, text="one", number="p1")])
    await store.add(ADD_EVENTS, [message("2", account="web", chat="b-1", text="of another", number="p2")])
    await answer(store, "r1", "first", message_id="b1")
    await answer(store, "r2", "second", message_id="b2", at=timedelta(seconds=9))
    await answer(store, "forgotten", "", message_id="b3")
    await answer(store, "unsent", "nowhere yet", message_id=None)
    said = await store.read(lambda tx: shown.said(tx, "web", WEB.chat, 10, None))
    assert [each.message.text for each in said] == ["one"]
    assert await store.read(lambda tx: shown.said(tx, "web", WEB.chat, 10, NOW)) == []
    told = await store.read(lambda tx: shown.answered(tx, "web", WEB.chat, 10, None))
    assert [(each.message_ids, each.message and each.message.text) for each in told] == [
        (("b2",), "second"),
        (("b1",), "first"),
    ]
    assert await store.read(lambda tx: shown.answered(tx, "web", WEB.chat, 1, None)) == told[:1]
    found = await store.read(lambda tx: shown.reply_of(tx, "web", WEB.chat, "b1"))
    assert found == told[1]
    assert await store.read(lambda tx: shown.reply_of(tx, "api", WEB.chat, "b1")) is None
    assert await store.read(lambda tx: shown.kept_files(tx, ["r1", "r2", "unsent", "r9"])) == {"r1", "r2", "unsent"}


async def test_it_is_kept_while_the_conversation_has_a_thread_that_was_used(store: Store) -> None:
    rows = await store.add(
        ADD_EVENTS,
        [message("1", account="web", chat=WEB.chat, number="p1"), message("2", account="telegram", number="2")],
    )
    ids = [row.id for row in rows if row is not None]
    await store.write(lambda tx: inbox.settle(tx, ids, InboxState.DONE))
    await answer(store, "r1", "first", message_id="b1")
    row = await store.write(lambda tx: conversations.ensure(tx, "web:a-1", "web", ANN, NOW))
    await store.write(lambda tx: tx.execute(update(threads).values(touched_at=NOW)).rowcount)
    (listed,) = await store.read(lambda tx: shown.listed(tx, "web", ANN, 10, None))
    assert (listed.chat, listed.thread_id, listed.touched_at) == (WEB.chat, row.thread_id, NOW)
    assert await store.read(lambda tx: shown.listed(tx, "web", ANN, 10, NOW)) == []
    assert await store.read(lambda tx: shown.listed(tx, "web", "telegram:8", 10, None)) == []

    assert await pruned(store, inbox, MUCH_LATER) == 1, "Telegram's"
    assert await pruned(store, outbox, MUCH_LATER) == 0
    await store.write(lambda tx: tx.execute(update(threads).values(conversation="")).rowcount)  # it is deleted
    assert await pruned(store, inbox, MUCH_LATER) == 1
    assert await pruned(store, outbox, MUCH_LATER) == 1
