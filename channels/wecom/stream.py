"""Streamed answers under the req_ids of the messages that they answer, and which req_ids have been answered."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from cachetools import LRUCache

from channels.errors import ButtonsRefused, ChannelError, OutcomeUnknown, Rejected
from channels.wecom.failures import Conflict, StaleRequest, StreamOver
from channels.wecom.outbound import ONLY_BUTTONS, layout, stream_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from channels.message import Address, OutboundMessage
    from channels.wecom.api import WecomApi
    from channels.wecom.outbound import WecomPart

_NONE = ""
"""An id that no stream has."""
KEPT = 10_000
"""Number of requests remembered; WeCom keeps them for a day."""
_NO_WORDS = "…"
CONFLICTS = 3
"""How often a stream of an earlier process may be in conflict; this may be the platform's way to report its end."""


class Answers:
    def __init__(self) -> None:
        self._streams: LRUCache[str, str] = LRUCache(KEPT)
        self._lost: LRUCache[str, str] = LRUCache(KEPT)

    def takes(self, req_id: str | None, stream_id: str) -> bool:
        """Whether this stream may be sent under that req_id: as far as known here, nothing else was."""
        return req_id is not None and self._streams.get(req_id, stream_id) == stream_id

    def goes_on(self, req_id: str, stream_id: str) -> bool:
        """The same for a stream of an earlier process, which may itself be why another one was refused there."""
        return self._streams.get(req_id, stream_id) in (stream_id, _NONE)

    def sent(self, req_id: str, stream_id: str) -> None:
        """Record that the stream was, or may have been, begun under that req_id."""
        self._streams[req_id] = stream_id

    def spent(self, req_id: str) -> None:
        """Record that the platform accepts no stream, or no further stream, under that req_id."""
        self.sent(req_id, _NONE)

    def lost(self, stream_id: str, req_id: str) -> None:
        """Record that a whole answer was sent as one frame and no ack arrived."""
        self._lost[stream_id] = req_id

    def found(self, stream_id: str) -> None:
        """Record that the outcome of an answer is now known."""
        self._lost.pop(stream_id, None)

    def lost_under(self, stream_id: str) -> str | None:
        """The req_id of an answer whose ack is missing."""
        return self._lost.get(stream_id)


class WecomStream:
    """LiveReply port. Frames are whole snapshots, so the next one makes up for a lost one.

    ended_before: an earlier process began it and may have ended it: it cannot be over for any other reason yet.
    """

    def __init__(
        self,
        api: WecomApi,
        address: Address,
        req_id: str,
        stream_id: str,
        ended_before: Callable[[], bool] | None = None,
    ) -> None:
        self._api = api
        self._address = address
        self._req_id = req_id
        self._stream_id = stream_id
        self._ended_before = ended_before
        self._conflicts = 0
        self._ending_unsure = False
        self._ended = False
        self._below_unsure = False
        self._shown = ""

    @property
    def message_id(self) -> str:
        return self._stream_id

    async def show(self, message: OutboundMessage) -> None:
        text = stream_text(message)
        try:
            await self._api.stream(self._req_id, self._stream_id, text, finish=False)
        except (StaleRequest, StreamOver):
            raise
        except Rejected:
            # The answer will be pushed: end the stream, which would seem to go on until the platform ends it.
            with suppress(ChannelError):
                await self._api.stream(self._req_id, self._stream_id, self._shown or _NO_WORDS, finish=True)
            raise
        self._shown, self._ended_before = text, None

    async def finish(self, message: OutboundMessage) -> None:
        """End the stream. A first part that it cannot show (a card, a file) is sent below it, with the same id."""
        parts = layout(message)
        first = parts[0] if parts else None
        if not self._ended:
            await self._end(_last_words(message, first), final=message.final)
        if first is not None and not first.text:
            await self._send_below(first)

    async def _end(self, text: str, *, final: bool) -> None:
        try:
            await self._api.stream(self._req_id, self._stream_id, text, finish=True)
        except OutcomeUnknown:
            self._ending_unsure = True
            raise
        except Conflict as error:
            self._conflicts += 1
            if self._ended_before is not None and self._conflicts >= CONFLICTS:
                raise Rejected(f"the stream of an earlier process cannot be ended: {error}") from error
            raise
        except StreamOver:
            if final and self._ended_before is not None and self._ended_before():
                self._below_unsure = True
            elif not self._ending_unsure:
                raise
            # The stream was ended by the frame whose ack is missing, or by the process that was killed.
        self._ended = True

    async def _send_below(self, part: WecomPart) -> None:
        if part.card is not None:
            part = replace(part, card=replace(part.card, text=ONLY_BUTTONS))
        try:
            await self._api.push(self._address, part, self._stream_id)
        except OutcomeUnknown:
            self._below_unsure = True
            raise
        except Rejected as error:
            if part.card is None:
                raise
            if not self._below_unsure:
                raise ButtonsRefused(str(error)) from error
            # The card whose ack is missing exists: its id is taken.


def _last_words(message: OutboundMessage, first: WecomPart | None) -> str:
    """The final text of the stream, never empty: without the status if there is any text, unless more follows below."""
    if not (message.final or message.buttons):
        return stream_text(message) or _NO_WORDS
    text = stream_text(replace(message, status="", buttons=())) or stream_text(replace(message, buttons=()))
    if text:
        return text
    return _NO_WORDS if first is None or first.file is None else f"📎 {first.file.name}"
