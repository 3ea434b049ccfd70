"""What becomes of a message that arrives while its conversation is busy, by each policy; and that no crash loses it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import pytest

from bot.settings.busy_policies import Backlog, Busy, Moment, Move, Refusal, Tally, TurnRules, decide, refusal
from bot.store import inbox, runs
from bot.store.rows import InboxState, RunState
from bot.texts.en import EN
from bot.texts.zh import ZH
from channels.message import Attachment, Quote
from tests.bot.core import ANN, BOB, Core, core
from tests.delivery_world import Tripwire
from tests.memory_channel import APPEND_ONLY, CALLS, NO_EDIT
from tests.tables import table

if TYPE_CHECKING:
    from pathlib import Path

    from tests.memory_channel import Bubble

PARTIAL = f"\n\n{EN.partial}"
HALF = "The first half"


def acting(busy: str, debounce: float = 0.0) -> TurnRules:
    return TurnRules(Busy(busy), debounce)


def bubble(c: Core, index: int, chat: str = ANN) -> Bubble:
    return c.channel.chats[chat][index]


async def press(c: Core, shown: Bubble, label: str, person: str = ANN, chat: str | None = None) -> str:
    """Press the button with that label; returns its answer."""
    data = next(b.data for row in shown.part.buttons for b in row if b.label.endswith(label))
    await c.press(shown.message_id, data, person, chat)
    return c.channel.acknowledged[-1][1]


async def states(c: Core) -> list[RunState]:
    return [row.state for row in reversed(await c.store.read(lambda tx: runs.recent(tx, f"memory:{ANN}", 50)))]


# The decision by itself.


@pytest.mark.parametrize("busy", Busy)
def test_where_nothing_is_to_do_every_policy_starts_at_once(busy: Busy) -> None:
    assert decide(busy, Moment(), "ann", is_admin=False) is Move.START


OWN = Moment(running="ann")
ANOTHERS = Moment(running="bob")
ENDING = Moment(running="ann", stopping=True)
BEHIND = Moment(running="ann", waiting=True, joinable=True)


@table(
    ("busy", "moment", "is_admin", "expected"),
    [
        (Busy.QUEUE, OWN, True, Move.WAIT),
        (Busy.QUEUE, BEHIND, True, Move.WAIT),
        (Busy.REJECT, OWN, True, Move.WAIT),  # it was refused when it arrived, or taken
        (Busy.COLLECT, OWN, False, Move.WAIT),
        (Busy.COLLECT, BEHIND, False, Move.JOIN),
        (Busy.COLLECT, replace(BEHIND, joinable=False), True, Move.WAIT),
        (Busy.INTERRUPT, OWN, False, Move.INTERRUPT),
        (Busy.INTERRUPT, BEHIND, False, Move.INTERRUPT),
        (Busy.INTERRUPT, ANOTHERS, False, Move.WAIT),
        (Busy.INTERRUPT, ANOTHERS, True, Move.INTERRUPT),
        (Busy.INTERRUPT, ENDING, False, Move.WAIT),
        (Busy.INTERRUPT, replace(ENDING, waiting=True, joinable=True), False, Move.JOIN),
        (Busy.INTERRUPT, Moment(waiting=True, joinable=True), False, Move.JOIN),
        (Busy.STEER, OWN, True, Move.WAIT),
        (Busy.STEER, replace(OWN, steerable=True), False, Move.STEER),
        (Busy.STEER, replace(ENDING, steerable=True), False, Move.WAIT),
        (Busy.STEER, replace(BEHIND, steerable=True), False, Move.STEER),
        (Busy.QUEUE, replace(OWN, steerable=True), False, Move.WAIT),
        (Busy.ROLLBACK, OWN, False, Move.ROLLBACK),
        (Busy.ROLLBACK, ANOTHERS, False, Move.WAIT),
        (Busy.ROLLBACK, ANOTHERS, True, Move.ROLLBACK),
        (Busy.ROLLBACK, ENDING, False, Move.WAIT),
    ],
)
def test_the_table_of_moves(busy: Busy, moment: Moment, is_admin: bool, expected: Move) -> None:
    assert decide(busy, moment, "ann", is_admin) is expected


def test_nobody_but_an_admin_stops_another_persons_run() -> None:
    either = (False, True)
    for busy, stopping, waiting, joinable in product(Busy, either, either, either):
        moment = Moment(running="bob", stopping=stopping, waiting=waiting, joinable=joinable)
        assert decide(busy, moment, "ann", is_admin=False) in (Move.WAIT, Move.JOIN)


def test_what_is_refused_as_it_arrives() -> None:
    idle = Backlog(working=False, here=0, here_limit=2, everywhere=0, everywhere_limit=5)
    assert [refusal(busy, idle) for busy in Busy] == [None] * len(Busy)
    busy = replace(idle, working=True)
    assert [refusal(policy, busy) for policy in Busy] == [None] * 5 + [Refusal.BUSY]
    assert refusal(Busy.QUEUE, replace(busy, here=2, everywhere=9)) is Refusal.QUEUE_FULL
    assert refusal(Busy.QUEUE, replace(busy, here=1, everywhere=5)) is Refusal.ALL_FULL


# queue


async def test_what_waits_says_where_and_its_answer_grows_in_the_same_message(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        gate = c.harness.hold("first")
        for text in ("first", "second", "third", "fourth"):
            await c.say(text)
        await c.clock.advance(2)
        assert c.texts() == [HALF, EN.queued_next, "Queued, 2nd in line", "Queued, 3rd in line"]
        assert [[b.label for row in shown.part.buttons for b in row] for shown in c.channel.chats[ANN]] == [
            [],
            *[["Run now", "Drop"]] * 3,
        ]
        sent = [shown.message_id for shown in c.channel.chats[ANN]]
        c.harness.hold("second")
        gate.set()
        await c.clock.advance(5)
        assert c.texts() == ["The whole answer", HALF, EN.queued_next, "Queued, 2nd in line"]
        await c.say("/stop")
        await c.answered()
        assert c.texts()[2:] == ["echo: third", "echo: fourth"]
        assert [shown.message_id for shown in c.channel.chats[ANN]] == sent
        assert not any(shown.part.buttons for shown in c.channel.chats[ANN])


async def test_what_waits_speaks_its_persons_language(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.harness.hold("first")
        await c.say("first")
        await c.say("第二个")
        await c.say("第三个")
        assert c.texts()[1:] == [ZH.queued_next, "已排队，排在第 2 位"]


async def test_a_long_line_is_renumbered_within_the_budget_and_never_promises_too_much(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        for number in range(12):
            c.harness.hold(f"m{number}")
            await c.say(f"m{number}")
            await c.clock.advance(1)
        calls = len(c.channel.calls)
        for left in range(10, 0, -1):
            await c.say("/stop")
            await c.clock.advance(2)
            waiting = [text for text in c.texts() if text.startswith("Queued")]
            assert len(waiting) == left
            for place, text in enumerate(waiting, 1):
                told = 1 if text == EN.queued_next else int("".join(filter(str.isdigit, text)))
                assert told >= place
        # Ten answers end and ten begin; the line may not add more to that than a few edits for each.
        assert len(c.channel.calls) - calls < 10 * 6


async def test_run_now_stops_what_runs_and_goes_first(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.harness.hold("first")
        for text in ("first", "second", "third"):
            await c.say(text)
        assert await press(c, bubble(c, 2), EN.button_run_now) == EN.pressed["now"]
        await c.answered()
        assert c.texts() == [f"{HALF}\n\n{EN.stopped_by['run_now']}{PARTIAL}", "echo: second", "echo: third"]
        assert c.harness.asked == ["first", "third", "second"]


async def test_drop_says_at_whose_word(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        gate = c.harness.hold("first")
        await c.say("first", BOB, "g")
        await c.say("mine", BOB, "g")
        await c.say("his", BOB, "g")
        assert await press(c, bubble(c, 1, "g"), EN.button_drop, BOB, "g") == EN.pressed["drop"]
        assert await press(c, bubble(c, 2, "g"), EN.button_drop, ANN, "g") == EN.pressed["drop"]
        gate.set()
        await c.answered()
        assert c.texts("g") == ["The whole answer", EN.dropped_by["author"], EN.dropped_by["admin"]]
        assert c.harness.asked == ["first"]
        assert [row.state for row in await c.store.read(lambda tx: inbox.load(tx, (1, 2, 3)))] == [InboxState.DONE] * 3


async def test_in_a_group_only_the_author_or_an_admin_presses(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        gate = c.harness.hold("first")
        await c.say("first", ANN, "g")
        await c.say("anns", ANN, "g")
        await c.say("bobs", BOB, "g")
        for label in (EN.button_run_now, EN.button_drop):
            assert await press(c, bubble(c, 1, "g"), label, BOB, "g") == EN.pressed["not_yours"]
        # His own message he may drop, but for his sake nobody's answer is stopped.
        assert await press(c, bubble(c, 2, "g"), EN.button_run_now, BOB, "g") == EN.pressed["not_yours_to_stop"]
        gate.set()
        await c.answered()
        assert c.texts("g") == ["The whole answer", "echo: anns", "echo: bobs"]


async def test_a_button_pressed_twice_or_too_late_does_nothing_more(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        first, second = c.harness.hold("first"), c.harness.hold("second")
        for text in ("first", "second", "third"):
            await c.say(text)
        waiting = bubble(c, 1)
        data = waiting.part.buttons[0][0].data
        held = bubble(c, 2)
        gone = held.part.buttons[0][0].data
        assert await press(c, held, EN.button_drop) == EN.pressed["drop"]
        drop = data[:-1] + "1"
        await c.press(held.message_id, gone)
        assert c.channel.acknowledged[-1][1] == EN.pressed["over"]
        first.set()
        await c.clock.advance(3)
        for pressed in (data, drop):
            await c.press(waiting.message_id, pressed)
            assert c.channel.acknowledged[-1][1] == EN.pressed["begun"]
        second.set()
        await c.answered()
        await c.press(waiting.message_id, data)
        assert c.channel.acknowledged[-1][1] == EN.pressed["over"]
        assert c.texts() == ["The whole answer", "The whole answer", EN.dropped_by["author"]]


async def test_two_presses_at_the_very_same_moment(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.harness.hold("first")
        await c.say("first")
        await c.say("second")
        now = bubble(c, 1).part.buttons[0][0].data
        await asyncio.gather(*(c.press(bubble(c, 1).message_id, now) for _ in range(2)))
        await c.answered()
        assert c.harness.asked == ["first", "second"]
        assert c.texts()[1] == "echo: second"


async def test_a_restart_keeps_the_line_its_texts_and_its_buttons(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.harness.hold("first")
        c.harness.hold("fourth")
        for text in ("first", "second", "third", "fourth"):
            await c.say(text)
        await c.restart()
        await c.clock.advance(5)
        assert c.texts() == [HALF, EN.queued_next, "Queued, 2nd in line", "Queued, 3rd in line"]
        await press(c, bubble(c, 3), EN.button_run_now)
        await press(c, bubble(c, 1), EN.button_drop)
        await c.say("/stop")
        await c.answered()
        assert c.texts()[1:3] == [EN.dropped_by["author"], "echo: third"]
        assert c.harness.asked[2:] == ["fourth", "third"]


async def test_what_was_put_first_stays_first_and_what_was_stopped_stopped_over_a_crash(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.harness.hold("first")
        for text in ("first", "second", "third"):
            await c.say(text)
        await c.store.write(lambda tx: None)
        third = next(iter(reversed(await c.store.read(lambda tx: runs.queued(tx, f"memory:{ANN}")))))
        active = await c.store.read(lambda tx: runs.active(tx, f"memory:{ANN}"))
        assert active is not None

        def committed(tx: object) -> None:
            runs.put_ahead(tx, third.run_id, 1)  # type: ignore[arg-type]
            runs.ask_to_stop(tx, active.run_id, "run_now")  # type: ignore[arg-type]

        await c.store.write(committed)  # and then the process died
        await c.restart()
        await c.answered()
        assert c.harness.asked == ["first", "third", "second"]
        assert c.texts() == [EN.stopped_by["run_now"], "echo: second", "echo: third"]


async def test_what_cannot_be_edited_is_acknowledged_once(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.channels["memory"].mode = NO_EDIT
        await c.restart()
        gates = [c.harness.hold(text) for text in ("first", "second")]
        for text in ("first", "second", "third"):
            await c.say(text)
        for gate in gates:
            gate.set()
            await c.clock.advance(5)
        await c.answered()
        assert sorted(c.texts()) == sorted(
            [EN.queued_next, "Queued, 2nd in line", "The whole answer", "The whole answer", "echo: third"]
        )


# collect


async def test_where_only_a_stream_can_be_changed_no_buttons_stay_above_the_answer(tmp_path: Path) -> None:
    async with core(tmp_path, mode=APPEND_ONLY) as c:
        gate = c.harness.hold("first")
        await c.say("first")
        await c.say("second", BOB)
        await c.say("in line")
        await c.clock.advance(5)
        waiting = bubble(c, -1)
        assert waiting.part.buttons == ()
        gate.set()
        await c.answered()
        assert bubble(c, -1) is waiting
        assert (waiting.text, len(c.texts())) == ("echo: in line", 2)


async def test_what_waits_of_one_person_is_answered_together(tmp_path: Path) -> None:
    async with core(tmp_path, turns=acting("collect")) as c:
        gate = c.harness.hold("first")
        c.channel.files = {"a.txt": b"a"}
        await c.say("first")
        await c.say("second", reply_to=Quote(message_id="q", text="quoted", author="Eve", from_bot=False))
        await c.say("third", attachments=(Attachment(ref="a.txt", kind="file", name="a.txt"),))
        await c.say("fourth")
        await c.clock.advance(3)
        assert c.texts() == [HALF, "Queued, next in line: 3 messages, answered together"]
        gate.set()
        await c.answered()
        assert c.texts() == ["The whole answer", "echo: second\nthird\nfourth"]
        start = c.harness.starts[-1]
        assert [file.name for file in start.run_input.files] == ["a.txt"]
        assert start.run_input.quote == "quoted"
        assert [row.state for row in await c.store.read(lambda tx: inbox.load(tx, range(1, 5)))] == [
            InboxState.DONE
        ] * 4


async def test_two_persons_are_never_merged(tmp_path: Path) -> None:
    async with core(tmp_path, turns=acting("collect")) as c:
        gate = c.harness.hold("first")
        for text, person in (("first", ANN), ("a", ANN), ("b", BOB), ("c", BOB), ("d", ANN), ("五", ANN)):
            await c.say(text, person, "g")
        gate.set()
        await c.answered()
        assert c.harness.asked == ["first", "a", "b\nc", "d", "五"]
        assert [start.ctx.speaker.id for start in c.harness.starts[1:4]] == ["memory:1", "memory:2", "memory:1"]


async def test_merged_messages_survive_a_crash_with_their_number_and_can_be_edited(tmp_path: Path) -> None:
    async with core(tmp_path, turns=acting("collect")) as c:
        c.harness.hold("first")
        await c.say("first")
        await c.say("second")
        third = await c.say("thrid")
        await c.restart()
        await c.clock.advance(5)
        assert c.texts() == [HALF, "Queued, next in line: 2 messages, answered together"]
        await c.edit(third, "third")
        await c.say("fourth")
        await c.say("/stop")
        await c.answered()
        assert c.harness.asked[-1] == "second\nthird\nfourth"
        assert len(c.texts()) == 2


async def test_the_limit_counts_what_was_merged(tmp_path: Path) -> None:
    async with core(tmp_path, queue_limit=2, turns=acting("collect")) as c:
        gate = c.harness.hold("first")
        for text in ("first", "a", "b", "c"):
            await c.say(text)
        gate.set()
        await c.answered()
        assert c.harness.asked == ["first", "a\nb"]
        assert c.texts()[-1] == EN.refusals["queue_full"].format(count=1, limit=2)


# interrupt


async def test_a_new_message_stops_the_running_answer(tmp_path: Path) -> None:
    async with core(tmp_path, turns=acting("interrupt")) as c:
        c.harness.hold("first")
        await c.say("first")
        await c.say("second")
        await c.answered()
        assert c.texts() == [f"{HALF}\n\n⏹ Stopped, because you wrote something new.{PARTIAL}", "echo: second"]
        assert await states(c) == [RunState.INTERRUPTED, RunState.SUCCESS]
        assert c.harness.rewinds == []


@pytest.mark.parametrize("follows", ["second", "/new"])
async def test_what_gave_way_ends_where_it_stands_however_long_ago_it_began(tmp_path: Path, follows: str) -> None:
    async with core(tmp_path, mode=CALLS, turns=acting("interrupt")) as c:
        c.harness.hold("first")
        await c.say("first")
        await c.clock.advance(60)
        (first,) = c.channel.chats[ANN]
        await c.say(follows)
        await c.answered()
        stopped, answer = c.channel.chats[ANN]
        assert (stopped.message_id, "⏹ Stopped, because" in stopped.text) == (first.message_id, True)
        assert "⏹" not in answer.text


async def test_messages_at_the_very_same_moment_lose_no_word(tmp_path: Path) -> None:
    async with core(tmp_path, turns=acting("interrupt")) as c:
        c.harness.hold("first")
        await c.say("first")
        await c.receive(c.message("second"), c.message("third"), c.message("fourth"))
        await c.answered()
        assert " ".join(c.harness.asked).split() == ["first", "second", "third", "fourth"]
        assert len(c.texts()) == len(c.harness.asked)
        assert not any(text.startswith(("Queued", "Working")) for text in c.texts())


async def test_in_a_group_others_wait_and_an_admin_does_not(tmp_path: Path) -> None:
    async with core(tmp_path, turns=acting("interrupt")) as c:
        c.harness.hold("anns")
        c.harness.hold("bobs")
        await c.say("anns", ANN, "g")
        await c.say("bobs", BOB, "g")
        await c.clock.advance(3)
        assert c.texts("g") == [HALF, EN.queued_next]
        await c.say("/stop", ANN, "g")
        await c.clock.advance(3)
        assert c.harness.asked == ["anns", "bobs"]
        await c.say("hear me", ANN, "g")
        await c.answered()
        assert c.texts("g")[1:] == [f"{HALF}\n\n{EN.stopped_by['admin_message']}{PARTIAL}", "echo: hear me"]


async def test_what_interrupts_goes_before_others_who_wait(tmp_path: Path) -> None:
    async with core(tmp_path, turns=acting("interrupt")) as c:
        c.harness.hold("anns")
        await c.say("anns", ANN, "g")
        await c.say("bobs", BOB, "g")
        await c.say("better", ANN, "g")
        await c.answered()
        assert c.harness.asked == ["anns", "better", "bobs"]


async def test_a_message_whose_file_is_refused_interrupts_nothing(tmp_path: Path) -> None:
    async with core(tmp_path, turns=acting("interrupt")) as c:
        gate = c.harness.hold("first")
        await c.say("first")
        await c.say("", attachments=(Attachment(ref="gone", kind="file", name="gone"),))
        gate.set()
        await c.answered()
        assert c.texts()[0] == "The whole answer"


# rollback


async def test_rollback_rewinds_to_before_the_stopped_run(tmp_path: Path) -> None:
    async with core(tmp_path, turns=acting("rollback")) as c:
        await c.say("before")
        await c.answered()
        c.harness.hold("first")
        await c.say("first")
        await c.say("second")
        await c.answered()
        assert c.harness.rewinds == ["1"]
        stopped = f"{EN.stopped_by['rollback']}{EN.forgotten}"
        assert c.texts() == ["echo: before", f"{HALF}\n\n{stopped}{PARTIAL}", "echo: second"]
        newest = (await c.store.read(lambda tx: runs.recent(tx, f"memory:{ANN}", 1)))[0]
        assert newest.base_checkpoint_id == "1"


async def test_a_run_that_never_started_takes_no_history_with_it(tmp_path: Path) -> None:
    async with core(tmp_path, concurrent=1, turns=acting("rollback")) as c:
        await c.say("before")
        await c.answered()
        gate = c.harness.hold("other")
        await c.say("other", BOB)
        await c.say("first")
        await c.say("second")
        gate.set()
        await c.answered()
        assert c.harness.rewinds == []
        assert c.harness.asked == ["before", "other", "second"]


async def test_a_rewind_that_fails_is_told(tmp_path: Path) -> None:
    async with core(tmp_path, turns=acting("rollback")) as c:
        c.harness.hold("first")
        c.harness.lost = True
        await c.say("first")
        await c.say("second")
        await c.answered()
        stopped = f"{EN.stopped_by['rollback']}{EN.not_forgotten}"
        assert c.texts() == [f"{HALF}\n\n{stopped}{PARTIAL}", "echo: second"]


# reject


async def test_reject_refuses_in_one_notice_and_answers_again_afterwards(tmp_path: Path) -> None:
    async with core(tmp_path, turns=acting("reject")) as c:
        gate = c.harness.hold("first")
        await c.say("first")
        await c.say("second")
        await c.receive(c.message("", bundle="album"), c.message("", bundle="album"))
        await c.clock.advance(3)
        assert c.texts() == [HALF, EN.refusals["busy"].format(count=3, limit=20)]
        gate.set()
        await c.answered()
        await c.say("again")
        await c.answered()
        assert c.harness.asked == ["first", "again"]
        assert await c.reasons() == ["busy"] * 3


# What all policies promise.


@pytest.mark.slow
@pytest.mark.parametrize("busy", [busy for busy in Busy if busy is not Busy.STEER])  # see test_steering.py
@pytest.mark.parametrize("step", range(1, 12))
async def test_a_crash_at_any_step_leaves_each_message_with_one_fate(tmp_path: Path, busy: str, step: int) -> None:
    async with core(tmp_path, turns=acting(busy)) as c:
        await c.say("before")
        await c.answered()
        gate = c.harness.hold("first")
        await c.say("first")
        c.tripwire.at = c.tripwire.passed + step
        messages = c.message("second"), c.message("third")
        receiving = asyncio.ensure_future(c.channel.receive(*messages))
        await c.clock.advance(5)
        gate.set()
        await c.clock.advance(5)
        receiving.cancel()
        await c.crash()
        c.tripwire = Tripwire()
        await c.start()
        await c.receive(*messages)  # what was not acknowledged comes again
        await c.answered()
        known = await c.store.read(lambda tx: inbox.load(tx, range(1, 9)))
        ended = await c.store.read(lambda tx: runs.recent(tx, f"memory:{ANN}", 50))
        refused = (await c.reasons()).count("busy")
        assert {row.state for row in known} == {InboxState.DONE}
        assert all(row.state.ended for row in ended)
        assert sorted(event for row in ended for event in row.inbox_ids) == [row.id for row in known][: 4 - refused]
        notices = len(c.texts()) - len(ended)
        assert notices == 0 if not refused else 0 < notices <= refused  # what was told before the crash is not known
        assert refused == 0 or busy == Busy.REJECT
        for text in c.texts():
            assert text.startswith(("echo: ", "The whole answer", "⏹", f"{HALF}\n\n⏹", "⚠️")), text
        assert not any(shown.part.buttons for shown in c.channel.chats[ANN])
        if busy == Busy.ROLLBACK:
            stopped = [row for row in ended if row.state is RunState.INTERRUPTED and row.attempt]
            assert len(c.harness.rewinds) >= len(stopped)


async def test_new_with_a_line_ends_all_of_it(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.harness.hold("first")
        for text in ("first", "second", "third"):
            await c.say(text)
        await c.say("/new")
        await c.answered()
        assert c.texts()[1:3] == [EN.dropped_by_new] * 2
        assert "2 waiting" in c.texts()[3]
        assert not any(shown.part.buttons for shown in c.channel.chats[ANN])


async def test_a_stop_is_not_forgotten_by_a_crash(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.harness.hold("first")
        await c.say("first")
        await c.say("second")
        active = await c.store.read(lambda tx: runs.active(tx, f"memory:{ANN}"))
        assert active is not None
        await c.store.write(lambda tx: runs.ask_to_stop(tx, active.run_id, "stopped"))
        await c.restart()
        await c.answered()
        assert c.texts() == [EN.stopped_by["stopped"], "echo: second"]
        assert c.harness.asked == ["first", "second"]


# Limits and debounce.


async def test_a_run_without_a_slot_says_so(tmp_path: Path) -> None:
    async with core(tmp_path, concurrent=1) as c:
        gate = c.harness.hold("first", half="")
        await c.say("first")
        await c.say("other", BOB)
        await c.clock.advance(2)
        assert c.texts(BOB) == [EN.no_slot.format(limit=1)]
        assert c.runs.waiting == 1
        gate.set()
        await c.answered()
        assert c.texts(BOB) == ["echo: other"]
        assert c.runs.waiting == 0


async def test_all_conversations_together_have_a_limit(tmp_path: Path) -> None:
    async with core(tmp_path, concurrent=1, queue_total=2) as c:
        gate = c.harness.hold("first")
        await c.say("first")
        await c.say("waits here")
        await c.say("waits for a slot", BOB)
        await c.say("too much", BOB)
        await c.clock.advance(2)
        assert c.texts(BOB)[1] == EN.refusals["all_full"].format(count=1, limit=2)
        gate.set()
        await c.answered()
        await c.say("now", BOB)
        await c.answered()
        assert c.texts(BOB)[-1] == "echo: now"


def test_the_tally_forgets_what_waits_no_more() -> None:
    tally = Tally()
    for whose, waiting in (("a", 2), ("b", 3), ("a", 1), ("b", 0), ("c", 0)):
        tally.note(whose, waiting)
    assert (tally.total, tally._numbers) == (1, {"a": 1})


async def test_without_debounce_nothing_is_delayed(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        before = c.clock.monotonic()
        await c.say("hello")
        assert c.harness.asked == ["hello"]
        assert c.clock.monotonic() == before


async def test_quick_messages_are_one_turn(tmp_path: Path) -> None:
    async with core(tmp_path, turns=acting("queue", debounce=2)) as c:
        await c.say("one", ANN, "g")
        await c.clock.advance(1.5)
        await c.say("two", ANN, "g")
        await c.clock.advance(1.5)
        assert c.harness.asked == []
        await c.clock.advance(0.5)
        assert c.harness.asked == ["one\ntwo"]
        await c.say("three", ANN, "g")
        await c.say("Bob's", BOB, "g")
        await c.answered()
        assert c.harness.asked == ["one\ntwo", "three", "Bob's"]


async def test_who_never_pauses_is_answered_all_the_same(tmp_path: Path) -> None:
    async with core(tmp_path, turns=acting("queue", debounce=2)) as c:
        for number in range(11):
            await c.say(f"m{number}")
            await c.clock.advance(1)
        assert c.harness.asked == ["\n".join(f"m{number}" for number in range(10))]


async def test_debounced_messages_survive_a_crash(tmp_path: Path) -> None:
    async with core(tmp_path, turns=acting("queue", debounce=2)) as c:
        await c.say("one")
        await c.say("two")
        await c.restart()
        await c.answered()
        assert c.harness.asked == ["one\ntwo"]
