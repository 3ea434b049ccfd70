"""What this process saw of the ends of turns, which saves reading whole threads; and their pruning. For runner.py."""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.threads.checkpoints import RUN_KEY

if TYPE_CHECKING:
    from langgraph.checkpoint.base import CheckpointTuple

    from harness.context import RunContext
    from harness.threads.checkpoints import Checkpoints

log = logging.getLogger(__name__)

PRUNE_EVERY = 60
"""Steps of the graph between two prunings of a thread: about twenty turns."""
MAX_KNOWN_THREADS = 4096


@dataclass(slots=True)
class Known:
    """What this process saw of a thread. finished: the run that ended its newest turn. era: of its last pruning."""

    finished: str = ""
    era: int = 0


class FinishedTurns:
    """At most MAX_KNOWN_THREADS threads are known; of another one nothing is."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints
        self._known: OrderedDict[str, Known] = OrderedDict()

    def ended(self, thread_id: str, saved: CheckpointTuple) -> bool:
        """Whether the newest checkpoint is the end of a turn that this process saw; saves reading the whole state."""
        known = self._known.get(thread_id)
        return known is not None and known.finished == saved.metadata.get(RUN_KEY)

    def forget(self, thread_id: str) -> None:
        """Nothing is known of it any more."""
        self._known.pop(thread_id, None)

    async def note(self, ctx: RunContext, base: CheckpointTuple | None) -> None:
        """Remember the end of the turn, and now and then drop old checkpoints; the one before this run stays, for a
        rollback."""
        known = self._known.setdefault(ctx.thread_id, Known())
        known.finished = ctx.run_id
        self._known.move_to_end(ctx.thread_id)
        if len(self._known) > MAX_KNOWN_THREADS:
            self._known.popitem(last=False)
        if base is not None and (era := int(base.metadata.get("step", 0)) // PRUNE_EVERY) != known.era:
            try:
                await self._checkpoints.prune(ctx.thread_id, keep=(base.checkpoint["id"],))
            except Exception as error:
                # A full disk, a lost server, a defect: the answer is there, and the next turn clears away as well.
                log.warning("old checkpoints of a thread stay for now: %s: %s", type(error).__name__, error)
            else:
                known.era = era
