"""Several short messages are one turn: what follows while nothing of the answer was seen is answered with it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

import pytest
from sqlalchemy import select

from bot.settings.busy_policies import Busy, TurnRules
from bot.store import inbox, runs
from bot.store.retrying import RetryingStore
from bot.store.rows import InboxState, RunState
from bot.store.tables import usage
from bot.texts.en import EN
from channels.message import Attachment
from harness.events import FailureKind, ModelRetrying, ReasoningDelta, TextDelta, ToolStarted, Usage
from tests.bot.core import ANN, BOB, Core, core
from tests.bot.voice.test_hearing import VOICE, SpeechToText, with_files
from tests.delivery_world import Tripwire

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping
    from pathlib import Path

    from sqlalchemy import Connection

    from bot.store.rows import RunRow
    from harness.events import AnyRunEvent
    from tests.bot.scripted_harness import Teller

T = TypeVar("T")
JOIN = TurnRules(Busy.QUEUE, join=3.0)
BOTH = "first\nsecond"


def hangs(c: Core, text: str = "first", *events: tuple[type, Mapping[str, object]]) -> None:
    """For that message the agent makes a checkpoint, tells these events, and then thinks for ever."""

    async def script(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
        c.harness.step(tell.ctx.thread_id)
        for kind, fields in events:
            yield tell(kind, **fields)
        await asyncio.Event().wait()

    c.harness.scripts[text] = script


async def rows(c: Core, chat: str = ANN) -> list[RunRow]:
    newest: list[RunRow] = await c.store.read(lambda tx: runs.recent(tx, f"memory:{chat}", 50))
    return newest[::-1]


async def test_both_are_answered_together(tmp_path: Path) -> None:
    async with core(tmp_path, turns=JOIN) as c:
        hangs(c)
        await c.say("first")
        await c.clock.advance(1)
        await c.say("second")
        await c.answered()
        assert c.harness.asked == ["first", BOTH]
        assert c.harness.rewinds == [None]
        assert c.texts() == [f"echo: {BOTH}"]
        (run,) = await rows(c)
        assert (run.state, run.attempt) == (RunState.SUCCESS, 1)
        known = await c.store.read(lambda tx: inbox.load(tx, run.inbox_ids))
        assert [row.state for row in known] == [InboxState.DONE] * 2


async def test_what_joins_while_the_start_is_written_is_answered_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start is committed, though who wrote it is stopped meanwhile: what it ordered has to be taken back."""
    async with core(tmp_path, turns=JOIN) as c:
        hangs(c)
        begun, held, write = asyncio.Event(), asyncio.Event(), RetryingStore.write

        async def slow(store: RetryingStore, unit: Callable[[Connection], T]) -> T:
            result = await write(store, unit)
            if "_start" in getattr(unit, "__qualname__", "") and not begun.is_set():
                begun.set()
                await held.wait()
            return result

        monkeypatch.setattr(RetryingStore, "write", slow)
        await c.say("first")
        await c.clock.advance(1)
        assert begun.is_set()
        await c.say("second")
        held.set()
        await c.answered()
        assert c.harness.asked == [BOTH]
        assert c.harness.rewinds == [None]
        assert c.texts() == [f"echo: {BOTH}"]


async def test_a_third_joins_as_well_and_what_was_said_before_is_kept(tmp_path: Path) -> None:
    async with core(tmp_path, turns=JOIN) as c:
        await c.say("before")
        await c.answered()
        hangs(c)
        hangs(c, BOTH)
        for text in ("first", "second", "third"):
            await c.say(text)
            await c.clock.advance(0.9)
        await c.answered()
        assert c.harness.asked[1:] == ["first", BOTH, f"{BOTH}\nthird"]
        assert c.harness.rewinds == ["1", "1"]
        assert c.texts() == ["echo: before", f"echo: {BOTH}\nthird"]


TOLD = {
    "words": (TextDelta, {"message_id": "a", "text": "The"}),
    "a tool": (ToolStarted, {"call_id": "c", "tool": "shell", "summary": "x"}),
}


@pytest.mark.parametrize("told", TOLD)
async def test_what_was_seen_or_done_is_not_taken_back(tmp_path: Path, told: str) -> None:
    async with core(tmp_path, turns=JOIN) as c:
        hangs(c, "first", TOLD[told])
        await c.say("first")
        await c.say("second")
        await c.clock.advance(1)
        assert c.harness.asked == ["first"]
        assert c.texts()[1] == EN.queued_next


async def test_a_passing_status_is_nothing_seen_and_what_was_spent_is_counted(tmp_path: Path) -> None:
    async with core(tmp_path, turns=JOIN) as c:
        thought = (ReasoningDelta, {"message_id": "a", "text": "Let me see"})
        spent = (Usage, {"model": "sim", "input_tokens": 7, "output_tokens": 1})
        again = (ModelRetrying, {"kind": FailureKind.RATE_LIMITED, "attempt": 2, "delay": 1.0})
        hangs(c, "first", spent, thought, again)
        await c.say("first")
        await c.clock.advance(1)
        await c.say("second")
        await c.answered()
        assert c.texts() == [f"echo: {BOTH}"]
        assert c.harness.starts[1].attempt == 1
        assert c.harness.starts[1].next_seq > c.harness.starts[0].next_seq
        read = select(usage.c.input_tokens)
        assert sorted(await c.store.read(lambda tx: list(tx.scalars(read)))) == [7, 10]


@pytest.mark.parametrize(
    ("turns", "seconds"),
    [
        (JOIN, 4),
        (TurnRules(Busy.QUEUE), 0),
        (TurnRules(Busy.ROLLBACK, join=3.0), 0),
        (TurnRules(Busy.REJECT, join=3.0), 0),
    ],
    ids=["later", "off", "rollback", "reject"],
)
async def test_else_the_busy_policy_decides(tmp_path: Path, turns: TurnRules, seconds: float) -> None:
    async with core(tmp_path, turns=turns) as c:
        hangs(c)
        await c.say("first")
        await c.clock.advance(seconds)
        await c.say("second")
        await c.clock.advance(1)
        assert BOTH not in c.harness.asked


@pytest.mark.parametrize("busy", [Busy.STEER, Busy.COLLECT, Busy.INTERRUPT])
async def test_the_other_policies_begin_after_it(tmp_path: Path, busy: Busy) -> None:
    async with core(tmp_path, turns=TurnRules(busy, join=3.0)) as c:
        hangs(c)
        await c.say("first")
        await c.say("second")
        await c.answered()
        assert c.texts() == [f"echo: {BOTH}"]


async def test_in_a_group_each_person_has_their_own_turn(tmp_path: Path) -> None:
    async with core(tmp_path, turns=JOIN) as c:
        hangs(c)
        await c.say("first", ANN, "g")
        await c.say("and me", BOB, "g")
        await c.say("second", ANN, "g")
        await c.answered()
        assert c.harness.asked == ["first", BOTH, "and me"]
        assert c.texts("g") == [f"echo: {BOTH}", "echo: and me"]


async def test_a_file_joins_once_it_is_there(tmp_path: Path) -> None:
    async with core(tmp_path, turns=JOIN) as c:
        hangs(c)
        await c.say("first")
        await with_files(c).say("second", attachments=(Attachment(ref="f", kind="file", name="notes.txt"),))
        await c.answered()
        assert c.harness.asked == ["first", BOTH]
        assert [file.name for file in c.files(1)] == ["notes.txt"]


async def test_a_voice_message_is_transcribed_once(tmp_path: Path) -> None:
    hearing = SpeechToText(words="spoken")
    async with core(tmp_path, turns=JOIN, hearing=hearing) as c:
        hangs(c, "")
        await with_files(c).say("", attachments=(VOICE,))
        await c.clock.advance(1)
        await c.say("second")
        await c.answered()
        assert [start.run_input.words for start in c.harness.starts] == ["spoken", "second\nspoken"]
        assert len(hearing.heard) == 1


async def test_while_it_is_listened_to_nothing_begins_again(tmp_path: Path) -> None:
    gate = asyncio.Event()
    hearing = SpeechToText(words="spoken", gate=gate)
    async with core(tmp_path, turns=JOIN, hearing=hearing) as c:
        await with_files(c).say("", attachments=(VOICE,))
        await c.clock.advance(1)
        await c.say("second")
        gate.set()
        await c.answered()
        assert [start.run_input.words for start in c.harness.starts] == ["spoken", "second"]
        assert len(hearing.heard) == 1


async def test_what_cannot_be_forgotten_goes_on_and_the_other_waits(tmp_path: Path) -> None:
    async with core(tmp_path, turns=JOIN) as c:
        hangs(c)
        await c.say("first")
        c.harness.lost = True
        await c.say("second")
        assert c.harness.asked == ["first", "first"]
        await c.say("/stop")
        await c.answered()
        assert c.harness.asked == ["first", "first", "second"]


async def test_a_run_that_waits_for_its_place_answers_both_once(tmp_path: Path) -> None:
    async with core(tmp_path, turns=JOIN, concurrent=1) as c:
        gate = c.harness.hold("bob's")
        await c.say("bob's", BOB)
        await c.say("first")
        await c.say("second")
        gate.set()
        await c.answered()
        assert c.harness.asked == ["bob's", BOTH]
        assert c.harness.rewinds == []
        assert c.texts() == [f"echo: {BOTH}"]


async def test_a_stop_ends_both(tmp_path: Path) -> None:
    async with core(tmp_path, turns=JOIN) as c:
        hangs(c)
        hangs(c, BOTH)
        await c.say("first")
        await c.say("second")
        await c.say("/stop")
        await c.answered()
        assert c.texts() == [EN.stopped_by["stopped"]]
        assert c.harness.asked == ["first", BOTH]


async def test_a_planned_stop_keeps_both(tmp_path: Path) -> None:
    async with core(tmp_path, turns=JOIN) as c:
        hangs(c)
        hangs(c, BOTH)
        await c.say("first")
        await c.say("second")
        await c.stop()
        del c.harness.scripts[BOTH]
        await c.start()
        await c.answered()
        assert c.harness.asked == ["first", BOTH, BOTH]
        assert c.texts() == [f"echo: {BOTH}"]


@pytest.mark.parametrize("step", range(1, 9))
async def test_a_crash_at_any_step_loses_nothing_and_answers_nothing_twice(tmp_path: Path, step: int) -> None:
    async with core(tmp_path, turns=JOIN) as c:
        hangs(c)
        hangs(c, BOTH)
        await c.say("first")
        c.tripwire.at = c.tripwire.passed + step
        second = c.message("second")
        receiving = asyncio.ensure_future(c.channel.receive(second))
        await c.clock.advance(2)
        receiving.cancel()
        await c.crash()
        c.harness.scripts.clear()
        c.tripwire = Tripwire()
        await c.start()
        await c.receive(second)  # what was not acknowledged comes again
        await c.answered()
        answers = "\n".join(c.texts())
        assert [answers.count(f"{text}") for text in ("first", "second")] == [1, 1]
        assert all(row.state is RunState.SUCCESS for row in await rows(c))
        known = await c.store.read(lambda tx: inbox.load(tx, range(1, 9)))
        assert [row.state for row in known] == [InboxState.DONE] * 2
