"""Lays out a reply as WeCom messages: Markdown measured in bytes, cards for buttons, files. Pure.

`channel` calls `layout` for every snapshot of a growing reply. Of a card (developer docs, "Template card types",
button_interaction) main_title is required, sub_title_text is not.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from channels.base import Part
from channels.capabilities import TextUnit
from channels.text.blocks import Paragraph, plain
from channels.text.marks import Dialect, escape_marks
from channels.text.outline import pages
from channels.text.parse import parse
from channels.text.sanitize import is_blank, one_line, sanitize
from channels.text.split import cut

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from channels.message import AttachmentKind, Button, OutboundMessage

MESSAGE_BYTES = 20480
FILE_AFTER_PARTS = 4
"""A finished reply of more text messages than this is also sent as a file."""
STATUS_BYTES = 360
PAGE_BYTES = MESSAGE_BYTES - STATUS_BYTES - 120
"""The text of one message; the rest is room for the status and the marks around it."""

# <@userid> would mention someone, <think> would collapse the answer, and other tags may get a meaning in the future.
_TAG = re.compile(r"<(?=[A-Za-z/@!?])")
_CALL = re.compile(r"<(?=@)")
_APART = "<\u200b"

BUTTONS_PER_CARD = 6
KEY_BYTES = 1024
TEXT_CHARACTERS = 112
"""The longest text that a card shows; a longer one is sent before it as a separate message."""
_TITLE_CHARACTERS = 26
ONLY_BUTTONS = "👇"
PRESSED_KEY = "pressed"
"""Key of the button shown after a press: it names the pressed one and has no effect."""
SAYS = "say:"
"""Prefix of a text that a button sends in the name of the person who pressed it."""
_PRESSED = "✓"
_REFUSED = "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """text: plain, at most TEXT_CHARACTERS; its first line becomes the title if it fits. buttons: (label, data), at
    most BUTTONS_PER_CARD. stays: buttons that were not pressed stay. note: the result of the last press."""

    text: str
    buttons: tuple[tuple[str, str], ...]
    stays: bool = False
    note: str = ""

    def to_json(self, task_id: str) -> dict[str, Any]:
        """The platform's format. task_id: unique for the robot; returned when a button is pressed."""
        text = "\n".join(line for line in (self.text, self.note) if line not in ("", ONLY_BUTTONS)) or ONLY_BUTTONS
        title, _, below = text.partition("\n")
        if not 0 < len(title) <= _TITLE_CHARACTERS:
            title, below = ONLY_BUTTONS, text
        card: dict[str, Any] = {
            "card_type": "button_interaction",
            "main_title": {"title": title},
            "button_list": [
                {"text": label, "style": 1, "key": _key(data, label, self.text, self._others(data))}
                for label, data in self.buttons
            ],
            "task_id": task_id,
        }
        return card | {"sub_title_text": below} if below else card

    def _others(self, pressed: str) -> tuple[tuple[str, str], ...]:
        """The buttons that stay after the one with this data was pressed."""
        return tuple(button for button in self.buttons if button[1] != pressed) if self.stays else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressed:
    """The content of a pressed button's key: its data and label, the text of its card, and the buttons that stay.

    The key carries all of it, so that a card sent by an earlier process can be changed.
    """

    data: str
    label: str = _REFUSED
    text: str = ""
    others: tuple[tuple[str, str], ...] = ()

    @classmethod
    def read(cls, key: str) -> Pressed:
        """Parse a key written by `Card.to_json`; a key in another format is the data itself."""
        try:
            found = json.loads(key)
        except ValueError:
            found = None
        match found:
            case [str(data), str(label), str(text)]:
                return cls(data=data, label=label, text=text)
            case [str(data), str(label), str(text), [*others]]:
                return cls(data=data, label=label, text=text, others=tuple((str(name), str(of)) for name, of in others))
        return cls(data=key)

    def card(self, note: str) -> Card:
        """The card shown afterwards: the buttons that stay, else the one that was pressed, and the note (the result of
        the press)."""
        if self.others:
            return Card(text=self.text, buttons=self.others, stays=True, note=note)
        return Card(text=self.text, buttons=((f"{_PRESSED} {self.label}", PRESSED_KEY),), note=note)


def _key(data: str, label: str, text: str, others: tuple[tuple[str, str], ...]) -> str:
    """A button's key, at most KEY_BYTES: 64 of data, 64 characters of label, and the card's text; also the buttons that
    stay, if there is room for them."""
    if data == PRESSED_KEY:
        return data
    key, longer = (
        json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
        for parts in ([data, label, text], [data, label, text, others])
    )
    return longer if others and _bytes(longer) <= KEY_BYTES else key


def welcome(greeting: str, offer: str, commands: tuple[tuple[str, str], ...]) -> Card:
    """The greeting for a person who opens the chat; its buttons send commands."""
    return Card(text=f"{greeting}\n{offer}", buttons=tuple((label, f"{SAYS}{command}") for label, command in commands))


def cards(text: str, rows: tuple[tuple[Button, ...], ...]) -> tuple[Card, ...]:
    """One card or several with all buttons; the text is on the first."""
    buttons = [(one_line(button.label) or _REFUSED, button.data) for row in rows for button in row]
    stays = all(button.stays for row in rows for button in row)
    groups = [buttons[at : at + BUTTONS_PER_CARD] for at in range(0, len(buttons), BUTTONS_PER_CARD)]
    return tuple(
        Card(text=(text if not number else "") or ONLY_BUTTONS, buttons=tuple(group), stays=stays)
        for number, group in enumerate(groups)
    )


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _escaped(text: str) -> str:
    return escape_marks(_TAG.sub(_APART, text))


def _escaped_code(text: str) -> str:
    return _CALL.sub(_APART, text)


DIALECT = Dialect(measure=_bytes, escape=_escaped, escape_code=_escaped_code, task_lists=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WecomFile:
    """A file on this machine (path), or one generated here (content)."""

    name: str
    mime_type: str
    kind: AttachmentKind = "file"
    path: Path | None = None
    content: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class WecomPart(Part):
    """One message: Markdown of 1 to MESSAGE_BYTES bytes, or a card, or a file."""

    text: str = ""
    card: Card | None = None
    file: WecomFile | None = None


def layout(message: OutboundMessage) -> tuple[WecomPart, ...]:
    """The messages that show a reply; () if nothing is visible.

    While the text grows, all but the last two keep their rendering.
    """
    texts, on_cards = _texts(message), ""
    if message.buttons and (short := _for_card(message)) is not None:
        texts, on_cards = (), short
    contents = [WecomPart(0, text=text) for text in texts]
    contents += [WecomPart(0, card=card) for card in cards(on_cards, message.buttons)]
    contents += [WecomPart(0, file=file) for file in _files(message, len(texts))]
    return tuple(replace(part, index=index) for index, part in enumerate(contents))


def stream_text(message: OutboundMessage) -> str:
    """The part of a reply that a stream shows: the first message of its text, "" while there is none."""
    texts = _texts(message)
    return texts[0] if texts else ""


def _texts(message: OutboundMessage) -> tuple[str, ...]:
    texts = pages(message.text, DIALECT, PAGE_BYTES, growing=not message.final)
    status = "" if message.final and texts else _status(message.status)
    if not status:
        return texts
    return (*texts[:-1], f"{texts[-1]}\n\n{status}") if texts else (status,)


def _files(message: OutboundMessage, texts: int) -> Iterator[WecomFile]:
    if message.final and texts > FILE_AFTER_PARTS:
        content = (sanitize(message.text).strip("\n") + "\n").encode()
        yield WecomFile(name="answer.md", mime_type="text/markdown", content=content)
    for file in message.files:
        yield WecomFile(name=file.name, mime_type=file.mime_type, kind=file.kind, path=file.path)


def _status(status: str) -> str:
    """One quoted line, cut to the available room; "" if nothing of it would be visible."""
    line = one_line(status.rpartition("\n")[2])
    if is_blank(line):
        return ""
    end = cut(line, STATUS_BYTES // 2, TextUnit.UTF8_BYTES)
    return f"> {_escaped(line if end == len(line) else line[:end].rstrip() + '…')}"


def _for_card(message: OutboundMessage) -> str | None:
    """Text and status without any marks, None if a card cannot show them."""
    if len(message.text) > 2 * TEXT_CHARACTERS:
        return None
    lines = [one_line(message.status)]
    for block in reversed(parse(message.text)):
        if not isinstance(block, Paragraph):
            return None
        lines.insert(0, plain(block.inlines).strip())
    text = "\n".join(line for line in lines if not is_blank(line))
    return text if len(text) <= TEXT_CHARACTERS else None
