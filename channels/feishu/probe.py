"""Checks an app's credentials with Feishu: its bot, its scopes, and whether a long connection may be opened."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from channels.base import AccountReport, BotIdentity, Problem
from channels.errors import ChannelError, Permanent
from channels.feishu.api import FeishuApi
from channels.feishu.config import ALL_OF_GROUPS, RECEIPT, SCOPES

if TYPE_CHECKING:
    from collections.abc import Callable

    from channels.base import Clock, Route
    from channels.feishu.config import FeishuConfig, Scope

_ACTIVE = 2
"""activate_status of a bot that people can talk to (bot/v3/info)."""


async def probe(
    account: str, config: FeishuConfig, route: Callable[[str], Route], clock: Clock, *, alone: bool
) -> AccountReport:
    """Query who the bot is, its permissions, and the address of a connection; no connection is opened.

    alone: has no effect. Feishu allows an app several connections and does not report the others to any of them.
    """
    report, began = AccountReport(), clock.monotonic()
    try:
        api = FeishuApi(account, config, route, clock)
        try:
            bot = await api.bot_info()
            identity = BotIdentity(platform="feishu", bot_id=bot["open_id"], username=str(bot.get("app_name", "")))
            report = AccountReport(
                identity=identity, seconds=clock.monotonic() - began, problems=_inactive(bot.get("activate_status"))
            )
            report = await _with_scopes(report, api, account, (*SCOPES, *((RECEIPT,) if config.receipt else ())))
            await api.socket_url()
            return report
        finally:
            await api.close()
    except ChannelError as error:
        return replace(report, problems=(*report.problems, Problem.of(error, config.root)))


def _inactive(status: object) -> tuple[Problem, ...]:
    if status in (None, _ACTIVE):
        return ()
    remedy = "publish a version of the app in its console, and have it approved"
    return (Problem(what=f"the bot is not active (activate_status {status}): people cannot message it", remedy=remedy),)


async def _with_scopes(report: AccountReport, api: FeishuApi, account: str, scopes: tuple[Scope, ...]) -> AccountReport:
    try:
        granted = await api.granted_scopes()
    except Permanent as error:  # private deployments may not support the call
        return replace(report, notes=(*report.notes, f"its scopes are unknown ({error})"))
    if ALL_OF_GROUPS not in granted:
        said = f"in groups and their threads it receives only messages that mention it (no scope {ALL_OF_GROUPS})"
        report = replace(report, notes=(*report.notes, said))
    problems = tuple(
        Problem(
            what=f"channels.{account} lacks the scope {scope.names[0]}: {scope.purpose}",
            remedy="add it under Permissions & Scopes, and publish a version of the app",
            fatal=scope.needed,
        )
        for scope in scopes
        if not granted.intersection(scope.names)
    )
    return replace(report, problems=(*report.problems, *problems))
