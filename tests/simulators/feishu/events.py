"""Builds the events that apps receive, in the platform's envelopes, and queues them."""

import json
from typing import Any

from tests.simulators.feishu import ids
from tests.simulators.feishu.envelopes import Envelope
from tests.simulators.feishu.state import App, Chat, Json, Message
from tests.simulators.feishu.world import World


def deliver(world: World, app: App, kind: str, event: Json, **about: Any) -> Envelope | None:
    """Queue an event for an app, unless it is not subscribed to it. about: chat, message_id, repeats, on_ack."""
    if kind not in app.events:
        return None
    return app.delivery.post(envelope(world, app, kind, event), **about)


def envelope(world: World, app: App, kind: str, event: Json) -> Json:
    """The schema 2.0 envelope around an event."""
    return {
        "schema": "2.0",
        "header": {
            "event_id": ids.numbered("event-"),
            "event_type": kind,
            "create_time": str(world.clock.milliseconds()),
            "token": "",
            "app_id": app.app_id,
            "tenant_key": app.tenant.key,
        },
        "event": event,
    }


def user_ids(app: App, person: str) -> Json:
    """All ids of a person or (by app_id) of a bot, as this app sees them."""
    found: Json = {"open_id": ids.open_id(app.app_id, person), "union_id": ids.union_id(person)}
    return found if person in app.tenant.apps else {**found, "user_id": person}


def name_of(app: App, person: str) -> str:
    """The display name of a person or a bot."""
    bot = app.tenant.apps.get(person)
    return bot.name if bot else str(app.tenant.people.get(person, {}).get("name", person))


def message_received(world: World, app: App, message: Message) -> Envelope | None:
    """im.message.receive_v1 as this app receives it."""
    body: Json = {
        "message_id": message.message_id,
        "create_time": str(message.created),
        "update_time": str(message.updated),
        "chat_id": message.chat.chat_id,
        "chat_type": message.chat.chat_type,
        "message_type": message.msg_type,
        "content": content_for(app, message),
        "user_agent": "",
    }
    for name in ("root_id", "parent_id", "thread_id"):
        if getattr(message, name):
            body[name] = getattr(message, name)
    if message.mentions:
        body["mentions"] = [_event_mention(app, n, who) for n, who in enumerate(message.mentions, 1)]
    sender: Json = {
        "sender_id": user_ids(app, message.sender),
        "sender_type": message.sender_type,
        "tenant_key": app.tenant.people.get(message.sender, {}).get("tenant_key") or app.tenant.key,
    }
    event = {"sender": sender, "message": body}
    return deliver(world, app, "im.message.receive_v1", event, chat=message.chat, message_id=message.message_id)


def _event_mention(app: App, number: int, who: str) -> Json:
    return {
        "key": f"@_user_{number}",
        "id": user_ids(app, who),
        "name": name_of(app, who),
        "tenant_key": app.tenant.key,
        "mentioned_type": "bot" if who in app.tenant.apps else "user",
    }


def content_for(app: App, message: Message) -> str:
    """The content as JSON text; cards are shown to other readers in a lossy form."""
    if message.deleted_at is not None:
        return "This message was recalled"
    if message.msg_type == "merge_forward":
        return "Merged and Forwarded Message"
    if message.card is not None:
        texts = [[{"tag": "text", "text": str(message.versions[-1]["text"])}]] if message.versions else []
        return json.dumps({"title": None, "elements": texts})
    content = message.content
    if message.msg_type == "post":
        content = {**content, "content": [[_post_node(app, message, n) for n in row] for row in content["content"]]}
    return json.dumps(content)


def _post_node(app: App, message: Message, node: Json) -> Json:
    """A node of a post; its mentions give their key in the list of mentions."""
    if node.get("tag") != "at" or node.get("user_id") not in message.mentions:
        return node
    number = message.mentions.index(node["user_id"]) + 1
    return {**node, "user_id": f"@_user_{number}", "user_name": name_of(app, node["user_id"])}


def message_json(app: App, message: Message) -> Json:
    """A message as the API returns it."""
    by_app = message.sender_type == "app"
    found: Json = {
        "message_id": message.message_id,
        "msg_type": message.msg_type,
        "create_time": str(message.created),
        "update_time": str(message.updated),
        "deleted": message.deleted_at is not None,
        "updated": message.updated_flag,
        "chat_id": message.chat.chat_id,
        "sender": {
            "id": message.sender if by_app else ids.open_id(app.app_id, message.sender),
            "id_type": "app_id" if by_app else "open_id",
            "sender_type": message.sender_type,
            "tenant_key": app.tenant.key,
        },
        "body": {"content": content_for(app, message)},
    }
    for name, value in (
        ("root_id", message.root_id),
        ("parent_id", message.parent_id),
        ("thread_id", message.thread_id),
        ("upper_message_id", message.upper_id),
    ):
        if value:
            found[name] = value
    if message.mentions:
        found["mentions"] = [_api_mention(app, n, who) for n, who in enumerate(message.mentions, 1)]
    return found


def _api_mention(app: App, number: int, who: str) -> Json:
    return {
        "key": f"@_user_{number}",
        "id": ids.open_id(app.app_id, who),
        "id_type": "open_id",
        "name": name_of(app, who),
        "tenant_key": app.tenant.key,
    }


def bot_membership(world: World, app: App, chat: Chat, operator: str, *, joined: bool) -> Envelope | None:
    """The bot was added to or removed from a group."""
    event = {
        "chat_id": chat.chat_id,
        "operator_id": user_ids(app, operator),
        "external": chat.external,
        "operator_tenant_key": app.tenant.key,
        "name": chat.name,
        "i18n_names": {"zh_cn": chat.name, "en_us": chat.name},
    }
    kind = f"im.chat.member.bot.{'added' if joined else 'deleted'}_v1"
    return deliver(world, app, kind, event, chat=chat)


def reaction(world: World, app: App, message: Message, emoji: str, who: str, *, added: bool) -> Envelope | None:
    """A reaction was added or removed."""
    by_app = who in app.tenant.apps
    event: Json = {
        "message_id": message.message_id,
        "reaction_type": {"emoji_type": emoji},
        "operator_type": "app" if by_app else "user",
        "action_time": str(world.clock.milliseconds()),
    }
    event |= {"app_id": who} if by_app else {"user_id": user_ids(app, who)}
    kind = f"im.message.reaction.{'created' if added else 'deleted'}_v1"
    return deliver(world, app, kind, event, chat=message.chat, message_id=message.message_id)


def recalled(world: World, app: App, message: Message) -> Envelope | None:
    """A message was recalled."""
    event = {
        "message_id": message.message_id,
        "chat_id": message.chat.chat_id,
        "recall_time": str(world.clock.milliseconds()),
        "recall_type": "message_owner",
    }
    return deliver(world, app, "im.message.recalled_v1", event, chat=message.chat, message_id=message.message_id)


def card_action(app: App, message: Message, person: str, action: Json, token: str) -> Json:
    """The event of a press."""
    return {
        "operator": {"tenant_key": app.tenant.key, **user_ids(app, person)},
        "token": token,
        "action": {"timezone": "Asia/Shanghai", **action},
        "host": "im_message",
        "context": {"open_message_id": message.message_id, "open_chat_id": message.chat.chat_id},
    }
