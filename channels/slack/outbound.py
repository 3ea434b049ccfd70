"""Lays out a reply as Slack messages (Markdown blocks with buttons and a status line), and as Web API parameters. Pure.

`layout` is called for every edit of a growing reply.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from channels.adapter import Keyboard, keyboard
from channels.base import Part
from channels.capabilities import TextUnit
from channels.text.blocks import texts as texts_of
from channels.text.marks import Dialect, escape_marks
from channels.text.outline import pages
from channels.text.parse import parse
from channels.text.sanitize import is_blank, sanitize, seen_line, seen_lines
from channels.text.split import shortened, split_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from channels.message import Address, OutboundFile, OutboundMessage

PAGE_CHARACTERS = 11_500
"""Characters of one Markdown block; all those of a message may have 12000 (Block Kit reference, "Markdown")."""
PAGE_BLOCKS = 45
"""Slack splits a Markdown block into one block per paragraph, heading, list and so on, and accepts 50 per message: the
rest is for buttons and the status line."""
TABLES, TABLE_ROWS, TABLE_COLUMNS, TABLE_CHARACTERS = 1, 100, 20, 10_000
"""Limits of one message (Block Kit reference, "Table"); the characters are those of all cells together."""
PLAIN_CHARACTERS = 2900
"""Escaped characters of one message without formatting: a section with buttons below it accepts 3000."""
BUTTONS_BELOW = 100
"""Most buttons below a text, which leaves room for four full rows; more are sent in a separate message."""
METADATA_EVENT = "antler_reply"
FALLBACK_CHARACTERS = 3900
"""Characters of a message's `text`; chat.update refuses more than 4000."""
_STATUS_CHARACTERS = 1000
_DONE_CHARACTERS = 1900
"""A text in a context block may have 2000 characters."""
_LABEL_CHARACTERS = 75
_MOST_BLOCKS = 50
_MOST_IN_ROW = 25
"""Buttons in one row."""
_BACKSLASHED = re.compile(r"\\([!-/:-@\[-`{-~])")
_WORD_JOINER = "\u2060"
# What could notify people: <!channel>, <@U1>, <#C1>, <!subteam^S1>, wherever a line is cut; and the words themselves.
_CALL = re.compile(r"<(?=[!@#]|$)|@(?=(?:here|channel|everyone|group)\b)", re.IGNORECASE)
_CALL_IN_CODE = re.compile(r"<(?=!(?:here|channel|everyone|subteam|date)|@[UWB][A-Z0-9]|#[CGD][A-Z0-9])", re.IGNORECASE)

Params: TypeAlias = dict[str, Any]


def disarmed(text: str) -> str:
    """The text with a word joiner in everything that would notify people; it looks the same."""
    return _CALL.sub(lambda found: found.group() + _WORD_JOINER, text)


def _disarmed_code(text: str) -> str:
    return _CALL_IN_CODE.sub(lambda found: found.group() + _WORD_JOINER, text)


DIALECT = Dialect(
    measure=len,
    escape=lambda text: disarmed(escape_marks(text)),
    escape_code=_disarmed_code,
    tables=TABLES,
    table_rows=TABLE_ROWS,
    table_columns=TABLE_COLUMNS,
    table_units=TABLE_CHARACTERS,
    blocks=PAGE_BLOCKS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackPart(Part):
    """One message: Markdown with the elements below it, or one file and nothing else.

    plain: the text is not Markdown, and is sent without blocks unless buttons need one.
    """

    markdown: str = ""
    status: str = ""
    keyboard: Keyboard = ()
    file: OutboundFile | None = None
    plain: bool = False


def escaped(text: str) -> str:
    """Plain text in Slack's own markup, in which it cannot notify anyone ("Escaping text")."""
    return html.escape(text, quote=False)


def layout(message: OutboundMessage) -> tuple[SlackPart, ...]:
    """The messages that show a reply: its text, then its files; () if nothing is visible.

    While the text grows, all but the last two stay unchanged.
    """
    growing = not message.final
    plain = message.plain
    texts = _plain_pages(message.text) if plain else pages(message.text, DIALECT, PAGE_CHARACTERS, growing=growing)
    status = shortened(seen_lines(message.status, _STATUS_CHARACTERS), _STATUS_CHARACTERS)
    done = shortened("\n".join(filter(None, map(seen_line, message.done))), _DONE_CHARACTERS)
    status = status if growing or not texts else done
    if sum(map(len, message.buttons)) > BUTTONS_BELOW or (not texts and (status or message.buttons)):
        texts = (*texts, "")
    parts = [SlackPart(index, markdown=text, plain=plain) for index, text in enumerate(texts)]
    if parts:
        parts[-1] = replace(parts[-1], status=status, keyboard=keyboard(message.buttons))
    files = enumerate(message.files, len(parts))
    return (*parts, *(SlackPart(index, file=file) for index, file in files))


def _plain_pages(markdown: str) -> tuple[str, ...]:
    """Escaped Markdown as the text that it shows, in pieces of one message each."""
    pieces = _fitting(_BACKSLASHED.sub(r"\1", sanitize(markdown)))
    return tuple(piece for piece in pieces if not is_blank(piece))


def _fitting(text: str) -> Iterator[str]:
    if len(escaped(text)) <= PLAIN_CHARACTERS:
        yield text.strip("\n")
        return
    # Escaping made it too long: use smaller pieces.
    for piece in split_text(text, min(PLAIN_CHARACTERS, len(text) // 2 + 1), TextUnit.CHARACTERS):
        yield from _fitting(piece)


def place(address: Address) -> Params:
    """Parameters for the destination: the channel, and the thread if any."""
    params: Params = {"channel": address.chat}
    if address.topic is not None:
        params["thread_ts"] = address.topic
    return params


def only_for(answered: str | None) -> Params:
    """Parameters that show an answer to a slash command only to the person who typed it; {} for any other message."""
    user, private, _ = (answered or "").partition(":")
    return {"user": user} if private else {}


def content(part: SlackPart) -> Params:
    """Parameters for the content. blocks are always given: chat.update leaves missing parameters unchanged."""
    if part.plain:
        return plain_content(part)
    return {"text": _fallback(part, "\n".join(texts_of(parse(part.markdown)))), "blocks": _blocks(part)}


def fits_plain(part: SlackPart) -> bool:
    """Whether `plain_content` shows all of the part."""
    return len(escaped(part.markdown)) <= PLAIN_CHARACTERS


def plain_content(part: SlackPart) -> Params:
    """Parameters for the content if Slack refuses the blocks: text, with a section only if buttons need one."""
    text = _fallback(part, part.markdown)
    if not part.keyboard:
        return {"text": text, "blocks": []}
    section = {"type": "section", "text": {"type": "mrkdwn", "text": text}}
    return {"text": text, "blocks": [section, *_actions(part, _MOST_BLOCKS - 1)]}


def quiet() -> Params:
    """Parameters that disable link previews: fetching one leaks the link to its owner without a click."""
    return {"unfurl_links": False, "unfurl_media": False}


def marked(idem_key: str) -> Params:
    """Metadata by which a message can be found again if its send was not answered."""
    return {"metadata": {"event_type": METADATA_EVENT, "event_payload": {"key": idem_key}}}


def mark_of(message: Mapping[str, Any]) -> str | None:
    """The key that `marked` put on a message of the bot."""
    match message.get("metadata"):
        case {"event_type": str(kind), "event_payload": {"key": str(key)}} if kind == METADATA_EVENT:
            return key
    return None


def _blocks(part: SlackPart) -> list[Params]:
    blocks: list[Params] = []
    if part.markdown:
        blocks.append({"type": "markdown", "text": part.markdown})
    if part.status:
        line = {"type": "plain_text", "text": part.status, "emoji": False}
        blocks.append({"type": "context", "elements": [line]})
    if part.keyboard:
        # The Markdown block counts as the blocks that Slack splits it into.
        blocks += _actions(part, _MOST_BLOCKS - len(parse(part.markdown)) - bool(part.status))
    return blocks


def _actions(part: SlackPart, room: int) -> list[Params]:
    """The buttons in at most `room` blocks: in their rows, or in full rows if those are too many."""
    rows = [piece for row in part.keyboard for piece in _in_blocks(row)]
    if len(rows) > room:
        rows = _in_blocks([button for row in rows for button in row])
    return [
        {
            "type": "actions",
            "elements": [_button(f"{row_number}.{number}", *button) for number, button in enumerate(row)],
        }
        for row_number, row in enumerate(rows)
    ]


def _in_blocks(buttons: Sequence[tuple[str, str]]) -> list[Sequence[tuple[str, str]]]:
    return [buttons[start : start + _MOST_IN_ROW] for start in range(0, len(buttons), _MOST_IN_ROW)]


def _button(action_id: str, label: str, data: str) -> Params:
    text = {"type": "plain_text", "text": label[:_LABEL_CHARACTERS] or "…", "emoji": True}
    return {"type": "button", "action_id": action_id, "text": text, "value": data}


def _fallback(part: SlackPart, words: str) -> str:
    """Text for notifications, searches and clients without blocks; cut last, because escaping makes it longer."""
    labels = " ".join(f"[{label}]" for row in part.keyboard for label, _ in row)
    text = escaped(words or part.status or labels or "…")
    if len(text) <= FALLBACK_CHARACTERS:
        return text
    text = text[: FALLBACK_CHARACTERS - 1]
    # Do not cut inside an entity, which would become an ampersand and some letters.
    start = text.rfind("&", len(text) - 5)
    return (text if start < 0 or ";" in text[start:] else text[:start]) + "…"
