"""Which acks are awaited, and to which frame an ack belongs. Made by connection.py, one for each connection.

WeCom acks a frame by its req_id alone, and all frames of one answer share it: after an ack that came too late, the next
one may be that late one and not the one that is awaited.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from channels.errors import ChannelError
    from channels.wecom.frames import Ack


class Acks:
    """At most one frame of a req_id is awaited at a time.

    doubt: seconds for which a success is doubted that may be meant for an earlier frame.
    """

    def __init__(self, doubt: float) -> None:
        self._doubt = doubt
        self._awaited: dict[str, asyncio.Future[Ack]] = {}
        self._owed: Counter[str] = Counter()

    def expect(self, req_id: str) -> asyncio.Future[Ack]:
        """Before a frame is sent: what its ack will be."""
        self._awaited[req_id] = answer = asyncio.get_running_loop().create_future()
        return answer

    def forget(self, req_id: str, answer: asyncio.Future[Ack]) -> None:
        """Nobody waits for it any more; an ack that is still to come belongs to it."""
        if self._awaited.get(req_id) is answer:
            del self._awaited[req_id]
            self._owed[req_id] += 1

    def arrived(self, ack: Ack) -> None:
        """An ack came in."""
        answer = self._awaited.get(ack.req_id)
        if answer is None or answer.done():
            self._settle(ack.req_id)
        elif ack.errcode or not self._owed[ack.req_id]:
            # A refusal is taken as meant for the newest frame: to repeat that one does no harm.
            self._give(ack.req_id, answer, ack)
        else:
            self._settle(ack.req_id)
            asyncio.get_running_loop().call_later(self._doubt, self._give, ack.req_id, answer, ack)

    def _give(self, req_id: str, answer: asyncio.Future[Ack], ack: Ack) -> None:
        if self._awaited.get(req_id) is answer:
            del self._awaited[req_id]
        if not answer.done():
            answer.set_result(ack)

    def _settle(self, req_id: str) -> None:
        """A late ack has come."""
        self._owed[req_id] -= 1
        if self._owed[req_id] <= 0:
            del self._owed[req_id]

    def fail_all(self, error: ChannelError) -> None:
        """No ack comes any more."""
        for answer in self._awaited.values():
            if not answer.done():
                answer.set_exception(error)
                answer.exception()  # nobody may be waiting any more
        self._awaited.clear()
