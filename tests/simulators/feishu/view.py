"""A chat as a person sees it now."""

from tests.simulators.feishu.state import Chat, Json, Message


def chat_view(chat: Chat, *, history: bool, now: float) -> Json:
    """The chat with its messages in order; `history` adds every version of each message."""
    return {
        "revision": chat.revision,
        "chat": {"chat_id": chat.chat_id, "mode": chat.mode, "name": chat.name, "bots": sorted(chat.bots)},
        "messages": [_message_view(message, history=history, now=now) for message in chat.messages],
    }


def _message_view(message: Message, *, history: bool, now: float) -> Json:
    names = ("message_id", "sender", "sender_type", "msg_type", "root_id", "parent_id", "thread_id", "edits")
    view: Json = {name: getattr(message, name) for name in names}
    view |= message.look(now)
    view["content"] = message.card.data if message.card else message.content
    view["card_id"] = message.card.card_id if message.card else None
    view["mentions"] = message.mentions
    view["reactions"] = [[reaction["who"], reaction["emoji"]] for reaction in message.reactions.values()]
    view["resources"] = {key: {"name": f.name, "size": f.size, "kind": f.kind} for key, f in message.resources.items()}
    view["posted_at"], view["changed_at"] = message.versions[0]["at"], message.versions[-1]["at"]
    view["states"] = len(message.versions)
    if history:
        view["versions"] = message.versions
    return view
