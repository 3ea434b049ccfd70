"""Receiving: envelopes are committed in order before they are acknowledged, and missed messages are fetched.

Slack repeats an event that was not acknowledged. Messages from a longer absence are fetched, as at each start. A chat's
newest stored message shows how far it is known, so nothing newer is stored before the missed messages.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from channels.adapter import commit
from channels.errors import ChannelError, NotAllowed, NotCommitted, RateLimited
from channels.message import Message
from channels.slack.api import TooMuch
from channels.slack.inbound import is_dm
from channels.slack.schema import is_timestamp, order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from channels.adapter import Missing
    from channels.base import ChannelPorts, Newest
    from channels.slack.api import SlackApi
    from channels.slack.directory import Directory
    from channels.slack.inbound import Found, Kind, Reader

MOST_WAITING = 2000
"""Most queued envelopes; further ones are not acknowledged, so that Slack sends them again."""
BATCH = 100
GAP_SECONDS = 45.0
"""A shorter absence is covered by Slack's own repetitions (almost at once, after one minute and after five)."""
LONGEST_ABSENCE = timedelta(hours=24)
"""Older messages are no longer answered."""
MOST_PLACES = 60
"""Most channels and threads that are read, the newest first."""
TRIES = 5
_NOT_READ = "missed messages are not read everywhere"


@dataclass(frozen=True, slots=True)
class _Waiting:
    kind: Kind
    payload: Mapping[str, Any]
    committed: asyncio.Future[bool | str]

    @property
    def chat(self) -> str:
        """The channel that the envelope came from, "" for none."""
        match self.payload:
            case {"event": {"channel": str(chat)}} | {"channel_id": str(chat)} | {"channel": {"id": str(chat)}}:
                return chat
        return ""


class Intake:
    """Queue of one account's envelopes, committed in batches in the order in which they arrived.

    The SDK handles envelopes concurrently, each in its own task: without this queue messages could be reordered.
    see: called with everything that was committed. refusal: the only answer, by locale, to a slash command given in a
    chat that the bot is not in; "" for none, then the command is committed. unread: whether older messages of a chat
    still have to be fetched; its new ones wait until then.
    """

    def __init__(
        self,
        reader: Reader,
        directory: Directory,
        ports: ChannelPorts,
        see: Callable[[Found], None],
        refusal: Callable[[str | None], str],
    ) -> None:
        self._reader = reader
        self._directory = directory
        self._ports = ports
        self._see = see
        self._refusal = refusal
        self._waiting: deque[_Waiting] = deque()
        self._more = asyncio.Event()
        self._closed = False
        self.unread: Callable[[str], bool] = lambda chat: False

    @property
    def chats(self) -> dict[str, None]:
        """The chats with queued envelopes, the longest-waiting first."""
        return dict.fromkeys(waiting.chat for waiting in self._waiting)

    def look_again(self) -> None:
        """Check the queue again: envelopes that had to wait may now be committed."""
        self._more.set()

    async def take(self, kind: Kind, payload: Mapping[str, Any]) -> bool | str:
        """Return whether the envelope is committed (or irrelevant), see `Take`."""
        if self._closed:
            return False
        if len(self._waiting) >= MOST_WAITING:
            self._ports.log.error(
                "%s: too many events are waiting to be stored; Slack will send them again", self._reader.account
            )
            return False
        waiting = _Waiting(kind, payload, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._more.set()
        return await waiting.committed

    async def run(self) -> None:
        """Commit envelopes until cancelled; those not committed by then stay unacknowledged."""
        while True:
            await self._more.wait()
            self._more.clear()
            while batch := self._next_batch():
                committed = False
                try:
                    committed = await self._commit(batch)
                finally:
                    _answer(batch, committed)

    def _next_batch(self) -> list[_Waiting]:
        ready = [waiting for waiting in self._waiting if not self.unread(waiting.chat)][:BATCH]
        taken = set(map(id, ready))
        self._waiting = deque(waiting for waiting in self._waiting if id(waiting) not in taken)
        return ready

    def close(self) -> None:
        """Refuse everything from now on."""
        self._closed = True
        _answer(self._waiting, False)
        self._waiting.clear()

    async def publish(self, events: Sequence[Found]) -> bool:
        """Hand events to the gateway; returns whether they are committed."""
        if not events:
            return True
        try:
            await commit(events, self._ports)
        except NotCommitted:
            self._ports.log.exception("%s: events were not stored", self._reader.account)
            return False
        for event in events:
            self._see(event)
        return True

    async def _commit(self, batch: Sequence[_Waiting]) -> bool:
        typed_in = {waiting.chat for waiting in batch if waiting.kind == "slash_commands"}
        closed = await self._directory.learn([waiting.payload for waiting in batch], typed_in)
        known, now = self._directory.known, self._ports.clock.now()
        read = []
        for waiting in batch:
            event = self._reader.read(waiting.kind, waiting.payload, known, now)
            command = waiting.kind == "slash_commands" and waiting.chat in closed
            if command and isinstance(event, Message) and (refusal := self._refusal(event.sender.locale)):
                _answer([waiting], refusal)
            else:
                read.append(event)
        return await self.publish([event for event in read if event is not None])


class CatchUp:
    """Reads what one account missed. Known events are dropped by their keys, so reading too much does no harm."""

    def __init__(
        self,
        api: SlackApi,
        reader: Reader,
        directory: Directory,
        intake: Intake,
        ports: ChannelPorts,
        missing: Missing,
    ) -> None:
        self._api = api
        self._reader = reader
        self._directory = directory
        self._intake = intake
        self._ports = ports
        self._missing = missing
        self._wanted = asyncio.Event()
        self._unread: set[str] | None = set()
        """Chats that still have to be read; None: not yet known."""
        intake.unread = self._is_unread

    def after_gap(self, seconds: float | None) -> None:
        """Note that a socket is open after `seconds` of silence; None: for the first time."""
        if seconds is None or seconds >= GAP_SECONDS:
            self._wanted.set()
            self._unread = None

    def _is_unread(self, chat: str) -> bool:
        return self._unread is None or chat in self._unread

    async def run(self) -> None:
        """Catch up whenever needed, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self._catch_up(_places(await self._ports.newest(), self._earliest()))

    async def _catch_up(self, places: list[tuple[str, str | None, str]]) -> None:
        """Read the known places, first those of chats with queued envelopes, then the threads that have begun in them
        since."""
        known = {(chat, thread) for chat, thread, _ in places}
        begun: list[tuple[str, str | None, str]] = []
        unread = self._unread = {chat for chat, _, _ in places}
        self._intake.look_again()
        while unread:
            chat = next((chat for chat in self._intake.chats if chat in unread), places[0][0])
            for _, thread, oldest in [place for place in places if place[0] == chat]:
                roots: list[str] = []
                await self._read(chat, thread, oldest, roots)
                if thread is None and not is_dm(chat):
                    roots += await self._answered_since(chat, oldest)
                begun += [(chat, root, oldest) for root in roots if (chat, root) not in known]
            places = [place for place in places if place[0] != chat]
            unread.discard(chat)
            self._intake.look_again()
        begun.sort(key=lambda place: order(place[1] or ""), reverse=True)
        if len(begun) > MOST_PLACES:
            left = len(begun) - MOST_PLACES
            self._ports.log.warning("%s: %d threads begun while offline are not read", self._reader.account, left)
        for chat, thread, oldest in begun[:MOST_PLACES]:
            await self._read(chat, thread, oldest, [])

    async def _answered_since(self, chat: str, oldest: str) -> list[str]:
        """Older messages that have been replied to since: a thread may have begun there."""
        try:
            before = await self._api.page(chat, latest=oldest)
        except NotAllowed as error:
            self._missing.note(_NOT_READ, error)
            return []
        except ChannelError as error:
            self._ports.log.warning("%s: new threads in %s are not read: %s", self._reader.account, chat, error)
            return []
        return [message["ts"] for message in before if _replied_after(message, oldest)]

    async def _read(self, chat: str, thread: str | None, oldest: str, roots: list[str]) -> None:
        """Read one place, with a few attempts; a failure is logged. roots: its threads are added to it."""
        for attempt in range(TRIES):
            try:
                if await self._fetch(chat, thread, oldest, roots):
                    return
                await self._ports.clock.sleep(2.0**attempt)
            except RateLimited as limited:
                await self._ports.clock.sleep(limited.retry_after)
            except NotAllowed as error:
                return self._missing.note(_NOT_READ, error)
            except ChannelError as error:
                self._ports.log.warning("%s: missed messages in %s are not read: %s", self._reader.account, chat, error)
                return

    async def _fetch(self, chat: str, thread: str | None, oldest: str, roots: list[str]) -> bool:
        found = []
        try:
            async for message in self._api.messages(chat, thread, oldest):
                ts = message.get("ts")
                if isinstance(ts, str) and is_timestamp(ts) and order(ts) > order(oldest):
                    found.append(message)
        except TooMuch:
            self._ports.log.warning(
                "%s: too many messages were missed in %s; the rest is not read", self._reader.account, chat
            )
        found.sort(key=lambda message: order(message["ts"]))
        roots[:] = [message["ts"] for message in found if thread is None and message.get("reply_count")]
        await self._directory.learn([{**message, "channel": chat} for message in found])
        known, now = self._directory.known, self._ports.clock.now()
        read = [self._reader.read_past(chat, message, known, now) for message in found]
        return await self._intake.publish([event for event in read if event is not None])

    def _earliest(self) -> str:
        return f"{(self._ports.clock.now() - LONGEST_ABSENCE).timestamp():.6f}"


def _answer(batch: Iterable[_Waiting], committed: bool | str) -> None:
    for waiting in batch:
        if not waiting.committed.done():
            waiting.committed.set_result(committed)


def _replied_after(message: Mapping[str, Any], oldest: str) -> bool:
    match message:
        case {"ts": str(ts), "latest_reply": str(latest)} if is_timestamp(ts) and is_timestamp(latest):
            return order(latest) > order(oldest)
    return False


def _places(newest: Sequence[Newest], earliest: str) -> list[tuple[str, str | None, str]]:
    """(chat, thread or None, oldest) of what to read, newest first.

    In a channel each message may begin a thread, so the stored messages of its threads show how far it is known.
    """
    known: dict[tuple[str, str | None], str] = {}
    for entry in newest:
        at = entry.message_id if is_timestamp(entry.message_id) else f"{entry.sent_at.timestamp():.6f}"
        places = {(entry.chat, entry.topic)}
        if not is_dm(entry.chat):
            places.add((entry.chat, None))
        for place in places:
            known[place] = max(known.get(place, at), at, key=order)
    recent = [
        (chat, thread, at) for (chat, thread), at in known.items() if thread is None or order(at) > order(earliest)
    ]
    recent.sort(key=lambda place: order(place[2]), reverse=True)
    return [(chat, thread, max(at, earliest, key=order)) for chat, thread, at in recent[:MOST_PLACES]]
