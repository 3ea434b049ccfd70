"""Fetches what was said while no socket was there for longer than Slack repeats an event, and at each start.

Run by channel.py. What is known already folds by its key, so reading a little too much does no harm.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from channels.errors import ChannelError, RateLimited
from channels.slack.history import TooMuch, messages, page
from channels.slack.inbound import is_dm
from channels.slack.payload import is_timestamp, order

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from channels.base import ChannelPorts, Newest
    from channels.slack.api import SlackApi
    from channels.slack.directory import Directory
    from channels.slack.inbound import Reader
    from channels.slack.intake import Intake

GAP_SECONDS = 45.0
"""A shorter absence is covered by Slack's own repetitions (about at once, after one minute and after five)."""
LONGEST_ABSENCE = timedelta(hours=24)
"""What was said before that is not answered any more."""
MOST_PLACES = 60
"""Channels and threads that are looked at, the newest first."""
TRIES = 5


class CatchUp:
    """Of one account."""

    def __init__(
        self, api: SlackApi, reader: Reader, directory: Directory, intake: Intake, ports: ChannelPorts
    ) -> None:
        self._api = api
        self._reader = reader
        self._directory = directory
        self._intake = intake
        self._ports = ports
        self._wanted = asyncio.Event()

    def after_gap(self, seconds: float | None) -> None:
        """A socket stands after so long a silence; None: for the first time."""
        if seconds is None or seconds >= GAP_SECONDS:
            self._wanted.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self._catch_up(_places(await self._ports.newest(), self._earliest()))

    async def _catch_up(self, places: list[tuple[str, str | None, str]]) -> None:
        """The known places, then the threads that were found to have begun in them meanwhile."""
        known = {(chat, thread) for chat, thread, _ in places}
        begun: list[tuple[str, str | None, str]] = []
        for chat, thread, oldest in places:
            roots: list[str] = []
            await self._patiently(chat, thread, oldest, roots)
            if thread is None and not is_dm(chat):
                roots += await self._answered_since(chat, oldest)
            begun += [(chat, root, oldest) for root in roots if (chat, root) not in known]
        begun.sort(key=lambda place: order(place[1] or ""), reverse=True)
        if len(begun) > MOST_PLACES:
            left = len(begun) - MOST_PLACES
            self._ports.log.warning("%s: %d threads began meanwhile that are not read", self._reader.account, left)
        for chat, thread, oldest in begun[:MOST_PLACES]:
            await self._patiently(chat, thread, oldest, [])

    async def _answered_since(self, chat: str, oldest: str) -> list[str]:
        """Of the newest messages from before, those to which somebody has replied since: a thread may have begun."""
        try:
            before = await page(self._api, chat, latest=oldest)
        except ChannelError as error:
            self._ports.log.warning("%s: threads in %s are not looked for: %s", self._reader.account, chat, error)
            return []
        return [message["ts"] for message in before if _replied_after(message, oldest)]

    async def _patiently(self, chat: str, thread: str | None, oldest: str, roots: list[str]) -> None:
        """Fetch one place; what cannot be fetched is told and left out. roots: where its threads are added."""
        for attempt in range(TRIES):
            try:
                if await self._fetch(chat, thread, oldest, roots):
                    return
                await self._ports.clock.sleep(2.0**attempt)
            except RateLimited as limited:
                await self._ports.clock.sleep(limited.retry_after)
            except ChannelError as error:
                self._ports.log.warning("%s: not caught up in %s: %s", self._reader.account, chat, error)
                return

    async def _fetch(self, chat: str, thread: str | None, oldest: str, roots: list[str]) -> bool:
        found = []
        try:
            async for message in messages(self._api, chat, thread, oldest):
                ts = message.get("ts")
                if isinstance(ts, str) and is_timestamp(ts) and order(ts) > order(oldest):
                    found.append(message)
        except TooMuch:
            self._ports.log.warning("%s: more was said in %s than is caught up with", self._reader.account, chat)
        found.sort(key=lambda message: order(message["ts"]))
        roots[:] = [message["ts"] for message in found if thread is None and message.get("reply_count")]
        await self._directory.learn([{**message, "channel": chat} for message in found])
        known, now = self._directory.known, self._ports.clock.now()
        read = [self._reader.read_past(chat, message, known, now) for message in found]
        return await self._intake.publish([event for event in read if event is not None])

    def _earliest(self) -> str:
        return f"{(self._ports.clock.now() - LONGEST_ABSENCE).timestamp():.6f}"


def _replied_after(message: Mapping[str, Any], oldest: str) -> bool:
    match message:
        case {"ts": str(ts), "latest_reply": str(latest)} if is_timestamp(ts) and is_timestamp(latest):
            return order(latest) > order(oldest)
    return False


def _places(newest: Sequence[Newest], earliest: str) -> list[tuple[str, str | None, str]]:
    """(chat, thread or None, oldest) of what to read, newest first.

    In a channel each message may begin a thread, so what is stored of its threads tells how far the channel is known.
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
