"""Which req_ids have been answered, and with what: one stream each. Called by channel.py; in memory only.

After a restart the platform itself refuses a second stream; then the answer is pushed.
"""

from __future__ import annotations

from collections import OrderedDict

_NONE = ""
"""No stream's id."""
KEPT = 10_000
"""Requests that are remembered; WeCom keeps them for a day."""


class Answers:
    def __init__(self) -> None:
        self._streams: OrderedDict[str, str] = OrderedDict()
        self._lost: OrderedDict[str, str] = OrderedDict()

    def takes(self, req_id: str | None, stream_id: str) -> bool:
        """Whether this stream may be sent under that req_id: nothing else was, as far as is known here."""
        return req_id is not None and self._streams.get(req_id, stream_id) == stream_id

    def sent(self, req_id: str, stream_id: str) -> None:
        """The stream was begun under that req_id, or may have been."""
        self._streams[req_id] = stream_id
        if len(self._streams) > KEPT:
            self._streams.popitem(last=False)

    def spent(self, req_id: str) -> None:
        """The platform takes no stream under that req_id (any more)."""
        self.sent(req_id, _NONE)

    def lost(self, stream_id: str, req_id: str) -> None:
        """A whole answer was sent as one frame, and no ack came."""
        self._lost[stream_id] = req_id
        if len(self._lost) > KEPT:
            self._lost.popitem(last=False)

    def found(self, stream_id: str) -> None:
        """It is known now what became of it."""
        self._lost.pop(stream_id, None)

    def lost_under(self, stream_id: str) -> str | None:
        """The req_id of an answer whose ack is missing."""
        return self._lost.get(stream_id)
