"""A run while this process works on it, and how many may be worked on. For manager.py and whoever reads its state."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bot.runs.render import RunView
from bot.runs.stream import StreamBridge
from bot.usage.meter import EventRecord
from bot.usage.record import EventRecord

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bot.delivery import Reply
    from bot.runs.endings import Ending
    from bot.settings.sections import LimitSettings
    from bot.store.approvals import ApprovalRow
    from bot.store.rows import RunRow, StopReason
    from bot.texts.catalogue import Texts
    from harness.context import RunContext


@dataclass(frozen=True, slots=True)
class RunLimits:
    """concurrent: runs that work at once; seconds: the longest that one may take."""

    concurrent: int
    seconds: float

    @classmethod
    def of(cls, limits: LimitSettings) -> RunLimits:
        return cls(limits.concurrent_runs, limits.run_seconds)


def _nobody() -> None:
    """Nobody wants to know."""


async def _nothing_said() -> None:
    """Nothing waits to be heard."""


@dataclass(slots=True)
class ActiveRun:
    """A run that this process works on. `view` is what /status reads. reply: None until it is opened.

    keeping: writes the text so far. worked: seconds of its time that are used up; waiting for a person is not counted.
    asking: what it waits for a person to decide; decided: something of that was. changed: told when `asking` is
    another. hear: takes in what was said meanwhile, into `row`.
    """

    row: RunRow
    context: RunContext
    texts: Texts
    began: float
    reply: Reply | None = None
    view: RunView = field(default_factory=RunView)
    record: EventRecord = field(default_factory=EventRecord)
    stop_reason: StopReason | None = None
    worker: asyncio.Task[Ending] | None = None
    keeping: asyncio.Task[None] | None = None
    worked: float = 0.0
    asking: tuple[ApprovalRow, ...] = ()
    decided: asyncio.Event = field(default_factory=asyncio.Event)
    changed: Callable[[], None] = _nobody
    hear: Callable[[], Awaitable[None]] = _nothing_said

    def show(self, status: str | None = None) -> None:
        """Bring the reply up to date. status: replaces the one that is shown."""
        if status is not None:
            self.view.status = status
        if self.reply is not None:
            self.reply.show(self.view.draft(self.texts))
