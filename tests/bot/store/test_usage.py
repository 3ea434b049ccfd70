"""Usage rows: ids that change take them along."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

from sqlalchemy import select

from bot.clock import SystemClock
from bot.operations import upkeep
from bot.store import Store, accounts, conversations, overview, tables, usage
from bot.store.usage import UsageRow
from bot.usage.days import Days
from tests.bot.store.samples import NOW


def paid(conversation: str, speaker: str, tokens: int, **changes: Any) -> UsageRow:
    row = UsageRow(
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
    return replace(row, **changes)


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


async def test_calls_of_long_ago_become_sums_of_their_day(store: Store) -> None:
    """In the gateway's time zone; sums by anything but the run stay, and a second time changes nothing."""
    days = Days(ZoneInfo("Asia/Shanghai"), SystemClock())
    night = days.starts(days.today) - timedelta(days=40, minutes=1)
    rows = [paid("telegram:7", "telegram:7", 10, at=night - timedelta(hours=hour)) for hour in range(3)]
    rows += [paid("telegram:7", "telegram:7", 1, at=night + timedelta(minutes=2))]  # a day of its own
    rows += [paid("telegram:7", "telegram:7", 2, at=night, cost=None, currency=None)]
    rows += [paid("telegram:7", "telegram:8", 5, at=night), paid("telegram:7", "telegram:7", 3, at=SystemClock().now())]
    await store.write(lambda tx: usage.add(tx, rows))

    def told(tx: Any) -> list[Any]:
        bounds = night - timedelta(days=1), night + timedelta(seconds=30)
        return [
            usage.spent(tx, thread_id="t"),
            usage.spent(tx, speaker="telegram:7", since=bounds[0], until=bounds[1]),
            overview.spent_by(tx, "person", *bounds),
            usage.of_day(tx, night - timedelta(days=1)).calls,
        ]

    before = await store.read(told)
    for _ in range(2):
        await upkeep.sum_up_usage(store, days, timedelta(days=30))
        assert await store.read(told) == before
        kept = await store.read(lambda tx: tx.execute(select(tables.usage).order_by(tables.usage.c.id)).all())
        assert [(row.input_tokens, row.calls, row.run_id) for row in kept] == [
            (30, 3, ""),
            (1, 1, ""),
            (2, 1, ""),
            (5, 1, ""),
            (3, None, "r"),
        ]
