"""Deletes threads that nobody has used for `data.keep_threads_days`; asked by upkeep.py now and then."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.store import forgetting
from bot.store.forgetting import DeletionKind, DeletionRow

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Connection

    from bot.conversations.actor import Conversation
    from bot.forgetting.service import Forgetting, InOrder
    from bot.store.retrying import PatientStore
    from channels.base import Clock

log = logging.getLogger(__name__)


class Retention:
    """days: None: threads are kept."""

    def __init__(
        self, store: PatientStore, service: Forgetting, in_order: InOrder, clock: Clock, days: int | None
    ) -> None:
        self._store = store
        self._service = service
        self._in_order = in_order
        self._clock = clock
        self._days = days

    async def look(self) -> int:
        """Have the threads deleted that are too old now, a portion of them; returns how many. Who is at work in one, or
        came back to it, keeps it."""
        if self._days is None:
            return 0
        before = self._clock.now() - timedelta(days=self._days)
        found = await self._store.read(lambda tx: forgetting.untouched(tx, before))
        rows = await asyncio.gather(*(self._let_go(thread_id, key, before) for thread_id, key in found))
        for row in rows:
            if row is not None:
                await self._service.begin(row)
        return sum(row is not None for row in rows)

    def _let_go(self, thread_id: str, key: str, before: datetime) -> asyncio.Future[DeletionRow | None]:
        done: asyncio.Future[DeletionRow | None] = asyncio.get_running_loop().create_future()

        async def do(actor: Conversation) -> None:
            row = None
            try:
                if not actor.busy:
                    row = await self._ask(actor, thread_id, before)
            finally:
                if not done.done():
                    done.set_result(row)

        self._in_order(key, do)
        return done

    async def _ask(self, actor: Conversation, thread_id: str, before: datetime) -> DeletionRow | None:
        now = self._clock.now()
        row = DeletionRow(
            id=f"age:{thread_id}",
            kind=DeletionKind.THREAD,
            subject=thread_id,
            account=actor.key.partition(":")[0],
            asked_by=forgetting.BY_AGE,
            asked_at=now,
        )

        def unit(tx: Connection) -> bool:
            if not forgetting.is_untouched(tx, thread_id, before):
                return False
            if not forgetting.let_go(tx, actor.key, now, now, thread_id):
                return False
            forgetting.ask_deletion(tx, row)
            return True

        asked = await self._store.write(unit)
        actor.forget_row()
        return row if asked else None
