"""What happened on the platform is recorded whatever it takes; that it takes long is told, but not once a second."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bot.delivery.journal import Journal
from bot.store import outbox
from tests.bot.core import FlakyStore
from tests.bot.store.samples import outbox_row
from tests.clock import VirtualClock

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


async def test_a_full_disk_is_waited_out_and_told_rarely(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    store = await FlakyStore.open(f"sqlite:///{tmp_path}/antler.db", clock=clock)
    assert isinstance(store, FlakyStore)
    clock.busy = lambda: store.at_work > 0
    keys = ("a", "b", "c")
    await store.write(lambda tx: outbox.intend(tx, [outbox_row(key) for key in keys]))
    journal = Journal(store, clock)
    store.down = True
    recorded = [
        asyncio.create_task(journal.sent(outbox.Sent(reply_key=key, part=0, message_id=f"m{key}", rev=1)))
        for key in keys
    ]
    await clock.advance(300)
    assert not any(task.done() for task in recorded)
    store.down = False
    await clock.advance(1)
    await asyncio.gather(*recorded)
    assert [row.message_id for key in keys for row in await journal.load(key)] == ["ma", "mb", "mc"]
    said = [record.getMessage() for record in caplog.records if record.name == "bot.delivery.journal"]
    assert len(said) == 10  # after 0, 4, 12, 28, 60, 120, 180, 240 and 300 s, and at the end
    assert "the disk is full" in said[0]
    assert said[-1] == "the outbox can be written again, after 301 s"
    await store.close()
