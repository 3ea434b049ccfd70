"""The lead agent delegates: what subagents get, what they share, what comes back, and what people see of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool

from harness.events import SubagentEnded, SubagentProgress, SubagentStarted, SubagentState
from harness.subagents.config import GENERAL_PURPOSE, SubagentsSettings
from tests.harness.subagents.crew_bench import LONG, Cast, delegates, of_type, role, task
from tests.harness.support import Bench, Script, calls, collect, context, finished, in_memory, said, visible

if TYPE_CHECKING:
    from harness.events import AnyRunEvent


async def played(bench: Bench, script: Script, cast: Cast, run: str = "r1", **more: Any) -> list[AnyRunEvent]:
    cast.play(script)
    async with bench.open() as harness, asyncio.timeout(LONG):
        return await collect(harness, context(run), said("please do it"), **more)


async def test_a_report_comes_back_and_the_lead_agent_answers(bench: Bench, script: Script) -> None:
    cast = Cast({"lead": [delegates("count the files"), "There are two."], "count the files": ["I counted: two."]})
    events = await played(bench, script, cast)
    assert finished(events).text == visible(events) == "There are two."
    assert cast.results() == [
        "[general-purpose: completed, 1 model calls, 0 s]\nThe task was completed.\nIts report:\nI counted: two."
    ]


async def test_what_is_told_of_it(bench: Bench, script: Script) -> None:
    look = calls(("ls", {"path": "/mnt/user-data"}), text="Let me look.")
    cast = Cast({"lead": [delegates("count"), "Two."], "count": [look, "I counted: two."]})
    events = await played(bench, script, cast)
    kinds = [event.type for event in events if event.type != "usage"]
    assert kinds[:5] == ["tool_started", "subagent_started", "subagent_progress", "subagent_ended", "tool_ended"]
    assert set(kinds[5:]) == {"text_delta", "finished"}, "a subagent's text and tools are none of the lead agent's"
    (started,), (ended,) = of_type(events, "subagent_started"), of_type(events, "subagent_ended")
    assert (started.call_id, started.subagent, started.description) == ("task-count", GENERAL_PURPOSE, "do count")
    assert (ended.call_id, ended.state, ended.model_calls) == ("task-count", SubagentState.COMPLETED, 2)
    assert len(of_type(events, "usage")) == 4, "what the subagent's calls cost is told of the run"


async def test_a_subagent_knows_only_its_task(bench: Bench, script: Script) -> None:
    cast = Cast(
        {
            "lead": ["Hello.", delegates("look at <antler-context>"), "Done."],
            "look at &lt;antler-context>": ["Nothing."],
        }
    )
    cast.play(script)
    async with bench.open() as harness:
        await collect(harness, context("r1"), said("my secret is 42"))
        await collect(harness, context("r2"), said("go"))
    system, human = cast.asked["look at &lt;antler-context>"][0]
    assert isinstance(human, HumanMessage)
    assert "42" not in f"{system.content}{human.content}"
    assert "date: 2025-03-01" in str(human.content)
    assert "Work on the task until it is done" in str(system.content)


async def test_the_tools_of_the_built_in_ones(bench: Bench, script: Script) -> None:
    @tool
    async def lookup() -> str:
        """Look up."""
        return "found"

    bench.tools = [lookup]
    both = calls(task("a"), task("b", "bash"))
    cast = Cast({"lead": [both, "done"], "a": ["a"], "b": ["b"]})
    await played(bench, script, cast)
    files = {"ls", "glob", "grep", "read_file", "write_file", "str_replace"}
    assert cast.offered["lead"] >= {*files, "bash", "task", "present_files", "lookup"}
    assert cast.offered["a"] == {*files, "bash", "lookup"}
    assert cast.offered["b"] == {*files, "bash"}


async def test_without_commands_there_is_no_bash_subagent(bench: Bench, script: Script) -> None:
    in_memory(bench, bash=False)
    cast = Cast({"lead": [delegates("x", kind="bash"), "done"]})
    await played(bench, script, cast)
    assert cast.results() == ["There is no such type. Use one of: general-purpose."]


async def test_they_share_the_files_and_what_they_read_is_their_own(bench: Bench, script: Script) -> None:
    write = calls(("write_file", {"path": "note.txt", "content": "from below"}))
    change = calls(("write_file", {"path": "note.txt", "content": "from above"}))
    cast = Cast(
        {
            "lead": [delegates("write"), change, calls(("read_file", {"path": "note.txt"})), "done"],
            "write": [write, "written"],
        }
    )
    await played(bench, script, cast)
    refused, text = cast.results()[-2:]
    assert "have not read it as it is now" in refused, "the lead agent has not seen what its subagent wrote"
    assert text == "from below"


async def test_tasks_of_one_answer_run_side_by_side(bench: Bench, script: Script) -> None:
    together = asyncio.Barrier(3)

    async def meets() -> str:
        await together.wait()
        return "met"

    cast = Cast({"lead": [delegates("a", "b", "c"), "done"], "a": [meets], "b": [meets], "c": [meets]})
    events = await played(bench, script, cast)
    assert [ended.state for ended in of_type(events, "subagent_ended")] == [SubagentState.COMPLETED] * 3


async def test_parallel_tools_with_equal_ids_in_several_subagents_are_all_called(bench: Bench, script: Script) -> None:
    ran: list[str] = []

    @tool
    async def act(name: str) -> str:
        """Act."""
        ran.append(name)
        return name * 30_000

    bench.tools = [act]
    lines: dict[str, Any] = {
        who: [calls(("act", {"name": f"{who}1"}), ("act", {"name": f"{who}2"})), f"report {who}"] for who in "ab"
    }
    cast = Cast({"lead": [delegates("a", "b"), "done"], **lines})
    await played(bench, script, cast)
    assert sorted(ran) == ["a1", "a2", "b1", "b2"]
    kept = in_memory_files(bench)
    assert len(kept) == 4, "each long result has a file of its own"
    begun = [key.call_id for key in bench.effects.records if "/" in key.call_id.partition("/")[2]]  # type: ignore[attr-defined]
    assert sorted(begun) == [f"r1-1/task-{who}/r1-1/call-{number}" for who in "ab" for number in (0, 1)]


def in_memory_files(bench: Bench) -> list[str]:
    assert bench.sandbox is not None
    provider: Any = bench.sandbox.provider
    return [entry.path for entry in provider.drive("thread-1").listed("/mnt/user-data/outputs/.tool-results", 1, 100)]


async def test_it_waits_for_its_turn_and_says_so(bench: Bench, script: Script) -> None:
    bench.subagents = SubagentsSettings(max_concurrent=1)
    order: list[str] = []

    def works(who: str) -> Any:
        async def work() -> str:
            order.append(f"begin {who}")
            await asyncio.sleep(0)
            order.append(f"end {who}")
            return who

        return work

    cast = Cast({"lead": [delegates("a", "b"), "done"], "a": [works("a")], "b": [works("b")]})
    events = await played(bench, script, cast)
    assert order == ["begin a", "end a", "begin b", "end b"]
    kinds = (SubagentStarted, SubagentProgress, SubagentEnded)
    told = [(event.type, event.call_id) for event in events if isinstance(event, kinds)]
    assert told.index(("subagent_started", "task-b")) < told.index(("subagent_ended", "task-a")), "it is pending"
    assert told.index(("subagent_progress", "task-b")) > told.index(("subagent_ended", "task-a")), "and then running"


async def test_more_tasks_than_allowed_are_cut_and_the_model_is_told(bench: Bench, script: Script) -> None:
    bench.subagents = SubagentsSettings(per_run=2)
    cast = Cast(
        {
            "lead": [delegates("a", "b", "c", "d"), delegates("c", "d"), "done"],
            **{who: [who] for who in "abcd"},
        }
    )
    events = await played(bench, script, cast)
    assert finished(events).text == "done"
    assert len(of_type(events, "subagent_started")) == 4
    _, second, third = cast.asked["lead"]
    assert "were not started: do c; do d." in str(second[-1].content)
    assert "At most 2 tasks run at once" in str(second[-1].content)
    assert not any("were not started" in str(message.content) for message in third), "told once, and kept nowhere"


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ({"subagent_type": "nobody"}, "There is no such type. Use one of: general-purpose, bash."),
        ({"prompt": "  "}, "prompt needs between 1 and 50000 characters. Use files for more."),
    ],
)
async def test_a_call_that_makes_no_sense_is_refused(
    bench: Bench, script: Script, arguments: dict[str, str], answer: str
) -> None:
    name, whole = task("x")
    cast = Cast({"lead": [calls((name, whole | arguments)), "done"]})
    events = await played(bench, script, cast)
    assert cast.results() == [answer]
    assert not of_type(events, "subagent_started")


async def test_a_subagent_that_calls_task_all_the_same_is_refused(bench: Bench, script: Script) -> None:
    cast = Cast({"lead": [delegates("a"), "done"], "a": [delegates("deeper"), "could not delegate"]})
    events = await played(bench, script, cast)
    assert "deeper" not in cast.asked
    assert "task is not a valid tool" in cast.results("a")[0]
    assert len(of_type(events, "subagent_started")) == 1


async def test_the_prompt_teaches_it_only_where_it_is_on(bench: Bench, script: Script) -> None:
    cast = Cast({"lead": ["hello"]})
    await played(bench, script, cast)
    assert "task" in cast.offered["lead"]
    on = str(script.requests[-1][0].content)
    assert "Call task at most 3 times in one answer" in on
    assert role(script.requests[-1]) == "lead"
    for settings in (None, SubagentsSettings(enabled=False)):
        bench.subagents = settings
        cast = Cast({"lead": ["hello"]})
        await played(bench, script, cast, f"r-{settings}")
        assert "subagent" not in str(script.requests[-1][0].content)
        assert "task" not in cast.offered["lead"]
