"""Runs: every ending has a name, what happened is kept, and a crash or a planned stop loses nothing."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text

from bot.store import run_events, runs, usage
from bot.store.rows import RunRow, RunState, StopReason
from bot.texts.en import EN
from harness.events import FailureKind, Notice, Outcome, TextDelta, TextReset, ToolEnded, ToolStarted, Usage
from harness.failures import BUSY
from tests.bot.core import ANN, Core, core
from tests.bot.scripted_harness import ScriptedHarness
from tests.memory_channel import CALLS, FULL

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from harness.events import AnyRunEvent
    from harness.ports import Head
    from tests.bot.scripted_harness import Teller
    from tests.memory_channel import MemoryMode

PARTIAL = "The text above is unfinished."


def half(tell: Teller) -> TextDelta:
    return tell(TextDelta, message_id="a", text="```py\nhalf")


async def last_run(c: Core, person: str = ANN) -> RunRow:
    newest: list[RunRow] = await c.store.read(lambda tx: runs.recent(tx, f"memory:{person}", 1))
    return newest[0]


async def events_of(c: Core, run: RunRow) -> list[tuple[int, str, dict[str, Any]]]:
    rows = await c.store.read(lambda tx: run_events.read(tx, run.run_id))
    return [(seq, kind, json.loads(body)) for seq, kind, body in rows]


@pytest.mark.parametrize(
    ("outcome", "state", "shown"),
    [("success", RunState.SUCCESS, "done"), ("limited", RunState.LIMITED, f"done\n\n{EN.cut_short}")],
)
async def test_an_answer_ends_in_its_outcome(tmp_path: Path, outcome: str, state: RunState, shown: str) -> None:
    async with core(tmp_path) as c:
        c.harness.tells("q", lambda tell: tell.answer("done", Outcome(outcome)))
        await c.say("q")
        await c.answered()
        assert c.texts() == [shown]
        run = await last_run(c)
        assert (run.state, run.attempt) == (state, 1)
        assert run.ended_at is not None


async def test_what_cannot_be_recorded_costs_neither_the_answer_nor_the_conversation(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        beyond = 10**30  # no database has a number for it
        c.harness.tells(
            "q",
            lambda tell: tell(Usage, model="sim", input_tokens=beyond, output_tokens=1),
            lambda tell: tell.answer("done"),
        )
        await c.say("q")
        await c.answered()
        assert (await last_run(c)).state is RunState.SUCCESS
        await c.say("and now")
        await c.answered()
        assert c.texts() == ["done", "echo: and now"]


@pytest.mark.parametrize("kind", list(FailureKind))
async def test_each_failure_is_one_sentence_and_half_an_answer_never_passes_for_one(
    tmp_path: Path, kind: FailureKind
) -> None:
    async with core(tmp_path) as c:
        c.harness.tells("whole", lambda tell: tell.failed(kind, retry_after=120))
        c.harness.tells("half", half, lambda tell: tell.failed(kind))
        await c.say("whole")
        await c.say("half")
        await c.answered()
        sentence, partial = c.texts()
        wait = " Try again in 2 min." if kind in BUSY else ""
        assert sentence == EN.failures[kind].format(model="sim", wait=wait)
        assert partial == f"```py\nhalf\n```\n\n{EN.failures[kind].format(model='sim', wait='')}\n\n{PARTIAL}"
        assert "detail-for-the-log" not in sentence + partial
        assert (await last_run(c)).state is (RunState.LIMITED if kind is FailureKind.BUDGET else RunState.ERROR)


async def test_a_run_that_takes_too_long_is_stopped_and_says_so(tmp_path: Path) -> None:
    async with core(tmp_path, seconds=0.4) as c:
        c.harness.hold("q")
        await c.say("q")
        await c.actors.drain()
        await c.answered()
        (text,) = c.texts()
        assert text.startswith("The first half\n\n⌛ Stopped after 0 s")
        assert text.endswith(PARTIAL)
        assert (await last_run(c)).state is RunState.TIMEOUT
        assert c.harness.closed == 1


async def test_stop_names_the_ending_and_ends_the_agents_work(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.harness.hold("q")
        await c.say("q")
        await c.say("/stop")
        await c.answered()
        assert c.texts() == [f"The first half\n\n⏹ Stopped.\n\n{PARTIAL}"]
        assert (await last_run(c)).state is RunState.INTERRUPTED
        assert c.harness.working == 0


async def test_what_was_read_of_an_answer_without_an_end_is_kept_in_its_thread(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.harness.hold("stopped", half="One half")
        c.harness.tells(
            "failed",
            lambda tell: tell(TextDelta, message_id="a", text="Let me look."),
            lambda tell: tell(ToolStarted, call_id="1", tool="t", summary="s"),
            lambda tell: tell(TextDelta, message_id="b", text="It says th"),
            lambda tell: tell(TextReset, message_id="b"),
            lambda tell: tell.failed(FailureKind.UNAVAILABLE),
        )
        await c.say("stopped")
        await c.say("/stop")
        await c.say("failed")
        await c.say("fine")
        await c.answered()
        assert c.harness.unfinished == ["One half", "It says th"], "of the message in the making"
        assert c.texts()[1].startswith("Let me look.\n\nIt says th\n\n⚠️")


async def test_after_a_crash_a_stop_keeps_what_was_read_before_it(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.harness.hold("q", half=LONG)
        await c.say("q")
        await c.clock.advance(5)
        await c.crash()
        c.harness.hold("q", half="")
        await c.start()
        await c.clock.advance(5)
        await c.say("/stop")
        await c.answered()
        assert c.harness.unfinished == [LONG]


async def test_an_agent_that_breaks_or_just_stops_still_gets_an_ending(tmp_path: Path) -> None:
    async def broken(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
        yield half(tell)
        raise RuntimeError("a defect")

    async with core(tmp_path) as c:
        c.harness.scripts["broken"] = broken
        c.harness.tells("silent")
        await c.say("broken")
        await c.say("silent")
        await c.say("and on it goes")
        await c.answered()
        assert "Something went wrong on my side" in c.texts()[0]
        assert c.texts()[0].endswith(PARTIAL)
        assert c.texts()[1] == EN.failures[FailureKind.INTERNAL]
        assert c.texts()[2] == "echo: and on it goes"


async def test_what_happened_is_kept_folded_and_in_order_and_counted(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.harness.tells(
            "q",
            *([lambda tell: tell(TextDelta, message_id="a", text="x")] * 50),
            lambda tell: tell(TextReset, message_id="a"),
            lambda tell: tell(ToolStarted, call_id="1", tool="t", summary="s"),
            lambda tell: tell(ToolEnded, call_id="1", tool="t", ok=True),
            lambda tell: tell(Usage, model="sim", input_tokens=7, output_tokens=3, cached_tokens=2),
            *([lambda tell: tell(TextDelta, message_id="b", text="y")] * 50),
            lambda tell: tell(Usage, model="sim", input_tokens=1, output_tokens=1),
            lambda tell: tell.answer("y" * 50),
        )
        await c.say("q")
        await c.answered()
        run = await last_run(c)
        events = await events_of(c, run)
        kinds = [kind for _, kind, _ in events]
        assert kinds == [
            "text_delta",
            "text_reset",
            "tool_started",
            "tool_ended",
            "usage",
            "text_delta",
            "usage",
            "finished",
        ]
        assert [seq for seq, _, _ in events] == [50, 51, 52, 53, 54, 104, 105, 106]
        assert events[5][2]["text"] == "y" * 50
        totals = await c.store.read(lambda tx: usage.thread_totals(tx, run.thread_id))
        assert totals == (8, 4, 2, 2)


async def test_notices_stand_below_the_answer(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        notice = EN.images_not_seen.format(model="sim")
        c.harness.tells(
            "q",
            lambda tell: tell(Notice, kind="images_not_seen", model="sim"),
            lambda tell: tell.answer("~~~\ncode"),
        )
        await c.say("q")
        await c.answered()
        assert c.texts() == [f"~~~\ncode\n~~~\n\n{notice}"]


async def test_secrets_never_reach_the_chat(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await c.say("repeat sk-0123456789abcdef please")
        await c.answered()
        assert c.texts() == ["echo: repeat [redacted] please"]
        assert "sk-0123" not in "".join(text for bubble in c.channel.chats[ANN] for text in bubble.history)


LONG = "What people had read of the answer. " * 10


@pytest.mark.parametrize("retold", [LONG + "And more of it.", "Said in fewer words."], ids=["longer", "shorter"])
async def test_what_was_read_before_a_crash_hides_no_later_message(tmp_path: Path, retold: str) -> None:
    """Longer than all that comes later; once the message that it was the beginning of is whole it stands for none."""
    gates = [asyncio.Event() for _ in range(3)]

    async def script(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
        if len(c.harness.starts) == 1:
            yield tell(TextDelta, message_id="a", text=LONG)
            await asyncio.Event().wait()
        yield tell(TextDelta, message_id="b", text=retold)
        await gates[0].wait()
        yield tell(ToolStarted, call_id="1", tool="bash", summary="ls")
        await gates[1].wait()
        yield tell(ToolEnded, call_id="1", tool="bash", ok=True)
        yield tell(TextDelta, message_id="c", text="Now the last step.")
        await gates[2].wait()
        yield tell.answer("Done.")

    async with core(tmp_path) as c:
        c.harness.scripts["q"] = script
        await c.say("q")
        await c.clock.advance(5)
        await c.restart()
        await c.clock.advance(5)
        assert c.texts() == [max(retold, LONG, key=len)]
        gates[0].set()
        await c.clock.advance(5)
        assert c.texts()[0].startswith(f"{retold}\n\n"), "with what the tool does below"
        gates[1].set()
        await c.clock.advance(5)
        assert c.texts() == [f"{retold}\n\nNow the last step."]
        gates[2].set()
        await c.answered()
        assert c.texts() == [f"{retold}\n\nDone."]


async def test_what_was_read_of_a_whole_message_stands_above_the_next_one(tmp_path: Path) -> None:
    gates = [asyncio.Event(), asyncio.Event()]

    async def script(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
        if len(c.harness.starts) == 1:
            yield tell(TextDelta, message_id="a", text=LONG)
            yield tell(ToolStarted, call_id="1", tool="bash", summary="ls")
            await asyncio.Event().wait()
        await gates[0].wait()
        yield tell(TextDelta, message_id="b", text="The next one.")
        await gates[1].wait()
        yield tell.answer("Done.")

    async with core(tmp_path) as c:
        c.harness.scripts["q"] = script
        await c.say("q")
        await c.clock.advance(5)
        await c.stop()
        await c.start()
        await c.clock.advance(5)
        assert c.texts()[0].startswith(LONG.strip()), "nothing has taken its place"
        gates[0].set()
        await c.clock.advance(5)
        assert c.texts() == [f"{LONG.strip()}\n\nThe next one."]
        gates[1].set()
        await c.answered()
        assert c.texts() == [f"{LONG.strip()}\n\nDone."]


async def test_a_second_crash_leaves_what_people_still_read(tmp_path: Path) -> None:
    async def script(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
        text = (LONG + "And more.", LONG[:250], "Again")[len(c.harness.starts) - 1]
        yield tell(TextDelta, message_id=f"m{len(c.harness.starts)}", text=text)
        await asyncio.Event().wait()

    async with core(tmp_path) as c:
        c.harness.scripts["q"] = script
        await c.say("q")
        await c.clock.advance(5)
        for _ in range(2):
            await c.restart()
            await c.clock.advance(70)  # what was at work at two deaths waits for a while
            assert [text.partition("\n\n")[0] for text in c.texts()] == [LONG + "And more."]


@pytest.mark.parametrize("mode", [FULL, CALLS], ids=["full", "calls"])
@pytest.mark.parametrize("edits", range(1, 10, 2))
async def test_killed_after_any_edit_the_answer_shows_no_less_than_before(
    tmp_path: Path, mode: MemoryMode, edits: int
) -> None:
    async def script(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
        first = len(c.harness.starts) == 1
        for number in range(20):
            word = f"This was said as number {number}. " if first else f"And other words, {number}. "
            yield tell(TextDelta, message_id="a", text=word)
            await c.clock.sleep(0.7)
        yield tell.answer("Done.")

    async with core(tmp_path, mode=mode) as c:
        c.harness.scripts["q"] = script
        await c.say("q")
        while len([call for call in c.channel.calls if call.method != "typing"]) <= edits:
            await c.clock.advance(0.1)
        (before,) = c.texts()
        await c.restart()
        for _ in range(10):
            await c.clock.advance(0.5)
            (after,) = c.texts()
            assert after.startswith(before if len(after) < len(before) else (before, "And other words"))
        await c.answered()
        assert "".join(c.texts()) == "Done."


async def test_the_first_words_of_an_answer_wait_for_no_commit(tmp_path: Path) -> None:
    """That they will be said is committed with the start of the run."""
    said = asyncio.Event()

    async def script(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
        await said.wait()
        yield tell(TextDelta, message_id="a", text=LONG.strip())
        await asyncio.Event().wait()

    async with core(tmp_path, mode=replace(CALLS, idempotent=False)) as c:
        c.harness.scripts["q"] = script
        await c.say("q")
        c.store.down = True
        said.set()
        await c.clock.advance(2)
        assert c.texts() == [LONG.strip()]
        c.store.down = False
        await c.clock.advance(10)
        await c.restart()
        assert c.texts() == [LONG.strip()], "it is known where they stand, and what they are"


@pytest.mark.parametrize("sent", [False, True], ids=["before it is sent", "when it is sent"])
async def test_killed_around_its_first_words_an_answer_is_one_message(tmp_path: Path, sent: bool) -> None:
    said = asyncio.Event()

    async def script(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
        await said.wait()
        yield tell(TextDelta, message_id="a", text=LONG.strip())
        await c.clock.sleep(5)
        yield tell.answer("Done.")

    async with core(tmp_path, mode=replace(CALLS, idempotent=False)) as c:
        c.harness.scripts["q"] = script
        await c.say("q")
        c.store.down = sent
        said.set()
        if sent:
            await c.clock.advance(1)
            assert c.texts() == [LONG.strip()]
        await c.crash()
        c.store.down = False
        await c.start()
        await c.answered()
        assert c.texts() == ["Done."]


async def test_after_a_crash_what_ran_and_what_waited_goes_on_in_the_same_messages(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.harness.hold("first")
        await c.say("first")
        await c.say("second")
        await c.crash()
        c.harness.scripts.clear()
        await c.start()
        await c.say("third")
        await c.answered()
        assert c.texts() == ["echo: first", "echo: second", "echo: third"]
        assert [start.attempt for start in c.harness.starts] == [1, 1, 1, 1]
        assert c.harness.starts[0].ctx == c.harness.starts[1].ctx


async def test_a_crash_before_anybody_decided_loses_nothing(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await c.channel.receive(*(c.message(f"m{number}") for number in range(5)))
        await c.restart()
        await c.answered()
        assert c.texts() == [f"echo: m{number}" for number in range(5)]


async def test_what_could_not_be_written_while_it_worked_is_written_with_its_end(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        full, room = asyncio.Event(), asyncio.Event()

        async def script(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
            await full.wait()
            yield tell(ToolStarted, call_id="1", tool="fetch_page", summary="")
            yield tell(TextDelta, message_id="a", text="x" * 300)
            await room.wait()
            yield tell.answer("done")

        c.harness.scripts["q"] = script
        await c.say("q")
        c.store.down = True
        full.set()
        await c.clock.advance(20)
        c.store.down = False
        room.set()
        await c.clock.settle()
        assert c.texts() == ["done"]
        run = await last_run(c)
        assert await c.store.read(lambda tx: run_events.tools_called(tx, run.run_id)) == {"fetch_page"}
        assert [kind for _, kind, _ in await events_of(c, run)] == ["tool_started", "text_delta", "finished"]


async def test_nothing_stands_still_for_longer_than_fifteen_seconds(tmp_path: Path) -> None:
    tool = asyncio.Event()

    async def script(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
        yield tell(TextDelta, message_id="a", text="Let me look.")
        yield tell(ToolStarted, call_id="1", tool="web_search", summary="elephants")
        await tool.wait()
        yield tell(ToolEnded, call_id="1", tool="web_search", ok=True)
        await asyncio.Event().wait()

    async with core(tmp_path) as c:
        c.harness.scripts["q"] = script
        await c.say("q")
        seen = []
        for _ in range(2):
            for _ in range(5):
                await c.clock.advance(15)
                seen.append(c.texts()[0])
            tool.set()
        assert len(set(seen)) == len(seen), seen
        assert all(text.startswith("Let me look.\n\n") for text in seen)
        assert "elephants (" in seen[4]
        assert "Thinking, 1 min " in seen[9]
        await c.say("/stop")
        await c.answered()


async def test_planned_stops_do_not_count_and_are_told(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        gate = c.harness.hold("long")
        await c.say("long")
        await c.say("next")
        (thread,) = c.harness.heads
        for _ in range(5):
            c.harness.heads[thread] = 1
            await c.stop()
            assert c.texts() == [f"The first half\n\n{EN.paused}", EN.queued_next]
            await c.start()
            await c.clock.settle()
        gate.set()
        await c.answered()
        assert [start.attempt for start in c.harness.starts] == [1] * 7
        assert [start.next_seq for start in c.harness.starts][:3] == [1, 3, 5], (
            "one number is taken by the reset of what was told before"
        )
        assert c.texts() == ["The whole answer", "echo: next"]


async def test_a_message_during_a_planned_stop_is_answered_after_it(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.runs.suspend()
        await c.say("late")
        assert c.harness.asked == []
        await c.stop()
        await c.start()
        await c.answered()
        assert c.texts() == ["echo: late"]


async def test_a_stop_that_comes_twice_or_too_late_is_refused(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.harness.hold("q")
        await c.say("q")
        (run_id,) = c.runs.active
        assert c.runs.stop(run_id, StopReason.STOPPED)
        assert not c.runs.stop(run_id, StopReason.NEW_THREAD)
        await c.answered()
        assert not c.runs.stop(run_id, StopReason.STOPPED)
        assert not c.runs.stop("unknown", StopReason.STOPPED)


async def test_a_run_that_nobody_can_read_any_more_is_told_and_holds_up_nobody(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.harness.hold("first")
        await c.say("first")
        await c.store.write(lambda tx: tx.execute(text("UPDATE runs SET context = '{}'")))
        await c.crash()
        await c.start()
        await c.say("second")
        await c.answered()
        assert c.texts() == [EN.lost_draft, "echo: second"]


async def test_a_run_begins_with_the_agent_of_now(tmp_path: Path) -> None:
    """Another one may take over while the run's start is being recorded; then nobody waits for the former."""

    class Former(ScriptedHarness):
        async def head(self, thread_id: str) -> Head:
            c.harness = latter
            assert await c.parts.agent.renew(c.settings, {}, other_servers=False) is None
            return await super().head(thread_id)

    latter = ScriptedHarness()
    async with core(tmp_path, harness=Former()) as c:
        await c.say("hello")
        await c.answered()
        assert [start.run_input.text for start in latter.starts] == ["hello"]
