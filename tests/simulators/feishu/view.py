"""What a person sees of a chat now; also idleness, which tests wait for."""

import time
from collections.abc import Callable

from tests.simulators.feishu.state import App, Chat, Json, Message
from tests.simulators.telegram.signals import Signal


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


async def wait_until(signal: Signal, condition: Callable[[], bool], wait: float) -> bool:
    """Whether the condition became true within `wait` seconds; looked at again at each firing of the signal."""
    deadline = time.monotonic() + wait
    while not condition():
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return False
        await signal.wait(remaining)
    return True


async def wait_idle(party: App | Chat, quiet: float, wait: float) -> bool:
    """Whether, within `wait` seconds, no event was open, no call was running and `quiet` seconds passed so."""
    deadline = time.monotonic() + wait
    while True:
        pending = party.delivery.pending if isinstance(party, App) else party.pending
        now = time.monotonic()
        still = party.last_activity + quiet - now
        busy = pending > 0 or party.in_flight > 0
        if not busy and still <= 0:
            return True
        if now >= deadline:
            return False
        await party.changed.wait(min(deadline - now, deadline - now if busy else still))
