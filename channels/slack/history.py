"""What stands in a channel or thread: read in pages, for finding lost messages and for catching up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from channels.slack.api import SlackApi

PAGE = 200
MOST_PAGES = 5


class TooMuch(Exception):
    """There is more than was read."""


async def page(api: SlackApi, channel: str, *, latest: str) -> list[dict[str, Any]]:
    """The newest messages of a channel up to `latest`, at most PAGE. Raises ChannelError."""
    params = {"channel": channel, "limit": str(PAGE), "latest": latest, "inclusive": "true"}
    found = (await api.call("conversations.history", params)).get("messages")
    return [message for message in found if isinstance(message, dict)] if isinstance(found, list) else []


async def messages(
    api: SlackApi, channel: str, thread: str | None, oldest: str | None, *, metadata: bool = False
) -> AsyncIterator[dict[str, Any]]:
    """The messages after `oldest`: of a thread from its beginning on, of a channel from its end on.

    Raises TooMuch at the end when that were more than MOST_PAGES pages, and ChannelError.
    """
    method = "conversations.history" if thread is None else "conversations.replies"
    params = {"channel": channel, "limit": str(PAGE)}
    if thread is not None:
        params["ts"] = thread
    if oldest is not None:
        params["oldest"] = oldest
    if metadata:
        params["include_all_metadata"] = "true"
    for _ in range(MOST_PAGES):
        answer = await api.call(method, params)
        found = answer.get("messages")
        for message in found if isinstance(found, list) else ():
            if isinstance(message, dict):
                yield message
        match answer:
            case {"has_more": True, "response_metadata": {"next_cursor": str(cursor)}} if cursor:
                params["cursor"] = cursor
            case _:
                return
    raise TooMuch
