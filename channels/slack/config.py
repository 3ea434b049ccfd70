"""Settings of a Slack account, and the manifest with which its app is created; imports no SDK."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from channels.capabilities import NotifyAfter

if TYPE_CHECKING:
    from collections.abc import Sequence


_BOT_TOKEN = re.compile(r"xoxb-[A-Za-z0-9-]{10,}")
_APP_TOKEN = re.compile(r"xapp-[A-Za-z0-9-]{10,}")
_KINDS = {
    "xoxb-": "a bot token",
    "xapp-": "an app-level token",
    "xoxp-": "a user token",
    "xoxe": "a token that expires (token rotation is on: switch it off in the app's settings)",
}

COMMAND_PREFIX = "antler-"
"""Prefix of commands whose names Slack reserves: /status becomes /antler-status."""
_RESERVED = frozenset(
    {"feedback", "help", "leave", "me", "open", "remind", "search", "shortcuts", "status", "topic", "who"}
)
_NAME_LENGTH = 35
_DESCRIPTION_LENGTH = 100


class SlackRate(BaseModel):
    """Rates that Slack tolerates in the long run ("Rate limits" page); chat.update has a workspace-wide budget."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    per_second: float = Field(default=10.0, gt=0, description="Calls a second of the whole app")
    per_chat_per_second: float = Field(default=1.0, gt=0, description="Calls a second in one channel or DM")
    edits_per_minute: float = Field(default=50.0, gt=0, description="Edits a minute over all channels")


class SlackConfig(BaseModel):
    """One app in one workspace. base_url is the root of the Web API; each method's name is appended to it."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    bot_token: SecretStr = Field(description="OAuth & Permissions, Bot User OAuth Token: xoxb-...")
    app_token: SecretStr = Field(
        description="Basic Information, App-Level Tokens, with the scope connections:write: xapp-..."
    )
    base_url: str = Field(default="https://slack.com/api/", description="Root of the Web API; GovSlack has its own")
    rate: SlackRate = SlackRate()
    streaming: Literal["edits", "stream"] = Field(
        default="edits", description="stream: answers in threads grow by Slack's own streaming, all others by edits"
    )
    thread_follow: bool = Field(
        default=True, description="In a thread that the bot takes part in, it answers without being mentioned"
    )
    notify_after: NotifyAfter = 30.0
    receipt: Literal["none", "eyes"] = Field(
        default="none", description="eyes: the bot puts this reaction on a message while it works on it"
    )
    max_download_mb: float = Field(default=50.0, gt=0, description="MiB; larger attachments are refused")
    ping_interval: float = Field(
        default=10.0, ge=0.5, le=20, description="Seconds between two pings of the socket; an unanswered one ends it"
    )

    @field_validator("bot_token")
    @classmethod
    def _bot_token_form(cls, token: SecretStr) -> SecretStr:
        return _checked(token, _BOT_TOKEN, "a bot token (xoxb-...): see OAuth & Permissions, Bot User OAuth Token")

    @field_validator("app_token")
    @classmethod
    def _app_token_form(cls, token: SecretStr) -> SecretStr:
        return _checked(token, _APP_TOKEN, "an app-level token (xapp-...): see Basic Information, App-Level Tokens")

    @field_validator("base_url")
    @classmethod
    def _base_url_form(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https"):
            raise ValueError('needs a scheme, such as "https://slack.com/api/"')
        if not parts.hostname:
            raise ValueError("names no host")
        if parts.query or parts.fragment:
            raise ValueError("must be a root URL without query or fragment")
        return url.rstrip("/") + "/"

    @staticmethod
    def names_group(native_id: str) -> bool:
        """Whether an id is a channel's (C...) or an older private channel's (G...); people are T.../U..., DMs D...."""
        return native_id.startswith(("C", "G"))


def _checked(token: SecretStr, form: re.Pattern[str], wanted: str) -> SecretStr:
    """The token without surrounding whitespace. Raises ValueError, which contains the token's kind, not the token."""
    value = token.get_secret_value().strip()
    if form.fullmatch(value):
        return SecretStr(value)
    kind = next((name for prefix, name in _KINDS.items() if value.startswith(prefix)), None)
    found = f"this is {kind}" if kind is not None and not value.startswith(form.pattern[:5]) else "this is not one"
    raise ValueError(f"should be {wanted}; {found}")


@dataclass(frozen=True, slots=True)
class Scope:
    """A permission. purpose: what is missing without it."""

    name: str
    purpose: str


SCOPES = (
    Scope("app_mentions:read", "mentions in channels are not received"),
    Scope("channels:history", "threads in public channels are not followed, and missed messages are not read"),
    Scope("channels:read", "names of public channels and invitations to them are not seen"),
    Scope("chat:write", "the bot cannot answer"),
    Scope("commands", "slash commands are not available"),
    Scope("files:read", "attachments cannot be read"),
    Scope("files:write", "files cannot be sent"),
    Scope("groups:history", "threads in private channels are not followed, and missed messages are not read"),
    Scope("groups:read", "names of private channels and invitations to them are not seen"),
    Scope("im:history", "direct messages are not received"),
    Scope("mpim:history", "group direct messages are not received"),
    Scope("reactions:write", "the receipt (eyes) cannot be shown"),
    Scope("users:read", "people are shown as ids, and their language is unknown"),
)
"""Only the scopes that are used: a leaked token should give little access."""
EVENTS = (
    "app_mention",
    "app_uninstalled",
    "member_joined_channel",
    "member_left_channel",
    "message.channels",
    "message.groups",
    "message.im",
    "message.mpim",
    "tokens_revoked",
)
COMMANDS = (
    ("new", "Start a new thread"),
    ("stop", "Stop the current answer"),
    ("retry", "Answer the last message again"),
    ("undo", "Forget the last exchange"),
    ("threads", "Threads of this conversation"),
    ("compact", "Summarize the older part of this thread"),
    ("usage", "Tokens and cost of this chat"),
    ("queue", "What is running and waiting"),
    ("timezone", "The time zone of this chat"),
    ("voice", "Whether my answers are spoken too"),
    ("verbose", "How much of my work is shown"),
    ("reminders", "See or cancel what is scheduled here"),
    ("approvals", "What is allowed here without asking"),
    ("status", "Connection, model, thread and queue"),
    ("models", "List the models, or switch"),
    ("agent", "List the agents, or switch"),
    ("research", "A plan to accept, then a report with checked citations"),
    ("skills", "Skills, on and off"),
    ("knowledge", "Documents that I look things up in"),
    ("memory", "What I remember"),
    ("forget", "/forget me deletes what I keep about you"),
    ("whoami", "Your id, for the config"),
    ("help", "What I can do"),
    ("pair", "For administrators: let a person in"),
    ("allow", "For administrators: let me talk here"),
    ("disallow", "For administrators: silence me here"),
    ("access", "For administrators: who has access"),
    ("web", "For administrators: a link to the page in the browser"),
    ("why", "For administrators: why a message was answered, or not"),
)
"""Default (name, description) pairs of the slash commands."""


def manifest(name: str, commands: Sequence[tuple[str, str]] = COMMANDS) -> str:
    """The manifest as YAML. name: of the app and its bot (cut to Slack's 35 characters).

    commands: (name, description) of each slash command.
    """
    name = name[:_NAME_LENGTH]
    content: dict[str, Any] = {
        "display_information": {"name": name, "description": "An agent in your chat"},
        "features": {
            "app_home": {
                "home_tab_enabled": False,
                "messages_tab_enabled": True,
                "messages_tab_read_only_enabled": False,
            },
            "bot_user": {"display_name": name, "always_online": True},
            "slash_commands": [_slash_command(*command) for command in commands],
        },
        "oauth_config": {"scopes": {"bot": [scope.name for scope in SCOPES]}},
        "settings": {
            "event_subscriptions": {"bot_events": list(EVENTS)},
            "interactivity": {"is_enabled": True},
            "org_deploy_enabled": False,
            "socket_mode_enabled": True,
            "token_rotation_enabled": False,
        },
    }
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)


def slash(name: str) -> str:
    """The slash command for one of our commands."""
    return f"/{COMMAND_PREFIX if name in _RESERVED else ''}{name}"


def _slash_command(name: str, description: str) -> dict[str, Any]:
    return {
        "command": slash(name),
        "description": description[:_DESCRIPTION_LENGTH],
        "should_escape": False,
    }
