"""Requirements of each Web API method: scope and rate tier (method reference pages); the scope of each event."""

from dataclasses import dataclass

from tests.simulators.slack.errors import SlackError

READ_BY_KIND = {"channel": "channels:read", "group": "groups:read", "im": "im:read", "mpim": "mpim:read"}
HISTORY_BY_KIND = {
    "channel": "channels:history",
    "group": "groups:history",
    "im": "im:history",
    "mpim": "mpim:history",
}
MESSAGE_EVENT_BY_KIND = {
    "channel": "message.channels",
    "group": "message.groups",
    "im": "message.im",
    "mpim": "message.mpim",
}

BOT_SCOPES = (
    "app_mentions:read",
    "assistant:write",
    "channels:history",
    "channels:read",
    "chat:write",
    "commands",
    "files:read",
    "files:write",
    "groups:history",
    "groups:read",
    "im:history",
    "im:read",
    "im:write",
    "mpim:history",
    "reactions:read",
    "reactions:write",
    "users:read",
)
BOT_EVENTS = (
    "app_home_opened",
    "app_mention",
    "assistant_thread_context_changed",
    "assistant_thread_started",
    "member_joined_channel",
    "message.channels",
    "message.groups",
    "message.im",
    "message.mpim",
    "reaction_added",
)
EVENT_SCOPES = {
    "app_mention": "app_mentions:read",
    "assistant_thread_started": "assistant:write",
    "assistant_thread_context_changed": "assistant:write",
    "reaction_added": "reactions:read",
    "reaction_removed": "reactions:read",
    "member_joined_channel": "channels:read",
    "member_left_channel": "channels:read",
    **{MESSAGE_EVENT_BY_KIND[kind]: scope for kind, scope in HISTORY_BY_KIND.items()},
}
WITHOUT_SUBSCRIPTION = frozenset({"app_rate_limited"})


@dataclass(frozen=True)
class Rule:
    """A method's needs. scope: "" for none. by_kind: the scope depends on the channel's kind. tier 0: own rule."""

    tier: int
    scope: str = ""
    by_kind: dict[str, str] | None = None
    app_token: bool = False


RULES: dict[str, Rule] = {
    "api.test": Rule(4),
    "apps.connections.open": Rule(3, "connections:write", app_token=True),
    "assistant.threads.setStatus": Rule(0, "chat:write"),
    "assistant.threads.setSuggestedPrompts": Rule(3, "assistant:write"),
    "assistant.threads.setTitle": Rule(3, "assistant:write"),
    "auth.test": Rule(0),
    "bots.info": Rule(3, "users:read"),
    "chat.appendStream": Rule(4, "chat:write"),
    "chat.delete": Rule(3, "chat:write"),
    "chat.getPermalink": Rule(0),
    "chat.postEphemeral": Rule(4, "chat:write"),
    "chat.postMessage": Rule(0, "chat:write"),
    "chat.startStream": Rule(2, "chat:write"),
    "chat.stopStream": Rule(2, "chat:write"),
    "chat.update": Rule(3, "chat:write"),
    "conversations.history": Rule(3, by_kind=HISTORY_BY_KIND),
    "conversations.info": Rule(3, by_kind=READ_BY_KIND),
    "conversations.list": Rule(2, "channels:read"),
    "conversations.members": Rule(4, by_kind=READ_BY_KIND),
    "conversations.open": Rule(3, "im:write"),
    "conversations.replies": Rule(3, by_kind=HISTORY_BY_KIND),
    "files.completeUploadExternal": Rule(4, "files:write"),
    "files.delete": Rule(3, "files:write"),
    "files.getUploadURLExternal": Rule(4, "files:write"),
    "files.info": Rule(4, "files:read"),
    "files.upload": Rule(2, "files:write"),
    "reactions.add": Rule(3, "reactions:write"),
    "reactions.get": Rule(3, "reactions:read"),
    "reactions.remove": Rule(2, "reactions:write"),
    "team.info": Rule(3, "team:read"),
    "users.conversations": Rule(3, "channels:read"),
    "users.info": Rule(4, "users:read"),
    "users.list": Rule(2, "users:read"),
    "views.open": Rule(4),
    "views.publish": Rule(4),
    "views.push": Rule(4),
    "views.update": Rule(4),
}


def require(granted: frozenset[str], needed: str) -> None:
    """Raise SlackError missing_scope unless the scope was granted; "" needs none."""
    if needed and needed not in granted:
        raise SlackError("missing_scope", needed=needed, provided=",".join(sorted(granted)))
