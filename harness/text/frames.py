"""Blocks that the harness appends to a person's text, and foreign text made harmless.

The blocks are for the model: foreign text cannot open or close one, and a model's repetition of them is never emitted.
The tags begin like nothing that people write, so that neither rule ever affects someone's own XML.
"""

from __future__ import annotations

import re
from collections import deque

from harness.text.plain import clean_text, cut, plain_text, readable, seen, short_line

FRAMES = (
    *("antler-context", "antler-quoted", "antler-said-by-others", "antler-files", "antler-limit", "antler-image"),
    *("antler-outside", "antler-plan", "antler-skill", "antler-memory"),
)
CONTEXT, QUOTED, SAID_BY_OTHERS, FILES, LIMIT, IMAGE, OUTSIDE, PLAN, SKILL, MEMORY = FRAMES

_OPENING = "<antler-"
_TAG = re.compile(r"<(?=\s*+/?\s*+antler-)", re.IGNORECASE)
"""Possessive: a text of blanks must not be scanned again and again."""
_BLOCK = re.compile(r"<(antler-[a-z-]{1,32})>.*?(?:</\1>|\Z)|</antler-[a-z-]*>?", re.DOTALL)
_UNFINISHED = re.compile(r"<antler-[a-z-]{0,32}")

_TEMPLATE = re.compile(
    r"<(?=\|)|<(?=\s*+/?\s*+(?:tool_(?:response|result|call)s?|function_(?:results?|calls?))\b)", re.I
)
"""Markup of some models' chat templates."""
_BLANKS = re.compile(r"\n{3,}")


def framed(name: str, body: str) -> str:
    """The block, ready to be appended to a text; body is already data (`neutral`)."""
    return f"<{name}>\n{body}\n</{name}>"


def outside(text: str) -> str:
    """Text of strangers as a block that the text cannot end, with nothing in it hidden from a reader."""
    return framed(OUTSIDE, harmless(text))


def neutral(text: str) -> str:
    """Foreign text, unable to open or close a block but otherwise unchanged."""
    return _TAG.sub("&lt;", text)


def visible(text: str) -> str:
    """A model's text without blocks that it repeated; an unclosed one hides the rest."""
    return _BLOCK.sub("", text) if "antler-" in text else text


def settled(text: str) -> str:
    """The part of a growing text that will certainly be visible: without an end that may turn out to be a tag."""
    shown = visible(text)
    start = max(shown.rfind("<"), 0)
    tail = shown[start:]
    unfinished = _OPENING.startswith(tail) or "</antler-".startswith(tail) or _UNFINISHED.fullmatch(tail)
    return shown[:start] if tail.startswith("<") and unfinished else shown


class VisibleStream:
    """`visible` for a text that arrives in pieces: what was emitted stays right whatever follows."""

    def __init__(self) -> None:
        self._held = ""
        self._out = ""
        self._closing = ""

    def feed(self, piece: str) -> str:
        """The text that can be emitted now."""
        if not self._held and "<" not in piece:
            return piece
        unread = max(0, len(self._held) - len(self._closing))
        self._held += piece
        if self._closing and self._closing not in self._held[unread:]:
            return ""  # hidden by an open block
        fresh = settled(self._held)[len(self._out) :]
        self._out += fresh
        last = _last(self._held)
        self._closing = _closing(self._held, last)
        rest, end = visible(self._held)[len(self._out) :], 0 if last is None else last.end()
        is_over = not self._closing and (end < len(self._held) or self._held.endswith(">"))
        if is_over and end <= len(self._held) - len(rest):  # otherwise a block has split what may be a tag
            self._held, self._out = rest, ""
        return fresh

    def end(self) -> str:
        """The rest, after the end of the text."""
        rest = visible(self._held)[len(self._out) :]
        self._held = self._out = self._closing = ""
        return rest


def _last(text: str) -> re.Match[str] | None:
    last = deque(_BLOCK.finditer(text), maxlen=1)
    return last[0] if last else None


def _closing(text: str, found: re.Match[str] | None) -> str:
    """The end tag of the block that is open at the text's end, "" if none is. found: the last block."""
    if found is None or found[1] is None or found.end() < len(text) or found[0].endswith(f"</{found[1]}>"):
        return ""
    return f"</{found[1]}>"


def as_data(text: str, *, limit: int | None = None) -> str:
    """The only place where foreign text is made safe for a prompt: it cannot open or close our frames.

    limit: for names, which must also stay on one line. Invisible characters, which could hide such a frame or an order,
    are removed; everything else is unchanged.
    """
    text = readable(clean_text(text))
    if limit is not None:
        text = short_line(text, limit)
    return neutral(text)


def harmless(text: str) -> str:
    """The text without terminal codes and invisible characters, unable to end a result or open a block of Antler's."""
    return neutral(_TEMPLATE.sub("&lt;", seen(plain_text(text))))


def described(text: str, limit: int) -> str:
    """A description for the model: harmless, and no longer than `limit`."""
    return cut(_BLANKS.sub("\n\n", harmless(text)).strip(), limit)


def line(text: str, limit: int = 120) -> str:
    """The text on one line, for logs and /status."""
    return short_line(harmless(text), limit)
