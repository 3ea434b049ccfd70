"""The part of Slack's payloads that the adapter reads, validated when read; the rest is ignored.

Names are Slack's own (Events API, Interactivity, Slash commands).
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StrictBool, StrictStr

from channels.adapter import Name, Raw, Several, Spare, Text

_TIMESTAMP = r"[0-9]{1,12}\.[0-9]{1,9}"


def _size(value: object) -> object:
    """A number of bytes, None for anything else: no message is lost because of a wrong file size."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        return int(value)
    return value if type(value) is int and 0 <= value < 2**63 else None


Timestamp = Annotated[StrictStr, Field(pattern=f"^{_TIMESTAMP}$")]
"""A message's id: unique in its channel, and its time in seconds."""


def is_timestamp(message_id: str | None) -> bool:
    """Whether an id is a message's (files and slash commands have others)."""
    return message_id is not None and re.fullmatch(_TIMESTAMP, message_id) is not None


def order(ts: str) -> tuple[int, int]:
    """Sort key of message ids of one channel."""
    seconds, _, fraction = ts.partition(".")
    return int(seconds), int(fraction.ljust(9, "0"))


class RawFile(Raw):
    """mode: hosted, snippet, external, tombstone, hidden_by_limit and others. file_access: visible, check_file_info."""

    id: Text
    name: Spare[Text] = None
    mimetype: Spare[Text] = None
    subtype: Spare[Text] = None
    size: Annotated[int | None, BeforeValidator(_size)] = None
    mode: Text = "hosted"
    file_access: Text = "visible"
    url_private: Text | None = None
    url_private_download: Text | None = None


class RawAttachment(Raw):
    """Attachment of a message: a link preview, or a message that was shared in this one."""

    text: Name = ""
    author_name: Spare[Text] = None
    is_share: StrictBool = False
    is_msg_unfurl: StrictBool = False


class RawContent(Raw):
    """A message as an event, as a part of one, or from the history."""

    ts: Timestamp
    subtype: Text | None = None
    user: Text | None = None
    bot_id: Text | None = None
    text: Text = ""
    thread_ts: Timestamp | None = None
    parent_user_id: Text | None = None
    team: Text | None = None
    user_team: Text | None = None
    blocks: Several[dict[str, Any]] = ()
    files: tuple[RawFile, ...] = ()
    attachments: Several[RawAttachment] = ()


class RawMessage(RawContent):
    """The events message and app_mention."""

    channel: Text


class RawChange(Raw):
    """The event message with the subtype message_changed."""

    ts: Timestamp
    channel: Text
    message: RawContent
    previous_message: Spare[RawContent] = None


class RawMembership(Raw):
    """The events member_joined_channel and member_left_channel."""

    user: Text
    channel: Text
    team: Text | None = None
    inviter: Spare[Text] = None
    event_ts: Spare[Timestamp] = None


class RawAuthorization(Raw):
    user_id: Spare[Text] = None


class RawCallback(Raw):
    """Envelope of an event."""

    event_id: Text
    team_id: Text = ""
    event: dict[str, Any]
    authorizations: Several[RawAuthorization] = ()


class RawUser(Raw):
    id: Text
    team_id: Text | None = None
    name: Name = ""
    username: Name = ""


class RawContainer(Raw):
    type: Text
    message_ts: Timestamp | None = None
    channel_id: Text | None = None
    thread_ts: Timestamp | None = None


class RawAction(Raw):
    type: Text
    value: Text | None = None
    action_ts: Timestamp | None = None


class RawTeam(Raw):
    id: Text = ""


class RawInteraction(Raw):
    """Interactive payload; only the type block_actions is read."""

    type: Text
    user: RawUser
    team: RawTeam | None = None
    container: RawContainer | None = None
    actions: tuple[RawAction, ...] = ()


class RawCommand(Raw):
    """A slash command."""

    command: Text
    text: Text = ""
    user_id: Text
    user_name: Name = ""
    team_id: Text = ""
    channel_id: Text
    channel_name: Name = ""
    thread_ts: Timestamp | None = None
    trigger_id: Text
