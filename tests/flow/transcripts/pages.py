"""How a play is written down: a line for each thing that people see, with its second."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.flow.transcripts.eyes import Bubble, Eye, Look

BOT = "Antler"
LONGEST, HEAD, TAIL = 600, 360, 160
"""Of a longer text this many characters are shown from its beginning and its end."""
WIDTH = 112
"""Columns; longer lines are folded."""
EDITS = 3
"""Of more edits in a row that only add to one message the middle ones share a line."""
RULES = f"""\
# Seconds since the play began; times are virtual and exact.
# push: a new message, of which a phone tells. silent: one of which it does not. N: the message's number in this chat.
# edit: what was added behind the text (+), what was taken away at its end before that (-), or the whole new text (=).
# A text of more than {LONGEST} characters shows its first {HEAD} and last {TAIL}; of more than {EDITS} edits in a row
# that only add to one message the middle ones share a line; signs of the same kind in a row share one. What stood
# for no time is left out."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that is seen. added: characters, of an edit that only adds. number: of the message, 0 for none."""

    at: float
    kind: str
    who: str
    text: str
    number: int = 0
    added: int = 0


def written(eye: Eye, begin: float) -> list[str]:
    """What an eye saw since a moment, line by line."""
    bubbles = sorted(eye.bubbles(), key=lambda bubble: bubble.looks[0].at)
    events = [event for number, bubble in enumerate(bubbles, 1) for event in _events(bubble, number)]
    events += [Event(sign.at, "sign", sign.who or BOT, sign.text) for sign in (*eye.noted, *eye.signs())]
    seen = sorted((event for event in events if event.at >= begin), key=lambda event: (event.at, event.who == BOT))
    return [line for lines in _shared(seen, begin) for line in lines]


def _events(bubble: Bubble, number: int) -> Iterator[Event]:
    who, before = bubble.who or BOT, None
    for look, following in pairwise((*bubble.looks, None)):
        assert look is not None
        if following is not None and following.at == look.at:
            continue  # nobody has seen it
        if before is None:
            kind = "writes" if bubble.who else "push" if bubble.rings else "silent"
            yield Event(look.at, kind, who, _content(look), number)
        elif (change := _change(before, look)) is not None:
            only_adds = look.text.startswith(before.text) and look.buttons == before.buttons
            added = len(look.text) - len(before.text) if only_adds else 0
            yield Event(look.at, "edit", who, change, number, added)
        before = look
    if bubble.gone is not None:
        yield Event(bubble.gone, "delete", who, "", number)


def _content(look: Look) -> str:
    files = "".join(f"[file {name}] " for name in look.files)
    return f"{files}{_short(look.text)}{_buttons(look)}"


def _buttons(look: Look) -> str:
    return "".join(f"\n[{label}]" if not index else f" [{label}]" for index, label in enumerate(look.buttons))


def _change(before: Look, look: Look) -> str | None:
    if (before.text, before.buttons) == (look.text, look.buttons):
        return None
    buttons = "" if before.buttons == look.buttons else _buttons(look) or "\nno buttons"
    if before.text == look.text:
        return buttons.lstrip("\n")
    pairs = zip(before.text, look.text, strict=False)
    common = next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(before.text), len(look.text)))
    removed, added = before.text[common:], look.text[common:]
    if not removed:
        return f"+ {_short(added)}{buttons}"
    if common >= len(removed):
        return f"- {_short(removed)}\n+ {_short(added)}{buttons}" if added else f"- {_short(removed)}{buttons}"
    return f"= {_short(look.text)}{buttons}"


def _short(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    left_out = len(text) - HEAD - TAIL
    return f"{text[:HEAD]} [... {left_out} characters ...] {text[-TAIL:]}"


def _shared(events: Sequence[Event], begin: float) -> Iterator[list[str]]:
    """The lines of all events; those in a row that say the same share one."""
    at = 0
    while at < len(events):
        event, end = events[at], at + 1
        while end < len(events) and _alike(event, events[end]):
            end += 1
        run = events[at:end]
        if event.kind == "sign" and len(run) > 1:
            yield _lines(event, begin, f"{event.text}, {len(run)} times until {run[-1].at - begin:.1f} s")
        elif event.kind == "edit" and len(run) > EDITS:
            middle, added = run[1:-1], sum(each.added for each in run[1:-1])
            yield _lines(event, begin, event.text)
            yield _lines(
                middle[0], begin, f"{len(middle)} edits until {middle[-1].at - begin:.1f} s: + {added} characters"
            )
            yield _lines(run[-1], begin, run[-1].text)
        else:
            for each in run:
                yield _lines(each, begin, each.text)
        at = end


def _alike(first: Event, other: Event) -> bool:
    if first.kind == "sign":
        return (other.kind, other.who, other.text) == ("sign", first.who, first.text)
    return bool(first.kind == "edit" == other.kind and first.added and other.added and first.number == other.number)


def _lines(event: Event, begin: float, text: str) -> list[str]:
    number = str(event.number or "")
    head = f"{event.at - begin:7.1f} s  {event.kind:<6} {number:>2}  {event.who}:"
    indent = " " * (len(head) - len(event.who) - 1)
    lines = [part for line in text.split("\n") for part in _wrapped(line, WIDTH - len(indent))]
    return [f"{head} {lines[0]}".rstrip(), *(f"{indent}{line}".rstrip() for line in lines[1:])]


def _wrapped(line: str, width: int) -> list[str]:
    return textwrap.wrap(line, width, replace_whitespace=False) or [""]
