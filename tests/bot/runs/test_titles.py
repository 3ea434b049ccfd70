"""Titles of threads: made once, beside the answer, counted, and never in anybody's way."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from bot.runs.titles import LONGEST, Titles, first_words
from bot.settings.sections import BudgetsSettings, TitleSettings
from bot.store import Store, conversations, usage
from bot.store.retrying import RetryingStore
from bot.store.rows import RunRow
from bot.tasks import Tasks
from bot.usage.meter import Totals
from bot.usage.report import make_spending
from channels.message import Address
from harness.config import PriceSettings
from harness.context import UNREADABLE_CONTEXT, RunInput, Titled
from tests.bot.scripted_harness import ScriptedHarness
from tests.clock import VirtualClock
from tests.tables import table

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from bot.store.rows import ConversationRow

NOW = datetime(2025, 3, 1, tzinfo=UTC)
KEY = "telegram:1"
PRICES = {"cheap": PriceSettings(input=1, output=2)}


class Bench:
    """One conversation with its thread, and what names it."""

    def __init__(self, store: Store, clock: VirtualClock) -> None:
        self.store = store
        self.clock = clock
        self.harness = ScriptedHarness()
        self.budgets: dict[str, dict[str, int]] = {}
        self.tasks = Tasks("test")

    async def open(self, title: str = "") -> ConversationRow:
        def unit(tx: object) -> ConversationRow:
            conversations.ensure(tx, KEY, "telegram", KEY, NOW)  # type: ignore[arg-type]
            return conversations.new_thread(tx, KEY, title, NOW)  # type: ignore[arg-type]

        self.row: ConversationRow = await self.store.write(unit)
        return self.row

    def titles(self, **settings: object) -> Titles:
        async def harness() -> ScriptedHarness:
            return self.harness

        chosen = TitleSettings.model_validate(settings)
        store = RetryingStore(self.store, self.clock)
        limits = BudgetsSettings.model_validate(self.budgets)
        budgets = make_spending(store, self.clock, limits, PRICES, ZoneInfo("UTC")).budgets
        return Titles(chosen, store, harness, self.clock, self.tasks, prices=PRICES, budgets=budgets, totals=Totals())

    def run(self, text: str, run_id: str = "r1") -> RunRow:
        return RunRow(
            run_id=run_id,
            thread_id=self.row.thread_id,
            conversation=KEY,
            speaker=KEY,
            inbox_ids=(1,),
            reply_key=run_id,
            address=Address(account="telegram", chat="1", kind="dm"),
            reply_to=None,
            context=UNREADABLE_CONTEXT,
            input=RunInput(message_id="m1", text=text),
            epoch=1,
            created_at=NOW,
        )

    async def title(self) -> str:
        async with asyncio.timeout(20):
            await self.tasks.drain()
        title: str = await self.store.read(lambda tx: conversations.title_of(tx, self.row.thread_id))
        return title


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    clock = VirtualClock()
    store = await Store.open(f"sqlite:///{tmp_path}/antler.db", clock=clock)
    try:
        yield Bench(store, clock)
    finally:
        await store.close()


async def test_the_first_words_name_a_thread_once(bench: Bench) -> None:
    await bench.open()
    titles = bench.titles()
    titles.answered(bench.run("Which cheese goes with pears?"), "Brie.")
    assert await bench.title() == "Which cheese goes with pears?"
    titles.answered(bench.run("And wine?", "r2"), "Riesling.")
    bench.titles().answered(bench.run("And bread?", "r3"), "Baguette.")
    assert await bench.title() == "Which cheese goes with pears?"
    assert bench.harness.titled == []


async def test_a_model_makes_the_title_and_what_it_costs_is_counted(bench: Bench) -> None:
    await bench.open()
    bench.harness.titles = [Titled(text='"**Cheese and pears**."\n', input_tokens=100, output_tokens=5)]
    titles = bench.titles(model="cheap")
    titles.answered(bench.run("Which cheese goes with pears?"), "Brie.")
    titles.answered(bench.run("And wine?", "r2"), "Riesling.")
    assert await bench.title() == "Cheese and pears"
    assert bench.harness.titled == [("cheap", "Which cheese goes with pears?", "Brie.")]
    spent = await bench.store.read(lambda tx: usage.spent(tx, thread_id=bench.row.thread_id))
    assert (spent.totals.input, spent.totals.output, sum(spent.costs.values())) == (100, 5, 110_000)


async def test_a_model_that_fails_leaves_the_first_words(bench: Bench) -> None:
    await bench.open()
    bench.titles(model="cheap").answered(bench.run("Which cheese goes with pears?"), "Brie.")
    assert await bench.title() == "Which cheese goes with pears?"


async def test_a_title_of_ones_own_stays_and_no_model_is_asked(bench: Bench) -> None:
    await bench.open("My pears")
    bench.titles(model="cheap").answered(bench.run("Which cheese?"), "Brie.")
    assert await bench.title() == "My pears"
    assert bench.harness.titled == []


async def test_a_message_without_words_is_named_by_its_answer(bench: Bench) -> None:
    await bench.open()
    bench.titles().answered(bench.run(""), "This is a picture of a cat.")
    assert await bench.title() == "This is a picture of a cat"


async def test_titles_can_be_turned_off(bench: Bench) -> None:
    await bench.open()
    bench.titles(enabled=False, model="cheap").answered(bench.run("Which cheese?"), "Brie.")
    assert await bench.title() == ""


@table(
    ("text", "expected"),
    [
        ("short", "short"),
        ("  \n---\n# A heading\nmore", "A heading"),
        ("a" * 60, "a" * (LONGEST - 1) + "…"),
        ("one two three four five six seven eight nine ten", "one two three four five six seven eight nine ten"),
        ("one two three four five six seven eight nine, eleven", "one two three four five six seven eight nine…"),
        ("请帮我看一下这份合同里有没有什么问题", "请帮我看一下这份合同里有没有什么问题"),
        ("", ""),
        ("!?\n…", ""),
    ],
)
def test_first_words(text: str, expected: str) -> None:
    assert first_words(text) == expected
    assert len(first_words(text)) <= LONGEST


async def test_who_has_used_up_a_budget_gets_the_first_words(bench: Bench) -> None:
    await bench.open()
    bench.budgets = {"speaker_day": {"tokens": 100}}
    bench.harness.titles = [Titled(text="Cats", input_tokens=90, output_tokens=20)] * 2
    bench.titles(model="cheap").answered(bench.run("tell me of cats"), "They purr.")
    assert await bench.title() == "Cats"
    await bench.open()
    bench.titles(model="cheap").answered(bench.run("tell me of dogs", "r2"), "They bark.")
    assert await bench.title() == "tell me of dogs"
    assert len(bench.harness.titled) == 1
