"""The tour below the chat: what each number calls, what it says where something is missing, in both languages."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from harness.config import ModelSettings
from harness.graph.calls import ASK
from harness.models.tour import DRAW, SALES, SHOPS
from harness.models.tour_texts import EN, ZH
from harness.subagents.config import SubagentsSettings
from sandbox.base import OUTPUTS
from tests.harness.support import Bench, HeldClock, collect, context, finished, in_memory, said

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from harness.events import RunEvent

DEMO = ModelSettings(name="demo", use="demo")


async def talk(bench: Bench, *texts: str, locale: str = "en") -> list[Sequence[RunEvent]]:
    """The events of each turn of one thread."""
    async with bench.open(DEMO) as harness:
        return [
            await collect(harness, context(f"r{turn}", model="demo", locale=locale), said(text, f"m{turn}"))
            for turn, text in enumerate(texts)
        ]


async def answers(bench: Bench, *texts: str, locale: str = "en") -> list[str]:
    return [finished(events).text for events in await talk(bench, *texts, locale=locale)]


def test_both_languages_have_the_same_steps() -> None:
    assert len(EN.steps) == len(ZH.steps) == 8
    assert len(EN.antlers) == len(ZH.antlers)
    assert len(EN.kept) == len(ZH.kept)


@pytest.mark.parametrize("number", ["1", "2", "3"])
async def test_without_a_sandbox_it_says_so(bench: Bench, number: str) -> None:
    assert await answers(bench, number) == [EN.no_sandbox]


async def test_without_commands_it_says_how_to_get_them(bench: Bench) -> None:
    in_memory(bench, bash=False)
    bench.subagents, bench.clock = SubagentsSettings(), HeldClock()
    assert await answers(bench, "1", "2", "3") == [EN.no_commands, EN.no_commands, EN.order_done]


async def test_what_is_switched_off_is_named_by_its_key(bench: Bench) -> None:
    in_memory(bench)
    told = await answers(bench, "2", "5", "6")
    assert told == [EN.switched_off.format(key=f"{key}.enabled") for key in ("subagents", "schedules", "memory")]


async def test_a_number_is_answered_in_the_language_of_the_thread_else_of_the_run(bench: Bench) -> None:
    assert await answers(bench, "1", locale="zh") == [ZH.no_sandbox]


async def test_a_number_after_chinese_words_is_answered_in_chinese(bench: Bench) -> None:
    _, number = await answers(bench, "你能做什么？", "1")
    assert number == ZH.no_sandbox


async def test_the_question_has_its_options_and_the_answer_is_about_the_chosen_one(bench: Bench) -> None:
    in_memory(bench)
    asked, answered = await talk(bench, "4", "Market")
    (question,) = [event for event in asked if event.type == "question"]
    assert question.options == SHOPS
    assert ASK not in str(answered)
    assert "write_file" in str(answered)


def test_without_pandas_plain_python_draws_the_true_totals(tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_bytes(SALES.read_bytes())
    script = DRAW.replace(OUTPUTS, str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=30
    )
    totals: Counter[str] = Counter()
    for row in csv.DictReader(SALES.read_text().splitlines()):
        totals[row["shop"]] += round(float(row["revenue"]) * 100)
    *lines, chart = done.stdout.splitlines()
    assert lines == [f"{shop} {round(totals[shop] / 100)}" for shop in SHOPS]
    assert chart == f"chart: {tmp_path}/revenue.svg"
    texts = ElementTree.parse(tmp_path / "revenue.svg").iter("{http://www.w3.org/2000/svg}text")
    assert tuple(each.text for each in texts) == SHOPS
