"""Names of people and titles of channels, which events do not carry: looked up once, bounded, never waited for long.

Called by intake.py and catchup.py before they read.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from channels.errors import ChannelError, Permanent
from channels.slack.inbound import Known, is_dm
from channels.slack.reading import Person, mentioned
from channels.slack.schema import RawContent
from channels.slack.sightings import keep

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Coroutine, Iterable, Mapping

    from channels.slack.api import SlackApi

LEARN_SECONDS = 1.0
"""How long an event may wait for a name: Slack wants its ack within 3 s."""
_REMEMBERED = 5000
_LOOKUPS = 20
"""How many names are asked for at once."""


class Directory:
    """Of one account. me: the bot's user id. What Slack does not tell is shown as its id and not asked for again."""

    def __init__(self, api: SlackApi, me: str, log: logging.Logger) -> None:
        self._api = api
        self._me = me
        self._log = log
        self._people: OrderedDict[str, Person] = OrderedDict()
        self._titles: OrderedDict[str, str] = OrderedDict()

    @property
    def known(self) -> Known:
        return Known(self._people, self._titles)

    async def learn(self, payloads: Iterable[Mapping[str, Any]]) -> None:
        """Look up who and what is named in these payloads, as far as time allows. Never raises."""
        users: set[str] = set()
        channels: set[str] = set()
        for payload in payloads:
            _collect(payload, users, channels)
        users.discard(self._me)
        lookups: list[tuple[Callable[[str], Coroutine[Any, Any, None]], str]] = []
        lookups += [(self._person, user) for user in sorted(users - self._people.keys())]
        lookups += [(self._title, channel) for channel in sorted(channels - self._titles.keys())]
        if not lookups:
            return
        tasks = [asyncio.ensure_future(look_up(key)) for look_up, key in lookups[:_LOOKUPS]]
        _, late = await asyncio.wait(tasks, timeout=LEARN_SECONDS)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _person(self, user: str) -> None:
        try:
            answer = await self._api.call("users.info", {"user": user, "include_locale": "true"})
        except Permanent as error:
            self._log.debug("no name for %s: %s", user, error)
            keep(self._people, user, Person(user), _REMEMBERED)
        except ChannelError as error:
            self._log.debug("no name for %s now: %s", user, error)
        else:
            keep(self._people, user, _read_person(answer, user), _REMEMBERED)

    async def _title(self, channel: str) -> None:
        try:
            answer = await self._api.call("conversations.info", {"channel": channel})
        except Permanent as error:
            self._log.debug("no title for %s: %s", channel, error)
            keep(self._titles, channel, "", _REMEMBERED)
        except ChannelError as error:
            self._log.debug("no title for %s now: %s", channel, error)
        else:
            match answer:
                case {"channel": {"name": str(name)}}:
                    keep(self._titles, channel, name, _REMEMBERED)


def _collect(payload: Mapping[str, Any], users: set[str], channels: set[str]) -> None:
    """The ids in an envelope's payload, or in a message of the history (with its channel)."""
    event = payload.get("event", payload)
    if not isinstance(event, dict):
        return
    for message in (event, event.get("message")):
        if isinstance(message, dict) and "bot_id" not in message:
            users |= {user for user in (message.get("user"), message.get("inviter")) if isinstance(user, str)}
            users |= _mentioned(message)
    channel = event.get("channel")
    if isinstance(channel, str) and channel and not is_dm(channel):
        channels.add(channel)


def _mentioned(message: Mapping[str, Any]) -> set[str]:
    text, blocks = message.get("text"), message.get("blocks")
    readable = RawContent(
        ts="0.0",
        text=text if isinstance(text, str) else "",
        blocks=tuple(block for block in blocks if isinstance(block, dict)) if isinstance(blocks, list) else (),
    )
    return {user for user in mentioned(readable) if user.isalnum()}


def _read_person(answer: Mapping[str, Any], user: str) -> Person:
    found = answer.get("user")
    fields = found if isinstance(found, dict) else {}
    profile = fields.get("profile") if isinstance(fields.get("profile"), dict) else {}
    assert isinstance(profile, dict)
    names = (profile.get("display_name"), profile.get("real_name"), fields.get("real_name"), fields.get("name"))
    name = next((name for name in names if isinstance(name, str) and name.strip()), user)
    locale = fields.get("locale")
    return Person(name, locale if isinstance(locale, str) else None)
