"""What an earlier process left: runs that go on, and replies that nobody would ever finish."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pydantic import ValidationError

from bot.store import runs
from bot.texts import DEFAULT, texts_for
from channels.message import OutboundMessage
from harness.context import RUN_CONTEXT, RUN_INPUT

if TYPE_CHECKING:
    from bot.delivery import Delivery
    from bot.runs.manager import RunManager
    from bot.store.retrying import PatientStore
    from bot.store.rows import RunRow

log = logging.getLogger(__name__)


async def left_runs(store: PatientStore, manager: RunManager, delivery: Delivery) -> dict[str, tuple[RunRow, ...]]:
    """The runs to go on with, each conversation's in their order. The rest is closed with an honest sentence."""
    unended = await _with_deaths(store)
    await _close_lost_drafts(delivery, {row.reply_key for row in unended})
    left: dict[str, tuple[RunRow, ...]] = {}
    for row in unended:
        if _is_readable(row):
            left[row.conversation] = (*left.get(row.conversation, ()), row)
        else:
            log.error("run %s was stored by another version and cannot be read; it is given up", row.run_id)
            await manager.drop(row, texts_for(DEFAULT).lost_draft)
    if left:
        log.info("%d run(s) of the last process go on", sum(map(len, left.values())))
    return {conversation: tuple(sorted(rows, key=runs.in_turn)) for conversation, rows in left.items()}


async def _with_deaths(store: PatientStore) -> list[RunRow]:
    """All runs that have not ended. Those that were at work when the last process died know it from now on."""
    found = await store.read(runs.unended)
    died = sum(map(runs.died_at_work, found))
    if not died:
        return found
    log.warning("the last process died while %d run(s) were at work", died)
    return await store.write(lambda tx: runs.record_deaths(tx, found))


async def _close_lost_drafts(delivery: Delivery, wanted: set[str]) -> None:
    """Drafts that belong to no run any more."""
    for draft in await delivery.undelivered_drafts():
        if draft.reply_key not in wanted:
            message = OutboundMessage(text=texts_for(DEFAULT).lost_draft, final=True)
            await delivery.say(draft.reply_key, draft.address, draft.reply_to, message)


def _is_readable(row: RunRow) -> bool:
    try:
        RUN_CONTEXT.validate_json(row.context)
        RUN_INPUT.validate_json(row.input)
    except ValidationError:
        return False
    return True
