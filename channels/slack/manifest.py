"""The app manifest: the text with which a Slack app is created (api.slack.com/apps, From a manifest)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMAND_PREFIX = "antler-"
"""Prefix of commands whose names Slack keeps for itself: /status becomes /antler-status."""
_RESERVED = frozenset(
    {"feedback", "help", "leave", "me", "open", "remind", "search", "shortcuts", "status", "topic", "who"}
)
_NAME_LENGTH = 35
_DESCRIPTION_LENGTH = 100


@dataclass(frozen=True, slots=True)
class Scope:
    """A permission. purpose: what does not work without it."""

    name: str
    purpose: str


SCOPES = (
    Scope("app_mentions:read", "mentions in channels are not received"),
    Scope("channels:history", "threads in public channels are not followed, and nothing is caught up there"),
    Scope("channels:read", "names of public channels, and invitations into them, are not seen"),
    Scope("chat:write", "nothing can be answered"),
    Scope("commands", "slash commands do not exist"),
    Scope("files:read", "attachments cannot be read"),
    Scope("files:write", "files cannot be sent"),
    Scope("groups:history", "threads in private channels are not followed, and nothing is caught up there"),
    Scope("groups:read", "names of private channels, and invitations into them, are not seen"),
    Scope("im:history", "direct messages are not received"),
    Scope("mpim:history", "group direct messages are not received"),
    Scope("reactions:write", "no receipt (the eyes) can be given"),
    Scope("users:read", "people have ids instead of names, and no language"),
)
"""No more than what is used: a token that leaks should open little."""
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
    ("compact", "Make a summary of what is older in this thread"),
    ("usage", "Tokens and costs of this chat"),
    ("queue", "What runs and what waits"),
    ("timezone", "The time zone of this chat"),
    ("reminders", "What is scheduled here, and cancel it"),
    ("approvals", "What is allowed here without asking"),
    ("status", "Connection, model, thread and queue"),
    ("models", "List the models, or switch"),
    ("agent", "List the agents, or switch"),
    ("skills", "Skills, on and off"),
    ("memory", "What I remember"),
    ("forget", "/forget me deletes what I keep of you"),
    ("whoami", "Your id, for the config"),
    ("help", "What I can do"),
)
"""(name, description) of the slash commands, unless others are given."""


def manifest(name: str, commands: Sequence[tuple[str, str]] = COMMANDS) -> str:
    """The manifest as YAML. name: what the app and its bot are called (cut at Slack's 35 characters).

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
    """One of our commands as it is called here."""
    return f"/{COMMAND_PREFIX if name in _RESERVED else ''}{name}"


def _slash_command(name: str, description: str) -> dict[str, Any]:
    return {
        "command": slash(name),
        "description": description[:_DESCRIPTION_LENGTH],
        "should_escape": False,
    }
