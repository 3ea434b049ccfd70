"""Takes events from the socket, hands them over, and reports whether they are committed.

An event that is not acknowledged within three seconds is sent again (after 15 s, 5 min, 1 h, 6 h), so an event that
cannot be committed in time is refused, and known keys make the repetition a duplicate.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from cachetools import LRUCache

from channels.adapter import commit
from channels.errors import NotCommitted
from channels.feishu.content import RawMembership, RawPressed, RawRecalled, RawReceived
from channels.feishu.inbound import Event, Reader, parse
from channels.feishu.lookup import Context
from channels.feishu.socket import Ack
from channels.message import ButtonPressed, Message

if TYPE_CHECKING:
    from datetime import datetime

    from channels.base import ChannelPorts
    from channels.feishu.inbound import Found
    from channels.feishu.lookup import Anchors, Lookup

COMMIT_SECONDS = 2.5
"""Time within which an event must be committed, from when it was received."""
TOAST_SECONDS = 2.0
"""Time within which the text shown for a pressed button must be known, also from when the press was received."""
TOGETHER_SECONDS = 2.0
"""Longest time between two messages of one bundle, by the platform's clock."""
_LONGEST_TOAST = 100


class Toasts:
    """Texts shown for pressed buttons: the acknowledgement of a press briefly waits for its text. Bounded."""

    _MOST = 1_000

    def __init__(self) -> None:
        self._texts: LRUCache[str, asyncio.Future[str]] = LRUCache(self._MOST)

    def of(self, callback_id: str) -> asyncio.Future[str]:
        if callback_id not in self._texts:
            self._texts[callback_id] = asyncio.get_running_loop().create_future()
        return self._texts[callback_id]

    def show(self, callback_id: str, text: str) -> None:
        """Answer a press; ignored if nothing waits for it any longer."""
        text_of = self.of(callback_id)
        if not text_of.done():
            text_of.set_result(text)

    def over(self, callback_id: str) -> None:
        self._texts.pop(callback_id, None)


@dataclass(slots=True)
class Bundles:
    """Finds messages that belong together: files sent at once, and the text that follows right after them.

    A Feishu client sends each file as a separate message, and the text typed with them as another. Bounded.
    """

    _last: LRUCache[tuple[str, str | None, str], tuple[datetime, str]] = field(default_factory=lambda: LRUCache(1_000))

    def keyed(self, message: Message) -> Message:
        """The message, with a bundle key if it is part of a bundle."""
        who = (message.address.chat, message.address.topic, message.sender.id)
        last = self._last.pop(who, None)
        joins = last is not None and 0 <= (message.sent_at - last[0]).total_seconds() <= TOGETHER_SECONDS
        if not message.attachments or message.text:
            return replace(message, bundle_key=last[1]) if last is not None and joins else message
        key = last[1] if last is not None and joins else f"files:{message.platform_message_id}"
        self._last[who] = message.sent_at, key
        return replace(message, bundle_key=key)


class Receiver:
    """Commits the events of one account."""

    def __init__(self, reader: Reader, lookup: Lookup, anchors: Anchors, toasts: Toasts, ports: ChannelPorts) -> None:
        self._reader = reader
        self._lookup = lookup
        self._anchors = anchors
        self._toasts = toasts
        self._ports = ports
        self._lanes: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """One lock per chat: its events are handed over in order of arrival, and no chat waits for another."""
        self._bundles = Bundles()
        self._said: LRUCache[str, Message] = LRUCache(1_000)
        """The newest messages by id, without their content: the event of a recall holds only the id."""

    async def handle(self, payload: bytes) -> Ack:
        """Commit one event. It is sent again if it was not committed, or not answered because this raised."""
        received = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(COMMIT_SECONDS):
                found = await self._take(payload)
        except TimeoutError:
            self._ports.log.warning("%s: an event could not be stored in time", self._reader.account)
            return Ack(500)
        except NotCommitted:
            self._ports.log.exception("%s: an event was not stored", self._reader.account)
            return Ack(500)
        if isinstance(found, ButtonPressed):
            return await self._pressed(found, received)
        return Ack(200)

    async def _take(self, payload: bytes) -> Found | None:
        now = self._ports.clock.now()
        try:
            raw = json.loads(payload)
            event = parse(raw)
        except Exception as error:  # any bug in reading it: set the event aside, so that it is not sent again
            return await self._publish(self._reader.unparsed(payload, error, now))
        if event is None:
            return None
        async with self._lanes.setdefault(_chat(event), asyncio.Lock()):
            context = await self._context(event)
            try:
                found = self._reader.read(event, context, now)
            except Exception as error:  # as above
                found = self._reader.unparsed(payload, error, now)
            if isinstance(found, Message):
                found = self._bundles.keyed(found)
            return None if found is None else await self._publish(found)

    async def _context(self, event: Event) -> Context:
        match event.body:
            case RawReceived(message=message, sender=sender):
                self._lookup.learn_chat(message.chat_id, direct=message.chat_type == "p2p")
                return await self._lookup.for_message(message, sender.sender_id.open_id)
            case RawRecalled(message_id=message_id):
                return Context(said=self._said.get(message_id))
            case RawPressed(context=where, operator=operator, action=action):
                return await self._lookup.for_press(where, operator.open_id, action.value)
            case RawMembership(operator_id=operator):
                return await self._lookup.for_membership(operator.open_id)

    async def _publish(self, found: Found) -> Found:
        await commit([found], self._ports)
        if isinstance(found, Message):
            self._anchors.see(found.address.chat, found.address.topic, found.platform_message_id)
            self._said[found.platform_message_id] = replace(found, text="", attachments=(), reply_to=None)
        return found

    async def _pressed(self, press: ButtonPressed, received: float) -> Ack:
        """Answer a committed press with its result, if that is known in time."""
        left = received + TOAST_SECONDS - asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(max(0.0, left)):
                text = await self._toasts.of(press.callback_id)
        except TimeoutError:
            text = ""
        finally:
            self._toasts.over(press.callback_id)
        shown = text if len(text) <= _LONGEST_TOAST else text[: _LONGEST_TOAST - 1] + "…"
        return Ack(200, {"toast": {"type": "info", "content": shown}} if shown else {})


def _chat(event: Event) -> str:
    match event.body:
        case RawReceived(message=message):
            return message.chat_id
        case RawPressed(context=where):
            return where.open_chat_id
        case RawMembership(chat_id=chat) | RawRecalled(chat_id=chat):
            return chat
