"""Replies that grow while they are written: Slack's own streams.

A stream begins with a task whose id is the reply's key: chat.startStream takes no metadata, and by that the message is
found again when the answer to it is lost. When it ends, an edit leaves the same message as a `send`.
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
"""Slack ends a stream about five minutes after its start, however much it grew meanwhile."""
SIGN_SECONDS = 5.0
"""Slack tells of a pressed stop button in the answer to the next addition only."""
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
            raise MessageGone("the stream cannot show this any more")
        chunks: list[dict[str, str]] = []
        if len(text) > len(self._text):
            chunks.append({"type": "markdown_text", "text": text[len(self._text) :]})
        status = _title(message.status)
        if (status and status != self._status) or not chunks:
            chunks.append(_task(self._key, status or self._status or _NOTHING_YET))
        try:
            await self._api.call("chat.appendStream", {**self._target(), "chunks": chunks}, repeatable=False)
        except OutcomeUnknown as error:
            # Appending again could say it twice; an edit says all of it once.
            self._over = True
            raise MessageGone(f"it is not known what the stream shows: {error}") from error
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
    """End a stream; one that has ended already is fine."""
    with contextlib.suppress(MessageGone):
        await api.call("chat.stopStream", target)


def opening(idem_key: str) -> list[dict[str, str]]:
    """The first chunks of a stream: what it is found by."""
    return [_task(idem_key, _NOTHING_YET)]


def opened_with(message: Mapping[str, Any]) -> str | None:
    """The key in a message that `opening` began; None for others."""
    blocks = message.get("blocks")
    for block in blocks if isinstance(blocks, list) else ():
        match block:
            case {"type": "task_card", "task_id": str(key)}:
                return key
    return None


def shown(text: str) -> str:
    """What a stream shows of a growing text: a beginning of what it will show later, in the model's own Markdown."""
    text = sanitize(text)
    # The next character decides whether these call somebody.
    while (text and text[-1] in "<@") or _ends_in_call(text):
        text = text[: max(text.rfind("<"), text.rfind("@"))]
    return disarmed(text)[:PAGE_CHARACTERS]


def _ends_in_call(text: str) -> bool:
    """Whether the text ends in what may become @channel, @here or @everyone."""
    start = text.rfind("@")
    word = text[start + 1 :].lower()
    return start >= 0 and any(call.startswith(word) for call in ("here", "channel", "everyone", "group"))


def _task(key: str, title: str) -> dict[str, str]:
    return {"type": "task_update", "id": key, "title": title, "status": "in_progress"}


def _title(status: str) -> str:
    return one_line(status.rpartition("\n")[2])[:_TITLE_CHARACTERS]
