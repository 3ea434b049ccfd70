"""Builds events_api payloads and sends each event to the apps that are subscribed to it and may see it."""

import copy
import re
from collections.abc import Iterable

from tests.simulators.slack.envelopes import Envelope
from tests.simulators.slack.ids import numbered
from tests.simulators.slack.scopes import EVENT_SCOPES, MESSAGE_EVENT_BY_KIND, WITHOUT_SUBSCRIPTION
from tests.simulators.slack.state import Channel, Installation, Json, StoredMessage
from tests.simulators.slack.world import World

VERIFICATION_TOKEN = "legacy-verification-token"
NOT_IN_MENTIONS = ("channel_type", "subtype", "bot_profile")


def payload(world: World, install: Installation, event: Json, channel: Channel | None) -> Json:
    """The event_callback around an event."""
    team_id = install.workspace.team_id
    return {
        "token": VERIFICATION_TOKEN,
        "team_id": team_id,
        "context_team_id": team_id,
        "context_enterprise_id": None,
        "api_app_id": install.app.app_id,
        "event": event,
        "type": "event_callback",
        "event_id": numbered("Ev"),
        "event_time": int(world.clock.now()),
        "authorizations": [
            {
                "enterprise_id": None,
                "team_id": team_id,
                "user_id": install.bot_user_id,
                "is_bot": True,
                "is_enterprise_install": False,
            }
        ],
        "is_ext_shared_channel": bool(channel and channel.other_teams),
        "event_context": numbered("4-"),
    }


def wants(install: Installation, subscription: str) -> bool:
    """Whether an app gets this kind of event: subscribed, with the scope, Socket Mode on, not revoked."""
    if install.revoked is not None or not install.app.socket_mode:
        return False
    if subscription in WITHOUT_SUBSCRIPTION:
        return True
    scope = EVENT_SCOPES.get(subscription, "")
    return subscription in install.app.events and (not scope or scope in install.scopes)


def deliver(
    world: World, install: Installation, event: Json, *, channel: Channel | None = None, subscription: str = ""
) -> Envelope | None:
    """Send an event to one app; None if the app does not get such events. subscription: by default its type."""
    if not wants(install, subscription or str(event["type"])):
        return None
    body = payload(world, install, copy.deepcopy(event), channel)
    return install.app.delivery.post("events_api", body, channel=channel)


def publish_message(
    world: World, channel: Channel, event: Json, *, mention_first: bool = False
) -> list[tuple[Installation, Envelope]]:
    """Send a message event to all apps in the channel; those mentioned outside a DM also get app_mention."""
    subscription = MESSAGE_EVENT_BY_KIND[channel.kind]
    sent: list[tuple[Installation, Envelope | None]] = []
    for install in world.bots_in(channel):
        mention = _mention_of(install, channel, event)
        order = [("app_mention", mention), (subscription, event)]
        for name, body in order if mention_first else reversed(order):
            if body is not None:
                sent.append((install, deliver(world, install, body, channel=channel, subscription=name)))
    return [(install, envelope) for install, envelope in sent if envelope is not None]


def publish(world: World, installs: Iterable[Installation], event: Json, channel: Channel | None) -> list[Envelope]:
    """Send an event of another kind to these apps."""
    sent = [deliver(world, install, event, channel=channel) for install in installs]
    return [envelope for envelope in sent if envelope is not None]


def message_event(channel: Channel, message: StoredMessage) -> Json:
    """The event of a new message."""
    event = {**_told(message.data), "channel": channel.id, "event_ts": message.ts, "channel_type": channel.kind}
    if message.is_reply and (root := channel.messages.get(message.thread_ts or "")) is not None:
        event["parent_user_id"] = root.data.get("user")
    return event


def changed_event(world: World, channel: Channel, message: StoredMessage, previous: Json) -> Json:
    """message_changed: an edit, an unfurled link, a stream that ended."""
    return {
        "type": "message",
        "subtype": "message_changed",
        "hidden": True,
        "message": _told(message.data),
        "previous_message": _told(previous),
        "channel": channel.id,
        "ts": world.clock.next_ts(),
        "event_ts": world.clock.next_ts(),
        "channel_type": channel.kind,
    }


def deleted_event(world: World, channel: Channel, message: StoredMessage) -> Json:
    """message_deleted."""
    ts = world.clock.next_ts()
    return {
        "type": "message",
        "subtype": "message_deleted",
        "hidden": True,
        "deleted_ts": message.ts,
        "previous_message": _told(message.data),
        "channel": channel.id,
        "ts": ts,
        "event_ts": ts,
        "channel_type": channel.kind,
    }


def _told(data: Json) -> Json:
    """The message as events show it: metadata needs a separate scope (metadata.message:read)."""
    return {name: value for name, value in data.items() if name != "metadata"}


def _mention_of(install: Installation, channel: Channel, event: Json) -> Json | None:
    text = str(event.get("text", ""))
    new = event.get("subtype") in (None, "file_share", "thread_broadcast", "bot_message")
    if channel.kind == "im" or not new or event.get("user") == install.bot_user_id:
        return None
    if not re.search(rf"<@{install.bot_user_id}(\|[^>]*)?>", text):
        return None
    kept = {name: value for name, value in event.items() if name not in NOT_IN_MENTIONS}
    return {**kept, "type": "app_mention"}
