"""Whether the tokens are good: whose they are, and what they may do. Called by channel.py before anything else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.errors import Fatal, Rejected, Temporary
from channels.slack.inbound import Me
from channels.slack.manifest import SCOPES

if TYPE_CHECKING:
    import logging

    from channels.slack.api import SlackApi

_NEEDED = "chat:write"
_HEARING = frozenset({"app_mentions:read", "im:history"})


async def who_am_i(api: SlackApi, account: str, log: logging.Logger) -> Me:
    """The bot behind the token. Raises Fatal when the token cannot work, and what the call raises."""
    answer = await api.call("auth.test", {})
    setting = f"channels.{account}.bot_token"
    match answer:
        case {"team_id": str(team), "user_id": str(user), "bot_id": str(bot), "user": str(name)}:
            _check_scopes(api.scopes, setting, account, log)
            await _check_app(api, bot, account)
            return Me(team=team, user=user, username=name)
        case {"user_id": str()}:
            raise Fatal(
                f"{setting} is not a bot's token", "copy the Bot User OAuth Token (xoxb-...) from OAuth & Permissions"
            )
    raise Temporary("auth.test did not say who the bot is")


async def _check_app(api: SlackApi, bot: str, account: str) -> None:
    """Two tokens of two apps both work, and no event ever comes. Raises Fatal."""
    try:
        answer = await api.call("bots.info", {"bot": bot})
    except Rejected:
        return  # the scope for this is not needed otherwise
    match answer:
        case {"bot": {"app_id": str(found)}} if api.app_id and found != api.app_id:
            raise Fatal(
                f"channels.{account}.app_token is of app {api.app_id}, channels.{account}.bot_token of app {found}",
                "copy both tokens from the settings of one app",
            )


def _check_scopes(scopes: frozenset[str] | None, setting: str, account: str, log: logging.Logger) -> None:
    """Name what is missing and what does not work without it. Raises Fatal when nothing can work."""
    if not scopes:
        return  # not told
    missing = [scope for scope in SCOPES if scope.name not in scopes]
    how = "add it under OAuth & Permissions, Scopes, and install the app again"
    if _NEEDED not in scopes:
        raise Fatal(f"{setting} lacks the scope {_NEEDED}: nothing can be answered", how)
    if not _HEARING & scopes:
        raise Fatal(f"{setting} lacks the scopes {' and '.join(sorted(_HEARING))}: nothing can be heard", how)
    for scope in missing:
        log.warning("%s: the bot token lacks the scope %s: %s; %s", account, scope.name, scope.purpose, how)
