"""A gateway whose runs workers work on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bot.store import Store
from bot.store.retrying import RetryingStore
from bot.store.sql import libpq_url
from bot.tasks import Tasks
from bot.workers import queue
from tests.bot.workers.sides import CLOCK, Gateway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.simulators.postgres import PostgresServer


@pytest.fixture
async def gateway(postgres: PostgresServer) -> AsyncIterator[Gateway]:
    url = postgres.database()
    opened = await Store.open(url, clock=CLOCK)
    await queue.prepare(libpq_url(url))
    made = Gateway(url, RetryingStore(opened, CLOCK), Tasks("test"))
    made.tasks.spawn("listener", made.listener.serve())
    yield made
    await made.dispatch.close()
    await made.tasks.cancel()
    await opened.close()
