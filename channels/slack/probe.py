"""Checks an app's tokens with Slack: the bot, its workspace and scopes, and whether another program also listens."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from channels.base import AccountReport, BotIdentity, Problem
from channels.errors import ChannelError, Fatal
from channels.slack.api import SlackApi
from channels.slack.config import SCOPES
from channels.slack.connection import GRANT, who_am_i
from channels.slack.inbound import person_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from channels.base import Clock, Route
    from channels.slack.config import SlackConfig


async def probe(
    account: str, config: SlackConfig, route: Callable[[str], Route], clock: Clock, *, alone: bool
) -> AccountReport:
    """Query who the bot is and its permissions; if `alone`, open a socket and close it at its greeting."""
    report, began = AccountReport(), clock.monotonic()
    log = logging.Logger("channels.slack.probe", logging.CRITICAL)  # the report contains what is missing
    try:
        api = SlackApi(account, config, route, log)
        try:
            report = await _asked(api, account, log)
            report = replace(report, seconds=clock.monotonic() - began)
            rivals = await _rivals(api, account) if alone else ()
            return replace(report, problems=(*report.problems, *rivals))
        finally:
            await api.close()
    except ChannelError as error:
        return replace(report, problems=(*report.problems, Problem.of(error, config.base_url)))


async def _asked(api: SlackApi, account: str, log: logging.Logger) -> AccountReport:
    """Query the tokens. Raises what auth.test raises if the bot token itself does not work."""
    try:
        me = await who_am_i(api, account, log)
    except Fatal as error:
        if api.scopes is None:
            raise
        return AccountReport(problems=(Problem.of(error, ""),))
    identity = BotIdentity(platform="slack", bot_id=person_id(me.team, me.user), username=me.username)
    granted = api.scopes
    problems = tuple(
        Problem(
            what=f"channels.{account}.bot_token lacks the scope {scope.name}: {scope.purpose}",
            remedy=GRANT,
            fatal=False,
        )
        for scope in SCOPES
        if granted and scope.name not in granted
    )
    return AccountReport(identity=identity, place=me.workspace, problems=problems)


async def _rivals(api: SlackApi, account: str) -> tuple[Problem, ...]:
    """Other programs that receive some of this app's events."""
    others = await api.count_sockets() - 1
    if others <= 0:
        return ()
    what = f"{others} more {'socket is' if others == 1 else 'sockets are'} open for this app: Slack distributes "
    remedy = f"stop the other program, or use a separate app for channels.{account}"
    return (Problem(what=f"{what}its events among all of them", remedy=remedy, fatal=False),)
