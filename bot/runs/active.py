"""A run while this process works on it, and how many may be worked on. For manager.py and whoever reads its state."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bot.runs.record import EventRecord
from bot.runs.render import RunView
from bot.runs.stream import StreamBridge

if TYPE_CHECKING:
    import asyncio

    from bot.delivery import Reply
    from bot.runs.endings import Ending, StopReason
    from bot.store.rows import RunRow
    from bot.texts.catalogue import Texts
    from harness.context import RunContext


@dataclass(frozen=True, slots=True)
class RunLimits:
    """concurrent: runs that work at once; seconds: the longest that one may take."""

    concurrent: int
    seconds: float


@dataclass(slots=True)
class ActiveRun:
    """A run that this process works on. `view` is what /status reads. reply: None until it is opened."""

    row: RunRow
    context: RunContext
    texts: Texts
    began: float
    reply: Reply | None = None
    view: RunView = field(default_factory=RunView)
    record: EventRecord = field(default_factory=EventRecord)
    bridge: StreamBridge = field(default_factory=StreamBridge)
    stop_reason: StopReason | None = None
    worker: asyncio.Task[Ending] | None = None
