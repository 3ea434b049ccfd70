"""Replies that grow while they are written: Slack's own streams.

A stream begins with a task whose id is the reply's key: chat.startStream accepts no metadata, and this id allows the
message to be found again if the answer is lost. When it ends, an edit leaves the same message as a `send`.
Sources: chat.startStream, chat.appendStream, chat.stopStream.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from channels.errors import MessageGone, OutcomeUnknown
from channels.slack.failures import StoppedByUser
from channels.slack.outbound import PAGE_CHARACTERS, disarmed, layout
from channels.text.sanitize import one_line, sanitize

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from channels.base import Part
    from channels.message import Address, OutboundMessage
    from channels.slack.api import SlackApi

    Edit = Callable[[Address, str, Part], Awaitable[None]]

STREAM_SECONDS = 270.0
"""Slack ends a stream about five minutes after its start, however much it grows."""
SIGN_SECONDS = 5.0
"""Slack reports a pressed stop button only in the answer to the next addition."""
_NOTHING_YET = "…"
_TITLE_CHARACTERS = 240


class StreamedReply:
    """A `channels.base.LiveReply` in a Slack stream. stopped: called when its own stop button was pressed."""

    def __init__(
        self,
        api: SlackApi,
        edit: Edit,
        address: Address,
        message_id: str,
        idem_key: str,
        stopped: Callable[[], Awaitable[None]],
    ) -> None:
        self._api = api
        self._edit = edit
        self._stopped = stopped
        self._address = address
        self._key = idem_key
        self._text = ""
        self._status = ""
        self._over = False
        self.message_id = message_id

    async def show(self, message: OutboundMessage) -> None:
        text = shown(message.text)
        if self._over or not text.startswith(self._text):
            raise MessageGone("the stream can no longer show this")
        chunks: list[dict[str, str]] = []
        if len(text) > len(self._text):
            chunks.append({"type": "markdown_text", "text": text[len(self._text) :]})
        status = _title(message.status)
        if (status and status != self._status) or not chunks:
            chunks.append(_task(self._key, status or self._status or _NOTHING_YET))
        try:
            await self._api.call("chat.appendStream", {**self._target(), "chunks": chunks}, repeatable=False)
        except OutcomeUnknown as error:
            # Appending again could duplicate text; an edit shows all of it once.
            self._over = True
            raise MessageGone(f"unknown what the stream shows: {error}") from error
        except StoppedByUser:
            self._over = True
            await self._stopped()
            raise
        self._text, self._status = text, status or self._status

    async def finish(self, message: OutboundMessage) -> None:
        if not self._over:
            await stop(self._api, self._target())
            self._over = True
        parts = layout(message)
        if parts:
            await self._edit(self._address, self.message_id, parts[0])

    def _target(self) -> dict[str, Any]:
        return {"channel": self._address.chat, "ts": self.message_id}


async def stop(api: SlackApi, target: Mapping[str, Any]) -> None:
    """End a stream; one that has already ended is not an error."""
    with contextlib.suppress(MessageGone):
        await api.call("chat.stopStream", target)


def opening(idem_key: str) -> list[dict[str, str]]:
    """The first chunks of a stream, by which it can be found."""
    return [_task(idem_key, _NOTHING_YET)]


def opened_with(message: Mapping[str, Any]) -> str | None:
    """The key in a message begun with `opening`; None for others."""
    blocks = message.get("blocks")
    for block in blocks if isinstance(blocks, list) else ():
        match block:
            case {"type": "task_card", "task_id": str(key)}:
                return key
    return None


def shown(text: str) -> str:
    """The part of a growing text that a stream shows: a prefix of what it will show later, in the model's Markdown."""
    text = sanitize(text)
    # The next character decides whether these notify someone.
    while (text and text[-1] in "<@") or _ends_in_call(text):
        text = text[: max(text.rfind("<"), text.rfind("@"))]
    return disarmed(text)[:PAGE_CHARACTERS]


def _ends_in_call(text: str) -> bool:
    """Whether the text ends in what may become @channel, @here, @everyone or @group."""
    start = text.rfind("@")
    word = text[start + 1 :].lower()
    return start >= 0 and any(call.startswith(word) for call in ("here", "channel", "everyone", "group"))


def _task(key: str, title: str) -> dict[str, str]:
    return {"type": "task_update", "id": key, "title": title, "status": "in_progress"}


def _title(status: str) -> str:
    return one_line(status.rpartition("\n")[2])[:_TITLE_CHARACTERS]
