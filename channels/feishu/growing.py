"""Card entities that grow in place (CardKit): their text streams, and they end as plain cards.

Every operation on a card has a higher number than the last one. The numbers are derived from the clock, so that a later
process continues above an earlier one's without knowing them: fifths of a second since 2026, an int32 until 2039.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cachetools import LRUCache

from channels.errors import OutcomeUnknown
from channels.feishu import outbound
from channels.feishu.failures import ELEMENT_MISSING, SEQUENCE, STREAMING_CLOSED, TABLES, Refused
from channels.feishu.outbound import without_tables
from channels.feishu.sdk import build, cardkit

if TYPE_CHECKING:
    from channels.base import Clock
    from channels.feishu.api import FeishuApi
    from channels.feishu.outbound import FeishuPart
    from channels.message import Address

RENEW_SECONDS = 540.0
"""Seconds until streaming is renewed: the platform ends it ten minutes after it was switched on."""
TICKS_PER_SECOND = 5
_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_JUMP = 3_000
"""Ticks to skip if another process numbered its operations by a faster clock: ten minutes, then more."""
_TRIES = 4
_REMEMBERED = 5_000


@dataclass(slots=True)
class Growing:
    """Known state of one card entity. text, status: contents of its elements while it streams, None if unknown.

    streaming_since: monotonic time at which streaming was last switched on.
    """

    card_id: str
    text: str | None = None
    status: str | None = None
    streaming_since: float = 0.0
    sequence: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class GrowingCards:
    """All card entities of one account. Bounded: a forgotten card is rewritten completely at its next change."""

    def __init__(self, api: FeishuApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._known: LRUCache[str, Growing] = LRUCache(_REMEMBERED)

    async def create(self, address: Address, part: FeishuPart) -> tuple[str, float]:
        """Create an entity that streams: its card_id, and its creation in the platform's time (unix seconds)."""
        body = build(cardkit.CreateCardRequestBody, type="card_json", data=outbound.card(part, address, streams=True))
        answer, made = await self._api.dated_call(build(cardkit.CreateCardRequest, request_body=body))
        card_id = answer["data"].get("card_id")
        if not isinstance(card_id, str) or not card_id:
            raise OutcomeUnknown("the response to a card's creation contains no card_id")
        known = self._card(card_id)
        known.text, known.status = part.text, part.status
        known.streaming_since = self._clock.monotonic()
        return card_id, made

    async def show(self, card_id: str, address: Address, part: FeishuPart) -> None:
        """Make the card look like `part`; one change of a card at a time. address: of its message."""
        card = self._card(card_id)
        async with card.lock:
            try:
                await self._show(card, address, part)
            except Refused as error:
                if error.code != TABLES:
                    raise
                await self._show(card, address, without_tables(part))

    async def _show(self, card: Growing, address: Address, part: FeishuPart) -> None:
        if not part.growing:
            await self._write(card, address, part, streams=False)
            await self._settings(card, part, streams=False)
            card.text = card.status = None
        elif card.text is None or card.status is None:
            await self._write(card, address, part, streams=True)
        else:
            if self._clock.monotonic() - card.streaming_since > RENEW_SECONDS:
                await self._settings(card, part, streams=True)
            await self._grow(card, address, part)

    async def _grow(self, card: Growing, address: Address, part: FeishuPart) -> None:
        try:
            await self._contents(card, part)
        except Refused as error:
            if error.code in STREAMING_CLOSED:
                await self._reopen(card, address, part)
            elif error.code == ELEMENT_MISSING:
                await self._write(card, address, part, streams=True)
            else:
                raise

    async def _reopen(self, card: Growing, address: Address, part: FeishuPart) -> None:
        await self._settings(card, part, streams=True)
        card.text, card.status = card.text or "", card.status or ""
        try:
            await self._contents(card, part)
        except Refused as error:
            if error.code not in (*STREAMING_CLOSED, ELEMENT_MISSING):
                raise
            await self._write(card, address, part, streams=True)

    async def _contents(self, card: Growing, part: FeishuPart) -> None:
        """Stream the changes. A failed call leaves the element's state unknown: it is sent again next time."""
        if part.text != card.text:
            card.text = None
            await self._content(card, outbound.TEXT, part.text)
            card.text = part.text
        if part.status != card.status:
            card.status = None
            await self._content(card, outbound.STATUS, part.status)
            card.status = part.status

    async def _content(self, card: Growing, element: str, text: str) -> None:
        body = build(cardkit.ContentCardElementRequestBody, content=text or outbound.NOTHING)
        request = build(cardkit.ContentCardElementRequest, card_id=card.card_id, element_id=element, request_body=body)
        await self._operate(card, request)

    async def _write(self, card: Growing, address: Address, part: FeishuPart, *, streams: bool) -> None:
        card.text = card.status = None
        data = outbound.card(part, address, streams=streams, card_id=card.card_id)
        body = build(cardkit.UpdateCardRequestBody, card=build(cardkit.Card, type="card_json", data=data))
        await self._operate(card, build(cardkit.UpdateCardRequest, card_id=card.card_id, request_body=body))
        if streams:
            card.text, card.status = part.text, part.status
            card.streaming_since = self._clock.monotonic()

    async def _settings(self, card: Growing, part: FeishuPart, *, streams: bool) -> None:
        body = build(cardkit.SettingsCardRequestBody, settings=outbound.settings(part, streams=streams))
        await self._operate(card, build(cardkit.SettingsCardRequest, card_id=card.card_id, request_body=body))
        if streams:
            card.streaming_since = self._clock.monotonic()

    async def _operate(self, card: Growing, request: Any) -> None:
        """Make a call that changes the card, under the next number."""
        for attempt in range(_TRIES):
            card.sequence = request.body.sequence = max(card.sequence + 1, self._ticks())
            try:
                await self._api.call(request)
                return
            except Refused as error:
                if error.code != SEQUENCE or attempt == _TRIES - 1:
                    raise
                card.sequence += _JUMP * 10**attempt

    def _ticks(self) -> int:
        return int((self._clock.now() - _EPOCH).total_seconds() * TICKS_PER_SECOND)

    def _card(self, card_id: str) -> Growing:
        return self._known.setdefault(card_id, Growing(card_id))
