"""getUpdates of one bot: the queue of unconfirmed updates, confirmation by offset, one poller at a time."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.simulators.telegram.errors import ApiError

Update = dict[str, Any]
ChatKey = tuple[int, int]

FIRST_UPDATE_ID = 100_000_001
REMEMBERED_UPDATES = 20_000
NOT_BY_DEFAULT = frozenset({"chat_member", "message_reaction", "message_reaction_count"})
CONFLICT = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"


class PollDroppedError(Exception):
    """The poll ends without an answer: its connection is gone or the server plays dead."""


@dataclass
class Pending:
    """A queued update. A forced one (chosen id: duplicate, out of order) is delivered once regardless of the offset.

    queued_at, delivered_at (first time handed to a poll): monotonic seconds of the machine.
    """

    update: Update
    chat: ChatKey | None
    forced: bool = False
    delivered: bool = False
    queued_at: float = field(default_factory=time.monotonic)
    delivered_at: float | None = None

    @property
    def update_id(self) -> int:
        return int(self.update["update_id"])


class UpdateQueue:
    """The server's side of long polling for one token."""

    def __init__(self, on_confirmed: Callable[[Pending], None]) -> None:
        self.allowed: frozenset[str] | None = None
        self.dead = asyncio.Event()
        self._revived = asyncio.Event()
        self._on_confirmed = on_confirmed
        self._pending: deque[Pending] = deque()
        self._next_id = FIRST_UPDATE_ID
        self._ticket: asyncio.Future[Literal["news", "replaced", "dead"]] | None = None
        self._alive: Callable[[], bool] | None = None
        self._known: dict[int, Pending] = {}

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def polled(self) -> bool:
        """Whether a poll is held open for a client that is still connected."""
        return self._ticket is not None and self._alive is not None and self._alive()

    def accepts(self, kind: str) -> bool:
        """Whether the bot's allowed_updates include this kind of update."""
        return kind in self.allowed if self.allowed else kind not in NOT_BY_DEFAULT

    def add(self, update: Update, chat: ChatKey | None) -> int:
        """Queue an update; without an update_id it gets the next one. Returns the id."""
        forced = "update_id" in update
        if not forced:
            update = {"update_id": self._next_id, **update}
        self._next_id = max(self._next_id, int(update["update_id"]) + 1)
        pending = Pending(update, chat, forced)
        self._pending.append(pending)
        self._known[pending.update_id] = pending
        if len(self._known) > REMEMBERED_UPDATES:
            del self._known[next(iter(self._known))]
        self._tell("news")
        return pending.update_id

    def known(self, update_id: int) -> Pending | None:
        """An earlier update, for a test that delivers it again."""
        return self._known.get(update_id)

    def remembered(self) -> list[Pending]:
        """The newest REMEMBERED_UPDATES updates, in the order of queueing."""
        return list(self._known.values())

    def reserve_ids(self, count: int) -> int:
        """Skip `count` ids and return the first of them, for updates that arrive out of order."""
        first = self._next_id
        self._next_id += count
        return first

    def play_dead(self) -> None:
        """Accept polls without answering them from now on, including the held one."""
        self._revived.clear()
        self.dead.set()
        self._tell("dead")

    def revive(self) -> None:
        """Answer polls again; the polls that were left hanging lose their connection."""
        self.dead.clear()
        self._revived.set()

    def drop_all(self) -> None:
        """deleteWebhook(drop_pending_updates=true)."""
        while self._pending:
            self._on_confirmed(self._pending.popleft())

    async def poll(
        self, offset: int, limit: int, timeout: float, allowed: list[str] | None, alive: Callable[[], bool]
    ) -> list[Update]:
        """One getUpdates call; raises ApiError 409 when a newer poll took over, PollDroppedError for no answer."""
        if allowed is not None:
            self.allowed = frozenset(allowed) or None
        self._tell("replaced")
        self._confirm(offset)
        deadline = time.monotonic() + timeout
        while True:
            if self.dead.is_set():
                await self._revived.wait()
                raise PollDroppedError("released from playing dead")
            if not alive():
                raise PollDroppedError("client went away")
            batch = self._batch(offset, limit)
            remaining = deadline - time.monotonic()
            if batch or remaining <= 0:
                return batch
            await self._hold(remaining, alive)

    async def _hold(self, seconds: float, alive: Callable[[], bool]) -> None:
        ticket: asyncio.Future[Literal["news", "replaced", "dead"]] = asyncio.get_running_loop().create_future()
        self._ticket, self._alive = ticket, alive
        done, _ = await asyncio.wait([ticket], timeout=seconds)
        if self._ticket is ticket:
            self._ticket = None
        if done and ticket.result() == "replaced":
            if not alive():  # so that each 409 in the journal means two concurrent pollers
                raise PollDroppedError("client went away")
            raise ApiError(409, CONFLICT)

    def _tell(self, what: Literal["news", "replaced", "dead"]) -> None:
        ticket, self._ticket = self._ticket, None
        if ticket is not None and not ticket.done():
            ticket.set_result(what)

    def _confirm(self, offset: int) -> None:
        pending = self._pending
        if offset < 0:
            while len(pending) > -offset:
                self._on_confirmed(pending.popleft())
            return
        while pending and pending[0].update_id < offset and (pending[0].delivered or not pending[0].forced):
            self._on_confirmed(pending.popleft())

    def _batch(self, offset: int, limit: int) -> list[Update]:
        batch: list[Update] = []
        for pending in self._pending:
            if pending.update_id >= offset or (pending.forced and not pending.delivered):
                pending.delivered = True
                pending.delivered_at = pending.delivered_at or time.monotonic()
                batch.append(pending.update)
                if len(batch) >= limit:
                    break
        return batch
