"""A run's writes to its thread before anything outside depends on them: held back, then written as one transaction.

LangGraph makes two writes per step, five before the first model call. Until a tool acts they are worth keeping only
together: if the process dies before that, the turn starts again, and the model is called again.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata

    from harness.ports import Head

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Put:
    """The arguments of a saver's `put`."""

    config: RunnableConfig
    checkpoint: Checkpoint
    metadata: CheckpointMetadata
    new_versions: ChannelVersions

    @property
    def saved(self) -> RunnableConfig:
        """The return value of `put`."""
        own: dict[str, Any] = self.config["configurable"]
        place = {"thread_id": own["thread_id"], "checkpoint_ns": own["checkpoint_ns"]}
        return {"configurable": {**place, "checkpoint_id": self.checkpoint["id"]}}


@dataclass(frozen=True, slots=True)
class PutWrites:
    """The arguments of a saver's `put_writes`."""

    config: RunnableConfig
    writes: Sequence[tuple[str, Any]]
    task_id: str
    task_path: str = ""


Step = Put | PutWrites
LAST_SECONDS = 2.0
"""How long a stopped run tries to write its last steps."""


class HeldSteps:
    """The held steps of one thread. write: commits steps in order, in one transaction; repeatable. head: the thread's
    newest checkpoint, if it was just read: it need not be read again."""

    def __init__(self, write: Callable[[Sequence[Step]], Awaitable[None]], head: Head | None) -> None:
        self.head = head
        self._write = write
        self._steps: list[Step] = []
        self._holds = True
        self._one = asyncio.Lock()

    async def add(self, step: Step) -> None:
        """Hold a step back; after `settle` write it, following all earlier ones."""
        self.head = None
        if self._holds:
            self._steps.append(step)
        else:
            await self.flush()
            await self._write([step])

    @property
    def left(self) -> Sequence[Step]:
        """The held steps."""
        return tuple(self._steps)

    async def settle(self) -> None:
        """Write the held steps, and hold back no more."""
        self._holds = False
        await self.flush()

    async def flush(self) -> None:
        """Return when everything added is committed."""
        async with self._one:
            steps = self._steps[:]
            if not steps:
                return
            try:
                await self._write(steps)
            except Exception:
                # One of them may be unwritable: those before it must be kept, as without holding.
                for step in steps:
                    await self._write([step])
                    del self._steps[0]
                return
            del self._steps[: len(steps)]


class Holding:
    """Held steps by thread. write: see HeldSteps; it waits for an unavailable database. once: does not."""

    def __init__(
        self, write: Callable[[Sequence[Step]], Awaitable[None]], once: Callable[[Sequence[Step]], Awaitable[None]]
    ) -> None:
        self._write = write
        self._once = once
        self._threads: dict[str, HeldSteps] = {}

    @asynccontextmanager
    async def of(self, thread_id: str, head: Head | None = None) -> AsyncIterator[HeldSteps]:
        """Hold back the block's writes to the thread, until it settles them or ends. head: see HeldSteps."""
        self._threads[thread_id] = steps = HeldSteps(self._write, head)
        try:
            yield steps
        except Exception:
            await steps.settle()
            raise
        except BaseException:  # a stop must not wait for disk space or a server
            await self._tried(thread_id, steps)
            raise
        else:
            await steps.settle()
        finally:
            del self._threads[thread_id]

    async def _tried(self, thread_id: str, steps: HeldSteps) -> None:
        try:
            # Not asyncio.timeout, which ends as a cancellation in a cancelled task (Python 3.11.2).
            await asyncio.wait_for(self._once(steps.left), LAST_SECONDS)
        except Exception as error:
            log.warning("thread %s: last steps not written: %s: %s", thread_id, type(error).__name__, error)

    async def add(self, step: Step) -> None:
        """Hold a step back, or write it if its thread is not held."""
        steps = self._threads.get(step.config["configurable"]["thread_id"])
        await (self._write([step]) if steps is None else steps.add(step))

    def head(self, config: RunnableConfig) -> Head | None:
        """The newest checkpoint of the addressed thread, if it is known; returned once, since a run modifies what it
        begins with."""
        where: dict[str, Any] = config["configurable"]
        steps = self._threads.get(where["thread_id"])
        if steps is None or where.get("checkpoint_id") or where.get("checkpoint_ns"):
            return None
        head, steps.head = steps.head, None
        return head

    async def flush(self, config: RunnableConfig | None) -> None:
        """Return when everything added is committed, for the addressed thread, None: for all."""
        wanted = None if config is None else config["configurable"]["thread_id"]
        for thread_id, steps in [*self._threads.items()]:
            if wanted in (None, thread_id):
                await steps.flush()


class HoldingSaver:
    """Common part of the savers: a write is held back, or written at once if its thread is not held."""

    holding: Holding

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        put = Put(config, checkpoint, metadata.copy(), new_versions)
        await self.holding.add(put)
        return put.saved

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await self.holding.add(PutWrites(config, tuple(writes), task_id, task_path))
