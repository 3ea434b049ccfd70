"""Sends and edits the messages and files of one account, in the best form that the platform accepts.

Growing answers are card entities, finished ones plain cards; where cards are refused, posts, then plain text.
"""

from __future__ import annotations

import contextlib
import math
import os
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from cachetools import LRUCache

from channels.adapter import AGAIN_SECONDS, open_regular
from channels.errors import Fatal, MessageGone, OutcomeUnknown, Rejected
from channels.feishu import lookup, outbound
from channels.feishu.failures import TABLES, MissingScope, Refused
from channels.feishu.growing import GrowingCards
from channels.feishu.lookup import Anchors, MessageId
from channels.feishu.outbound import FeishuPart, without_tables
from channels.feishu.sdk import build, im

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterator

    from channels.adapter import Missing
    from channels.base import ChannelPorts, Clock
    from channels.feishu.api import FeishuApi
    from channels.message import Address, OutboundFile

_REMEMBERED = 1_000
_REPEATS = 4
_NOT_ANSWERED = "answers are sent to the chat without quoting a message"
_NO_EDITS = "answers are shown only when they are finished"
_CONTENT_CODES = frozenset({TABLES, 230001, 230025, 230028, 200860, 200570, 200220, 300305})
"""Refusals of one particular content, which say nothing about the next one."""
MAX_FILE = 30 * 1024 * 1024
MAX_IMAGE = 10 * 1024 * 1024
_IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp", "image/bmp"})
_FILE_TYPES = {
    "opus": "opus",
    "mp4": "mp4",
    "pdf": "pdf",
    "doc": "doc",
    "docx": "doc",
    "xls": "xls",
    "xlsx": "xls",
    "ppt": "ppt",
    "pptx": "ppt",
}
"""The platform's file type by file extension; everything else is a "stream"."""
_MESSAGE_TYPES = {"opus": "audio", "mp4": "media"}


class Form(IntEnum):
    """The ways to show a text, best first."""

    GROWING_CARD = 0
    CARD = 1
    POST = 2
    TEXT = 3

    @property
    def has_buttons(self) -> bool:
        return self <= Form.CARD

    @property
    def words(self) -> str:
        return ("streaming cards", "plain cards", "posts", "plain text")[self]


class Forms:
    """The best form that an account's chats accept. The reason for a lesser one is logged when it starts. Bounded.

    After a while the best form is tried again: a missing permission may have been granted.
    """

    def __init__(self, clock: Clock, log: logging.Logger, account: str) -> None:
        self._clock = clock
        self._log = log
        self._account = account
        self._lesser: LRUCache[str, tuple[Form, float]] = LRUCache(_REMEMBERED)
        """Form by chat ("" is all chats), and the monotonic time until which it is used."""

    def of(self, chat: str, part: FeishuPart) -> list[Form]:
        """The forms to try, in order."""
        best = max(self._known(chat), self._known(""), Form.GROWING_CARD if part.growing or part.awaited else Form.CARD)
        return [form for form in Form if form >= best]

    def _known(self, chat: str) -> Form:
        form, until = self._lesser.get(chat, (Form.GROWING_CARD, math.inf))
        return form if self._clock.monotonic() < until else Form.GROWING_CARD

    def refused(self, chat: str, form: Form, error: Refused | MissingScope) -> None:
        """Record a refused form: everywhere if a scope is missing, in one chat if the content is not the reason."""
        if form is Form.TEXT:
            return
        lesser = Form(form + 1)
        if isinstance(error, MissingScope):
            self._remember("", lesser)
            self._log.warning("%s: answers are shown as %s: %s; %s", self._account, lesser.words, error, error.hint)
        elif error.code not in _CONTENT_CODES:
            self._remember(chat, lesser)
            self._log.warning("%s: answers in %s are shown as %s: %s", self._account, chat, lesser.words, error)

    def _remember(self, chat: str, form: Form) -> None:
        self._lesser[chat] = form, self._clock.monotonic() + AGAIN_SECONDS


class Messenger:
    """Implements `send`, `edit` and `delete` of `channels.base.Channel`."""

    def __init__(self, api: FeishuApi, ports: ChannelPorts, anchors: Anchors, account: str, missing: Missing) -> None:
        self._api = api
        self._anchors = anchors
        self._missing = missing
        self._growing = GrowingCards(api, ports.clock)
        self._forms = Forms(ports.clock, ports.log, account)
        self._begun: LRUCache[str, tuple[str, float, FeishuPart]] = LRUCache(_REMEMBERED)
        """The entities of the latest sends, by idempotency key: a repeated send must refer to the same one."""

    async def send(self, address: Address, part: FeishuPart, idem_key: str, reply_to: str | None) -> str:
        if part.file is not None:
            return await self._send_file(address, part, idem_key, reply_to)
        refusal: Refused | MissingScope | None = None
        forms = self._forms.of(address.chat, part)
        if part.keyboard:
            forms = [form for form in forms if form.has_buttons]
        for form in forms:
            if part.growing and form is not Form.GROWING_CARD and _NO_EDITS in self._missing:
                raise Rejected("a draft that cannot be edited would stay above the answer")
            try:
                return str(await self._send_as(form, address, part, idem_key, reply_to))
            except MissingScope as error:
                if form is not Form.GROWING_CARD:  # the others only need the permission to send
                    raise Fatal(str(error), error.hint) from error
                refusal = error
            except Refused as error:
                refusal = error
            self._forms.refused(address.chat, form, refusal)
        raise refusal or Rejected("no form accepted by the chat has buttons" if part.keyboard else "no form is left")

    async def edit(self, address: Address, message_id: str, part: FeishuPart) -> None:
        target = MessageId.parse(message_id)
        if part.file is not None or target.form == lookup.FILE:
            await self._edit_file(target, part)
        elif target.form == "card":
            await self._edit_card(target, address, part)
        elif part.keyboard:
            raise Rejected("posts and texts cannot have buttons")
        elif not part.growing:  # a post or text can be edited at most twenty times: save the edits for the final state
            content = outbound.post(part) if target.form == lookup.POST else outbound.text(part)
            body = build(im.UpdateMessageRequestBody, msg_type=target.form, content=content)
            await self._change(build(im.UpdateMessageRequest, message_id=target.native, request_body=body))

    async def _change(self, request: Any) -> None:
        try:
            await self._api.call(request)
        except MissingScope as error:
            self._missing.note(_NO_EDITS, error)
            raise

    async def delete(self, message_id: str) -> None:
        """Delete a message. Raises MessageGone if it does not exist."""
        await self._api.call(build(im.DeleteMessageRequest, message_id=MessageId.parse(message_id).native))

    async def _send_as(
        self, form: Form, address: Address, part: FeishuPart, idem_key: str, reply_to: str | None
    ) -> MessageId:
        match form:
            case Form.GROWING_CARD:
                return await self._send_growing(address, part, idem_key, reply_to)
            case Form.CARD:
                return MessageId(await self._send_card(address, part, idem_key, reply_to))
            case Form.POST:
                native, _ = await self._put(address, "post", outbound.post(part), idem_key, reply_to)
                return MessageId(native, form=lookup.POST)
            case Form.TEXT:
                native, _ = await self._put(address, "text", outbound.text(part), idem_key, reply_to)
                return MessageId(native, form=lookup.TEXT)

    async def _send_card(self, address: Address, part: FeishuPart, idem_key: str, reply_to: str | None) -> str:
        try:
            return (await self._put(address, "interactive", outbound.card(part, address), idem_key, reply_to))[0]
        except Refused as error:
            if error.code != TABLES:
                raise
        simpler = outbound.card(without_tables(part), address)
        return (await self._put(address, "interactive", simpler, idem_key, reply_to))[0]

    async def _send_growing(self, address: Address, part: FeishuPart, idem_key: str, reply_to: str | None) -> MessageId:
        """Send a message that shows a new entity.

        If an earlier process sent this key, the platform returns that message, which shows another entity, unknown
        here. It is recognised by its age and recalled, and the answer continues in a new message.
        """
        card_id, made = await self._entity(address, part, idem_key)
        for attempt in range(_REPEATS):
            uuid = idem_key if attempt == 0 else f"{idem_key}-{attempt}"
            native, sent_at = await self._put(address, "interactive", outbound.entity(card_id), uuid, reply_to)
            if sent_at is None or sent_at >= made:
                return MessageId(native, card_id=card_id)
            try:
                await self.delete(native)
            except MessageGone:
                continue
        raise OutcomeUnknown("the platform treats each send as a repeated one")

    async def _entity(self, address: Address, part: FeishuPart, idem_key: str) -> tuple[str, float]:
        """An entity that shows `part`, and the time of its creation."""
        if idem_key not in self._begun:
            begun = replace(part, keyboard=(), growing=True)  # buttons refer to the entity, which has to exist first
            card_id, made = await self._growing.create(address, begun)
            self._begun[idem_key] = card_id, made, begun
        card_id, made, shown = self._begun[idem_key]
        if shown != part:
            await self._growing.show(card_id, address, part)
            self._begun[idem_key] = card_id, made, part
        return card_id, made

    async def _send_file(self, address: Address, part: FeishuPart, idem_key: str, reply_to: str | None) -> str:
        assert part.file is not None
        with _upload(part.file) as upload:
            answer = await self._api.upload(upload.request, part.file.name)
        key = answer["data"].get(upload.key)
        if not isinstance(key, str) or not key:
            raise Rejected("the platform returned no key for an uploaded file")
        native, _ = await self._put(address, upload.msg_type, outbound.dumps({upload.key: key}), idem_key, reply_to)
        return str(MessageId(native, form=lookup.FILE))

    async def _put(
        self, address: Address, msg_type: str, content: str, uuid: str, reply_to: str | None
    ) -> tuple[str, float | None]:
        """Create a message: its id, and its creation in the platform's time (unix seconds), None if not given.

        Without the permission to answer a message it is sent to the chat.
        """
        answered = MessageId.parse(reply_to).native if reply_to is not None else None
        anchor = self._anchors.newest(address) if answered is None and address.topic is not None else None
        below = answered or anchor
        if below is not None and _NOT_ANSWERED not in self._missing:
            try:
                return await self._post(address, msg_type, content, uuid, below)
            except MessageGone:
                if anchor is None:
                    raise
                self._anchors.lost(address, anchor)
            except MissingScope as error:
                self._missing.note(_NOT_ANSWERED, error)
        return await self._post(address, msg_type, content, uuid, None)

    async def _post(
        self, address: Address, msg_type: str, content: str, uuid: str, answered: str | None
    ) -> tuple[str, float | None]:
        if answered is None:
            body = build(
                im.CreateMessageRequestBody, receive_id=address.chat, msg_type=msg_type, content=content, uuid=uuid
            )
            request = build(im.CreateMessageRequest, receive_id_type="chat_id", request_body=body)
        else:
            in_thread = True if address.topic is not None else None
            body = build(
                im.ReplyMessageRequestBody, msg_type=msg_type, content=content, uuid=uuid, reply_in_thread=in_thread
            )
            request = build(im.ReplyMessageRequest, message_id=answered, request_body=body)
        answer = await self._api.call(request, repeatable=False)
        data: dict[str, Any] = answer["data"]
        native, created = data.get("message_id"), str(data.get("create_time", ""))
        if not isinstance(native, str) or not native:
            raise OutcomeUnknown("the response to a send contains no message_id")
        if address.topic is not None:
            self._anchors.see(address.chat, address.topic, native)
        return native, int(created) / 1000 if created.isdecimal() else None

    async def _edit_card(self, target: MessageId, address: Address, part: FeishuPart) -> None:
        """Edit a card; if it cannot be changed as required, it is recalled, so that a lesser form can replace it."""
        try:
            if target.card_id:
                await self._growing.show(target.card_id, address, part)
            else:
                await self._patch(target, address, part)
        except MissingScope as error:
            if not target.card_id:
                raise
            self._forms.refused("", Form.GROWING_CARD, error)
        except Refused:
            if part.growing:  # a draft may stay outdated: the finished answer will follow
                raise
        else:
            return
        await self.delete(target.native)
        raise MessageGone("the card can no longer be changed")

    async def _patch(self, target: MessageId, address: Address, part: FeishuPart) -> None:
        async def become(shown: FeishuPart) -> None:
            body = build(im.PatchMessageRequestBody, content=outbound.card(shown, address))
            await self._change(build(im.PatchMessageRequest, message_id=target.native, request_body=body))

        try:
            await become(part)
        except Refused as error:
            if error.code != TABLES:
                raise
            await become(without_tables(part))

    async def _edit_file(self, target: MessageId, part: FeishuPart) -> None:
        """Edit a part with a file: a file's message never changes; if the kind has to change, it is replaced."""
        if part.file is not None and target.form == lookup.FILE:
            return
        await self.delete(target.native)
        raise MessageGone("a file cannot become a text, or a text a file")


@dataclass(frozen=True, slots=True)
class _Upload:
    """A prepared upload. key: the field of the answer that identifies the file."""

    request: Any
    key: str
    msg_type: str


@contextlib.contextmanager
def _upload(file: OutboundFile) -> Iterator[_Upload]:
    """A file on this machine, opened for its upload.

    Raises Rejected if it is missing, not a regular file, empty or too large.
    """
    with open_regular(file.path) as content:
        size = os.fstat(content.fileno()).st_size
        if size == 0:
            raise Rejected("the file is empty; Feishu does not accept empty files")
        if size > MAX_FILE:
            raise Rejected(f"the file has {size} bytes; Feishu accepts at most {MAX_FILE} from an app")
        if file.kind == "image" and file.mime_type in _IMAGE_TYPES and size <= MAX_IMAGE:
            body = build(im.CreateImageRequestBody, image_type="message", image=content)
            yield _Upload(build(im.CreateImageRequest, request_body=body), "image_key", "image")
            return
        kind = _FILE_TYPES.get(file.name.rpartition(".")[2].lower(), "stream")
        body = build(im.CreateFileRequestBody, file_type=kind, file_name=file.name, file=content)
        yield _Upload(build(im.CreateFileRequest, request_body=body), "file_key", _MESSAGE_TYPES.get(kind, "file"))
