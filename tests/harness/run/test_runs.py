"""Start, resume, settle: a run's life over restarts of the process."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import aclosing, closing
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, tool

from harness.context import Unfinished
from harness.events import FailureKind, Finished, Outcome, Resumed, TextReset, ToolEnded, ToolStarted, Usage
from harness.graph.calls import INTERRUPTED
from harness.graph.messages import INTERRUPTED_TURN, MARK
from harness.ports import MemoryEffectLog
from harness.threads.operations import CUT_OFF, NOT_FINISHED
from tests.harness.support import Bench, Script, calls, collect, context, failed, finished, said, visible

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from harness.events import AnyRunEvent
    from harness.ports import EffectKey
    from harness.run.runner import HarnessRunner


class Toolbox:
    """Two tools, one of which may be run twice; each call waits at its gate when there is one."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.entered: dict[str, asyncio.Event] = {}

    def gate(self, name: str) -> asyncio.Event:
        """From now on calls with this name wait; returns the event that says one does."""
        self.gates[name] = asyncio.Event()
        self.entered[name] = asyncio.Event()
        return self.entered[name]

    async def _act(self, name: str) -> str:
        self.ran.append(name)
        if name in self.gates:
            self.entered[name].set()
            await self.gates[name].wait()
        return f"done {name}"

    def tools(self) -> list[BaseTool]:
        act = self._act

        @tool
        async def send(name: str) -> str:
            """Send a letter."""
            return await act(name)

        @tool
        async def read(name: str) -> str:
            """Read a letter."""
            return await act(name)

        read.metadata = {"idempotent": True}
        return [send, read]


@pytest.fixture
def toolbox(bench: Bench) -> Toolbox:
    box = Toolbox()
    bench.tools = box.tools()
    return box


async def stopped_at(
    harness: HarnessRunner, run: str, text: str, *entered: asyncio.Event, begun: int = 0, ended: int = 0
) -> list[AnyRunEvent]:
    """Start a run, and cancel it when all this has happened: the events, so many tool calls begun, so many ended."""
    events: list[AnyRunEvent] = []
    told = {"tool_started": asyncio.Semaphore(0), "tool_ended": asyncio.Semaphore(0)}

    async def follow() -> None:
        async with aclosing(harness.run(context(run), said(text))) as stream:
            async for event in stream:
                events.append(event)
                if event.type in told:
                    told[event.type].release()

    task = asyncio.create_task(follow())
    async with asyncio.timeout(10):
        for event in entered:
            await event.wait()
        for kind, count in (("tool_started", begun), ("tool_ended", ended)):
            for _ in range(count):
                await told[kind].acquire()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return events


def at(event: asyncio.Event) -> Callable[[], Awaitable[str]]:
    """A scripted answer that never comes; tells when it is asked for."""

    async def wait() -> str:
        event.set()
        await asyncio.Event().wait()
        return ""

    return wait


@pytest.mark.parametrize(("counted", "told"), [(10**30, 1_000_000_000), (-5, 0), (7, 7)])
async def test_what_no_provider_can_count_is_not_believed(
    bench: Bench, script: Script, counted: int, told: int
) -> None:
    """The store could not hold it, and less than nothing would give budgets back what was spent."""
    tokens: Any = {"input_tokens": counted, "output_tokens": counted, "total_tokens": 2 * counted}
    script.steps = [AIMessage("Good morning!", usage_metadata=tokens)]
    async with bench.open() as harness:
        events = await collect(harness, context("r1"), said("hello"))
    (usage,) = [event for event in events if isinstance(event, Usage)]
    assert (usage.input_tokens, usage.output_tokens) == (told, told)


async def test_an_answer_is_streamed_and_kept(bench: Bench, script: Script) -> None:
    script.steps = ["Good morning!"]
    async with bench.open() as harness:
        events = await collect(harness, context("r1"), said("hello"))
        assert visible(events) == "Good morning!"
        assert [event.type for event in events[-2:]] == ["usage", "finished"]
        assert events[-1] == Finished(
            run_id="r1", seq=len(events), outcome=Outcome.SUCCESS, text="Good morning!", message_id="r1-1"
        )
        assert [(e.role, e.text) for e in await harness.history("thread-1")] == [
            ("user", "hello"),
            ("assistant", "Good morning!"),
        ]


async def test_a_thread_goes_on_after_a_restart(bench: Bench, script: Script) -> None:
    for number in range(3):
        async with bench.open() as harness:
            await collect(harness, context(f"r{number}"), said(f"text {number}"))
    assert [type(m).__name__ for m in script.requests[-1]] == [
        "SystemMessage",
        *["HumanMessage", "AIMessage"] * 2,
        "HumanMessage",
    ]


async def test_a_finished_run_is_answered_from_its_state(bench: Bench, script: Script) -> None:
    script.steps = ["once"]
    async with bench.open() as harness:
        first = await collect(harness, context("r1"), said("hello"))
    async with bench.open() as harness:
        again = await collect(harness, context("r1"), said("hello"), attempt=2, next_seq=7)
    assert [(e.type, e.seq) for e in again] == [
        ("text_reset", 7),
        ("text_delta", 8),
        ("text_reset", 9),
        ("finished", 10),
    ]
    assert visible(again) == "once", "a crash may have lost what was recorded of it"
    assert (finished(again).text, finished(again).message_id) == (finished(first).text, finished(first).message_id)
    assert len(script.requests) == 1


async def test_a_run_stopped_in_its_model_call_is_resumed_there(bench: Bench, script: Script) -> None:
    asked = asyncio.Event()
    script.steps = [at(asked)]
    async with bench.open() as harness:
        events = await stopped_at(harness, "r1", "hello", asked)
    script.steps = ["now"]
    async with bench.open() as harness:
        resumed = await collect(harness, context("r1"), said("hello"), attempt=2, next_seq=len(events) + 1)
    assert isinstance(resumed[0], Resumed)
    assert resumed[0].attempt == 2
    assert isinstance(resumed[1], TextReset)
    assert resumed[1].message_id == finished(resumed).message_id == "r1-1"
    assert finished(resumed).text == "now"
    assert [m.content for m in script.requests[-1] if isinstance(m, HumanMessage)] == [
        m.content for m in script.requests[0] if isinstance(m, HumanMessage)
    ]


async def test_a_resume_does_not_repeat_finished_tools(bench: Bench, script: Script, toolbox: Toolbox) -> None:
    """Three parallel calls: one finished, two in flight; of these only the idempotent one runs again."""
    script.steps = [calls(("send", {"name": "a"}), ("send", {"name": "b"}), ("read", {"name": "c"}))]
    waiting = [toolbox.gate("b"), toolbox.gate("c")]
    async with bench.open() as harness:
        told = await stopped_at(harness, "r1", "go", *waiting, begun=3, ended=1)
    assert [e.tool for e in told if e.type == "tool_started"] == ["send", "send", "read"]
    toolbox.gates.clear()
    async with bench.open() as harness:
        events = await collect(harness, context("r1"), said("go"), attempt=2, next_seq=len(told) + 1)
    assert toolbox.ran == ["a", "b", "c", "c"]
    results = [str(m.content) for m in script.requests[-1] if isinstance(m, ToolMessage)]
    assert results == ["done a", INTERRUPTED, "done c"]
    assert [e.type for e in events if e.type.startswith("tool")] == ["tool_started", "tool_ended"]
    assert events[-1].type == "finished"


async def test_new_input_after_a_stop_finds_a_settled_thread(bench: Bench, script: Script, toolbox: Toolbox) -> None:
    script.steps = [calls(("send", {"name": "a"}), ("send", {"name": "b"}))]
    entered = toolbox.gate("b")
    async with bench.open() as harness:
        await stopped_at(harness, "r1", "go", entered, ended=1)
        await collect(harness, context("r2"), said("and now?"))
    request = script.requests[-1][1:]
    assert [type(m).__name__ for m in request] == [
        "HumanMessage",
        "AIMessage",
        "ToolMessage",
        "ToolMessage",
        "AIMessage",
        "HumanMessage",
    ]
    assert [str(m.content) for m in request[2:4]] == ["done a", INTERRUPTED]
    assert request[4].additional_kwargs[MARK] == INTERRUPTED_TURN
    assert toolbox.ran == ["a", "b"]


async def test_settle_is_idempotent_and_keeps_the_open_question_out_of_history(bench: Bench, script: Script) -> None:
    asked = asyncio.Event()
    script.steps = [at(asked)]
    async with bench.open() as harness:
        await stopped_at(harness, "r1", "delete everything", asked)
        await harness.settle("thread-1")
        head = (await harness.head("thread-1")).id
        await harness.settle("thread-1")
        assert (await harness.head("thread-1")).id == head
        assert [(e.role, e.text) for e in await harness.history("thread-1")] == [("user", "delete everything")]
        await collect(harness, context("r2"), said("hello"))
    assert isinstance(script.requests[-1][-2], AIMessage)


async def test_what_was_read_of_a_stopped_answer_stays_as_the_assistants_own_words(
    bench: Bench, script: Script
) -> None:
    asked = asyncio.Event()
    script.steps = [at(asked)]
    words = Unfinished(run_id="r1", message_id="r1-1", text="Elephants are large and ")
    async with bench.open() as harness:
        await stopped_at(harness, "r1", "tell me of elephants", asked)
        await harness.settle("thread-1", words)
        await harness.settle("thread-1", words)
    async with bench.open() as harness:
        assert [e.text for e in await harness.history("thread-1")] == [
            "tell me of elephants",
            "Elephants are large and",
        ]
        await collect(harness, context("r2"), said("go on from where you stopped"))
    *_, before, newest = script.requests[-1]
    assert isinstance(before, AIMessage)
    assert before.content == f"Elephants are large and\n\n{CUT_OFF}"
    assert str(newest.content).startswith("go on from where you stopped")


@pytest.mark.parametrize("words", [("r0", "r0-1"), ("r1", "r1-1")], ids=["another run's", "whole in the thread"])
async def test_words_that_belong_to_no_open_message_are_not_kept_twice(
    bench: Bench, script: Script, toolbox: Toolbox, words: tuple[str, str]
) -> None:
    script.steps = [calls(("send", {"name": "a"}), text="I send it.")]
    entered = toolbox.gate("a")
    async with bench.open() as harness:
        await stopped_at(harness, "r1", "go", entered)
        await harness.settle("thread-1", Unfinished(run_id=words[0], message_id=words[1], text="I send it."))
        await collect(harness, context("r2"), said("and now?"))
    assert [str(m.content) for m in script.requests[-1]].count("I send it.") == 1
    assert script.requests[-1][-2].content == NOT_FINISHED


async def test_settling_an_unknown_thread_does_nothing(bench: Bench, script: Script) -> None:
    async with bench.open() as harness:
        await harness.settle("nobody")
        assert (await harness.head("nobody")).id is None
        assert await harness.history("nobody") == []


async def test_the_text_of_a_tool_round_is_told(bench: Bench, script: Script, toolbox: Toolbox) -> None:
    script.steps = [calls(("read", {"name": "x"}), text="Let me look."), "It says x."]
    async with bench.open() as harness:
        events = await collect(harness, context("r1"), said("go"))
    assert visible(events) == "Let me look.It says x."
    assert {event.message_id for event in events if event.type == "text_delta"} == {"r1-1", "r1-2"}
    assert not [event for event in events if event.type == "text_reset"]


async def test_a_resumed_run_tells_what_it_said_before_its_tools(
    bench: Bench, script: Script, toolbox: Toolbox
) -> None:
    asked = asyncio.Event()
    script.steps = [calls(("read", {"name": "x"}), text="Let me look."), at(asked)]
    async with bench.open() as harness:
        events = await stopped_at(harness, "r1", "go", asked)
    script.steps = ["It says x."]
    async with bench.open() as harness:
        resumed = await collect(harness, context("r1"), said("go"), attempt=2, next_seq=len(events) + 1)
    assert visible(resumed) == visible(events) + "It says x." == "Let me look.It says x."


async def test_ids_that_a_provider_repeats_do_not_mix_calls_up(bench: Bench, script: Script, toolbox: Toolbox) -> None:
    script.steps = [
        calls(("send", {"name": "a"}), ids=["0"]),
        calls(("send", {"name": "b"}), ids=["0"]),
        calls(("send", {"name": "c"}), ("send", {"name": "d"}), ids=["", ""]),
    ]
    async with bench.open() as harness:
        events = await collect(harness, context("r1"), said("go"))
    assert events[-1].type == "finished"
    assert toolbox.ran == ["a", "b", "c", "d"]
    assert [m.content for m in script.requests[-1] if isinstance(m, ToolMessage)] == [f"done {n}" for n in "abcd"]


async def test_rewind_makes_the_thread_what_it_was(bench: Bench, script: Script) -> None:
    async with bench.open() as harness:
        await collect(harness, context("r1"), said("one"))
        base = (await harness.head("thread-1")).id
        before = await harness.history("thread-1")
        await collect(harness, context("r2"), said("two"))
        await harness.rewind("thread-1", base)
        assert await harness.history("thread-1") == before
        await collect(harness, context("r3"), said("three"))
        assert [e.text for e in await harness.history("thread-1")] == ["one", "answer 1", "three", "answer 3"]
        await harness.rewind("thread-1", None)
        assert await harness.history("thread-1") == []


async def test_rewind_undoes_a_stopped_run(bench: Bench, script: Script, toolbox: Toolbox) -> None:
    async with bench.open() as harness:
        await collect(harness, context("r1"), said("one"))
        base = (await harness.head("thread-1")).id
        script.steps = [calls(("send", {"name": "a"}), ("send", {"name": "b"}))]
        entered = toolbox.gate("b")
        await stopped_at(harness, "r2", "two", entered)
        await harness.rewind("thread-1", base)
    async with bench.open() as harness:
        await collect(harness, context("r3"), said("three"))
    assert [str(m.content).partition("\n")[0] for m in script.requests[-1][1:]] == ["one", "answer 1", "three"]


async def test_rewind_to_a_turn_that_was_stopped_closes_it_honestly(
    bench: Bench, script: Script, toolbox: Toolbox
) -> None:
    async with bench.open() as harness:
        await collect(harness, context("r1"), said("one"))
        script.steps = [calls(("send", {"name": "a"}), ("send", {"name": "b"}))]
        entered = toolbox.gate("b")
        await stopped_at(harness, "r2", "two", entered, ended=1)
        base = (await harness.head("thread-1")).id
        await collect(harness, context("r3"), said("three"))
        expected = [message.content for message in script.requests[-1][:-1]]
        await harness.rewind("thread-1", base)
    async with bench.open() as harness:
        await collect(harness, context("r4"), said("four"))
        told = script.requests[-1]
    assert [message.content for message in told[:-1]] == expected
    assert str(told[-1].content).startswith("four")


async def test_rewind_to_what_is_not_kept_changes_nothing(bench: Bench, script: Script) -> None:
    async with bench.open() as harness:
        await collect(harness, context("r1"), said("one"))
        before = await harness.history("thread-1")
        with pytest.raises(LookupError):
            await harness.rewind("thread-1", "1f000000-0000-6000-8000-000000000000")
        assert await harness.history("thread-1") == before


async def test_forget_leaves_nothing(bench: Bench, script: Script) -> None:
    async with bench.open() as harness:
        await collect(harness, context("r1"), said("my canary"))
        await collect(harness, context("r2", thread="other"), said("kept"))
        await harness.forget("thread-1")
        assert (await harness.head("thread-1")).id is None
        assert len(await harness.history("other")) == 2
        await harness.scrub()
        files = [bench.file, bench.file.with_name(f"{bench.file.name}-wal")]
        assert not [file.name for file in files if b"my canary" in file.read_bytes()]
    assert b"my canary" not in bench.file.read_bytes()


async def test_an_unknown_model_is_an_honest_failure(bench: Bench, script: Script) -> None:
    async with bench.open() as harness:
        end = failed(await collect(harness, context("r1", model="gone"), said("hello")))
    assert (end.kind, end.model) == (FailureKind.NOT_FOUND, "gone")


async def test_a_defect_of_ours_is_an_internal_failure_with_a_traceback_in_the_log(
    bench: Bench, script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken() -> str:
        raise ArithmeticError("a defect")

    script.steps = [broken]
    async with bench.open() as harness:
        end = failed(await collect(harness, context("r1"), said("hello")))
        assert end.kind is FailureKind.INTERNAL
        # Who logs the ending does not know what may be logged of an exception (bot/control/logs.py).
        assert end.detail_for_log == "ArithmeticError, see above"
        assert any(record.exc_info and record.exc_info[0] is ArithmeticError for record in caplog.records)
        assert (await collect(harness, context("r2"), said("again")))[-1].type == "finished"


async def test_a_tool_that_breaks_leaves_an_honest_thread(bench: Bench, script: Script) -> None:
    @tool
    async def explode() -> str:
        """Breaks."""
        raise ArithmeticError("boom at /srv/secret")

    bench.tools = [explode]
    script.steps = [calls(("explode", {})), "It broke."]
    async with bench.open() as harness:
        events = await collect(harness, context("r1"), said("go"))
    assert finished(events).text == "It broke."
    assert [e.ok for e in events if isinstance(e, ToolEnded)] == [False]
    (result,) = [m for m in script.requests[-1] if isinstance(m, ToolMessage)]
    assert result.status == "error"
    assert "explode failed because of a defect in it (ArithmeticError)" in result.content
    assert "/srv" not in result.content


async def test_a_call_whose_record_fails_leaves_an_honest_thread(bench: Bench, script: Script) -> None:
    class Forgetful(MemoryEffectLog):
        async def done(self, key: EffectKey, result: str) -> None:
            raise ArithmeticError("boom")

    bench.effects = Forgetful()
    bench.tools = Toolbox().tools()
    script.steps = [calls(("send", {"name": "letter"}))]
    async with bench.open() as harness:
        assert failed(await collect(harness, context("r1"), said("go"))).kind is FailureKind.INTERNAL
        await collect(harness, context("r2"), said("what happened?"))
    assert [m.content for m in script.requests[-1] if isinstance(m, ToolMessage)] == [INTERRUPTED]


async def test_the_prompt_up_to_the_new_message_is_the_same_in_every_turn(bench: Bench, script: Script) -> None:
    async with bench.open() as harness:
        for number in range(4):
            await collect(harness, context(f"r{number}"), said(f"text {number}"))
            bench.clock.advance(100_000)
    for earlier, later in zip(script.requests, script.requests[1:], strict=False):
        assert [(m.type, m.content) for m in later[: len(earlier)]] == [(m.type, m.content) for m in earlier]


async def test_threads_do_not_see_each_other(bench: Bench, script: Script) -> None:
    async with bench.open() as harness:
        await asyncio.gather(
            *(collect(harness, context(f"r{n}", thread=f"t{n}"), said(f"secret {n}")) for n in range(8))
        )
        for number in range(8):
            history = await harness.history(f"t{number}")
            assert [e.text for e in history if e.role == "user"] == [f"secret {number}"]


@pytest.mark.parametrize("lost", [1, 2, 3])
async def test_a_kill_between_a_steps_work_and_its_checkpoint_is_no_end(
    bench: Bench, script: Script, lost: int
) -> None:
    """The newest checkpoints are missing, what their steps wrote is there: LangGraph then calls nothing "next"."""
    script.steps = ["Good morning!", "Good morning!"]
    async with bench.open() as harness:
        await collect(harness, context("r1"), said("hello"))
    with closing(sqlite3.connect(bench.file)) as file, file:
        file.execute(
            "DELETE FROM checkpoints WHERE checkpoint_id IN "
            "(SELECT checkpoint_id FROM checkpoints ORDER BY checkpoint_id DESC LIMIT ?)",
            (lost,),
        )
    async with bench.open() as harness:
        events = await collect(harness, context("r1"), said("hello"), attempt=2)
        assert finished(events).text == "Good morning!"
        assert [(e.role, e.text) for e in await harness.history("thread-1")] == [
            ("user", "hello"),
            ("assistant", "Good morning!"),
        ]


async def test_a_stop_between_two_events_ends_the_tools_before_the_sandbox_is_given_back(
    bench: Bench, script: Script
) -> None:
    order: list[str] = []

    @tool
    async def slow(subject: str) -> str:
        """Take long."""
        try:
            await asyncio.Event().wait()
        finally:
            order.append("ended")
        return subject

    bench.tools = [slow]
    script.steps = [calls(("slow", {"subject": "x"})), "done"]
    async with bench.open() as harness:
        async with aclosing(harness.run(context("r1"), said("go"))) as stream:
            async for event in stream:
                if isinstance(event, ToolStarted):
                    break
        order.append("stopped")
    assert order == ["ended", "stopped"]
