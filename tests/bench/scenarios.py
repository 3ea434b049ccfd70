"""The scenarios by name, each with its full and its quick size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bench.chains import chain_cost
from tests.bench.chats import Load, chats_at_once, default_rate, first_words
from tests.bench.commits import commits
from tests.bench.delegation import Runs, delegation
from tests.bench.everywhere import Size, four_platforms
from tests.bench.fairness import fairness
from tests.bench.floors import Turns, floors, to_floor
from tests.bench.mcp import many_tools
from tests.bench.page import Looks, first_paint, page_cost
from tests.bench.remembering import memory_cost
from tests.bench.replay import postgres
from tests.bench.sandboxes import FULL, QUICK, sandboxes
from tests.bench.split import split
from tests.bench.stage import LONG, SHORT
from tests.bench.starts import starts
from tests.bench.threads import long_thread
from tests.bench.workers import workers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.bench.figures import Outcome
    from tests.bench.stage import Question


def _chats(
    chats: int, rounds: int, quick_rounds: int, question: Question = SHORT
) -> Callable[[bool], Awaitable[Outcome]]:
    return lambda quick: chats_at_once(Load(chats, quick_rounds if quick else rounds, question))


SCENARIOS: dict[str, Callable[[bool], Awaitable[Outcome]]] = {
    "start": lambda quick: starts(3, 4.0) if quick else starts(10, 10.0),
    "chats-1": _chats(1, 40, 10),
    "chats-1-long": _chats(1, 6, 2, LONG),
    "commits": lambda quick: commits(5 if quick else 21),
    "chats-50": _chats(50, 10, 2),
    "chats-50-long": _chats(50, 2, 1, LONG),
    "chats-200": _chats(200, 3, 1),
    "chats-1000": _chats(1000, 2, 1),
    "chats-50-default-rate": lambda quick: default_rate(1 if quick else 3),
    "first-words": lambda quick: first_words(3 if quick else 10),
    "platforms-4x25": lambda quick: four_platforms(Size(1, 4.0) if quick else Size(5, 10.0)),
    "thread-300": lambda quick: long_thread(100 if quick else 300),
    "subagents-50x3": lambda quick: delegation(Runs(50, 1 if quick else 4)),
    "sandboxes": lambda quick: sandboxes(QUICK if quick else FULL),
    "fairness": lambda quick: fairness(5 if quick else 30),
    "mcp-200": lambda quick: many_tools(200, 5 if quick else 20),
    "page": lambda quick: page_cost(Looks(1, 2.0) if quick else Looks(6, 10.0)),
    "first-paint": lambda quick: first_paint(2 if quick else 5),
    "memory": lambda quick: memory_cost(10 if quick else 50),
    "chain": lambda quick: chain_cost(50 if quick else 300),
    "floor": lambda quick: floors(50 if quick else 300),
    "to-floor": lambda quick: to_floor(Turns(1, 50, 2, 10) if quick else Turns(3, 200, 6, 30)),
    "workers": lambda quick: workers((1,), 5.0) if quick else workers((1, 2, 4, 8), 30.0),
    "postgres": lambda quick: postgres((1,), 5.0) if quick else postgres((1, 2, 4), 30.0),
    "split": lambda quick: split(5 if quick else 15),
}
