"""/reminders: what is scheduled in this chat; a button or its number cancels one's own, or all for administrators."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING

from bot.commands.group import ButtonKind, CommandGroup, log_act
from bot.control.actions import Action
from bot.delivery.buttons import question
from bot.store import prompts
from bot.texts.markdown import plain
from bot.usage.days import zone_of
from channels.message import Button, OutboundMessage
from harness.scheduling.when import local
from harness.text.plain import short_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from bot.commands.group import Answers
    from bot.conversations.actor import Conversation
    from bot.schedule.service import ScheduleService
    from bot.store.rows import PromptRow
    from bot.store.schedules import ScheduleRow
    from bot.texts.catalogue import Texts
    from bot.texts.command_line import Call, Press
    from bot.usage.days import Days

REMINDERS = "reminders"
SHOWN = 8
"""Maximum number of reminders that /reminders lists, each with its button."""
LONGEST_TEXT, LONGEST_LABEL = 100, 40
CANCEL = frozenset({"cancel", "delete"})


class ReminderCommands(CommandGroup):
    """The /reminders command. gateway: the days of conversations without a chosen zone."""

    def __init__(self, answers: Answers, schedules: ScheduleService, gateway: Days) -> None:
        super().__init__(answers)
        self._gateway = gateway
        self._schedules = schedules
        self.commands = {"reminders": self._reminders}
        self.buttons = {REMINDERS: ButtonKind(self._pressed, self._is_open)}

    async def _reminders(self, conversation: Conversation, call: Call) -> None:
        whose = None if call.is_admin else call.person
        rows = await self._schedules.here(call.message.address, whose)
        if call.line.arguments:
            return await self._cancel(conversation, call, rows[:SHOWN])
        zone = zone_of(await conversation.row(call.message), self._gateway.zone)
        message, prompt = self._list(conversation, rows, zone, call.texts)
        await self._answers.show(call, message, "/reminders", also=lambda tx: prompts.create(tx, prompt))

    async def _cancel(self, conversation: Conversation, call: Call, listed: Sequence[ScheduleRow]) -> None:
        """Handle `/reminders delete NUMBER`. The answer says which one it was: a number changes when one is over."""
        say, (verb, _, rest) = call.texts.reminder_answers, call.line.arguments.casefold().partition(" ")
        number = int(rest) if verb in CANCEL and rest.strip().isdecimal() and len(rest) < 4 else 0
        if not 1 <= number <= len(listed):
            return await self._answers.say(call, say["unknown"], "/reminders")
        row = listed[number - 1]
        text = say["cancelled_one"].format(text=plain(short_line(row.text, LONGEST_TEXT)))
        await self._answers.say(call, text, "/reminders", self._schedules.cancelling(row.id))
        log_act(Action.REMINDER_CANCEL, call, conversation, of=row.person)

    async def _is_open(self, conversation: Conversation, prompt: PromptRow, press: Press) -> bool:
        row = await self._chosen(prompt, press)
        return row is not None and _may_cancel(row, press)

    async def _pressed(self, conversation: Conversation, prompt: PromptRow, press: Press) -> str:
        """Handle a press, and show the list without the finished reminders."""
        texts, row = press.texts, await self._chosen(prompt, press)
        if row is not None and not _may_cancel(row, press):
            await self._answers.nothing(press.event_id, "button refused")
            return texts.reminder_answers["not_yours"]
        listed = await self._schedules.active(json.loads(prompt.options))
        left = [other for other in listed if row is None or other.id != row.id]
        zone = zone_of(await conversation.stored(), self._gateway.zone)
        message, fresh = self._list(conversation, left, zone, texts)
        cancel = self._schedules.cancelling(row.id) if row is not None else None

        def also(tx: Connection) -> None:
            prompts.create(tx, fresh)
            if cancel is not None:
                cancel(tx)

        await self._answers.change(press, message, "button cancel", also)
        if row is not None:
            log_act(Action.REMINDER_CANCEL, press, conversation, of=row.person)
        return texts.reminder_answers["cancelled"] if row is not None else texts.pressed["over"]

    async def _chosen(self, prompt: PromptRow, press: Press) -> ScheduleRow | None:
        """The button's reminder; None if it is over."""
        ids = json.loads(prompt.options)
        found = await self._schedules.active(ids[press.option : press.option + 1])
        return found[0] if found else None

    def _list(
        self, conversation: Conversation, rows: Sequence[ScheduleRow], zone: str, texts: Texts
    ) -> tuple[OutboundMessage, PromptRow]:
        shown = rows[:SHOWN]
        lines = [texts.reminders_head if rows else texts.reminders_none]
        lines += [_line(number, row, zone, texts) for number, row in enumerate(shown, 1)]
        lines += [texts.reminders_more.format(count=len(rows) - SHOWN)] if len(rows) > SHOWN else []
        prompt = question(
            REMINDERS, secrets.token_hex(8), conversation.key, [row.id for row in rows], self._clock.now()
        )
        buttons = tuple(
            (Button(label=_label(row, texts), data=f"{prompt.id}:{index}"),) for index, row in enumerate(shown)
        )
        return OutboundMessage(text="\n\n".join(lines), buttons=buttons, final=True), prompt


def _may_cancel(row: ScheduleRow, press: Press) -> bool:
    here = (row.address.account, row.address.chat) == (press.address.account, press.address.chat)
    return here and (press.is_admin or press.person == row.person)


def _line(number: int, row: ScheduleRow, zone: str, texts: Texts) -> str:
    # It repeats according to the clock of the zone in which it was created.
    cron = row.spec if row.timezone == zone else f"{row.spec} {row.timezone}"
    return texts.reminders_line.format(
        number=number,
        text=plain(short_line(row.text, LONGEST_TEXT)),
        time=local(row.next_at, zone),
        again=texts.reminders_again.format(cron=cron) if row.kind == "cron" else "",
        whose="" if row.address.kind == "dm" else f" · {plain(short_line(row.name, LONGEST_LABEL))}",
    )


def _label(row: ScheduleRow, texts: Texts) -> str:
    return texts.button_cancel_reminder.format(text=short_line(row.text, LONGEST_LABEL))
