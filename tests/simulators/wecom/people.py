"""Actions of people: write, quote, send pictures and files, speak, open the chat, press buttons, rate answers."""

import base64
from typing import Any

from tests.simulators.control import ControlError
from tests.simulators.wecom import cards
from tests.simulators.wecom.state import Bot, Chat, Json, Request, RequestKind, Served
from tests.simulators.wecom.world import World, new_id, new_key

MESSAGE, EVENT = "aibot_msg_callback", "aibot_event_callback"


def chat_of(bot: Bot, spec: Json, user: str) -> Chat:
    """The conversation of a control request: a group {id, name}, or the person's own."""
    group = spec.get("room")
    return bot.chat(user, "single") if group is None else bot.chat(group["id"], "group", group.get("name", ""))


async def say(world: World, bot: Bot, spec: Json) -> Json:
    """A person sends a message: text, mixed (a list of parts), image, file, video or voice, possibly with a quote."""
    user = str(spec["user"])
    chat = chat_of(bot, spec, user)
    kind = str(spec.get("kind", "text"))
    if chat.kind == "group" and kind in ("image", "file", "video", "voice"):
        raise ControlError(f"groups deliver no {kind}")
    body: Json = {"msgid": spec.get("msgid") or new_id("m"), "aibotid": bot.bot_id, "chattype": chat.kind}
    body |= {"from": {"userid": user} | ({"corpid": spec["corpid"]} if spec.get("corpid") else {}), "msgtype": kind}
    if chat.kind == "group":
        body["chatid"] = chat.id
    body[kind] = _content(world, kind, spec.get("content"))
    if spec.get("quote"):
        quoted = spec["quote"]
        body["quote"] = {"msgtype": quoted["kind"]}
        body["quote"][quoted["kind"]] = _content(world, quoted["kind"], quoted["content"])
    chat.spoke = True
    chat.add(user, kind, text=_shown(kind, spec.get("content")), msgid=body["msgid"])
    body |= spec.get("extra") or {}
    return await deliver(world, bot, chat, MESSAGE, body, "message", user)


async def enter(world: World, bot: Bot, spec: Json) -> Json:
    """A person opens the conversation for the first time today."""
    user = str(spec["user"])
    chat = bot.chat(user, "single")
    chat.spoke = True
    body = _event(world, bot, chat, user, {"eventtype": "enter_chat", "enter_chat": {}})
    return await deliver(world, bot, chat, EVENT, body, "enter_chat", user)


async def press(world: World, bot: Bot, spec: Json) -> Json:
    """A person presses a card's button, identified by its label."""
    user = str(spec["user"])
    chat = chat_of(bot, spec, user)
    bubble = next((b for b in reversed(chat.bubbles) if b.kind == "card" and _key(b.card, spec["label"])), None)
    if bubble is None or bubble.card is None:
        raise ControlError(f"no button {spec['label']!r} in {chat.id}")
    pressed = {"card_type": bubble.card["card_type"], "event_key": _key(bubble.card, spec["label"])}
    pressed |= {"task_id": bubble.task_id, "selected_items": {"selected_item": []}}
    body = _event(world, bot, chat, user, {"eventtype": "template_card_event", "template_card_event": pressed})
    return await deliver(world, bot, chat, EVENT, body, "card", user, task_id=bubble.task_id)


async def judge(world: World, bot: Bot, spec: Json) -> Json:
    """A person's feedback on an answer: type 1 good, 2 bad, 3 withdrawn."""
    user = str(spec["user"])
    chat = chat_of(bot, spec, user)
    given = {"id": spec.get("id", ""), "type": spec.get("type", 1), "content": spec.get("content", "")}
    event = {"eventtype": "feedback_event", "feedback_event": given}
    return await deliver(world, bot, chat, EVENT, _event(world, bot, chat, user, event), "message", user)


async def deliver(
    world: World, bot: Bot, chat: Chat, cmd: str, body: Json, kind: RequestKind, user: str, task_id: str = ""
) -> Json:
    """Send a callback to the bot's connection; without one it is lost, as on the platform."""
    req_id = new_id("req_")
    frame = {"cmd": cmd, "headers": {"req_id": req_id}, "body": body}
    socket = bot.socket
    number = -1 if socket is None else socket.number
    bot.requests[req_id] = Request(
        req_id, body["msgid"], kind, chat, world.clock.now(), number, user=user, task_id=task_id, frame=frame
    )
    delivered = socket is not None and await socket.send(frame)
    return {"msgid": body["msgid"], "req_id": req_id, "delivered": delivered, "frame": frame}


def _event(world: World, bot: Bot, chat: Chat, user: str, event: Json) -> Json:
    body: Json = {"msgid": new_id("e"), "create_time": int(world.clock.now()), "aibotid": bot.bot_id}
    body |= {"from": {"userid": user}, "chattype": chat.kind, "msgtype": "event", "event": event}
    return body | ({"chatid": chat.id} if chat.kind == "group" else {})


def _content(world: World, kind: str, content: Any) -> Json:
    match kind:
        case "text" | "voice":
            return {"content": str(content)}
        case "mixed":
            return {"msg_item": [_item(world, part) for part in content]}
        case "image" | "file" | "video":
            return world.serve(_served(world, content))
    raise ControlError(f"unknown kind {kind}")


def _item(world: World, part: Json) -> Json:
    return {"msgtype": part["kind"], part["kind"]: _content(world, part["kind"], part["content"])}


def _served(world: World, content: Json) -> Served:
    data = base64.b64decode(content["base64"])
    return Served(new_id(""), content.get("name", ""), data, new_key(), world.clock.now(), content.get("broken", ""))


def _shown(kind: str, content: Any) -> str:
    if kind == "mixed":
        return " ".join(_shown(part["kind"], part["content"]) for part in content)
    return str(content) if kind in ("text", "voice") else f"[{content.get('name') or kind}]"


def _key(card: Json | None, label: str) -> str:
    return next((key for text, key in cards.buttons(card) if text == label), "")
