"""Identities: one bot per account, one owner per thread, and ids that change take everything along."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import update
from sqlalchemy.exc import IntegrityError

from bot.store import Store, accounts, conversations, inbox, outbox, prompts, runs
from bot.store.accounts import AccountConflict
from bot.store.conversations import OwnerMismatch
from bot.store.inbox import ADD_EVENTS
from bot.store.tables import conversations as table
from channels.message import INBOUND_EVENT, Address, Message, MessageEdited
from tests.bot.store.samples import LATER, NOW, OWNER, message, outbox_row, prompt_row, run_row

if TYPE_CHECKING:
    from bot.store.rows import ConversationRow, RunRow


async def ensure(store: Store, key: str, owner: str | None = None) -> ConversationRow:
    return await store.write(lambda tx: conversations.ensure(tx, key, "telegram", owner or key, NOW))


async def test_an_account_is_one_bot_for_ever(store: Store) -> None:
    await store.write(lambda tx: accounts.bind(tx, "telegram", "telegram", "1001", NOW))
    await store.write(lambda tx: accounts.bind(tx, "telegram", "telegram", "1001", LATER))

    with pytest.raises(AccountConflict) as other_bot:
        await store.write(lambda tx: accounts.bind(tx, "telegram", "telegram", "1002", NOW))
    assert (other_bot.value.kind, other_bot.value.known) == ("other_bot", "telegram:1001")
    with pytest.raises(AccountConflict) as renamed:
        await store.write(lambda tx: accounts.bind(tx, "support", "telegram", "1001", NOW))
    assert (renamed.value.kind, renamed.value.name, renamed.value.known) == ("renamed", "support", "telegram")


async def test_a_conversation_gets_a_thread_and_later_another(store: Store) -> None:
    first = await ensure(store, OWNER)
    assert first == await ensure(store, OWNER)
    assert (first.owner, first.title, first.model, len(first.thread_id)) == (OWNER, "", None, 32)

    second = await store.write(lambda tx: conversations.new_thread(tx, OWNER, "Pla\0ns", LATER))
    assert second.thread_id != first.thread_id
    assert second.title == "Pla\ufffdns"
    await store.write(lambda tx: conversations.choose(tx, OWNER, "model", "large"))
    assert await store.read(lambda tx: conversations.load(tx, OWNER)) == replace(second, model="large")
    assert await store.read(lambda tx: conversations.load(tx, "telegram:8")) is None
    with pytest.raises(LookupError):
        await store.write(lambda tx: conversations.new_thread(tx, "telegram:8", "", NOW))


async def test_nobody_gets_anothers_thread(store: Store) -> None:
    mine, theirs = await ensure(store, OWNER), await ensure(store, "telegram:8")

    with pytest.raises(OwnerMismatch):
        await ensure(store, OWNER, "telegram:8")
    stolen = update(table).where(table.c.key == theirs.key).values(thread_id=mine.thread_id)
    with pytest.raises(IntegrityError):
        await store.write(lambda tx: tx.execute(stolen))
    given_away = update(table).where(table.c.key == mine.key).values(owner=theirs.owner)
    with pytest.raises(IntegrityError):
        await store.write(lambda tx: tx.execute(given_away))


async def begin(store: Store, run: RunRow) -> None:
    await store.write(lambda tx: runs.open(tx, run))
    await store.write(lambda tx: runs.start(tx, run.run_id, None, NOW, 1))
    await store.write(lambda tx: outbox.intend(tx, [outbox_row(run.reply_key, address=run.address)]))


async def fill_group(store: Store, chat: str, keys: list[str]) -> ConversationRow:
    """A group with a topic of its own, a run and a reply in each, and a message that waits."""
    for number, key in enumerate(keys):
        await ensure(store, key)
        (row,) = await store.add(ADD_EVENTS, [message(f"{key}{number}", chat=chat)])
        assert row is not None
        run = run_row(row.id, conversation=key, owner=key, address=Address(account="telegram", chat=chat, kind="group"))
        await begin(store, run)
    await store.add(ADD_EVENTS, [message(f"waits in {chat}", chat=chat)])
    return await ensure(store, keys[0])


async def test_a_migrated_chat_takes_everything_along(store: Store) -> None:
    before = await fill_group(store, "-1", ["telegram:-1", "telegram:-1/5", "telegram:-1@7"])
    await ensure(store, "telegram:-10")
    await store.write(lambda tx: prompts.create(tx, replace(prompt_row(), conversation="telegram:-1")))

    await store.write(lambda tx: conversations.migrate_chat(tx, "telegram", "-1", "-100"))

    after = await store.read(lambda tx: conversations.load(tx, "telegram:-100"))
    assert after == replace(before, key="telegram:-100", owner="telegram:-100")
    found = await store.read(runs.unended)
    assert [run.conversation for run in found] == ["telegram:-100", "telegram:-100/5", "telegram:-100@7"]
    assert {run.address.chat for run in found} == {"-100"}
    contexts = [run.context for run in found]
    assert [(context.conversation, context.owner) for context in contexts] == [(run.conversation,) * 2 for run in found]
    assert {row.address.chat for row in await store.read(outbox.undelivered)} == {"-100"}
    (waiting,) = await store.read(inbox.unsettled)
    event = INBOUND_EVENT.validate_json(waiting.event)
    assert isinstance(event, Message)
    assert event.address.chat == "-100"
    prompt = await store.read(lambda tx: prompts.load(tx, "p1"))
    assert prompt is not None
    assert prompt.conversation == "telegram:-100"
    assert await store.read(lambda tx: conversations.load(tx, "telegram:-1")) is None
    assert await store.read(lambda tx: conversations.load(tx, "telegram:-10")) is not None


async def test_a_migrated_chat_that_spoke_already_keeps_the_old_history(store: Store) -> None:
    old = await fill_group(store, "-1", ["telegram:-1"])
    await fill_group(store, "-100", ["telegram:-100"])
    await store.write(lambda tx: conversations.choose(tx, "telegram:-1", "timezone", "Europe/Berlin"))

    await store.write(lambda tx: conversations.migrate_chat(tx, "telegram", "-1", "-100"))

    merged = await store.read(lambda tx: conversations.load(tx, "telegram:-100"))
    assert merged is not None
    assert merged.timezone == "Europe/Berlin"
    assert (merged.thread_id, merged.owner) == (old.thread_id, "telegram:-100")
    assert len(await store.read(runs.unended)) == 2
    assert len(await store.read(lambda tx: runs.queued(tx, "telegram:-100"))) == 1


async def test_a_renamed_account_takes_everything_along(store: Store) -> None:
    await store.write(lambda tx: accounts.bind(tx, "telegram", "telegram", "1001", NOW))
    before = await fill_group(store, "7", [OWNER])
    edited = MessageEdited(
        account="telegram", dedupe_keys=("edit",), sent_at=NOW, received_at=NOW, message=message("edit")
    )
    await store.add(ADD_EVENTS, [edited])

    await store.write(lambda tx: accounts.rename(tx, "telegram", "support"))

    await store.write(lambda tx: accounts.bind(tx, "support", "telegram", "1001", LATER))
    after = await store.read(lambda tx: conversations.load(tx, "support:7"))
    assert after == replace(before, key="support:7", account="support", owner="support:7")
    (run,) = await store.read(runs.unended)
    assert (run.conversation, run.speaker, run.address.account) == ("support:7", "support:7", "support")
    context = run.context
    assert (context.account, context.owner, context.speaker.id) == ("support", "support:7", "support:7")
    waiting = [INBOUND_EVENT.validate_json(row.event) for row in await store.read(inbox.unsettled)]
    assert [event.account for event in waiting] == ["support", "support"]
    assert await store.add(ADD_EVENTS, [message("edit", account="support")]) == [None]
    with pytest.raises(LookupError):
        await store.write(lambda tx: accounts.rename(tx, "telegram", "other"))
