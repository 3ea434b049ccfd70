"""No text from people or a model can slow down the gateway: the time of every pattern, and of the functions that read,
show and lay out untrusted text, grows linearly with the length of the text, not quadratically.

Times are CPU times of this thread, the minimum of several runs, and only compared with each other, so that a busy
machine has no effect.
"""

from __future__ import annotations

import gc
import importlib
import inspect
import pkgutil
import re
import sys
import time
from functools import cache, lru_cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessageChunk, ai
from langchain_core.messages.tool import tool_call_chunk

from bot.redaction import Redactor
from channels.console import channel as console
from channels.feishu import outbound as feishu
from channels.message import OutboundMessage
from channels.slack import outbound as slack
from channels.telegram import outbound as telegram
from channels.text.parse import parse
from channels.wecom import outbound as wecom
from harness.guardrails.rules import read
from harness.guardrails.shown import shown_arguments, shown_proposal
from harness.memory.redaction import without_secrets
from harness.models.chat_openai import partial_json
from harness.text.frames import VisibleStream, as_data, harmless, neutral, visible
from harness.text.plain import one_line, plain_text
from sandbox.shell.audit import assess
from tests.memory_channel import MemoryMode
from tests.memory_channel import layout as memory_layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# The parser of `re`: no public API, and without types.
kinds: Any = importlib.import_module("re._constants")
parser: Any = importlib.import_module("re._parser")

PATTERN_SIZES = (1_000, 4_000)
READER_SIZES = (4_000, 16_000)
"""Characters; layout works by pages, which the longer text nearly fills."""
NEGLIGIBLE = 0.002
"""CPU seconds at the larger size: anything this fast does not reread the text for each of 4000 characters."""
MOST_GROWTH = 8.0
"""Growth from the smaller size to the larger one: 4 if linear, 16 if quadratic."""
RUNS = (1, 3, 7)
"""Numbers of runs: slow results are measured again, more often, because something else may have been running."""
PACKAGES = ("bot", "channels", "harness", "sandbox")

EXEMPT = {
    "harness.memory.taint._FILES": "looks only at blocks of the gateway's own making; foreign text cannot open one",
    "sandbox.shell.suspicious.SOCKETS": "is only ever matched at the beginning of a word of a command (`mentions`)",
}
"""Patterns that are quadratic on texts that they never receive, and the reason."""

UNITS = (
    *("a", "A", "0", "_", "-", " ", "\n", "\t", "\r", "\0", "é", "字", "\u200b", "\x1b[", "\x1b]", "😀"),
    *(
        "a ",
        "a-",
        "a.",
        "a,",
        "a\n",
        "a=",
        "0-",
        "0 ",
        " \n",
        "\n\n a",
        "--a ",
        "-u ",
        "://a:",
        "a/",
        "$(",
        "${",
        "<!--",
    ),
    *(
        "(",
        ")",
        "[",
        "]",
        "<",
        ">",
        "`",
        "*",
        "_a",
        "\\",
        "'",
        '"',
        "|",
        "|a",
        "||",
        "~~",
        "{",
        "&",
        "&#",
        "!",
        "@a ",
        "#",
    ),
    *("<a ", "[a](", "](", "![", "[[", "> ", "- ", "  - ", "1. ", "*a ", "**a", "```\n", "|a|b|\n", "<antler-", "#!"),
    *("password", "token=", "cookie:", "passport", "-----BEGIN ", "<antler-files>\n", "sk-", "eyJ", "bearer ", "www."),
)
ENDINGS = ("", "!\0", "\n x")


@lru_cache(maxsize=2000)
def _text(before: str, unit: str, size: int, ending: str) -> str:
    return before + (unit * (size // len(unit) + 1))[:size] + ending


def _seconds(work: Callable[[str], object], text: str, runs: int = 1) -> float:
    least = float("inf")
    for _ in range(runs):
        begun = time.thread_time()
        work(text)
        least = min(least, time.thread_time() - begun)
    return least


@pytest.fixture(autouse=True)
def _no_collection() -> Iterator[None]:
    """Disable garbage collection, which would add to the time of some runs."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def slow_shapes(
    work: Callable[[str], object],
    shapes: list[tuple[str, str]],
    sizes: tuple[int, int] = PATTERN_SIZES,
    endings: tuple[str, ...] = ENDINGS,
) -> Iterator[str]:
    """The shapes (a prefix and a repeated unit) for which the time grows faster than the text."""
    for before, unit in shapes:
        for ending in endings:
            small, large = (_text(before, unit, size, ending) for size in sizes)
            if growth := _growth(work, small, large):
                yield f"{before!r} + n * {unit!r} + {ending!r}: {growth:.1f} times as long"


def _growth(work: Callable[[str], object], small: str, large: str) -> float:
    """Ratio of the times of the larger and the smaller text, 0 if it is at most MOST_GROWTH."""
    least_small = least_large = float("inf")
    for runs in RUNS:
        least_large = min(least_large, _seconds(work, large, runs))
        if least_large < NEGLIGIBLE:
            return 0.0
        least_small = min(least_small, _seconds(work, small, runs + 1))
        if least_large <= least_small * MOST_GROWTH:
            return 0.0
    return least_large / least_small


# The patterns. A text that a pattern rereads consists of its own parts: the part before a repetition, once or many
# times, and the repeated part.


@cache
def _modules() -> tuple[Any, ...]:
    found = (
        info.name
        for package in PACKAGES
        for info in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.")
    )
    left_out = ("__main__", "migrations")
    return tuple(importlib.import_module(name) for name in found if not any(part in name for part in left_out))


@cache
def _source() -> str:
    root = Path(__file__).parent.parent
    return "\n".join(path.read_text() for package in PACKAGES for path in sorted((root / package).rglob("*.py")))


def _patterns() -> dict[str, re.Pattern[Any]]:
    """Each compiled pattern of the product once, by its first name."""
    found: dict[re.Pattern[Any], str] = {}
    for module in _modules():
        for name, value in vars(module).items():
            if not name.startswith("__"):
                for pattern in _within(value, 0):
                    found.setdefault(pattern, f"{module.__name__}.{name}")
    named: dict[str, re.Pattern[Any]] = {}
    for pattern, name in found.items():
        same = sum(other.partition("#")[0] == name for other in named)
        named[f"{name}#{same}" if same else name] = pattern
    return named


def _within(value: object, depth: int) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth < 4 and isinstance(value, tuple | list | set | frozenset):
        for item in value:
            yield from _within(item, depth + 1)
    elif depth < 4 and isinstance(value, dict):
        for item in value.items():
            yield from _within(item, depth + 1)


def _shapes(pattern: re.Pattern[Any]) -> list[tuple[str, str]]:
    source = pattern.pattern.decode("latin-1") if isinstance(pattern.pattern, bytes) else pattern.pattern
    tree = parser.parse(source, pattern.flags & ~(re.UNICODE | re.LOCALE))
    own = {
        shape for before, unit in _repeated(tree, "") for shape in ((before, unit), ("", before), ("", before + unit))
    }
    return [("", unit) for unit in UNITS] + sorted(shape for shape in own if shape[1])


_REPEATS = (kinds.MAX_REPEAT, kinds.MIN_REPEAT, kinds.POSSESSIVE_REPEAT)


def _repeated(tree: Any, before: str) -> Iterator[tuple[str, str]]:
    """Examples of text before each repetition, with the repeated text."""
    for kind, value in tree:
        if kind in _REPEATS:
            yield before, _example(value[2]) or "a"
            yield from _repeated(value[2], before)
        elif kind is kinds.SUBPATTERN:
            yield from _repeated(value[3], before)
        elif kind is kinds.BRANCH:
            for branch in value[1]:
                yield from _repeated(branch, before)
        elif kind in (kinds.ASSERT, kinds.ASSERT_NOT):
            yield from _repeated(value[1], before)
        elif kind is kinds.ATOMIC_GROUP:
            yield from _repeated(value, before)
        before = (before + _example([(kind, value)], at_least=1))[-200:]


def _example(tree: Any, at_least: int = 0) -> str:
    return "".join(_one(kind, value, at_least) for kind, value in tree)


def _one(kind: Any, value: Any, at_least: int) -> str:
    if kind is kinds.LITERAL:
        return chr(value)
    if kind is kinds.IN:
        return _of_class(value)
    if kind in (kinds.ANY, kinds.NOT_LITERAL):
        return "a" if value != ord("a") else "b"
    if kind is kinds.BRANCH:
        return _example(value[1][0], at_least)
    if kind is kinds.SUBPATTERN:
        return _example(value[3], at_least)
    if kind is kinds.ATOMIC_GROUP:
        return _example(value, at_least)
    return _example(value[2], at_least) * max(value[0], at_least) if kind in _REPEATS else ""


_CATEGORIES = {kinds.CATEGORY_DIGIT: "0", kinds.CATEGORY_SPACE: " ", kinds.CATEGORY_NOT_WORD: "-"}


def _of_class(items: Any) -> str:
    taken = [
        chr(value if kind is kinds.LITERAL else value[0]) if kind is not kinds.CATEGORY else _CATEGORIES.get(value, "a")
        for kind, value in items
        if kind is not kinds.NEGATE
    ]
    if items[0][0] is not kinds.NEGATE:
        return taken[0]
    return next((sign for sign in "a -0\n=:/.é" if sign not in taken), "字")


def _reader(name: str, pattern: re.Pattern[Any]) -> Callable[[str], object]:
    """A function that applies the pattern like the product: only at the start of a text if it is never searched for."""
    module, _, short = name.partition("#")[0].rpartition(".")
    private = short.startswith("_") and module in sys.modules
    source = inspect.getsource(sys.modules[module]) if private else _source()
    uses = set(re.findall(rf"\b{short}\.(\w+)", source))
    anchored = bool(uses) and uses <= {"match", "fullmatch"}
    methods = (pattern.match, pattern.fullmatch) if anchored else (lambda text: [*pattern.finditer(text)],)

    def run(text: str) -> None:
        subject: Any = text.encode(errors="replace") if isinstance(pattern.pattern, bytes) else text
        for method in methods:
            method(subject)

    return run


ROOMS = ("bot.", "channels.", "harness.memory.", "harness.skills.", "harness.", "sandbox.")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("room", ROOMS)
def test_no_pattern_reads_a_text_again_and_again(room: str) -> None:
    here = {
        name: pattern
        for name, pattern in _patterns().items()
        if name not in EXEMPT and next(each for each in ROOMS if name.startswith(each)) == room
    }
    slow = {
        name: shapes for name, each in here.items() if (shapes := [*slow_shapes(_reader(name, each), _shapes(each))])
    }
    assert here
    assert not slow


def test_what_is_exempt_is_there() -> None:
    assert set(EXEMPT) <= set(_patterns())


@pytest.mark.parametrize("pattern", [r"\n\n+(?=\S)", r"(?=[\w-]*?token)[\w-]+=", r" +$", r"<[^>]+>"])
def test_the_measure_knows_a_quadratic_pattern(pattern: str) -> None:
    compiled = re.compile(pattern)
    assert any(slow_shapes(_reader("", compiled), _shapes(compiled)))


# Functions that read, show and lay out untrusted text.

REDACT = Redactor(["correct-horse-battery", "123456:abcdefghijklmnopqrstuvwxyz0123456789"])
_NEW = count()


def _outbound(text: str) -> OutboundMessage:
    """A new message each time, so that nothing from the last measurement is cached."""
    return OutboundMessage(text=f"{next(_NEW)}\n\n{text}", final=True)


def _called(text: str) -> None:
    """A part of a call, as a model streams it, and the whole call."""
    assert vars(ai)["parse_partial_json"] is partial_json  # in place of LangChain's own
    for arguments in (text, f'{{"command": {text}'):
        AIMessageChunk(content="", tool_call_chunks=[tool_call_chunk(name="bash", args=arguments, id="1", index=0)])


def _streamed(text: str) -> None:
    stream = VisibleStream()
    for place in range(0, len(text), 500):
        stream.feed(text[place : place + 500])
    stream.end()


READERS: dict[str, Callable[[str], object]] = {
    "parse": lambda text: parse(_outbound(text).text),
    "parse growing": lambda text: parse(_outbound(text).text, growing=True),
    "telegram": lambda text: telegram.layout(_outbound(text)),
    "slack": lambda text: slack.layout(_outbound(text)),
    "feishu": lambda text: feishu.layout(_outbound(text)),
    "wecom": lambda text: wecom.layout(_outbound(text)),
    "console": lambda text: console.layout(_outbound(text)),
    "memory": lambda text: memory_layout(_outbound(text), MemoryMode()),
    "approval": lambda text: shown_arguments("remember", {"content": text}),
    "approval of a command": lambda text: shown_arguments("bash", {"command": text}),
    "proposal": shown_proposal,
    "command": read,
    "audit": assess,
    "one line": one_line,
    "plain text": plain_text,
    "server's text": harmless,
    "prompt": as_data,
    "a call's arguments": _called,
    "frames": lambda text: (neutral(text), visible(text)),
    "streamed": _streamed,
    "memory's secrets": without_secrets,
    "redaction": lambda text: (REDACT(text), REDACT.without_beginning(text)),
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", READERS)
def test_nothing_takes_longer_than_a_text_is_long(name: str) -> None:
    assert not [*slow_shapes(READERS[name], [("", unit) for unit in UNITS], READER_SIZES, ENDINGS[-1:])]
