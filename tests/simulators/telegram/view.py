"""A chat as a person sees it now, as JSON."""

import time
from collections.abc import Iterable

from tests.simulators.telegram.state import Chat, Json, StoredMessage

DRAFT_SECONDS = 30.0


def chat_view(chat: Chat, *, history: bool) -> Json:
    """The chat with all its messages; `history` adds every version of each message and all drafts."""
    view: Json = {
        "revision": chat.revision,
        "chat": chat.data,
        "messages": [_message_view(message, history=history) for message in chat.messages.values()],
        "draft": _live_draft(chat),
        "actions": chat.actions[-20:],
    }
    if history:
        view["drafts"] = chat.drafts
        view["actions"] = chat.actions
    return view


def count_showing(chats: Iterable[Chat], text: str) -> int:
    """Number of messages of bots that show exactly this text now, ignoring surrounding white space."""
    return sum(
        message.author_bot is not None
        and message.deleted_at is None
        and str(message.data.get("text", "")).strip() == text
        for chat in chats
        for message in chat.messages.values()
    )


def _message_view(message: StoredMessage, *, history: bool) -> Json:
    view: Json = {
        "data": message.data,
        "author_bot": message.author_bot,
        "edits": len(message.versions) - 1,
        "posted_at": message.versions[0]["at"],
        "changed_at": message.versions[-1]["at"],
        "deleted_at": message.deleted_at,
        "silent": message.silent,
        "link_preview_options": message.link_preview_options,
        "asks_reply": message.asks_reply,
        "files": message.files,
        "reactions": message.reactions,
    }
    if history:
        view["versions"] = message.versions
    return view


def _live_draft(chat: Chat) -> Json | None:
    """The current draft, which vanishes with the bot's next message, or after about 30 seconds."""
    draft = chat.draft
    return draft if draft is not None and time.monotonic() - draft["at"] < DRAFT_SECONDS else None
