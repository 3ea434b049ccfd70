"""Whose a schedule is: who is served, who sees it and who ends it, by the agent or by /reminders."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from bot.settings.sections import ScheduleSettings
from bot.store.schedules import ScheduleState
from bot.texts.en import EN
from channels.message import MembershipChanged
from harness.scheduling.schedules import Schedule, TooMany
from tests.bot.conversations.test_policies import bubble, press
from tests.bot.core import ANN, BOB, RULES, Core, core
from tests.bot.putting_off import ANSWERED, HOUR, daily, last_context, later, once, schedule, state_of
from tests.memory_channel import NO_BUTTONS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from harness.context import RunContext


# Whose it is.


def without(person: str) -> Any:
    return replace(RULES, allow=RULES.allow - {f"memory:{person}"})


async def test_who_was_let_out_is_not_served_any_more_and_the_admins_hear_of_it(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await c.say("hello", ANN)
        made = await schedule(c, daily(c), person=BOB)
        c.policy = replace(c.policy, access=without(BOB))
        await c.clock.advance(3 * 24 * HOUR)
        assert later(c, BOB) == []
        assert await state_of(c, made) is ScheduleState.REVOKED
        assert later(c, ANN)[-1:] == [EN.schedule_revoked_admin.format(person=f"memory:{BOB}")]
        assert (await c.reasons())[-1] == "access was revoked"
        assert len(c.harness.starts) == 2


async def test_a_group_that_was_closed_hears_nothing(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        made = await schedule(c, once(c), chat="g", person=BOB)
        c.policy = replace(c.policy, access=replace(RULES, groups=frozenset()))
        await c.clock.advance(HOUR)
        assert later(c, "g") == []
        assert await state_of(c, made) is ScheduleState.DONE
        assert (await c.reasons())[-1] == "access was revoked"


async def test_where_answers_are_off_it_stays_silent_and_comes_again(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        made = await schedule(c, daily(c), chat="g")
        c.policy = replace(c.policy, access=replace(RULES, answer="off"))
        await c.clock.advance(9 * HOUR)
        assert later(c, "g") == []
        c.policy = replace(c.policy, access=RULES)
        await c.clock.advance(24 * HOUR)
        assert later(c, "g") == ["⏰ stretch (Ann)\n\necho: stretch"]
        assert await state_of(c, made) is ScheduleState.ACTIVE


async def test_where_the_bot_was_removed_nothing_goes_on(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        in_group = await schedule(c, daily(c), chat="g")
        in_private = await schedule(c, daily(c))
        message = c.message("", chat="g")
        left = MembershipChanged(
            account="memory",
            dedupe_keys=("u:left",),
            sent_at=message.sent_at,
            received_at=message.received_at,
            address=message.address,
            sender=message.sender,
            present=False,
        )
        await c.receive(left)
        await c.clock.advance(9 * HOUR)
        assert await state_of(c, in_group) is ScheduleState.GONE
        assert await state_of(c, in_private) is ScheduleState.ACTIVE
        assert (later(c, "g"), later(c)) == ([], [ANSWERED])


async def test_rights_are_those_of_now(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await schedule(c, once(c))
        assert last_context(c).speaker.is_admin
        c.policy = replace(c.policy, access=replace(RULES, admins=frozenset()))
        await c.clock.advance(601)
        assert not last_context(c).speaker.is_admin


async def test_there_are_limits_for_a_person_and_for_a_chat(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await schedule(c, once(c), chat="g")
        ctx = last_context(c)

        async def make(number: int, ctx: RunContext = ctx) -> Schedule:
            return await c.schedules.create(ctx, f"call{number}", "x", once(c))

        await make(1)
        first = await make(2)
        with pytest.raises(TooMany) as refused:
            await make(3)
        assert (refused.value.limit, refused.value.whose) == (3, "person")
        assert await make(2) == first
        await schedule(c, once(c), chat="g", person=BOB)
        bob = last_context(c)
        await make(1, bob)
        with pytest.raises(TooMany) as refused:
            await make(2, bob)
        assert (refused.value.limit, refused.value.whose) == (5, "chat")
        assert await c.schedules.cancel(ctx, first.id) is not None
        await make(2, bob)


async def test_the_agent_sees_and_ends_only_what_its_person_has_in_this_chat(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        in_group = await schedule(c, once(c), chat="g")
        group = last_context(c)
        in_private = await schedule(c, once(c, 5))
        private = last_context(c)
        await schedule(c, once(c), chat="g", person=BOB)
        bob = last_context(c)
        assert [each.id for each in await c.schedules.own(group)] == [in_group.id]
        assert [each.id for each in await c.schedules.own(private)] == [in_private.id]
        assert await c.schedules.cancel(bob, in_group.id) is None
        assert await c.schedules.cancel(group, in_private.id) is None
        assert await c.schedules.cancel(group, "unknown") is None
        assert await c.schedules.cancel(group, in_group.id) is not None
        assert await c.schedules.cancel(group, in_group.id) is not None
        await c.clock.advance(HOUR)
        assert later(c, "g").count("⏰ stretch (Ann)\n\necho: stretch") == 1  # Bob's, whom the test calls Ann too


# /reminders


async def asked(c: Core, person: str = ANN, chat: str | None = None) -> str:
    await c.say("/reminders", person, chat)
    await c.clock.advance(2)
    return c.texts(chat or person)[-1]


def labels(c: Core, chat: str = ANN) -> Sequence[str]:
    return [button.label for row in bubble(c, -1, chat).part.buttons for button in row]


async def test_a_list_with_a_button_for_each(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        assert await asked(c) == EN.reminders_none
        one = await schedule(c, once(c), text="first *thing*")
        every = await schedule(c, daily(c), text="second")
        assert await asked(c) == "\n\n".join(
            [
                EN.reminders_head,
                "1. first \\*thing\\* — 2026-01-01 00:10 UTC",
                "2. second — 2026-01-01 08:00 UTC, repeats: `0 9 * * * Europe/Berlin`",
            ]
        )
        assert labels(c) == ["Cancel: first *thing*", "Cancel: second"]
        shown = bubble(c, -1)
        assert await press(c, shown, "second") == EN.reminder_answers["cancelled"]
        await c.clock.advance(2)
        assert bubble(c, -1) is shown
        assert labels(c) == ["Cancel: first *thing*"]
        assert await state_of(c, every) is ScheduleState.CANCELLED
        await c.clock.advance(24 * HOUR)
        assert later(c)[-1] == "⏰ first \\*thing\\*\n\necho: first *thing*"
        assert await press(c, shown, "thing*") == EN.pressed["over"]
        await c.clock.advance(2)
        assert shown.part.buttons == ()
        assert await state_of(c, one) is ScheduleState.DONE


async def test_times_are_those_of_the_chat(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await schedule(c, once(c), text="first")
        await schedule(c, daily(c), text="second")
        await c.say("/timezone Europe/Berlin", ANN)
        await c.answered()
        assert "second — 2026-01-01 09:00 CET, repeats: `0 9 * * *`" in await asked(c)
        await press(c, bubble(c, -1), "second")
        await c.clock.advance(2)
        assert "first — 2026-01-01 01:10 CET" in c.texts(ANN)[-1], "the list that a press changes too"


async def test_in_a_group_ones_own_and_for_an_admin_all(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        anns = await schedule(c, once(c), chat="g", person=ANN, text="anns")
        bobs = await schedule(c, once(c), chat="g", person=BOB, text="bobs", name="Bob")
        await schedule(c, once(c), person=BOB, text="private")
        assert "bobs" in (listed := await asked(c, BOB, "g"))
        assert "anns" not in listed
        assert "private" not in listed
        text = await asked(c, ANN, "g")
        assert " · Ann" in text
        assert " · Bob" in text
        shown = bubble(c, -1, "g")
        assert await press(c, shown, "anns", BOB, "g") == EN.reminder_answers["not_yours"]
        assert await state_of(c, anns) is ScheduleState.ACTIVE
        assert await press(c, shown, "bobs", ANN, "g") == EN.reminder_answers["cancelled"]
        assert await state_of(c, bobs) is ScheduleState.CANCELLED


async def test_a_long_list_moves_up(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.schedule_limits = ScheduleSettings()
        await c.restart()
        await schedule(c, once(c), text="thing 0")
        for number in range(1, 11):
            await c.schedules.create(last_context(c), f"c{number}", f"thing {number}", once(c, 10 + number))
        assert (await asked(c)).endswith(EN.reminders_more.format(count=3))
        assert labels(c)[-1] == "Cancel: thing 7"
        await press(c, bubble(c, -1), "thing 0")
        await c.clock.advance(2)
        assert labels(c)[-1] == "Cancel: thing 8"


async def test_numbers_where_there_are_no_buttons(tmp_path: Path) -> None:
    async with core(tmp_path, mode=NO_BUTTONS) as c:
        made = await schedule(c, once(c), text="first")
        await schedule(c, once(c, 20), text="second")
        assert "1. Cancel: first" in (await asked(c)).replace("\\", "")
        await c.say("1")
        await c.clock.advance(2)
        assert await state_of(c, made) is ScheduleState.CANCELLED
        assert c.texts()[-1] == EN.reminder_answers["cancelled"]
