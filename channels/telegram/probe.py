"""Checks a bot's token with Telegram: who the bot is, and whether another program receives its messages."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from channels.base import AccountReport, BotIdentity, Problem
from channels.errors import ChannelError
from channels.telegram.api import TelegramApi
from channels.telegram.failures import AnotherPoller
from channels.telegram.inbound import ALLOWED_UPDATES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from channels.base import Clock, Route
    from channels.telegram.config import TelegramConfig
    from channels.telegram.inbound import Me

HELD_SECONDS = 4
"""How long a poll is held open. Of two polls Telegram ends the older one; the other program polls again by then."""
GRACE_SECONDS = 5.0


async def probe(
    account: str, config: TelegramConfig, route: Callable[[str], Route], clock: Clock, *, alone: bool
) -> AccountReport:
    """Query who the bot is and, if `alone`, poll once without an offset: nothing is confirmed, so nothing is lost."""
    report, began = AccountReport(), clock.monotonic()
    try:
        api = TelegramApi(account, config, route)
        try:
            me = await api.who_am_i()
            identity = BotIdentity(platform="telegram", bot_id=str(me.id), username=me.username)
            report = AccountReport(identity=identity, seconds=clock.monotonic() - began, notes=tuple(_reach(me)))
            return replace(report, problems=await _rivals(api, f"channels.{account}.token")) if alone else report
        finally:
            await api.close()
    except ChannelError as error:
        return replace(report, problems=(Problem.of(error, config.base_url),))


def _reach(me: Me) -> Iterator[str]:
    if not me.joins_groups:
        yield "it cannot be added to groups (@BotFather, /setjoingroups)"
    elif not me.hears_all:
        yield "in groups it receives only messages addressed to it (@BotFather, /setprivacy; then re-add it to groups)"


async def _rivals(api: TelegramApi, setting: str) -> tuple[Problem, ...]:
    """Other programs that receive this bot's messages."""
    if host := await api.webhook():
        what = f"a webhook sends this bot's messages to {host}"
        remedy = f"antler deletes it when it starts; if {host} still needs it, set {setting} to another bot's token"
        return (Problem(what=what, remedy=remedy, fatal=False),)
    try:
        await api.poll(None, HELD_SECONDS, ALLOWED_UPDATES, GRACE_SECONDS)
    except AnotherPoller:
        remedy = f"stop that program, or set {setting} to another bot's token"
        return (Problem(what="another program fetches this bot's messages", remedy=remedy),)
    return ()
