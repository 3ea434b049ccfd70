"""im/v1/messages and their reactions: create, reply, get, list, edit, patch, recall."""

from collections.abc import Callable

from tests.simulators.feishu import cards, content, events, ids
from tests.simulators.feishu.calls import Call
from tests.simulators.feishu.errors import FeishuError, frequency_limit, invalid_param, missing_field
from tests.simulators.feishu.limits import MESSAGE_EDITS, PATCH_SECONDS, UUID_CHARACTERS
from tests.simulators.feishu.state import App, Chat, Json, Message
from tests.simulators.feishu.world import World

ID_TYPES = ("open_id", "user_id", "union_id", "email", "chat_id")
LONGEST_PAGE = 50


def create(world: World, app: App, call: Call) -> Json:
    """POST im/v1/messages?receive_id_type="""
    chat = receiver(world, app, call)
    if chat is None:
        raise invalid_param(f"invalid receive_id {call.text('receive_id')}")
    return _send(world, app, call, chat, lambda message: None)


def reply(world: World, app: App, call: Call) -> Json:
    """POST im/v1/messages/:message_id/reply"""
    parent = find(app, call.path["message_id"])

    def join(message: Message) -> None:
        message.parent_id = parent.message_id
        message.root_id = parent.root_id or parent.message_id
        if call.body.get("reply_in_thread") and not parent.thread_id:
            root = app.tenant.messages[message.root_id]
            root.thread_id = root.thread_id or ids.numbered("omt_")
            parent.thread_id = root.thread_id
        message.thread_id = parent.thread_id

    return _send(world, app, call, parent.chat, join)


def receiver(world: World, app: App, call: Call) -> Chat | None:
    """The chat that receive_id names; raises FeishuError for what the platform refuses."""
    id_type, value = call.query.get("receive_id_type", ""), call.required("receive_id")
    if id_type not in ID_TYPES:
        raise missing_field("receive_id_type")
    if id_type == "chat_id":
        return app.tenant.chats.get(value)
    person = world.person_by(app, id_type, value)
    return None if person is None else world.direct_chat(app, person)


def _send(world: World, app: App, call: Call, chat: Chat, join: Callable[[Message], None]) -> Json:
    raw, uuid, msg_type = call.required("content"), call.text("uuid"), call.required("msg_type")
    if len(uuid) > UUID_CHARACTERS:
        raise missing_field("uuid")
    if uuid and (known := world.sent_with(app, uuid)) is not None:
        return events.message_json(app, known)
    writable(app, chat)
    _check_chat_rate(world, app, chat)
    now = world.clock.milliseconds()
    message = Message(ids.numbered("om_"), chat, app.app_id, "app", msg_type, {}, now, now)
    content.check(world, app, message, raw)
    join(message)
    if chat.mode == "topic" and not message.thread_id:
        message.thread_id = ids.numbered("omt_")
    store(world, app, message)
    if uuid:
        world.remember_uuid(app, uuid, message)
    return events.message_json(app, message)


def _check_chat_rate(world: World, app: App, chat: Chat) -> None:
    """Allow five messages a second to one person, or in one group from all its bots together."""
    rates, now = app.meter.rates, world.clock.now()
    while chat.sent and now - chat.sent[0] >= 1.0:
        chat.sent.popleft()
    if len(chat.sent) < rates.chat_per_second:
        chat.sent.append(now)
        return
    app.meter.refusals["chat"] += 1
    if rates.enforce:
        raise frequency_limit()


def store(world: World, app: App, message: Message) -> None:
    """Put a message into its chat and show it."""
    app.tenant.messages[message.message_id] = message
    message.chat.messages.append(message)
    message.show(world.clock.now())


def find(app: App, message_id: str) -> Message:
    """A message that this app can see; raises FeishuError."""
    message = app.tenant.messages.get(message_id)
    if message is None:
        raise invalid_param(f"invalid message_id {message_id}")
    if app.app_id not in message.chat.bots:
        raise FeishuError(230002, "The bot can not be outside the group.")
    if message.deleted_at is not None:
        raise FeishuError(230011, "The message is recalled.")
    return message


def writable(app: App, chat: Chat) -> None:
    """Raise FeishuError if the bot may not write there."""
    if not app.bot_active:
        raise FeishuError(230006, "Bot ability is not activated.")
    if chat.disbanded:
        raise FeishuError(232009, "Your request specifies a chat which has already been dissolved.")
    if app.app_id not in chat.bots:
        raise FeishuError(230002, "The bot can not be outside the group.")
    if chat.mode == "p2p" and app.tenant.people.get(chat.person, {}).get("unavailable"):
        raise FeishuError(230013, "Bot has NO availability to this user.")


def get(world: World, app: App, call: Call) -> Json:
    """GET im/v1/messages/:message_id; a forwarded bundle includes its children."""
    message = app.tenant.messages.get(call.path["message_id"])
    if message is None:
        raise FeishuError(230110, "Action unavailable as the message has been deleted.")
    if app.app_id not in message.chat.bots:
        raise FeishuError(230002, "The bot can not be outside the group.")
    return {"items": [events.message_json(app, each) for each in (message, *message.children)]}


def list_messages(world: World, app: App, call: Call) -> Json:
    """GET im/v1/messages?container_id_type=chat|thread: the history, oldest first unless sort_type says otherwise."""
    kind, container = call.query.get("container_id_type", ""), call.query.get("container_id", "")
    if kind not in ("chat", "thread") or not container:
        raise missing_field("container_id_type")
    everything = [message for message in app.tenant.messages.values() if app.app_id in message.chat.bots]
    start, end = int(call.query.get("start_time") or 0), int(call.query.get("end_time") or 1 << 40)
    found = [
        message
        for message in everything
        if container == (message.chat.chat_id if kind == "chat" else message.thread_id)
        and start <= message.created // 1000 <= end
        and not message.upper_id
    ]
    if call.query.get("sort_type") == "ByCreateTimeDesc":
        found.reverse()
    at, step = int(call.query.get("page_token") or 0), min(int(call.query.get("page_size") or 20), LONGEST_PAGE)
    items = [events.message_json(app, message) for message in found[at : at + step]]
    more = at + step < len(found)
    return {"has_more": more, "items": items} | ({"page_token": str(at + step)} if more else {})


def update(world: World, app: App, call: Call) -> Json:
    """PUT im/v1/messages/:message_id: edits a text or post, at most twenty times."""
    message = own(app, call.path["message_id"])
    msg_type = call.required("msg_type")
    if msg_type not in ("text", "post") or message.msg_type != msg_type:
        raise FeishuError(230054, "This operation is not supported for this message type.")
    if message.edits >= MESSAGE_EDITS:
        raise FeishuError(230072, "The message has reached the number of times it can be edited.")
    content.check(world, app, message, call.required("content"))
    _edited(world, message)
    return events.message_json(app, message)


def patch(world: World, app: App, call: Call) -> Json:
    """PATCH im/v1/messages/:message_id: replaces a card that was sent as the message's content."""
    message = own(app, call.path["message_id"])
    raw = call.required("content")
    if app.meter.excess("patch", message.message_id, app.meter.rates.patches_per_second, 1.0, world.clock.now()):
        raise frequency_limit()
    if message.card is None:
        raise FeishuError(230001, "This message is NOT a card.")
    if message.card.card_id is not None:
        # What the platform does with a card entity here is not documented, so no adapter may rely on it.
        raise FeishuError(230099, "Failed to create card content, ext=ErrCode: 200621; ErrMsg: is a card entity; ")
    if world.clock.milliseconds() - message.created > PATCH_SECONDS * 1000:
        raise FeishuError(230031, "The message has expired, it can only be updated within 14 days.")
    replacement = Message(message.message_id, message.chat, app.app_id, "app", "interactive", {}, 0, 0)
    content.check(world, app, replacement, raw)
    card = replacement.card
    if card is None or card.card_id is not None or not (_shared(message.card.data) and _shared(card.data)):
        raise FeishuError(230099, "Failed to create card content, ext=ErrCode: 200620; ErrMsg: update_multi; ")
    message.card, card.message = card, message
    _edited(world, message)
    return {}


def _shared(data: Json) -> bool:
    return cards.is_v2(data) or bool((data.get("config") or {}).get("update_multi"))


def _edited(world: World, message: Message) -> None:
    message.edits += 1
    message.updated = world.clock.milliseconds()
    message.show(world.clock.now())


def own(app: App, message_id: str) -> Message:
    """A message that this app sent; raises FeishuError."""
    message = find(app, message_id)
    if message.sender != app.app_id:
        raise FeishuError(230071, "The operator is not the sender of the message.")
    return message


def delete(world: World, app: App, call: Call) -> Json:
    """DELETE im/v1/messages/:message_id: recalls it."""
    message = own(app, call.path["message_id"])
    message.deleted_at = world.clock.now()
    message.show(world.clock.now())
    return {}


def react(world: World, app: App, call: Call) -> Json:
    """POST im/v1/messages/:message_id/reactions"""
    message = find(app, call.path["message_id"])
    emoji = (call.body.get("reaction_type") or {}).get("emoji_type")
    if not isinstance(emoji, str) or not emoji:
        raise missing_field("reaction_type.emoji_type")
    for reaction_id, known in message.reactions.items():
        if (known["emoji"], known["who"]) == (emoji, app.app_id):
            return _reaction_json(world, app, reaction_id, known)
    reaction_id = ids.numbered("reaction-")
    message.reactions[reaction_id] = {"emoji": emoji, "who": app.app_id}
    message.chat.touch()
    for bot in world.bots_in(message.chat, app.tenant):
        events.reaction(world, bot, message, emoji, app.app_id, added=True)
    return _reaction_json(world, app, reaction_id, message.reactions[reaction_id])


def unreact(world: World, app: App, call: Call) -> Json:
    """DELETE im/v1/messages/:message_id/reactions/:reaction_id"""
    message = find(app, call.path["message_id"])
    known = message.reactions.get(call.path["reaction_id"])
    if known is None or known["who"] != app.app_id:
        raise FeishuError(231007, "The operator is not the reaction's owner")
    del message.reactions[call.path["reaction_id"]]
    message.chat.touch()
    for bot in world.bots_in(message.chat, app.tenant):
        events.reaction(world, bot, message, known["emoji"], app.app_id, added=False)
    return _reaction_json(world, app, call.path["reaction_id"], known)


def _reaction_json(world: World, app: App, reaction_id: str, known: Json) -> Json:
    return {
        "reaction_id": reaction_id,
        "operator": {"operator_id": app.app_id, "operator_type": "app"},
        "action_time": str(world.clock.milliseconds()),
        "reaction_type": {"emoji_type": known["emoji"]},
    }
