"""Usage rows: ids that change take them along."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import uuid4

from bot.store import Store, accounts, conversations, usage
from bot.store.usage import UsageRow
from tests.bot.store.samples import NOW


def paid(conversation: str, speaker: str, tokens: int) -> UsageRow:
    return UsageRow(
        call=uuid4().hex,
        run_id="r",
        thread_id="t",
        conversation=conversation,
        speaker=speaker,
        model="demo",
        input_tokens=tokens,
        output_tokens=0,
        cached_tokens=0,
        cost=1,
        currency="USD",
        at=NOW,
    )


async def tokens_of(store: Store, **wanted: Any) -> int:
    return (await store.read(lambda tx: usage.spent(tx, **wanted))).tokens


async def test_a_migrated_chat_keeps_its_usage(store: Store) -> None:
    for key in ("telegram:-1", "telegram:-1/5"):
        await store.write(partial(conversations.ensure, key=key, account="telegram", owner=key, now=NOW))
    rows = [paid("telegram:-1", "telegram:7", 1), paid("telegram:-1/5", "telegram:7", 2), paid("telegram:-10", "x", 4)]
    await store.write(lambda tx: usage.add(tx, rows))
    await store.write(lambda tx: conversations.migrate_chat(tx, "telegram", "-1", "-100"))
    assert await tokens_of(store, conversation="telegram:-100") == 1
    assert await tokens_of(store, conversation="telegram:-100/5") == 2
    assert await tokens_of(store, conversation="telegram:-10") == 4
    assert await tokens_of(store, speaker="telegram:7") == 3


async def test_a_renamed_account_keeps_its_usage(store: Store) -> None:
    await store.write(lambda tx: accounts.bind(tx, "telegram", "telegram", "1001", NOW))
    rows = [paid("telegram:7", "telegram:7", 1), paid("telegram2:7", "telegram2:7", 2)]
    await store.write(lambda tx: usage.add(tx, rows))
    await store.write(lambda tx: accounts.rename(tx, "telegram", "support"))
    assert await tokens_of(store, conversation="support:7", speaker="support:7") == 1
    assert await tokens_of(store, conversation="telegram2:7", speaker="telegram2:7") == 2
