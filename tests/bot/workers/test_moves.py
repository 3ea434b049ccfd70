"""A chat gets another id while workers work: whose model calls are is what the rows say."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import select

from bot.settings.sections import BudgetsSettings
from bot.store import accounts, conversations, sql
from bot.store import usage as calls
from bot.store.tables import usage
from bot.usage.budgets import Payer, payer_of
from bot.usage.meter import Meter
from bot.usage.report import make_spending
from bot.workers.harness import WorkersHarness
from harness.events import Usage
from tests.bot.workers.sides import CLOCK, SAID, Gateway, all_of, working

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from harness.events import AnyRunEvent
    from tests.bot.scripted_harness import Teller

pytestmark = pytest.mark.postgres


async def test_a_chat_that_moves_takes_along_what_a_worker_spends_meanwhile(gateway: Gateway) -> None:
    """Each process learns of it by the rows; the run goes on under the key that it began with."""
    old, new = "telegram:-1", "telegram:-100"
    await gateway.store.write(lambda tx: accounts.bind(tx, "telegram", "telegram", "1", CLOCK.now()))
    await gateway.store.write(lambda tx: conversations.ensure(tx, old, "telegram", old, CLOCK.now()))
    limits = BudgetsSettings.model_validate({"conversation_day": {"tokens": 1000}})
    begun, moved = asyncio.Event(), asyncio.Event()
    async with working(gateway.url) as worker:
        stores = gateway.store, worker.store
        budgets = [make_spending(store, CLOCK, limits, {}, ZoneInfo("UTC")).budgets for store in stores]

        async def spent(payer: Payer) -> list[int]:
            return [(await each.purses(payer))[0].spent for each in budgets]

        async def works(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
            yield tell(Usage, model="sim", input_tokens=40, output_tokens=0)
            await worker.ledger.model_called(tell.ctx.run_id)
            begun.set()
            await moved.wait()
            yield tell(Usage, model="sim", input_tokens=2, output_tokens=0)
            yield tell.answer("done")

        worker.agent.scripts[SAID] = works
        row = await gateway.opened(old)
        answer = asyncio.create_task(all_of(WorkersHarness(gateway.local, gateway.dispatch), row))
        await begun.wait()
        assert await spent(payer_of(row)) == [40, 40]
        await gateway.store.write(lambda tx: accounts.migrate_chat(tx, "telegram", "-1", "-100"))
        assert await spent(Payer(new, row.speaker)) == await spent(payer_of(row)) == [40, 40]
        moved.set()
        await answer
        assert await spent(Payer(new, row.speaker)) == await spent(payer_of(row)) == [42, 42]


async def test_a_call_that_is_being_recorded_as_its_chat_moves_is_found(gateway: Gateway) -> None:
    old, new = "telegram:-1", "telegram:-100"
    await gateway.store.write(lambda tx: conversations.ensure(tx, old, "telegram", old, CLOCK.now()))
    row = await gateway.opened(old)
    record = Meter(gateway.store, CLOCK, {}).open(row)
    record.add(Usage(run_id=row.run_id, seq=1, model="sim", input_tokens=40, output_tokens=0))
    engine = sql.writer_engine(sql.parse(gateway.url))
    with engine.connect() as tx:
        calls.add(tx, record.calls(row, CLOCK.now()))
        moving = asyncio.create_task(
            gateway.store.write(lambda tx: accounts.migrate_chat(tx, "telegram", "-1", "-100"))
        )
        await asyncio.wait({moving}, timeout=0.5)
        assert not moving.done()
        tx.commit()
    await moving
    engine.dispose()
    assert await gateway.store.read(lambda tx: list(tx.scalars(select(usage.c.conversation)))) == [new]
