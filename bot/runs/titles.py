"""Titles: a thread is named once its first answer is sent; the conversation does not wait for that."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from cachetools import LRUCache

from bot.runs.endings import NO_AFTERMATH, Aftermath
from bot.store import conversations, usage
from bot.store.rows import RunState
from bot.store.usage import UsageRow
from bot.usage.budgets import payer_of
from bot.usage.meter import EventRecord
from harness.config import SAME
from harness.events import Usage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from sqlalchemy import Connection

    from bot.runs.endings import Ending
    from bot.settings.sections import TitleSettings
    from bot.store.retrying import RetryingStore
    from bot.store.rows import RunRow
    from bot.tasks import Tasks
    from bot.usage.budgets import Budgets
    from bot.usage.meter import Totals
    from channels.base import Clock
    from harness.config import PriceSettings
    from harness.context import Titled
    from harness.ports import Harness

log = logging.getLogger(__name__)

ANSWERED = frozenset({RunState.SUCCESS, RunState.LIMITED})
LONGEST = 48
"""Most characters of a title."""
REMEMBERED = 4096
"""Most threads that are remembered as having a title."""
AROUND = " \t*_#`\"'“”„‘’«»「」『』《》.。"
"""Characters that models put around a title."""


class Titles:
    """Names threads, each at most once and never replacing a person's own title; on a failure, by the first words.

    harness: returns it as soon as it is built. prices: of the models that have one. budgets: a person whose budget is
    used up gets the first words too. totals: the cost of titles is added there.
    settings: may be replaced later.
    """

    def __init__(
        self,
        settings: TitleSettings,
        store: RetryingStore,
        harness: Callable[[], Awaitable[Harness]],
        clock: Clock,
        tasks: Tasks,
        *,
        prices: Mapping[str, PriceSettings],
        budgets: Budgets,
        totals: Totals,
    ) -> None:
        self.settings = settings
        self._store = store
        self._harness = harness
        self._clock = clock
        self._tasks = tasks
        self._prices = prices
        self._budgets = budgets
        self._totals = totals
        self._known: LRUCache[str, None] = LRUCache(REMEMBERED)

    def after(self, row: RunRow, ending: Ending, text: str) -> Aftermath:
        """Aftermath of a run's end: an answer gives its thread a name."""
        if ending.state not in ANSWERED:
            return NO_AFTERMATH
        return Aftermath(committed=lambda: self.answered(row, text))

    def answered(self, row: RunRow, answer: str) -> None:
        """Name the thread of a run that has ended with an answer, in the background."""
        if self.settings.enabled and row.thread_id not in self._known:
            self._known[row.thread_id] = None  # already now, so that the next answer does not request a title too
            self._tasks.spawn(f"title:{row.thread_id}", self._name(row, answer))

    async def _name(self, row: RunRow, answer: str) -> None:
        thread, said = row.thread_id, row.input.words
        title, calls = first_words(said) or first_words(answer), tuple[UsageRow, ...]()
        model = self.settings.model
        if model == SAME:
            model = row.context.model
        if model and await self._may_ask(row):
            made = await (await self._harness()).title(model, said, answer)
            if made is not None:
                title, calls = first_words(made.text.strip(AROUND)) or title, self._cost(made, model, row)

        def unit(tx: Connection) -> None:
            conversations.name_thread(tx, thread, title)
            usage.add(tx, calls)

        await self._store.write(unit)
        log.debug("thread %s has a title", thread)

    async def _may_ask(self, row: RunRow) -> bool:
        """Whether the thread has no title yet, and the person who would pay for one has budget left."""
        if await self._store.read(lambda tx: conversations.title_of(tx, row.thread_id)):
            return False
        return not any(purse.share >= 1 for purse in await self._budgets.purses(payer_of(row)))

    def _cost(self, made: Titled, model: str, row: RunRow) -> tuple[UsageRow, ...]:
        record = EventRecord(self._prices, self._totals)
        read, written = made.input_tokens, made.output_tokens
        record.add(Usage(run_id=row.run_id, seq=0, model=model, input_tokens=read, output_tokens=written))
        return record.calls(row, self._clock.now())


def first_words(text: str) -> str:
    """The beginning of a text as one line, cut between words if possible; "" for a text without words."""
    lines = (" ".join(line.split()).strip(AROUND) for line in text.splitlines())
    line = next((line for line in lines if any(map(str.isalnum, line))), "")
    if len(line) <= LONGEST:
        return line
    cut = line.rfind(" ", LONGEST // 2, LONGEST)
    return line[: cut if cut > 0 else LONGEST - 1].rstrip(" ,;:-") + "…"
