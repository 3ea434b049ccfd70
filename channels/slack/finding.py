"""Finds the message of a send whose answer was lost. Called by channel.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.errors import OutcomeUnknown, Rejected
from channels.slack.history import TooMuch, messages
from channels.slack.payload import is_timestamp, mark_of
from channels.slack.streams import opened_with

if TYPE_CHECKING:
    from channels.base import Probe
    from channels.message import Address
    from channels.slack.api import SlackApi
    from channels.slack.outbound import SlackPart
    from channels.slack.uploads import Uploads


async def find(api: SlackApi, uploads: Uploads, address: Address, part: SlackPart, probe: Probe) -> str | None:
    """Its id, None when it is certainly not there. Raises OutcomeUnknown when that cannot be told."""
    if part.file is not None and uploads.lost(probe.idem_key):
        return await uploads.find_lost(address, probe.idem_key)
    oldest = probe.after if is_timestamp(probe.after) else None
    try:
        async for message in messages(api, address.chat, address.topic, oldest, metadata=True):
            if part.file is not None:
                found = uploads.adopt(message, part.file) if message.get("bot_id") else None
            else:
                found = message.get("ts") if probe.idem_key in (mark_of(message), opened_with(message)) else None
            if isinstance(found, str):
                return found
    except TooMuch:
        raise OutcomeUnknown("too much was written since to look at all of it") from None
    except Rejected as error:
        raise OutcomeUnknown(f"the chat cannot be searched: {error}") from error
    return None
