"""A small language in user messages that drives the simulated model, so that a person in a chat can do so.

One directive per line; they count only if the message begins with one (after an optional "Speaker: "), so that neither
a quoted history nor a summary prompt is obeyed. Words without a meaning for a directive are labels:
`!status 500 times=1 chat-7` fails once for that text.

    !say TEXT                        !tokens COUNT MILLISECONDS        !long CHARACTERS
    !count NUMBER (plain text "1 2 3 ... NUMBER", in which a gap or a repetition shows)
    !tool NAME {json}                !tools NAME {json} NAME {json}    !reasoning TEXT
    !quote WORDS (the sentence of the tools' results that contains them)
    !status CODE [retry-after=S] [code=C] [times=N]                    !context MESSAGES
    !hang  !reset  !cut  !garbage  !error      each [after=TOKENS] [times=N]
    !filter [request]                !empty    !refuse                 !finish REASON
    !pause NAME
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from tests.simulators.model.prose import prose
from tests.simulators.model.scripts import (
    Call,
    ContextLength,
    Cut,
    Finish,
    Garbage,
    Hang,
    Pause,
    Quote,
    Reason,
    Refuse,
    Reset,
    Say,
    Script,
    Status,
    Step,
    StreamError,
    Tokens,
    ToolUse,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_LINE = re.compile(r"^(?:[^\n!]{1,80}: )?!(?P<name>[a-z]+)(?: (?P<rest>.*))?$")


class BadDirective(ValueError):
    """A known directive with unusable arguments; the text names them."""


def parse(text: str) -> Script | None:
    """The script that the text requests, None without any. Raises BadDirective."""
    lines = text.strip().split("\n")
    if _directive(lines[0]) is None:
        return None
    steps: list[Step] = []
    for line in lines:
        found = _directive(line)
        if found is not None:
            steps.extend(_steps(*found))
    return Script(tuple(steps))


def _directive(line: str) -> tuple[str, str] | None:
    match = _LINE.match(line.strip())
    if match is None or match["name"] not in _DIRECTIVES:
        return None
    return match["name"], (match["rest"] or "").strip()


def _steps(name: str, rest: str) -> list[Step]:
    try:
        return _DIRECTIVES[name](rest)
    except (ValueError, IndexError) as error:
        raise BadDirective(f"!{name} {rest}: {error}") from error


def _options(rest: str) -> tuple[list[str], dict[str, str]]:
    """Words without and with an equals sign."""
    words = rest.split()
    return [w for w in words if "=" not in w], dict(w.split("=", 1) for w in words if "=" in w)


def _times(options: dict[str, str]) -> int | None:
    return int(options["times"]) if "times" in options else None


def _say(rest: str) -> list[Step]:
    return [Say(text=rest)]


def _tokens(rest: str) -> list[Step]:
    words, _ = _options(rest)
    return [Tokens(count=int(words[0]) if words else 20, delay_ms=float(words[1]) if len(words) > 1 else 10.0)]


def _long(rest: str) -> list[Step]:
    length = int(rest.split()[0])
    return [Say(text=prose(length), pieces=max(8, length // 200))]


def _count(rest: str) -> list[Step]:
    number = int(rest.split()[0])
    return [Say(text=" ".join(map(str, range(1, number + 1))), pieces=max(8, number // 50))]


def _tools(rest: str) -> list[Step]:
    decoder = json.JSONDecoder()
    calls = []
    while rest:
        name, _, rest = rest.partition(" ")
        end = 0
        if rest.startswith("{"):
            _, end = decoder.raw_decode(rest)
        calls.append(ToolUse(name=name, arguments=rest[:end] or "{}"))
        rest = rest[end:].strip()
    if not calls:
        raise ValueError("name a tool")
    return [Call(calls=tuple(calls))]


def _status(rest: str) -> list[Step]:
    words, options = _options(rest)
    wait = float(options["retry-after"]) if "retry-after" in options else None
    return [Status(status=int(words[0]), retry_after=wait, code=options.get("code"), times=_times(options))]


def _context(rest: str) -> list[Step]:
    words, options = _options(rest)
    return [ContextLength(messages=int(words[0]) if words else 10, times=_times(options))]


def _filter(rest: str) -> list[Step]:
    words, options = _options(rest)
    if "request" in words:
        return [Status(status=400, code="content_filter", times=_times(options))]
    return [Tokens(count=3), Finish(reason="content_filter")]


def _pause(rest: str) -> list[Step]:
    name = rest.split()[0]
    return [Say(text="The first half of the answer, "), Pause(name=name), Say(text="and the second half.")]


def _breaks(fault: Callable[[int | None], Step], tokens: int) -> Callable[[str], list[Step]]:
    """A directive that fails after some tokens."""

    def steps(rest: str) -> list[Step]:
        _, options = _options(rest)
        count = int(options.get("after", tokens))
        told: list[Step] = [Tokens(count=count)] if count else []
        return [*told, fault(_times(options))]

    return steps


_DIRECTIVES: dict[str, Callable[[str], list[Step]]] = {
    "say": _say,
    "tokens": _tokens,
    "long": _long,
    "count": _count,
    "reasoning": lambda rest: [Reason(text=rest or "Let me think. " * 5)],
    "quote": lambda rest: [Quote(words=rest)],
    "tool": _tools,
    "tools": _tools,
    "status": _status,
    "context": _context,
    "filter": _filter,
    "pause": _pause,
    "hang": _breaks(lambda times: Hang(times=times), 0),
    "reset": _breaks(lambda times: Reset(times=times), 5),
    "cut": _breaks(lambda times: Cut(times=times), 5),
    "garbage": _breaks(lambda times: Garbage(times=times), 5),
    "error": _breaks(lambda times: StreamError(times=times), 5),
    "empty": lambda rest: [Finish(reason="stop")],
    "refuse": lambda rest: [Refuse()],
    "finish": lambda rest: [Finish(reason=rest.split()[0])],
}
