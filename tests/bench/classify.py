"""The rules that assign a profile to the parts of the gateway. Pure.

A line of `py-spy record --format raw --threads --full-filenames --nolineno` is a stack: the thread, its frames from the
outermost to the innermost as "function (file)", and its number of samples.

1. The innermost frame whose file belongs to a part decides for the whole stack. The standard library, pydantic, anyio
   and HTTP libraries belong to no part: their work is their caller's. json called from the OpenAI SDK is the model
   client's, the same json called from bot/ is the gateway's.
2. If no frame decides, an HTTP library that only one client uses does: the event loop calls it back, with no caller
   left on the stack. (aiohttp serves both clients, so its work without a caller is assigned to the loop.)
3. The rest is the event loop itself: its iterations, timers, and the reading of sockets.

A waiting thread is not working, so stacks that end in a wait do not count. The work of a thread is the CPU time that
the system reports for it, not its number of samples; the stacks only divide that time among the parts.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

PLATFORM = "platform client"
MODEL = "model client"
HARNESS = "harness"
CHECKPOINTS = "checkpoints"
STORE = "store"
OWN = "bot and channels"
LOOP = "event loop and sockets"

PARTS: dict[str, tuple[str, ...]] = {
    PLATFORM: (
        "telegram/",
        "channels/telegram/api.py",
        "channels/telegram/request.py",
    ),
    MODEL: (
        "openai/",
        "langchain_openai/",
        "tiktoken/",
        "harness/models/chat_openai.py",
        "harness/models/transport.py",
    ),
    CHECKPOINTS: ("langgraph/checkpoint/", "harness/threads/checkpoints", "harness/threads/sqlite_saver"),
    STORE: ("sqlalchemy/", "bot/store/"),
    HARNESS: ("langgraph/", "langchain_core/", "langchain/", "langsmith/", "harness/"),
    OWN: ("bot/", "channels/"),
}
"""Files by part, relative to the source tree or to site-packages; the first part with a matching prefix gets a file."""

SHELL = frozenset({"bot/__main__.py", "bot/process/app.py", "bot/process/loop.py"})
"""Files that only start the event loop: they are on every stack of the main thread and decide nothing."""

TRANSPORTS = {"httpx/": PLATFORM, "httpcore/": PLATFORM, "httpx2/": MODEL, "httpcore2/": MODEL}

WAITS = frozenset(
    {
        ("EpollSelector.select", "selectors.py"),
        ("_worker", "concurrent/futures/thread.py"),
        ("Condition.wait", "threading.py"),
        ("wait", "threading.py"),
    }
)
"""Innermost function, and end of its file's path, of idle threads."""

_THREAD = re.compile(r"^thread \((\d+)\)")
_FRAME = re.compile(r"^(?P<function>.*) \((?P<file>[^()]+)\)$")


def shares(profile: Iterable[str], worked: Mapping[int, float], root: Path) -> dict[str, float]:
    """Each part's share, adding up to 1, in the order of PARTS with the loop last; empty if nothing was profiled.

    worked: CPU seconds by thread id while the profile was taken. root: the source tree.
    """
    seen: dict[int, Counter[str]] = defaultdict(Counter)
    for line in profile:
        stack, _, count = line.strip().rpartition(" ")
        thread = _THREAD.match(stack)
        if thread and count.isdigit() and not waits(stack):
            seen[int(thread[1])][part_of(stack, root)] += int(count)
    used: dict[str, float] = defaultdict(float)
    for thread_id, seconds in worked.items():
        stacks = seen.get(thread_id) or Counter({LOOP: 1})
        for part, seen_there in stacks.items():
            used[part] += seconds * seen_there / stacks.total()
    total = sum(used.values())
    return {part: used[part] / total for part in (*PARTS, LOOP)} if seen and total else {}


def working_samples(profile: Iterable[str]) -> int:
    """Number of samples that the shares are based on."""
    stacks = (line.strip().rpartition(" ") for line in profile)
    return sum(int(count) for stack, _, count in stacks if count.isdigit() and not waits(stack))


def waits(stack: str) -> bool:
    """Whether the thread was waiting for work."""
    match = _FRAME.match(stack.rpartition(";")[2])
    return match is not None and any(
        match["function"] == function and match["file"].endswith(file) for function, file in WAITS
    )


def part_of(stack: str, root: Path) -> str:
    """The part that a stack's time belongs to."""
    matches = (_FRAME.match(frame) for frame in reversed(stack.split(";")))
    files = [_relative(match["file"], root) for match in matches if match]
    decided = (part for file in files if (part := _owner(file)) is not None)
    carried = (part for file in files for start, part in TRANSPORTS.items() if file.startswith(start))
    return next(decided, None) or next(carried, LOOP)


def _owner(file: str) -> str | None:
    if file in SHELL:
        return None
    return next((part for part, beginnings in PARTS.items() if file.startswith(beginnings)), None)


def _relative(file: str, root: Path) -> str:
    """The path as in PARTS."""
    _, installed, inside = file.rpartition("/site-packages/")
    return inside if installed else file.removeprefix(f"{root}/")
