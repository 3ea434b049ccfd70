"""A thread of a hundred turns: what was said at its beginning is still before the model at its end, and the requests of
its end are no longer than those of its middle."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool

from harness.config import SummarizationSettings
from harness.graph.messages import MARK, SUMMARY
from harness.text.frames import PLAN
from tests.harness.support import Bench, Script, calls, collect, context, finished, said, unpaired

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from harness.run.runner import HarnessRunner

TURNS = 100
RESTART = 40
"""The turn before which the process is another one."""
FACT = re.compile(r"FACT\[[^\]]+\]")
ALLERGY, LOCKER, DEADLINE = "FACT[no peanuts]", "FACT[locker 17]", "FACT[due on Friday]"
PLANTED = {0: ALLERGY, 1: LOCKER, 2: DEADLINE}
"""By the turn: the person says the first, a tool the second, the agent itself the third."""
QUESTION = "Which of my facts do you know?"
ROUND = 2
"""A call of a tool and its result."""


@tool
async def look(turn: int) -> str:
    """Look at the notes."""
    return f"{LOCKER if turn == 1 else 'nothing new'}, page {turn} " + "and so on " * 30


def todos(*statuses: str) -> dict[str, Any]:
    steps = ("Read the figures", "Draw the chart", "Write the report")
    return {"todos": [{"content": step, "status": each} for step, each in zip(steps, statuses, strict=True)]}


BEGUN, GONE_ON = todos("in_progress", "pending", "pending"), todos("completed", "in_progress", "pending")
PLANS = {3: BEGUN, 50: GONE_ON}
"""By the turn in which they are written."""


@dataclass
class Provider:
    """What the scripted model does with requests: it checks them, and summarises what it really reads."""

    script: Script
    turn: int = 0
    summaries: list[str] = field(default_factory=list)
    sizes: list[tuple[int, int]] = field(default_factory=list)
    """Messages and characters of each request for an answer."""

    def check(self, messages: list[BaseMessage]) -> None:
        if is_summary_prompt(messages):
            self.summaries.append(f"Known so far: {', '.join(facts_in(messages))}.")
            self.script.steps.insert(0, self.summaries[-1])
            return
        assert unpaired(messages) is None
        assert [m.type for m in messages].count("system") == 1
        assert all(str(m.content).strip() or getattr(m, "tool_calls", ()) for m in messages)
        assert set(facts_in(messages)) >= {fact for turn, fact in PLANTED.items() if turn < self.turn}
        self._check_plan(messages)
        self.sizes.append((len(messages), sum(len(str(m.content)) for m in messages)))

    def _check_plan(self, messages: list[BaseMessage]) -> None:
        """The newest plan stands in the request, as the call that wrote it or, once a summary took that, as a note."""
        written = [plan for turn, plan in PLANS.items() if turn < self.turn]
        if not written:
            return
        called = [call["args"] for m in messages if isinstance(m, AIMessage) for call in m.tool_calls]
        if not any("todos" in args for args in called):
            note = str(messages[-1].content)
            assert f"<{PLAN}>" in note
            assert ("[x] Read the figures" in note) == (written[-1] is GONE_ON)
        else:
            # In its own turn the newest one is there already, with its result.
            assert [args for args in called if "todos" in args][-1] in (written[-1], PLANS.get(self.turn))

    async def answer(self) -> str:
        """Answers the question for the facts from the summary alone."""
        (summary,) = [m for m in self.script.requests[-1] if m.additional_kwargs.get(MARK) == SUMMARY]
        return " ".join(facts_in([summary]))


def is_summary_prompt(messages: list[BaseMessage]) -> bool:
    return len(messages) == 1 and "Messages to summarize:" in str(messages[0].content)


def facts_in(messages: list[BaseMessage]) -> list[str]:
    return sorted({fact for m in messages for fact in FACT.findall(str(m.content))})


async def take_turn(harness: HarnessRunner, provider: Provider, turn: int) -> None:
    """The person says something, the model calls a tool, then answers."""
    provider.turn = turn
    call = ("write_todos", PLANS[turn]) if turn in PLANS else ("look", {"turn": turn})
    provider.script.steps = [
        calls(call, ids=[f"call-{turn}"]),
        f"Noted: {DEADLINE}." if turn == 2 else f"That is page {turn}.",
    ]
    text = f"I eat {ALLERGY}." if turn == 0 else f"What is on page {turn}?"
    finished(await collect(harness, context(f"r{turn}"), said(text)))


async def test_a_hundred_turns_lose_no_fact_and_do_not_grow(bench: Bench, script: Script) -> None:
    settings = SummarizationSettings()
    bench.tools, bench.summarization = [look], settings
    provider = Provider(script)
    script.check = provider.check
    async with bench.open() as harness:
        for turn in range(RESTART):
            await take_turn(harness, provider, turn)
    async with bench.open() as harness:
        for turn in range(RESTART, TURNS):
            await take_turn(harness, provider, turn)
        provider.turn, script.steps = TURNS, [provider.answer]
        events = await collect(harness, context("r-last"), said(QUESTION))
    assert sorted(FACT.findall(finished(events).text)) == sorted(PLANTED.values())
    assert facts_in([m for m in script.requests[-1] if m.additional_kwargs.get(MARK) != SUMMARY]) == []

    assert len(provider.summaries) >= 5, "each was made of the one before"
    assert all(text.count("FACT[") == len(PLANTED) for text in provider.summaries)
    lengths, characters = zip(*provider.sizes, strict=True)
    # The system prompt and the plan's note stand beside the history.
    assert max(lengths) <= settings.max_messages + ROUND + 2
    half = len(characters) // 2
    assert max(characters[half:]) <= 1.1 * max(characters[:half])


def test_a_request_that_lacks_something_fails_the_check() -> None:
    provider = Provider(Script(), turn=1)
    system, question = SystemMessage("You help."), HumanMessage("What is on page 1?")
    provider.check([system, HumanMessage(f"I eat {ALLERGY}."), question])
    with pytest.raises(AssertionError):
        provider.check([system, question])
    provider.turn = 60
    facts = HumanMessage(" ".join(PLANTED.values()))
    note = f"<{PLAN}>\n[{{}}] Read the figures\n</{PLAN}>"
    provider.check([system, facts, question, HumanMessage(note.format("x"))])
    for last in (question, HumanMessage(note.format(">"))):
        with pytest.raises(AssertionError):
            provider.check([system, facts, question, last])
