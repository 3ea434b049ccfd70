"""The outbox knows what should be visible, what is, and what nobody can say."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from bot.clock import SystemClock
from bot.store import Store, outbox
from bot.store.outbox import RECORD_SENT, RECORD_SHOWN, Sent, Shown
from tests.bot.store.samples import DM, LATER, NOW, body, outbox_row, pruned


async def load(store: Store, reply_key: str = "reply") -> list[tuple[str | None, int, int, bool]]:
    rows = await store.read(lambda tx: outbox.load(tx, reply_key))
    return [(row.message_id, row.desired_rev, row.sent_rev, row.final) for row in rows]


async def finalize(store: Store, text: str) -> None:
    await store.write(lambda tx: outbox.finalize(tx, "reply", DM, "1", "99", body(text), LATER, "reply:0"))


async def test_an_intent_stands_as_it_was_first_recorded(store: Store) -> None:
    first, second = outbox_row(), outbox_row(part=1)
    await store.write(lambda tx: outbox.intend(tx, [first, second]))
    expected = [replace(row, epoch=store.epoch) for row in (first, second)]
    assert await store.read(lambda tx: outbox.load(tx, "reply")) == expected

    await store.add(RECORD_SENT, [Sent(reply_key="reply", part=0, message_id="100", rev=1)])
    await store.write(lambda tx: outbox.intend(tx, [outbox_row(part=2), first]))
    assert [row[0] for row in await load(store)] == ["100", None, None]


async def test_what_was_shown_never_goes_back(store: Store) -> None:
    await store.write(lambda tx: outbox.intend(tx, [outbox_row(), outbox_row(part=1)]))
    await store.add(RECORD_SENT, [Sent(reply_key="reply", part=part, message_id=f"10{part}", rev=1) for part in (0, 1)])
    await store.add(RECORD_SHOWN, [Shown(reply_key="reply", part=0, rev=rev) for rev in (3, 2)])

    assert await load(store) == [("100", 1, 3, False), ("101", 1, 1, False)]
    await store.write(lambda tx: outbox.clear_message(tx, "reply", 0))
    assert (await load(store))[0] == (None, 1, 0, False)


async def test_a_final_reply_is_undelivered_until_it_is_delivered(store: Store) -> None:
    await store.write(lambda tx: outbox.intend(tx, [outbox_row(), outbox_row(part=1)]))
    assert len(await store.read(outbox.undelivered)) == 2
    await finalize(store, "the answer")
    assert await load(store) == [(None, 2, 0, True), (None, 2, 0, True)]
    await finalize(store, "the answer")  # after a crash: nothing new
    assert await load(store) == [(None, 2, 0, True), (None, 2, 0, True)]

    await store.write(lambda tx: outbox.delivered(tx, "reply", LATER))
    assert await store.read(outbox.undelivered) == []
    await finalize(store, "the answer")
    assert await store.read(outbox.undelivered) == []
    await finalize(store, "another one")
    assert [row.body for row in await store.read(outbox.undelivered)] == [body("another one"), ""]


async def test_a_final_without_a_draft_makes_its_first_part(store: Store) -> None:
    await finalize(store, "at once")
    (row,) = await store.read(outbox.undelivered)
    assert (row.body, row.desired_rev, row.sent_rev, row.final) == (body("at once"), 1, 0, True)
    assert (row.reply_to, row.sent_after, row.idem_key, row.epoch) == ("1", "99", "reply:0", store.epoch)


async def test_abandoned_replies_are_not_tried_again(store: Store) -> None:
    await finalize(store, "to nobody")
    await store.write(lambda tx: outbox.abandon(tx, "reply", "the chat is gone"))
    assert await store.read(outbox.undelivered) == []


async def test_undelivered_comes_in_the_order_of_the_replies(store: Store) -> None:
    rows = [outbox_row("late", created_at=LATER), outbox_row("early"), outbox_row("early", 1, created_at=LATER)]
    await store.write(lambda tx: outbox.intend(tx, rows))

    found = await store.read(outbox.undelivered)
    assert [(row.reply_key, row.part) for row in found] == [("early", 0), ("early", 1), ("late", 0)]


async def test_the_messages_that_were_delivered_last(store: Store) -> None:
    rows = [
        outbox_row(f"r{number}", message_id=str(number), created_at=NOW + timedelta(seconds=number))
        for number in range(5)
    ]
    newer = replace(rows[0], reply_key="x", message_id="99", address=replace(DM, chat="8"), created_at=LATER)
    other = replace(newer, reply_key="y", address=replace(DM, account="another"))
    unsent = outbox_row("unsent", sent_after="98")
    await store.write(lambda tx: outbox.intend(tx, [*rows, newer, other, unsent, outbox_row("open", message_id="100")]))
    for second, key in enumerate(["r3", "r1", "r2", "y", "x", "unsent"]):
        at = LATER + timedelta(seconds=second)
        await store.write(lambda tx, key=key, at=at: outbox.delivered(tx, key, at))  # type: ignore[misc]  # a lambda's default

    newest = await store.read(lambda tx: outbox.newest_ids(tx, "telegram", 3))
    assert newest == [("7", "98"), ("8", "99"), ("7", "2")]


async def test_a_clock_that_was_set_back_does_not_make_the_newest_messages_old(url: str) -> None:
    for key, at in (("before", LATER), ("after", NOW)):
        process = await Store.open(url, clock=SystemClock())
        await process.write(lambda tx, key=key: outbox.intend(tx, [outbox_row(key, message_id=key)]))  # type: ignore[misc]  # as above
        await process.write(lambda tx, key=key, at=at: outbox.delivered(tx, key, at))  # type: ignore[misc]  # as above
        newest = await process.read(lambda tx: outbox.newest_ids(tx, "telegram", 1))
        await process.close()
    assert newest == [("7", "after")]


async def test_open_are_the_replies_that_are_neither_delivered_nor_given_up(store: Store) -> None:
    await store.write(
        lambda tx: outbox.intend(tx, [outbox_row("a"), outbox_row("b"), outbox_row("b", 1), outbox_row("c")])
    )
    await store.write(lambda tx: outbox.delivered(tx, "a", LATER))
    await store.write(lambda tx: outbox.abandon(tx, "c", "the chat is gone"))

    assert await store.read(outbox.open_keys) == {"b"}


async def test_prune_keeps_what_is_not_settled(store: Store) -> None:
    await store.write(lambda tx: outbox.intend(tx, [outbox_row("a"), outbox_row("a", 1), outbox_row("b")]))
    await store.write(lambda tx: outbox.delivered(tx, "a", LATER))

    await store.write(lambda tx: outbox.intend(tx, [outbox_row("c")]))
    await store.write(lambda tx: outbox.abandon(tx, "c", "the chat is gone"))
    after = LATER + timedelta(seconds=1)

    assert await pruned(store, outbox, NOW) == 0
    assert await pruned(store, outbox, after) == 2
    assert [len(await load(store, key)) for key in "abc"] == [0, 1, 0]
    assert await pruned(store, outbox, after) == 0
