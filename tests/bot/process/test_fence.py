"""What a former leader still writes into the agents' history is refused, with and without workers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from bot.clock import SystemClock
from bot.process.wiring import Wiring
from bot.redaction import Redactor
from bot.settings import Settings
from bot.store import Store
from bot.store.writer import take_over
from harness.context import HistoryEntry
from harness.threads.postgres_saver import Superseded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tests.simulators.postgres import PostgresServer


@pytest.mark.postgres
@pytest.mark.parametrize("workers", [False, True])
async def test_who_led_before_changes_no_thread_any_more(
    postgres: PostgresServer, tmp_path: Path, workers: bool
) -> None:
    url = postgres.database()
    settings = Settings.model_validate(
        {
            "data_dir": str(tmp_path),
            "database": {"url": url.replace("+psycopg", "")},
            "workers": {"enabled": workers},
            "channels": {"console": {}},
            "models": [{"name": "demo", "use": "demo"}],
            "sandbox": {"use": "off"},
        }
    )
    clock = SystemClock()
    store = await Store.open(url, clock=clock)
    wiring = Wiring(settings, store, clock, Redactor([]), source=None, on_dead_letter=lambda _: None)
    try:
        assert await wiring.agent.build() is None
        harness = await wiring.agent.harness()
        said = [HistoryEntry(message_id=f"m{number}", role="user", text=f"said {number}") for number in range(3)]
        await harness.seed("t", said[:1])
        await harness.change("t", said[1:2])
        await store.write(lambda tx: take_over(tx, "the next leader"))
        changes: list[Callable[[], Awaitable[object]]] = [
            partial(harness.change, "t", said[2:]),
            partial(harness.fork, "t", "f"),
            partial(harness.rewind, "t", None),
            partial(harness.condense, "t", (), drop=True),
            partial(harness.forget, "t"),
        ]
        for change in changes:
            with pytest.raises(Superseded):
                await change()
        assert await harness.history("t") == said[:2]
    finally:
        await wiring.agent.close()
        await wiring.tasks.cancel()
        await store.close()
