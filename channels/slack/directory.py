"""An account's caches of people, channels, files and messages, all of them bounded.

Events contain ids instead of people's names, channel titles and Slack Connect files: those are looked up once, with a
short time limit.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

from cachetools import LRUCache

from channels.errors import ChannelError, ChatGone, NotAllowed, Permanent
from channels.slack.inbound import Known, is_dm
from channels.slack.reading import Person, mentioned
from channels.slack.schema import RawContent, RawFile, is_timestamp, order

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Coroutine, Iterable, Mapping

    from channels.adapter import Missing
    from channels.message import Address, Message
    from channels.slack.api import SlackApi

LEARN_SECONDS = 1.0
"""How long an event may wait for a name: Slack expects its ack within 3 s."""
_Thread = tuple[str, str]
"""A channel, and the ts of the message that began a thread in it."""
_NAMES = 5000
_MESSAGES = 10_000
_LOOKUPS = 20
"""Maximum number of names looked up concurrently."""
_NO_TITLE = "mpim:read"
"""The scope for titles of group DMs, which the app does not have: they are only lists of the members."""


class Directory:
    """Names, titles and Slack Connect files of one account. me: the bot's user id.

    What Slack refuses to reveal is shown as its id and not looked up again (for a while, if a permission is missing).
    """

    def __init__(self, api: SlackApi, me: str, log: logging.Logger, missing: Missing) -> None:
        self._api = api
        self._me = me
        self._log = log
        self._missing = missing
        self._people: LRUCache[str, Person] = LRUCache(_NAMES)
        self._titles: LRUCache[str, str] = LRUCache(_NAMES)
        self._files: LRUCache[str, RawFile] = LRUCache(_NAMES)
        self._entered: LRUCache[_Thread, None] = LRUCache(_MESSAGES)
        self._roots: LRUCache[_Thread, RawContent] = LRUCache(_NAMES)

    @property
    def known(self) -> Known:
        return Known(self._people, self._titles, self._files, self._roots)

    async def learn(self, payloads: Iterable[Mapping[str, Any]], typed_in: Iterable[str] = ()) -> set[str]:
        """Look up the people, channels and files named in these payloads, and the first messages of threads in which
        the bot is addressed for the first time, as far as time allows. Never raises.

        typed_in: chats in which slash commands were given; returns those that are closed to the bot.
        """
        closed: set[str] = set()
        users: set[str] = set()
        channels: set[str] = set()
        files: set[str] = set()
        threads: dict[_Thread, str] = {}
        for payload in payloads:
            _collect(payload, users, channels, files)
            for thread, ts in _addressed_in(payload, self._me):
                threads.setdefault(thread, ts)
        users.discard(self._me)
        lookups: list[tuple[Callable[[Any], Coroutine[Any, Any, None]], Any]] = []
        lookups += [(partial(self._look_in, closed), chat) for chat in typed_in]
        lookups += [(self._person, user) for user in sorted(users - self._people.keys())]
        lookups += [(self._title, channel) for channel in sorted(channels - self._titles.keys())]
        lookups += [(self._file, file) for file in sorted(files - self._files.keys())]
        lookups += [(partial(self._root, ts), key) for key, ts in threads.items() if key not in self._entered]
        if not lookups:
            return closed
        tasks = [asyncio.ensure_future(look_up(key)) for look_up, key in lookups[:_LOOKUPS]]
        _, late = await asyncio.wait(tasks, timeout=LEARN_SECONDS)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        return closed

    async def _look_in(self, closed: set[str], chat: str) -> None:
        # conversations.info needs scopes that nothing else does; another one permits writing without membership.
        if "chat:write.public" not in (self._api.scopes or ()):
            try:
                await self._api.call("conversations.history", {"channel": chat, "limit": "1"})
            except ChatGone:
                closed.add(chat)
            except ChannelError as error:
                self._log.debug("unknown whether %s is open: %s", chat, error)

    async def _person(self, user: str) -> None:
        answer = await self._ask("the names of people", "users.info", {"user": user, "include_locale": "true"})
        if answer is not None:
            self._people[user] = _read_person(answer, user)

    async def _title(self, channel: str) -> None:
        # Public and private channels need different scopes.
        match await self._ask(f"the title of {channel}", "conversations.info", {"channel": channel}):
            case {"channel": {"name": str(name)}}:
                self._titles[channel] = name
            case {}:
                self._titles[channel] = ""

    async def _file(self, file: str) -> None:
        match await self._ask("files of other organisations", "files.info", {"file": file}):
            case {"file": dict(found)}:
                with contextlib.suppress(ValueError):
                    self._files[file] = RawFile.model_validate(found)

    async def _root(self, ts: str, thread: _Thread) -> None:
        """Look up a thread's first message, for the message with which the bot enters it."""
        place = {"channel": thread[0], "ts": thread[1], "limit": "1"}
        answer = await self._ask("the first messages of threads", "conversations.replies", place)
        match answer:
            case {"messages": [{**root}, *_]} if root.get("subtype") != "assistant_app_thread":
                with contextlib.suppress(ValueError):
                    read = RawContent.model_validate(root)
                    if self._me not in mentioned(read):  # otherwise the conversation began with it
                        self._roots[thread[0], ts] = read
                    if read.user and read.user not in {self._me, *self._people}:
                        await self._person(read.user)  # by whose name /forget finds the quote
        if answer is not None:
            self._entered[thread] = None

    async def _ask(self, asked: str, method: str, params: Mapping[str, str]) -> Mapping[str, Any] | None:
        """Call the method; {} if Slack refuses permanently, None if the call may be repeated later."""
        if (what := f"{asked} cannot be read") in self._missing:
            return None
        try:
            return await self._api.call(method, params)
        except NotAllowed as error:
            if _NO_TITLE in str(error):
                return {}
            self._missing.note(what, error)
            return None
        except Permanent as error:
            self._log.debug("%s refused permanently: %s", method, error)
            return {}
        except ChannelError as error:
            self._log.debug("%s failed: %s", method, error)
            return None


class Sightings:
    """Recently seen messages of one account. A forgotten one costs a longer search, or a missing reaction."""

    def __init__(self) -> None:
        self._newest: LRUCache[str, str] = LRUCache(_MESSAGES)
        self._writers: LRUCache[tuple[str, str], str] = LRUCache(_MESSAGES)
        self._last: LRUCache[tuple[str, str | None], str] = LRUCache(_MESSAGES)
        self._fresh: LRUCache[tuple[str, str | None], str] = LRUCache(_MESSAGES)

    def see(self, chat: str, message_id: str) -> None:
        """Note a message's id, a person's or the bot's."""
        if is_timestamp(message_id):
            self._newest[chat] = max(message_id, self._newest.get(chat, message_id), key=order)

    def note(self, message: Message) -> None:
        address = message.address
        self.see(address.chat, message.platform_message_id)
        self._writers[address.chat, message.platform_message_id] = message.sender.id
        self._last[address.chat, address.topic] = message.sender.id
        if is_timestamp(message.platform_message_id):
            self._fresh[address.chat, address.topic] = message.platform_message_id

    def newest(self, chat: str) -> str | None:
        """The newest id seen in a chat: messages sent from now on have higher ones."""
        return self._newest.get(chat)

    def writer(self, chat: str, message_id: str | None) -> str | None:
        """The native id of a message's author."""
        return None if message_id is None else self._writers.get((chat, message_id))

    def last_writer(self, address: Address) -> str | None:
        """The native id of the last author in a conversation."""
        return self._last.get((address.chat, address.topic))

    def take_fresh(self, address: Address) -> str | None:
        """The newest message of a conversation; returned only once."""
        return self._fresh.pop((address.chat, address.topic), None)


def _collect(payload: Mapping[str, Any], users: set[str], channels: set[str], files: set[str]) -> None:
    """Add the ids in an envelope's payload, or in a message of the history (with its channel)."""
    event = payload.get("event", payload)
    if not isinstance(event, dict):
        return
    for message in (event, event.get("message")):
        if isinstance(message, dict) and "bot_id" not in message:
            users |= {user for user in map(message.get, ("user", "inviter", "user_id")) if isinstance(user, str)}
            users |= _mentioned(message)
            files |= _untold(message)
    channel = event.get("channel")
    if isinstance(channel, str) and channel and not is_dm(channel):
        channels.add(channel)


def _addressed_in(payload: Mapping[str, Any], me: str) -> list[tuple[_Thread, str]]:
    """The thread in which a message addresses the bot, if it is a reply there, with the message's ts."""
    event = payload.get("event", payload)
    match event:
        case {"channel": str(channel), "ts": str(ts), "thread_ts": str(root)} if ts != root:
            named = event.get("type") == "app_mention" or event.get("parent_user_id") == me
            return [((channel, root), ts)] if named or is_dm(channel) or me in _mentioned(event) else []
    return []


def _mentioned(message: Mapping[str, Any]) -> set[str]:
    text, blocks = message.get("text"), message.get("blocks")
    readable = RawContent(
        ts="0.0",
        text=text if isinstance(text, str) else "",
        blocks=tuple(block for block in blocks if isinstance(block, dict)) if isinstance(blocks, list) else (),
    )
    return {user for user in mentioned(readable) if user.isalnum()}


def _untold(message: Mapping[str, Any]) -> set[str]:
    """The ids of Slack Connect files, which the message does not describe."""
    files = message.get("files")
    found: set[str] = set()
    for file in files if isinstance(files, list) else ():
        match file:
            case {"id": str(file_id), "file_access": "check_file_info"}:
                found.add(file_id)
    return found


def _read_person(answer: Mapping[str, Any], user: str) -> Person:
    found = answer.get("user")
    fields = found if isinstance(found, dict) else {}
    profile = fields.get("profile") if isinstance(fields.get("profile"), dict) else {}
    assert isinstance(profile, dict)
    names = (profile.get("display_name"), profile.get("real_name"), fields.get("real_name"), fields.get("name"))
    name = next((name for name in names if isinstance(name, str) and name.strip()), user)
    locale = fields.get("locale")
    return Person(name, locale if isinstance(locale, str) else None)
