"""Where nothing that was sent can change, an answer that a process died in is said anew below what it had shown. What
such a reply says in the end, and what it left above that. Pure; asked by oracle.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.torture.facts import Reply
    from tests.torture.platform import Bubble

STATUS = "\n\n> "
"""What stands below the text of a message that is being worked on (channels/wecom/outbound.py)."""


@dataclass(frozen=True, slots=True)
class SaidAnew:
    """text: of the messages that count, squeezed. stale: acknowledgements that the message waits, and what is visibly
    unfinished, with a beginning of the answer or only a status. twice: with the whole answer. wrong: anything else that
    stands above, such as a part that looks whole."""

    text: str
    stale: tuple[Bubble, ...] = ()
    twice: tuple[Bubble, ...] = ()
    wrong: tuple[Bubble, ...] = ()


def said_anew(reply: Reply, wanted: str, waits: tuple[str, ...]) -> SaidAnew:
    """wanted: the whole answer, waits: how acknowledgements begin, all squeezed."""
    texts = reply.texts
    begin = next((n for n in reversed(range(len(texts))) if "".join(texts[n:]) == wanted), None)
    if begin is None:  # it ends otherwise, in a notice: what is unfinished above it is not part of that
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
