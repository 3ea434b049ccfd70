"""Pure: a line from a terminal -> the gateway's event."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from channels.message import ButtonPressed, Message, Sender

if TYPE_CHECKING:
    from datetime import datetime

    from channels.console.frames import Line
    from channels.message import Address, Button

PERSON = Sender(id="local", display_name="you")
"""Whoever sits at a terminal of this machine; the control socket lets nobody else in."""

_NUMBER = re.compile(r"[1-9][0-9]{0,2}")


def parse(
    session: str, line: Line, address: Address, choices: tuple[str, tuple[Button, ...]] | None, received_at: datetime
) -> Message | ButtonPressed:
    """A message, or a press when the line is the number of one of `choices` (message id and its buttons)."""
    key = f"{session}:{line.number}"
    pressed = _pressed(line.text, choices)
    if choices is not None and pressed is not None:
        return ButtonPressed(
            account=address.account,
            dedupe_keys=(f"l:{key}",),
            sent_at=line.at,
            received_at=received_at,
            address=address,
            platform_message_id=choices[0],
            sender=PERSON,
            data=pressed.data,
            callback_id=key,
        )
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


def _pressed(text: str, choices: tuple[str, tuple[Button, ...]] | None) -> Button | None:
    if choices is None or not _NUMBER.fullmatch(text.strip()):
        return None
    number = int(text.strip())
    return choices[1][number - 1] if number <= len(choices[1]) else None
