"""A conversation as the control side shows it."""

from tests.simulators.wecom import cards
from tests.simulators.wecom.state import Bubble, Chat, Json


def chat_view(chat: Chat) -> Json:
    """A conversation with its whole history."""
    return {"revision": chat.revision, "id": chat.id, "bubbles": [_bubble(bubble) for bubble in chat.bubbles]}


def _bubble(bubble: Bubble) -> Json:
    return {
        "number": bubble.number,
        "author": bubble.author,
        "kind": bubble.kind,
        "text": bubble.text,
        "msgid": bubble.msgid,
        "stream_id": bubble.stream_id,
        "task_id": bubble.task_id,
        "state": bubble.state,
        "answers": bubble.answers,
        "req_id": bubble.req_id,
        "buttons": cards.buttons(bubble.card),
        "file": bubble.file,
        "versions": bubble.versions,
    }
