"""/usage: what answers cost, with the last days as a small picture where the platform shows pictures."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bot.usage.report import Asking, label_of, short
from channels.message import OutboundMessage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bot.commands.group import Answers, ButtonKind, CommandHandler
    from bot.conversations.actor import Conversation
    from bot.delivery.presented import Presented
    from bot.texts.command_line import Call
    from bot.usage.report import UsageFacts, UsagePage


class UsageCommands:
    """pictures: keeps them until they are delivered."""

    def __init__(self, answers: Answers, page: UsagePage, pictures: Presented) -> None:
        self._answers = answers
        self._page = page
        self._pictures = pictures
        self.commands: Mapping[str, CommandHandler] = {"usage": self._usage}
        self.buttons: Mapping[str, ButtonKind] = {}

    async def _usage(self, conversation: Conversation, call: Call) -> None:
        facts = await self._page.facts(await self._asking(conversation, call))
        text = self._page.text(facts, call.texts)
        if not any(spent.tokens for _, spent in facts.days):
            return await self._answers.say(call, text, "/usage")
        days = self._page.days_text(facts, call.texts)
        if not self._pictures.shows_images(call.message.account):
            return await self._answers.say(call, f"{text}\n\n{days}", "/usage")
        key = f"event:{call.event_id}"
        async with self._pictures.drawn(key, "usage.png", partial(_picture, facts), instead=days) as file:
            shown = f"{text}\n\n{call.texts.usage['chart']}"
            await self._answers.show(call, OutboundMessage(text=shown, files=(file,), final=True), "/usage")

    async def _asking(self, conversation: Conversation, call: Call) -> Asking:
        row = await conversation.row(call.message)
        private = call.message.address.kind == "dm"
        run = conversation.active or await conversation.last_run()
        return Asking(
            row=row,
            speaker=call.person,
            run=None if run is None or run.thread_id != row.thread_id else run.run_id,
            running=conversation.active is not None,
            private=private,
            everything=private and call.is_admin,
        )


def _picture(facts: UsageFacts) -> bytes:
    from bot.usage.charts import Bar, bars_picture  # loads Pillow, which a gateway that is never asked does without

    bars = []
    for day, spent in facts.days:
        bars.append(Bar(label_of(day), spent.tokens, short(spent.tokens), part=spent.totals.cached))
    return bars_picture(bars)
