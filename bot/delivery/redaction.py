"""Takes known secrets out of everything that a reply shows; used right before a message is stored or laid out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from channels.message import OutboundMessage


class Redactor(Protocol):
    """sign: the length in characters of what `without_beginning` leaves of a secret that has only just begun."""

    @property
    def sign(self) -> int: ...
    def __call__(self, text: str) -> str: ...
    def without_beginning(self, text: str) -> str: ...


def redact_message(message: OutboundMessage, redact: Redactor) -> OutboundMessage:
    """The same message with every text that a person can see redacted; Button.data never holds a secret of ours."""
    text = redact(message.text)
    return replace(
        message,
        text=text if message.final else redact.without_beginning(text),
        status=redact(message.status),
        buttons=tuple(tuple(replace(button, label=redact(button.label)) for button in row) for row in message.buttons),
        files=tuple(replace(file, name=redact(file.name)) for file in message.files),
    )


SMALLEST_ADDITION, LARGEST_ADDITION = 200, 4000
"""Characters of a message that an answer grows by where it can only grow by messages."""


class GrowingText:
    """The text of an append-only stream: what was shown stays a prefix of what is shown next, whatever comes.

    The last `hold` characters are kept back until the end, since a secret could begin in them. A text that is not the
    continuation of the last one (the model's next step) goes below it.
    """

    def __init__(self) -> None:
        self._above = ""
        self._whole = ""
        self._shown = ""
        self._seen = 0
        self._cut = 0

    def grow(self, text: str, hold: int) -> str:
        """What the open stream shows now that the reply's text is `text`: all but what earlier streams keep."""
        whole = self._above + text
        if not whole.startswith(self._shown):
            self._above = self._whole + "\n\n"
            whole = self._above + text
        self._whole = whole
        self._shown = whole[: max(len(self._shown), len(whole) - hold)]
        return self._below()

    def add(self, text: str, hold: int) -> str:
        """What the next message shows where each can only be sent: paragraphs that are complete, "" while too few are.

        What it shows counts as shown once it is marked, as with `grow`.
        """
        self._shown = self._shown[: self._seen]
        before = self._shown
        self.grow(text, hold)
        end = self._seen + paragraphs_end(self._shown[self._seen :], inside=bool(_reopened_fence(before)))
        self._shown = self._shown[: end if end - self._cut >= SMALLEST_ADDITION else self._seen]
        return self._below()

    def _below(self) -> str:
        if not self._cut:
            return self._shown
        below = self._shown[self._cut :].lstrip("\n")
        return _reopened_fence(self._shown[: self._cut]) + below if below else ""

    def mark(self) -> None:
        """What `grow` returned last is on the platform."""
        self._seen = len(self._shown)

    def cut(self) -> None:
        """The message keeps what was on the platform at the last `mark`; the next one goes on behind that."""
        self._cut = self._seen

    def restart(self) -> None:
        """The stream is lost: nothing of what it showed counts."""
        self._above = self._whole = self._shown = ""
        self._seen = self._cut = 0


def paragraphs_end(text: str, *, inside: bool) -> int:
    """Where the last complete paragraph within LARGEST_ADDITION ends, 0 where none does. A code block is no two.

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


def _reopened_fence(before: str) -> str:
    """The line that opens a code block again when `before` ends inside one."""
    fences = [line.strip() for line in before.splitlines() if line.lstrip().startswith("```")]
    return fences[-1] + "\n" if len(fences) % 2 else ""
