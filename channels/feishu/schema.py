"""The part of Feishu's events and messages that the adapter reads, checked when read; the rest is ignored.

Names are the platform's own.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, StrictStr

from channels.unreadable import Raw

_SURROGATE = re.compile("[\ud800-\udfff]")


def _clean(value: object) -> object:
    """Text that every store takes: U+FFFD for each lone surrogate (JSON can carry them), no NUL."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value).replace("\0", "") if not value.isascii() or "\0" in value else value
    return value


def _absent(value: object) -> object:
    """null, as if the field was not there."""
    return "" if value is None else value


def _none_is_empty(value: object) -> object:
    return () if value is None else value


Text = Annotated[StrictStr, BeforeValidator(_clean), BeforeValidator(_absent)]
Milliseconds = Annotated[int, Field(ge=0)]


class _Raw(Raw):
    model_config = ConfigDict(populate_by_name=True)


class RawHeader(_Raw):
    event_id: Text
    event_type: Text
    create_time: Milliseconds = 0


class RawIds(_Raw):
    """open_id is the person's id for this app, and immutable."""

    open_id: Text = ""
    union_id: Text = ""
    user_id: Text = ""


class RawSender(_Raw):
    sender_id: RawIds = RawIds()
    sender_type: Text = "user"


class RawMention(_Raw):
    """key: what stands in the text, such as @_user_1. id: ids in events, a bare open_id in fetched messages."""

    key: Text = ""
    id: Annotated[RawIds, BeforeValidator(lambda value: {"open_id": value} if isinstance(value, str) else value)] = (
        RawIds()
    )
    name: Text = ""


Mentions = Annotated[tuple[RawMention, ...], BeforeValidator(_none_is_empty)]


class RawMessage(_Raw):
    message_id: Annotated[Text, Field(min_length=1)]
    root_id: Text = ""
    parent_id: Text = ""
    thread_id: Text = ""
    create_time: Milliseconds
    chat_id: Annotated[Text, Field(min_length=1)]
    chat_type: Text
    message_type: Text
    content: Text
    mentions: Mentions = ()


class RawReceived(_Raw):
    """im.message.receive_v1."""

    sender: RawSender
    message: RawMessage


class RawAction(_Raw):
    tag: Text = ""
    value: Any = None


class RawContext(_Raw):
    open_message_id: Annotated[Text, Field(min_length=1)]
    open_chat_id: Annotated[Text, Field(min_length=1)]


class RawPressed(_Raw):
    """card.action.trigger."""

    operator: RawIds
    action: RawAction
    context: RawContext


class RawMembership(_Raw):
    """im.chat.member.bot.added_v1 and deleted_v1."""

    chat_id: Annotated[Text, Field(min_length=1)]
    operator_id: RawIds = RawIds()
    name: Text = ""


class RawItemSender(_Raw):
    id: Text = ""
    id_type: Text = ""
    sender_type: Text = ""


class RawBody(_Raw):
    content: Text = ""


class RawItem(_Raw):
    """A message as GET im/v1/messages/:id gives it; of a merged forward the children follow the forward itself."""

    message_id: Text = ""
    root_id: Text = ""
    parent_id: Text = ""
    thread_id: Text = ""
    upper_message_id: Text = ""
    chat_id: Text = ""
    msg_type: Text = ""
    deleted: bool = False
    sender: RawItemSender = RawItemSender()
    body: RawBody = RawBody()
    mentions: Mentions = ()


class RawEnvelope(_Raw):
    header: RawHeader
    event: dict[str, Any]
