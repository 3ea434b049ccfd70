"""What was put off comes when it is due: once, in its chat, for its person, whatever happened meanwhile."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import update

from bot.schedule.timer import Timer
from bot.settings.busy_policies import Busy, TurnRules
from bot.store import inbox, runs, schedules
from bot.store.rows import InboxState
from bot.store.schedules import ScheduleState
from bot.store.tables import schedules as table
from bot.texts.en import EN
from harness.context import RUN_CONTEXT
from harness.scheduling.when import When, at_time
from tests.bot.core import ANN, BOB, RULES, Core, core
from tests.bot.putting_off import ANSWERED, HOUR, REMINDED, daily, last_context, later, once, schedule, state_of
from tests.delivery_world import Tripwire

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from pathlib import Path

    from channels.message import InboundEvent
    from harness.events import AnyRunEvent
    from tests.bot.scripted_harness import Teller


# It fires.


async def test_once_then_never_again(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        made = await schedule(c, once(c))
        await c.clock.advance(599)
        assert later(c) == []
        await c.clock.advance(2)
        assert later(c) == [ANSWERED]
        assert await state_of(c, made) is ScheduleState.DONE
        await c.clock.advance(24 * HOUR)
        assert later(c) == [ANSWERED]


async def test_what_was_due_before_it_was_made_is_due_at_once(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await schedule(c, When("once", (c.clock.now() - timedelta(microseconds=1)).isoformat(), "UTC"))
        await c.clock.advance(2)
        assert later(c) == [ANSWERED]


async def test_the_run_is_its_persons_and_knows_what_began_it(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        made = await schedule(c, once(c), chat="g", person=BOB, topic="t", name="Bob_")
        asked = last_context(c)
        await c.clock.advance(601)
        ctx = last_context(c)
        assert (ctx.schedule, asked.schedule) == (made.id, "")
        assert ctx.speaker == replace(asked.speaker, is_admin=False)
        assert (ctx.conversation, ctx.thread_id, ctx.is_group) == (asked.conversation, asked.thread_id, True)
        assert later(c, "g") == ["⏰ stretch (Bob\\_)\n\necho: stretch"]
        run, first = await c.store.read(lambda tx: runs.recent(tx, ctx.conversation, 2))
        assert (run.address, run.reply_to) == (first.address, first.reply_to)  # where its topic is found again
        assert first.address.topic == "t"


async def test_again_and_again_at_the_same_local_time(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        made = await schedule(c, daily(c))
        await c.clock.advance(8 * HOUR + 1)
        assert later(c) == [ANSWERED]
        await c.clock.advance(2 * 24 * HOUR)
        assert later(c) == [ANSWERED] * 3
        assert await state_of(c, made) is ScheduleState.ACTIVE
        await c.crash()
        await c.clock.advance(86 * 24 * HOUR)
        await c.start()
        await c.clock.advance(5)
        row = await c.store.read(lambda tx: schedules.load(tx, made.id))
        assert row is not None
        assert row.next_at.isoformat() == "2026-03-31T07:00:00+00:00"  # the clocks were put forward


async def test_what_is_made_later_but_due_earlier_comes_earlier(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await schedule(c, once(c, 600), text="late")
        await schedule(c, once(c, 1), text="early")
        await c.clock.advance(61)
        assert later(c) == ["⏰ early\n\necho: early"]


async def test_nothing_is_asked_of_the_store_while_nothing_is_due(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with core(tmp_path) as c:
        await schedule(c, once(c, 600))
        c.store.down = True
        await c.clock.advance(9 * HOUR)
        assert "not available" not in caplog.text
        c.store.down = False
        await c.clock.advance(HOUR)
        assert later(c) == [ANSWERED]


async def test_text_is_shown_as_it_is(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await schedule(c, once(c), text="*call*\n" + "x" * 600)
        await c.clock.advance(601)
        assert later(c)[0].startswith("⏰ \\*call\\* xxx")
        assert "x…\n\necho: *call*" in later(c)[0]


# It queues like a message.


@pytest.mark.parametrize("busy", list(Busy))
async def test_it_waits_for_what_runs_and_is_shown_at_once(tmp_path: Path, busy: Busy) -> None:
    async with core(tmp_path, turns=TurnRules(busy)) as c:
        await schedule(c, once(c))
        gate = c.harness.hold("long work")
        await c.say("long work")
        await c.clock.advance(601)
        _, shown = later(c)
        assert shown.startswith(f"{REMINDED}\n\n")
        assert EN.queued_next in shown
        gate.set()
        await c.answered()
        assert later(c) == ["The whole answer", ANSWERED]


async def test_what_is_written_while_it_waits_is_answered_by_itself(tmp_path: Path) -> None:
    async with core(tmp_path, turns=TurnRules(Busy.COLLECT, debounce=30)) as c:
        gate = c.harness.hold("long work")
        await c.say("long work")
        await schedule_directly(c, once(c, 2))
        await c.clock.advance(121)
        await c.say("and this")
        await c.clock.advance(31)
        gate.set()
        await c.answered()
        assert [start.run_input.text for start in c.harness.starts[-2:]] == ["stretch", "and this"]
        assert [start.ctx.schedule != "" for start in c.harness.starts[-2:]] == [True, False]


async def schedule_directly(c: Core, when: When) -> None:
    """During a run: by a call of that one."""
    await c.clock.advance(31)
    await c.schedules.create(c.harness.starts[-1].ctx, "call", "stretch", when)


async def test_a_full_queue_says_so(tmp_path: Path) -> None:
    async with core(tmp_path, queue_limit=1) as c:
        await schedule(c, once(c))
        gate = c.harness.hold("long work")
        await c.say("long work")
        await c.say("second")
        await c.clock.advance(601)
        assert later(c)[-1] == f"{REMINDED}\n\n" + EN.refusals["queue_full"].format(count=1, limit=1)
        gate.set()
        await c.answered()


# Downtime and crashes.


async def test_after_a_downtime_there_is_one_catch_up_for_each(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await schedule(c, daily(c))
        await schedule(c, once(c, 30), text="one")
        await c.crash()
        await c.clock.advance(5 * 24 * HOUR)
        await c.start()
        await c.clock.advance(5)
        late = EN.reminder_late.format(time="2026-01-01 09:00 CET")
        other = EN.reminder_late.format(time="2026-01-01 01:30 CET")
        assert set(later(c)) == {f"{REMINDED}\n{late}\n\necho: stretch", f"⏰ one\n{other}\n\necho: one"}
        assert len(later(c)) == 2
        await c.clock.advance(8 * HOUR + 1)
        assert later(c)[2:] == [ANSWERED]


@pytest.mark.parametrize("step", range(1, 12))
async def test_a_crash_at_any_commit_neither_doubles_nor_loses_it(tmp_path: Path, step: int) -> None:
    async with core(tmp_path) as c:
        made = await schedule(c, once(c))
        await c.clock.advance(590)
        c.tripwire.at = c.tripwire.passed + step
        await c.clock.advance(12)
        await c.crash()
        c.tripwire = Tripwire()
        await c.start()
        await c.answered()
        assert later(c) == [ANSWERED]
        assert await state_of(c, made) is ScheduleState.DONE


async def test_what_was_committed_all_the_same_is_handed_over(tmp_path: Path) -> None:
    """The connection breaks after the commit and before its answer: the timer tries again."""

    async with core(tmp_path) as c:
        await schedule(c, once(c))
        row = await c.store.read(lambda tx: schedules.first_due(tx, ["memory"]))
        assert row is not None
        handed: list[InboundEvent] = []

        async def twice(event: Any, unit: Callable[[Any], bool]) -> None:
            handed.append(event)
            await c.store.write(lambda tx: unit(tx) and inbox.ADD_EVENTS.run(tx, [event]))
            await c.bus.originate(event, unit)

        c.timer = Timer(c.schedules._store, twice, c.clock, lambda: ["memory"])
        await c.tasks.cancel()
        c.tasks.spawn("manager", c.manager.serve(c.bus))
        c.tasks.spawn("schedules", c.timer.serve())
        await c.clock.advance(601)
        await c.answered()
        assert later(c) == [ANSWERED]
        assert len(handed) == 1


async def test_a_full_disk_is_waited_out(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await schedule(c, once(c))
        c.store.down = True
        await c.clock.advance(700)
        c.store.down = False
        await c.clock.advance(60)
        (shown,) = later(c)
        assert shown.startswith(REMINDED)
        assert shown.endswith("echo: stretch")


async def test_an_account_that_is_not_configured_waits_for_its_return(tmp_path: Path) -> None:
    async with core(tmp_path, accounts=("memory", "other")) as c:
        message = c.message("put it off", account="other")

        async def script(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
            await c.schedules.create(tell.ctx, "call", "stretch", once(c))
            yield tell.answer("Scheduled.")

        c.policy = replace(c.policy, access=replace(RULES, open_dm=True))
        c.harness.scripts["put it off"] = script
        await c.receive(message)
        await c.answered()
        await c.crash()
        c.accounts = ("memory",)
        await c.start()
        await c.clock.advance(HOUR)
        await c.crash()
        c.accounts = ("memory", "other")
        await c.start()
        await c.answered()
        shown = c.channels["other"].texts(ANN)
        assert [text.split("\n")[0] for text in shown] == ["Scheduled.", REMINDED]


async def test_a_timezone_that_is_gone_ends_one_and_keeps_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with core(tmp_path) as c:
        made = await schedule(c, daily(c))
        await schedule(c, once(c, 8 * 60 + 1), text="other")
        moved = update(table).where(table.c.id == made.id).values(timezone="Nowhere/Gone")
        await c.store.write(lambda tx: tx.execute(moved))
        await c.clock.advance(9 * HOUR)
        assert await state_of(c, made) is ScheduleState.DONE
        assert "Nowhere/Gone" in caplog.text
        assert later(c) == [ANSWERED, "⏰ other\n\necho: other"]


async def test_the_event_is_settled_with_its_answer(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await schedule(c, at_once(c))
        await c.clock.advance(61)
        rows = await c.store.read(lambda tx: inbox.load(tx, range(100)))
        assert {row.state for row in rows} == {InboxState.DONE}
        assert '"type":"schedule_due"' in rows[-1].event
        assert RUN_CONTEXT.validate_json(RUN_CONTEXT.dump_json(last_context(c))) == last_context(c)


def at_once(c: Core) -> When:
    return at_time((c.clock.now() + timedelta(seconds=60)).isoformat(), "UTC", c.clock.now())
