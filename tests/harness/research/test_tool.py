"""research_record: the report as it was delivered, the findings, and what was read of each source."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.tools import ToolRuntime

from harness.graph.signals import RunScope
from harness.research.team import Role
from harness.research.tool import NONE, asks_why, record_tool
from harness.skills.library import NO_SKILLS
from harness.web.sources import MemorySources, Sources
from tests.harness.research.bench import Bench, PlayedTeam, coordinated, planned, step

REPORT = '# T\n\n- One [2].\n- Two [1].\n- "Never said there" [1].\n- Three [7].'


@pytest.fixture
async def bench() -> Bench:
    team = PlayedTeam(
        says={
            Role.COORDINATOR: [coordinated()],
            Role.PLANNER: [planned(step("a"), step("b"))],
            Role.REPORTER: [REPORT],
        }
    )
    return Bench(team)


async def ask(bench: Bench, what: str, words: str = "", sources: Sources | None = None) -> str:
    runtime: Any = ToolRuntime(
        state=await bench.values(),
        context=RunScope(bench.context, NO_SKILLS),
        config={},
        stream_writer=lambda _: None,
        tool_call_id="c1",
        store=None,
    )
    tool: Any = record_tool(bench.team.sources if sources is None else sources)
    return str((await tool.coroutine(what=what, words=words, runtime=runtime)).content)


async def test_it_has_nothing_to_tell_before_a_report_was_delivered(bench: Bench) -> None:
    await bench.ask()
    assert NONE in await ask(bench, "report")


async def test_it_tells_of_the_report_the_findings_and_the_sources_by_their_numbers(bench: Bench) -> None:
    await bench.ask(auto=True)
    report = await ask(bench, "report")
    assert '- One [1].\n- Two [2].\n- "Never said there" (no source).\n- Three (no source).' in report
    assert "Step 1, a (completed):\nFound: a" in await ask(bench, "findings")
    first = await ask(bench, "[1]")
    assert "url: https://a.example/b\ntitle: Page b\n\nWords of b." in first
    assert "Words of a." in await ask(bench, "2", words="WORDS")
    assert "None of these words occurs" in await ask(bench, "2", words="never")
    assert "finding 1 to 4, or a source; the sources are: 1, 2." in await ask(bench, "3")


async def test_a_finding_is_told_with_what_it_rests_on(bench: Bench) -> None:
    bench.team.says[Role.REPORTER] = [
        '# T\n\n## Key points\n\n- It says "Words of b." [2]\n- So be it.\n\n## Detail\n\nMore of it [2].\n\nOther [1].'
    ]
    answer = await bench.ask(auto=True)
    assert '1. It says "Words of b." [1]\n2. So be it.' in answer
    told = await ask(bench, "finding 1")
    assert 'It says "Words of b." [1]' in told
    assert "More of it [1]." in told
    assert "Other" not in told
    assert "Source 1, Page b https://a.example/b, read 2026-01-01 00:00 UTC:\n\nWords of b." in told
    assert "It cites no source" in await ask(bench, "Finding 2")
    assert "Its text is no longer stored." in await ask(bench, "finding 1", sources=MemorySources())
    assert "Say report, steps, finding 1 to 2, or a source; the sources are: 1, 2." in await ask(bench, "finding 3")


async def test_a_page_that_is_not_kept_any_more_is_told_as_that(bench: Bench) -> None:
    await bench.ask(auto=True)
    assert "The text of source 1 is no longer stored." in await ask(bench, "1", sources=MemorySources())
    assert "- One [1]." in await ask(bench, "report", sources=MemorySources())


@pytest.mark.parametrize(
    "text",
    [
        "why do you believe 2?",
        "And why should I trust finding 3",
        "How do you know 1?",
        "为什么相信第 1 点？",
        "为什么你认为 2",
    ],
)
def test_who_asks_why_is_understood(text: str) -> None:
    assert asks_why(text)


@pytest.mark.parametrize(
    "text", ["go deeper on 3", "why do people believe in ghosts?", "Is 2 why you believe it?", "why do you believe so"]
)
def test_other_questions_may_be_searched_for(text: str) -> None:
    assert not asks_why(text)
