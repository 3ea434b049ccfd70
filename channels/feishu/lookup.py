"""Lookups of what an event does not contain: names, titles, quotes, forwards; and the ids under which the gateway
stores messages.

The platform is queried before an event is read, within a bounded time: what does not arrive in time is left out.

A stored id is the platform's id plus what a later process must know to edit the message: "om_x" is a card that is the
message's own content, "om_x/<card_id>" one that shows a card entity; "om_x/post", "om_x/text" and "om_x/file" are a
post, a text and a file.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from cachetools import LRUCache
from pydantic import TypeAdapter

from channels.adapter import Several
from channels.errors import ChannelError, NotAllowed
from channels.feishu.content import SHARED_PERSON, RawItem, shared_person
from channels.feishu.outbound import read_value
from channels.feishu.sdk import build, contact, im

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from channels.adapter import Missing
    from channels.base import ChannelPorts
    from channels.feishu.api import FeishuApi
    from channels.feishu.content import RawContext, RawMessage
    from channels.message import Address, Message

ANSWER_SECONDS = 1.2
"""Seconds for all lookups of one event: the platform expects its acknowledgement within three."""
_MOST_CHILDREN = 100
_MOST_NAMES = 20
"""Number of authors of one forwarded bundle whose names are looked up."""
_KEPT_SECONDS = 3600.0
_RETRY_SECONDS = 300.0
_REMEMBERED = 10_000
POST, TEXT, FILE = "post", "text", "file"

T = TypeVar("T")
_ITEMS: TypeAdapter[tuple[RawItem, ...]] = TypeAdapter(Several[RawItem])


@dataclass(frozen=True, slots=True)
class MessageId:
    """A parsed stored id. native: the platform's id. card_id: of the entity that it shows, or "".

    form: "card" or one of the above.
    """

    native: str
    card_id: str = ""
    form: str = "card"

    def __str__(self) -> str:
        tail = self.card_id or ("" if self.form == "card" else self.form)
        return f"{self.native}/{tail}" if tail else self.native

    @staticmethod
    def parse(text: str) -> MessageId:
        native, _, tail = text.partition("/")
        if tail in (POST, TEXT, FILE):
            return MessageId(native, form=tail)
        return MessageId(native, card_id=tail)


class Anchors:
    """The newest known message of each chat and thread: writing to a thread requires answering a message. Bounded."""

    def __init__(self) -> None:
        self._newest: LRUCache[tuple[str, str | None], str] = LRUCache(_REMEMBERED)

    def see(self, chat: str, topic: str | None, message_id: str) -> None:
        self._newest[chat, topic] = message_id

    def newest(self, address: Address) -> str | None:
        return self._newest.get((address.chat, address.topic))

    def lost(self, address: Address, message_id: str) -> None:
        """Forget a message that is gone: nothing can be posted below it."""
        if self._newest.get((address.chat, address.topic)) == message_id:
            del self._newest[address.chat, address.topic]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """A chat. title: of a group. direct: one person and the bot."""

    title: str = ""
    direct: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Results of the lookups. names: open_id -> display name of those looked up. chat: None if unknown.

    quoted: the message that is answered. children: the messages of a forwarded bundle, this one or the quoted one.
    topic: of a pressed card. said: the recalled message, without its content.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    chat: Chat | None = None
    quoted: RawItem | None = None
    children: tuple[RawItem, ...] = ()
    topic: str | None = None
    said: Message | None = None


@dataclass(slots=True)
class _Known:
    value: Any
    until: float


class Lookup:
    """Lookups of one account. All caches are bounded and expire."""

    def __init__(self, api: FeishuApi, ports: ChannelPorts, account: str, missing: Missing) -> None:
        self._api = api
        self._clock, self._log = ports.clock, ports.log
        self._account = account
        self._missing = missing
        self._names: LRUCache[str, _Known] = LRUCache(_REMEMBERED)
        self._chats: LRUCache[str, _Known] = LRUCache(_REMEMBERED)
        self._topics: LRUCache[str, _Known] = LRUCache(_REMEMBERED)
        self._threads: LRUCache[str, None] = LRUCache(_REMEMBERED)

    async def for_message(self, message: RawMessage, sender: str) -> Context:
        """The context of a message. sender: the author's open_id."""
        group = message.chat_type != "p2p"
        forwarded, shared = message.message_type == "merge_forward", message.message_type == SHARED_PERSON
        names, chat, (quoted, quoted_children), (_, children) = await asyncio.gather(
            self._names_of([sender, shared_person(message.content)] if shared else [sender]),
            self._chat(message.chat_id) if group else _nothing(),
            self._fetched(message.parent_id if self._quotes(message) else ""),
            self._fetched(message.message_id if forwarded else ""),
        )
        children = children or quoted_children
        authors = [item.sender.id for item in (*children, *((quoted,) if quoted else ()))]
        if authors:
            names |= await self._names_of(authors)
        return Context(names=names, chat=chat, quoted=quoted, children=children)

    async def for_press(self, where: RawContext, person: str, value: object) -> Context:
        """The chat's kind and the thread of the pressed message: from the button's value if given, else looked up."""
        pressed = read_value(value, where.open_chat_id)
        if pressed is not None and pressed.direct is not None:
            names = await self._names_of([person])
            return Context(names=names, chat=Chat(direct=pressed.direct), topic=pressed.topic)
        names, chat, topic = await asyncio.gather(
            self._names_of([person]), self._chat(where.open_chat_id), self._topic(where.open_message_id)
        )
        return Context(names=names, chat=chat, topic=topic or None)

    async def for_membership(self, person: str) -> Context:
        return Context(names=await self._names_of([person]))

    def learn_chat(self, chat_id: str, *, direct: bool) -> None:
        """Record the chat's kind as given by an event."""
        if direct:  # it stays a DM
            self._remember(self._chats, chat_id, Chat(direct=True), math.inf)

    def learn_topic(self, message_id: str, topic: str | None) -> None:
        """Record the topic of a message that the bot sent."""
        self._remember(self._topics, message_id, topic or "", 30 * 24 * 3600.0)

    async def _names_of(self, people: list[str]) -> dict[str, str]:
        wanted = [person for person in dict.fromkeys(people) if person.startswith("ou_")][:_MOST_NAMES]
        found = await asyncio.gather(*(self._name(person) for person in wanted))
        return {person: name for person, name in zip(wanted, found, strict=True) if name}

    async def _name(self, person: str) -> str:
        async def ask() -> str:
            answer = await self._api.call(build(contact.GetUserRequest, user_id_type="open_id", user_id=person))
            match answer["data"]:
                case {"user": {"name": str(name)}}:
                    return name
            return ""

        return await self._known(self._names, person, ask, "people's names") or ""

    async def _chat(self, chat_id: str) -> Chat | None:
        async def ask() -> Chat:
            answer = await self._api.call(build(im.GetChatRequest, chat_id=chat_id))
            data = answer["data"]
            title = data.get("name")
            return Chat(title=title if isinstance(title, str) else "", direct=data.get("chat_mode") == "p2p")

        return await self._known(self._chats, chat_id, ask, "group titles")

    async def _topic(self, message_id: str) -> str:
        async def ask() -> str:
            return (await self._items(message_id))[0].thread_id

        return await self._known(self._topics, message_id, ask, "messages") or ""

    def _quotes(self, message: RawMessage) -> bool:
        """Whether it answers a message. In a thread each "answers" the first one, which is quoted only once."""
        if not message.thread_id or message.parent_id != message.root_id:
            return bool(message.parent_id)
        known = message.thread_id in self._threads
        self._threads[message.thread_id] = None
        return not known and bool(message.parent_id)

    async def _fetched(self, message_id: str) -> tuple[RawItem | None, tuple[RawItem, ...]]:
        """The message, None without an id or if it cannot be read, and the messages of the bundle that it may be."""
        items = await self._in_time(lambda: self._items(message_id), "messages") if message_id else None
        if items is None or items[0].deleted:
            return None, ()
        return items[0], tuple(item for item in items if item.upper_message_id == message_id)[:_MOST_CHILDREN]

    async def _items(self, message_id: str) -> tuple[RawItem, ...]:
        """The message and its children; never empty."""
        answer = await self._api.call(build(im.GetMessageRequest, message_id=message_id))
        items = _ITEMS.validate_python(answer["data"].get("items", ()))
        if not items:
            raise ChannelError("a fetched message is empty or unreadable")
        return items

    async def _known(
        self, memory: LRUCache[str, _Known], key: str, ask: Callable[[], Awaitable[T]], what: str
    ) -> T | None:
        known = memory.get(key)
        if known is not None and self._clock.monotonic() < known.until:
            value: T | None = known.value
            return value
        found = await self._in_time(ask, what)
        if found is None and known is not None:  # an outdated answer is better than none
            found = known.value
            self._remember(memory, key, found, _RETRY_SECONDS)
        else:
            self._remember(memory, key, found, _RETRY_SECONDS if found is None else _KEPT_SECONDS)
        return found

    async def _in_time(self, ask: Callable[[], Awaitable[T]], what: str) -> T | None:
        """The answer, or None; a lookup whose scope is missing is not repeated for a while."""
        if (unknown := f"{what} cannot be read") in self._missing:
            return None
        try:
            async with asyncio.timeout(ANSWER_SECONDS / 2):
                return await ask()
        except NotAllowed as error:
            self._missing.note(unknown, error)
        except (ChannelError, TimeoutError) as error:
            self._log.info("%s: %s: %s", self._account, unknown, str(error) or "timed out")
        return None

    def _remember(self, memory: LRUCache[str, _Known], key: str, value: Any, seconds: float) -> None:
        memory[key] = _Known(value, self._clock.monotonic() + seconds)


async def _nothing() -> None:
    return None
