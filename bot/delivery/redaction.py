"""Removes known secrets from everything that a reply shows, right before a message is stored or laid out."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING

from bot.texts.markdown import plain
from channels.text.blocks import texts
from channels.text.parse import open_marks, parse
from channels.text.sanitize import sanitize

if TYPE_CHECKING:
    from bot.redaction import Redactor
    from channels.message import OutboundMessage

SMALLEST_ADDITION, LARGEST_ADDITION = 200, 4000
"""Characters of one additional message, where an answer can only grow by messages."""
_ADDRESS = re.compile(r"\]\(https?://[A-Za-z0-9\-._/:?&=%#+,;@!$]*\)")
"""The end of a link of the simplest kind."""
_DECODED = re.compile(r"&#|&[A-Za-z][A-Za-z0-9]*;|<[A-Za-z][^<>\s]*%")
"""Text that is shown as other characters than written: entities, and percent-encoding in an address in < and >."""
_FORMATTING = "\\&*_~|`[<"
"""A text with none of these characters is shown as written."""


def redact_message(message: OutboundMessage, redact: Redactor) -> OutboundMessage:
    """The same message with every text that a person can see redacted; Button.data never holds a secret."""
    return replace(
        message,
        text=_redacted(message.text, redact, growing=not message.final),
        status=_redacted(message.status, redact, growing=False),
        done=tuple(redact(sanitize(line)) for line in message.done),
        buttons=tuple(
            tuple(replace(button, label=redact(sanitize(button.label))) for button in row) for row in message.buttons
        ),
        files=tuple(replace(file, name=redact(file.name)) for file in message.files),
    )


def _redacted(markdown: str, redact: Redactor, *, growing: bool) -> str:
    """The text redacted both as it is written and as it will be displayed."""
    source = redact(sanitize(markdown))
    if growing:
        source = redact.without_beginning(source)
    return without_hidden(source, redact, growing=growing) if may_hide(source, redact) else source


def may_hide(source: str, redact: Redactor) -> bool:
    """Whether Markdown may split or escape a secret in the text. Rarely true without a secret, and much cheaper than
    parsing the text as Markdown.

    Within a paragraph, markup and escapes consist of punctuation, so letters and digits stay as they are; except for
    decoded text, and for the address of a link, which may interrupt a secret or turn out not to be an address.
    """
    if not any(sign in source for sign in _FORMATTING):
        return False
    if _DECODED.search(source):
        return True
    without_links = _ADDRESS.sub("]", source)
    if "](" in without_links:
        return True
    return redact.may_begin_in(without_links) or (without_links != source and redact.may_begin_in(source))


def without_hidden(source: str, redact: Redactor, *, growing: bool) -> str:
    """Redact a text. If a secret only appears once it is parsed as Markdown, the whole text loses its formatting."""
    addresses: list[str] = []
    shown = "\n\n".join(texts(parse(source, growing=growing), addresses))
    safe, safe_addresses = redact(shown), [redact(address) for address in addresses]
    if growing:
        safe = redact.without_beginning(safe)
    if (safe, safe_addresses) == (shown, addresses):
        return source
    return plain("\n".join([safe, *safe_addresses]))


class GrowingText:
    """The text of an append-only stream: the text shown so far is always a prefix of the next one.

    The last `hold` characters are held back until the end, since a secret could begin in them. A text that does not
    continue the previous one (the model's next step) is put below it.
    """

    def __init__(self) -> None:
        self._above = ""
        self._whole = ""
        self._shown = ""
        self._seen = 0
        self._cut = 0
        self._fitting = 0

    def grow(self, text: str, hold: int) -> str:
        """The text that the open stream shows for the reply's text `text`: all except the part in earlier streams."""
        whole = self._above + text
        if not whole.startswith(self._shown.rstrip()):
            self._above = self._whole + "\n\n"
            whole = self._above + text
        self._whole = whole
        self._shown = whole[: max(len(self._shown), len(whole) - hold)]
        return self._below()

    def add(self, text: str, hold: int) -> str:
        """The text of the next message where messages can only be sent: complete paragraphs, "" while they are short.

        It counts as shown after `mark`, as with `grow`.
        """
        self._shown = self._shown[: self._seen]
        before = self._shown
        self.grow(text, hold)
        end = self._seen + paragraphs_end(self._shown[self._seen :], inside=bool(_reopened_fence(before)))
        self._shown = self._shown[: end if end - self._cut >= SMALLEST_ADDITION else self._seen]
        return self._below()

    def fit(self, fits: bool) -> str:
        """The text that the stream shows, given whether the text last returned by `grow` fits into its message: if not,
        the last text that did, if any."""
        if fits:
            self._fitting = len(self._shown)
        elif self._fitting > self._cut:
            self._shown = self._shown[: self._fitting]
        return self._below()

    def _below(self) -> str:
        if not self._cut:
            return self._shown
        start = self._cut - len(_divided(self._shown[: self._cut], self._shown[self._cut :]))
        rest = self._shown[start:]
        below = rest.lstrip("\n")
        return _reopened(self._shown[:start], rest) + below if below else ""

    def mark(self, *, fitting: bool = False) -> None:
        """Note that the text last returned by `grow` or `add` is on the platform. fitting: only what `fit` returned."""
        self._seen = max(self._fitting, self._cut) if fitting else len(self._shown)

    def cut(self) -> None:
        """Leave the message with the text as of the last `mark`; the next one continues after it."""
        self._cut = self._seen

    def restart(self) -> None:
        """Forget the shown text, as the stream is lost."""
        self._above = self._whole = self._shown = ""
        self._seen = self._cut = self._fitting = 0


def paragraphs_end(text: str, *, inside: bool) -> int:
    """The end of the last complete paragraph within LARGEST_ADDITION, 0 for none. Code blocks are never divided.

    inside: the text begins in a code block.
    """
    at = end = 0
    for line in text.splitlines(keepends=True):
        if at > LARGEST_ADDITION:
            break
        if line.lstrip().startswith("```"):
            inside = not inside
        if not (line.strip() or inside):
            end = at
        at += len(line)
    return end


def _divided(before: str, rest: str) -> str:
    """The end of `before` that is repeated in front of `rest`: half a line of code, or half a row of a table."""
    line = before.rpartition("\n")[2]
    whole = line.lstrip().startswith("|") or _reopened_fence(before)
    return line if whole and rest[:1] not in ("", "\n") else ""


def _reopened(before: str, rest: str) -> str:
    """What is put in front of `rest` so that it looks the same in a message of its own: the line that opens its code
    block, the header of its table, or the marks that are open in its line."""
    if fence := _reopened_fence(before):
        return fence
    *lines, line = before.split("\n")
    if line or not rest.startswith("|"):
        letter = rest[:1] if rest[:1].isalnum() else ""
        return "" if rest.startswith("\n") else "".join(open_marks(line + letter))
    rows = list(takewhile(lambda row: row.lstrip().startswith("|"), reversed(lines)))
    return "".join(f"{row}\n" for row in rows[:-3:-1])


def _reopened_fence(before: str) -> str:
    """The line that opens a code block again when `before` ends inside one."""
    fences = [line.strip() for line in before.splitlines() if line.lstrip().startswith("```")]
    return fences[-1] + "\n" if len(fences) % 2 else ""
