"""Analysis of replies on a platform without edits, where an answer that a crash interrupted is repeated below its first
part: the final text of such a reply, and the bubbles left above it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.torture.facts import Reply
    from tests.torture.platform import Bubble

STATUS = "\n\n> "
"""Separator of the status below the text of an unfinished message (channels/wecom/outbound.py)."""


@dataclass(frozen=True, slots=True)
class SaidAnew:
    """The parts of a reply. text: of the messages that count, squeezed. stale: acknowledgements that the message waits,
    and visibly unfinished messages with a beginning of the answer or only a status. twice: messages with the whole
    answer. wrong: any others above the answer, such as a part that looks complete."""

    text: str
    stale: tuple[Bubble, ...] = ()
    twice: tuple[Bubble, ...] = ()
    wrong: tuple[Bubble, ...] = ()


def said_anew(reply: Reply, wanted: str, waits: tuple[str, ...]) -> SaidAnew:
    """Analyze a reply. wanted: the whole answer, waits: the beginnings of acknowledgements, all squeezed."""
    texts = reply.texts
    begin = next((n for n in reversed(range(len(texts))) if "".join(texts[n:]) == wanted), None)
    if begin is None:  # it ends in a notice, which unfinished messages above it are not part of
        above = zip(reply.messages[:-1], texts, strict=False)
        left = [message for message, text in above if message.unfinished or text.startswith(waits)]
        kept = [text for text, message in zip(texts, reply.messages, strict=True) if message not in left]
        return SaidAnew("".join(kept), stale=tuple(left))
    stale, twice, wrong = [], [], []
    for message, text in zip(reply.messages[:begin], texts[:begin], strict=True):
        if text == wanted:
            twice.append(message)
        elif text.startswith(waits) or (message.unfinished and wanted.startswith(_without_status(message.text))):
            stale.append(message)
        else:
            wrong.append(message)
    return SaidAnew(wanted, tuple(stale), tuple(twice), tuple(wrong))


def _without_status(text: str) -> str:
    shown = "" if text.startswith(STATUS.lstrip()) else text.partition(STATUS)[0]
    return "".join(shown.split())
