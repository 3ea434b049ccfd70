"""Pure: a line from a terminal -> the gateway's event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.message import Message, Sender

if TYPE_CHECKING:
    from datetime import datetime

    from channels.console.frames import Line
    from channels.message import Address

PERSON = Sender(id="local", display_name="you")
"""Whoever sits at a terminal of this machine; the control socket lets nobody else in."""


def parse(session: str, line: Line, address: Address, received_at: datetime) -> Message:
    """A message with the line's text."""
    key = f"{session}:{line.number}"
    return Message(
        account=address.account,
        dedupe_keys=(f"l:{key}",),
        sent_at=line.at,
        received_at=received_at,
        address=address,
        platform_message_id=key,
        sender=PERSON,
        text=line.text.replace("\r\n", "\n").replace("\r", "\n"),
        mention=True,
    )
