"""The busy policy `steer`: heard by one's own answer at its next step, else the next turn; whatever happens, once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from bot.conversations import queue
from bot.runs import inputs
from bot.runs.turns import Spoken, Turn
from bot.settings.busy_policies import Busy, TurnRules
from bot.store import inbox, runs
from bot.store.rows import InboxState, RunState
from bot.texts.en import EN
from bot.texts.zh import ZH
from channels.message import Attachment
from harness.context import RunInput
from harness.events import FailureKind, TextDelta
from tests.bot.conversations.test_policies import bubble, press
from tests.bot.core import ANN, BOB, RULES, Core, core
from tests.bot.runs.test_approvals import asks
from tests.bot.voice.test_hearing import VOICE, SpeechToText, with_files
from tests.delivery_world import Tripwire

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from bot.store.rows import RunRow
    from harness.events import AnyRunEvent
    from tests.bot.scripted_harness import Teller

STEER = TurnRules(Busy.STEER)


class Working:
    """An agent that asks at each of its steps what was said, for that message; it answers what it has heard."""

    def __init__(self, c: Core, text: str = "first") -> None:
        self._c = c
        self._steps: asyncio.Queue[str] = asyncio.Queue()
        self.heard: list[str] = []
        c.harness.scripts[text] = self._script

    async def _script(self, tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
        c, ended = self._c, ""
        c.harness.step(tell.ctx.thread_id)
        while not ended:
            yield tell(TextDelta, message_id="a", text="…")
            ended = await self._steps.get()
            if not ended:
                assert c.harness.steering is not None
                self.heard = [each.text for each in await c.harness.steering.said(tell.ctx)]
        yield tell.failed(FailureKind.UNAVAILABLE) if ended == "fail" else tell.answer(f"heard: {self.heard}")

    async def step(self) -> list[str]:
        """One more model call; what was heard by then."""
        await self._do("")
        return self.heard

    async def end(self, how: str = "answer") -> None:
        await self._do(how)

    async def _do(self, what: str) -> None:
        self._steps.put_nowait(what)
        await self._c.clock.advance(3)


async def say(c: Core, text: str, person: str = ANN, chat: str | None = None) -> None:
    await c.say(text, person, chat)
    await c.clock.advance(3)


async def rows(c: Core, chat: str = ANN) -> list[RunRow]:
    newest: list[RunRow] = await c.store.read(lambda tx: runs.recent(tx, f"memory:{chat}", 50))
    return newest[::-1]


def labels(c: Core, index: int, chat: str = ANN) -> list[str]:
    return [button.label for row in bubble(c, index, chat).part.buttons for button in row]


async def test_it_is_passed_on_at_the_next_step(tmp_path: Path) -> None:
    async with core(tmp_path, turns=STEER) as c:
        work = Working(c)
        await say(c, "first")
        await say(c, "in French")
        assert c.texts()[1] == EN.steering
        assert labels(c, 1) == ["Run now", "Drop"]
        assert await work.step() == ["in French"]
        assert c.texts()[1] == EN.steered
        assert labels(c, 1) == []
        await say(c, "and short")
        assert await work.step() == ["in French", "and short"]
        assert await work.step() == ["in French", "and short"]
        await work.end()
        await c.answered()
        assert c.texts() == ["heard: ['in French', 'and short']", EN.steered, EN.steered]
        assert c.harness.asked == ["first"]
        first, *joined = await rows(c)
        assert first.state is RunState.SUCCESS
        assert [(row.state, row.attempt) for row in joined] == [(RunState.INTERRUPTED, 0)] * 2
        known = await c.store.read(lambda tx: inbox.load(tx, range(1, 9)))
        assert {row.state for row in known} == {InboxState.DONE}


async def test_where_no_step_comes_any_more_it_is_the_next_turn(tmp_path: Path) -> None:
    async with core(tmp_path, turns=STEER) as c:
        work = Working(c)
        await say(c, "first")
        await say(c, "second")
        await work.end()
        await c.answered()
        assert c.harness.asked == ["first", "second"]
        assert c.texts() == ["heard: []", "echo: second"]


async def test_what_one_answer_missed_is_heard_by_the_next_together(tmp_path: Path) -> None:
    async with core(tmp_path, turns=STEER) as c:
        first, second = Working(c), Working(c, "second")
        for text in ("first", "second", "third"):
            await say(c, text)
        await first.end()
        assert c.texts()[1:] == ["…", EN.steering]
        assert await second.step() == ["third"]
        await second.end()
        assert c.texts() == ["heard: []", "heard: ['third']", EN.steered]


async def test_only_ones_own_answer_hears_it(tmp_path: Path) -> None:
    async with core(tmp_path, turns=STEER) as c:
        work = Working(c, "bobs")
        await say(c, "bobs", BOB, "g")
        await say(c, "the admin's", ANN, "g")
        await say(c, "bob again", BOB, "g")
        assert c.texts("g") == ["…", EN.queued_next, EN.steering]
        assert await work.step() == ["bob again"]
        await work.end()
        await c.answered()
        assert c.harness.asked == ["bobs", "the admin's"]


async def test_while_it_waits_for_a_decision_messages_are_queued(tmp_path: Path) -> None:
    async with core(tmp_path, turns=STEER) as c:
        asks(c, "first")
        await say(c, "first")
        await say(c, "second")
        (_, waiting) = await rows(c)
        assert not waiting.input.steers
        assert EN.steering not in c.texts()


async def test_what_has_to_be_a_turn_of_its_own_is_not_overtaken(tmp_path: Path) -> None:
    async with core(tmp_path, turns=STEER, hearing=SpeechToText(words="spoken")) as c:
        work = Working(c)
        await say(c, "first")
        await with_files(c).say("", attachments=(VOICE,))
        await say(c, "later")
        assert c.texts()[1:] == [EN.queued_next, "Queued, 2nd in line"]
        assert await work.step() == []
        await work.end()
        await c.answered()
        assert [start.run_input.words for start in c.harness.starts] == ["first", "spoken", "later"]


async def test_a_file_is_heard_once_it_is_there(tmp_path: Path) -> None:
    async with core(tmp_path, turns=STEER) as c:
        work = Working(c)
        with_files(c).channel.downloads = gate = asyncio.Event()
        await say(c, "first")
        await c.say("with this", attachments=(Attachment(ref="f", kind="file", name="notes.txt"),))
        await c.clock.advance(3)
        assert await work.step() == []
        gate.set()
        await c.clock.advance(3)
        assert await work.step() == ["with this"]
        (heard,) = (await rows(c))[0].input.steered
        assert [file.name for file in heard.files] == ["notes.txt"]


@pytest.mark.parametrize("text", ["/something else", "/skill do it"])
async def test_what_seems_to_call_a_skill_is_a_turn_of_its_own(tmp_path: Path, text: str) -> None:
    async with core(tmp_path, turns=STEER) as c:
        Working(c)
        await say(c, "first")
        active = next(iter(c.runs.active.values())).row
        turn = steering_turn(c, text)
        assert not inputs.can_steer(active, turn)
        assert inputs.can_steer(active, steering_turn(c, "plain"))
        assert not inputs.can_steer(active, steering_turn(c, "plain", BOB))


def steering_turn(c: Core, text: str, person: str = ANN) -> Turn:
    return Turn([Spoken(99, c.message(text, person), "en", is_admin=person == ANN)])


async def test_dropped_before_it_was_heard_it_never_is(tmp_path: Path) -> None:
    async with core(tmp_path, turns=STEER) as c:
        work = Working(c)
        await say(c, "first")
        await say(c, "second")
        await press(c, bubble(c, 1), "Drop")
        assert await work.step() == []
        await work.end()
        await c.answered()
        assert c.harness.asked == ["first"]


async def test_run_now_still_stops_the_answer(tmp_path: Path) -> None:
    async with core(tmp_path, turns=STEER) as c:
        Working(c)
        await say(c, "first")
        await say(c, "second")
        await press(c, bubble(c, 1), "Run now")
        await c.answered()
        assert c.harness.asked == ["first", "second"]
        assert c.texts()[1] == "echo: second"


async def test_an_edit_counts_until_it_is_heard(tmp_path: Path) -> None:
    async with core(tmp_path, turns=STEER) as c:
        work = Working(c)
        await say(c, "first")
        message = await c.say("in Frensh")
        await c.edit(message, "in French")
        assert await work.step() == ["in French"]
        await c.edit(message, "in Dutch")
        assert await work.step() == ["in French"]


async def test_one_answer_hears_no_more_than_so_many(tmp_path: Path) -> None:
    async with core(tmp_path, turns=STEER) as c:
        work = Working(c)
        await say(c, "first")
        active = next(iter(c.runs.active.values()))
        known = active.row.input
        many = tuple(RunInput(message_id=f"s{number}", text="") for number in range(queue.MOST_HEARD - 1))
        active.row = replace(active.row, input=replace(known, steered=many))
        await say(c, "the last")
        await say(c, "one more")
        assert (await work.step())[-1] == "the last"
        await work.end()
        await c.answered()
        assert c.harness.asked == ["first", "one more"]


async def test_told_in_the_language_of_the_message(tmp_path: Path) -> None:
    async with core(tmp_path, turns=STEER) as c:
        work = Working(c)
        await say(c, "first")
        await say(c, "用法语")
        assert c.texts()[1] == ZH.steering
        await work.step()
        assert c.texts()[1] == ZH.steered


async def test_a_failed_answer_is_tried_again_with_all_it_heard_and_undone_as_one(tmp_path: Path) -> None:
    async with core(tmp_path, turns=STEER) as c:
        await say(c, "before")
        work = Working(c)
        await say(c, "first")
        await say(c, "in French")
        await work.step()
        await work.end("fail")
        await press(c, bubble(c, 1), "Try again")
        await c.answered()
        assert c.harness.asked == ["before", "first", "first\nin French"]
        await say(c, "/undo")
        await say(c, "/undo")
        undone = [text for text in c.texts() if text.startswith(EN.undo["done"].partition("{")[0])]
        assert [("first" in text, "before" in text) for text in undone] == [(True, False), (False, True)]


async def test_a_stop_takes_what_it_heard_along(tmp_path: Path) -> None:
    async with core(tmp_path, turns=STEER) as c:
        work = Working(c)
        await say(c, "first")
        await say(c, "in French")
        await work.step()
        await say(c, "not heard yet")
        await say(c, "/stop")
        await c.answered()
        assert c.harness.asked == ["first", "not heard yet"]


async def test_after_a_planned_stop_the_answer_still_knows_it(tmp_path: Path) -> None:
    async with core(tmp_path, turns=STEER) as c:
        work = Working(c)
        await say(c, "first")
        await say(c, "in French")
        assert await work.step() == ["in French"]
        await say(c, "and short")
        await c.stop()
        await c.start()
        await c.clock.advance(3)
        assert c.texts()[2] == EN.steering
        assert await work.step() == ["in French", "and short"]
        await work.end()
        await c.answered()
        assert c.harness.asked == ["first", "first"]


@pytest.mark.parametrize("step", range(1, 9))
async def test_a_crash_at_any_step_leaves_each_message_with_one_fate(tmp_path: Path, step: int) -> None:
    async with core(tmp_path, turns=STEER) as c:
        work = Working(c)
        await say(c, "first")
        c.tripwire.at = c.tripwire.passed + step
        messages = c.message("second"), c.message("third")
        receiving = asyncio.ensure_future(c.channel.receive(*messages))
        await c.clock.advance(3)
        await work.step()
        receiving.cancel()
        await c.crash()
        c.tripwire = Tripwire()
        await c.start()
        await c.receive(*messages)  # what was not acknowledged comes again
        await c.clock.advance(3)
        # Those that had joined, and those that the line still has.
        assert await work.step() == ["second", "third"]
        await work.end()
        await c.answered()
        assert set(c.harness.asked) == {"first"}
        known = await c.store.read(lambda tx: inbox.load(tx, range(1, 9)))
        assert [row.state for row in known] == [InboxState.DONE] * 3
        assert all(row.state.ended for row in await rows(c))
        assert c.texts() == ["heard: ['second', 'third']", EN.steered, EN.steered]


async def test_a_person_whose_rights_changed_is_heard_in_a_turn_of_their_own(tmp_path: Path) -> None:
    async with core(tmp_path, turns=STEER) as c:
        work = Working(c)
        await say(c, "first")
        c.policy = replace(c.policy, access=replace(RULES, admins=frozenset()))
        await c.restart()
        await say(c, "second")
        assert c.texts()[1] == EN.queued_next
        assert await work.step() == []
