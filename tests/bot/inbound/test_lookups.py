"""What the gateway looks up in the store for threads, catching up and numbers; on both databases."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from bot.store import conversations, inbox, outbox
from bot.store.rows import OutboxRow
from channels.message import Address, Message, Sender

if TYPE_CHECKING:
    from bot.store import Store

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GROUP = Address(account="a", chat="g", kind="group")


def message(number: int, address: Address, received_at: datetime = NOW) -> Message:
    return Message(
        account=address.account,
        dedupe_keys=(f"u:{number}",),
        sent_at=received_at,
        received_at=received_at,
        address=address,
        platform_message_id=f"p{number}",
        sender=Sender(id="1", display_name="Ann"),
        text="hello",
        mention=True,
    )


def part(
    key: str, number: int, address: Address, second: int, message_id: str | None = "m", body: str = ""
) -> OutboxRow:
    return OutboxRow(
        reply_key=key,
        part=number,
        idem_key=f"{key}{number}",
        address=address,
        reply_to=None,
        sent_after=None,
        message_id=message_id,
        body=body,
        desired_rev=0,
        sent_rev=0,
        final=False,
        created_at=NOW + timedelta(seconds=second),
    )


async def test_which_keys_are_conversations(store: Store) -> None:
    await store.write(lambda tx: conversations.ensure(tx, "a:g/t", "a", "a:g/t", NOW))
    assert await store.read(lambda tx: conversations.known(tx, ["a:g/t", "a:g", "a:g/T"])) == {"a:g/t"}
    assert await store.read(lambda tx: conversations.known(tx, [])) == set()


async def test_the_newest_message_of_each_place(store: Store) -> None:
    topic = replace(GROUP, topic="t")
    events = [message(1, GROUP), message(2, topic), message(3, GROUP), message(4, replace(GROUP, account="b"))]
    await store.add(inbox.ADD_EVENTS, [*events, message(5, topic, NOW - timedelta(days=1))])
    found = await store.read(lambda tx: inbox.newest_messages(tx, "a", NOW))
    assert [(one.address.topic, one.platform_message_id) for one in found] == [(None, "p3"), ("t", "p2")]


async def test_replies_by_where_their_newest_message_stands(store: Store) -> None:
    rows = [
        part("early", 0, GROUP, 1, body="{}"),
        part("grown", 0, GROUP, 0, body="[]"),
        part("grown", 1, GROUP, 5),
        part("late", 0, GROUP, 3),
        part("unsent", 0, GROUP, 9, message_id=None),
        part("elsewhere", 0, replace(GROUP, topic="t"), 9),
    ]
    await store.write(lambda tx: outbox.intend(tx, rows))
    await store.write(lambda tx: outbox.mark_numbered(tx, "late"))
    found = await store.read(lambda tx: outbox.newest_replies(tx, GROUP, 10))
    shown = [(reply.reply_key, reply.body, reply.numbered) for reply in found]
    assert shown == [("grown", "[]", False), ("late", "", True), ("early", "{}", False)]
    assert len(await store.read(lambda tx: outbox.newest_replies(tx, GROUP, 2))) == 2
    (elsewhere,) = await store.read(lambda tx: outbox.newest_replies(tx, replace(GROUP, topic="t"), 9))
    assert elsewhere.reply_key == "elsewhere"
