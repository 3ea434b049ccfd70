"""What a robot can do on the platform, one method each; the frames go through link.py. Made and used by channel.py.

All methods raise only ChannelError. Foreign errors become ours in connection.py (websockets) and media.py (aiohttp).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from channels.wecom import frames, ids
from channels.wecom.upload import content_of, upload

if TYPE_CHECKING:
    from channels.message import Address
    from channels.wecom.link import Link
    from channels.wecom.outbound import WecomPart

_SINGLE, _GROUP = 1, 2


class WecomApi:
    """Calls of one robot."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def stream(self, req_id: str, stream_id: str, content: str, *, finish: bool) -> None:
        """A snapshot of a streamed answer, the whole text so far. Raises StaleRequest, StreamOver besides others."""
        body = {"msgtype": "stream", "stream": {"id": stream_id, "finish": finish, "content": content}}
        await self._link.ask(frames.RESPOND, body, req_id)

    async def push(self, address: Address, part: WecomPart, message_id: str) -> None:
        """A message of its own; message_id: a card's task_id. Raises OutcomeUnknown when it may have been sent."""
        body: dict[str, Any] = {
            "chatid": ids.native_user(address.chat) if address.kind == "dm" else address.chat,
            "chat_type": _SINGLE if address.kind == "dm" else _GROUP,
        }
        # Its own id in the frame's: where somebody asks which message a frame in a log was.
        req_id = frames.new_req_id(f"{frames.PUSH}_{message_id}")
        await self._link.ask(frames.PUSH, body | await self._content(part, message_id), req_id)

    async def _content(self, part: WecomPart, task_id: str) -> dict[str, Any]:
        if part.card is not None:
            return {"msgtype": "template_card", "template_card": part.card.to_json(task_id)}
        if part.file is not None:
            content = await asyncio.to_thread(content_of, part.file)
            media_id = await upload(content, self._link.ask)
            return {"msgtype": content.type, content.type: {"media_id": media_id}}
        return {"msgtype": "markdown", "markdown": {"content": part.text}}

    async def welcome(self, req_id: str, text: str) -> None:
        """Greet a person who opened the chat; within five seconds."""
        await self._link.ask(frames.WELCOME, {"msgtype": "text", "text": {"content": text}}, req_id)

    async def update_card(self, req_id: str, card: dict[str, Any], user: str) -> None:
        """Show one person another card in place of the pressed one; within five seconds."""
        body = {"response_type": "update_template_card", "userids": [user], "template_card": card}
        await self._link.ask(frames.UPDATE_CARD, body, req_id)
