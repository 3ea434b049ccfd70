"""/queue and /retry, and the buttons on waiting messages and failed answers.

Only its author or an admin may move or drop a waiting message; only its speaker or an admin may stop a run.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from bot.commands.group import ButtonKind, CommandGroup, log_act
from bot.control.actions import Action
from bot.delivery.buttons import DROP, RETRY, RUN_NOW, WAITING, chosen, question
from bot.store import prompts
from bot.texts.command_line import Call
from bot.texts.markdown import inline
from channels.message import Button, OutboundMessage

if TYPE_CHECKING:
    from datetime import datetime

    from bot.commands.group import Answers
    from bot.conversations.actor import Conversation
    from bot.store.rows import PromptRow, RunRow
    from bot.texts.catalogue import Texts
    from bot.texts.command_line import Press
    from channels.message import Address

QUEUE = "queue"
SHOWN = 8
"""Maximum number of waiting messages that /queue lists, each with its row of buttons."""


class WaitingCommands(CommandGroup):
    def __init__(self, answers: Answers) -> None:
        super().__init__(answers)
        self.commands = {"queue": self._queue, "retry": self._retry}
        self.buttons = {
            WAITING: ButtonKind(self._pressed, self._waits),
            QUEUE: ButtonKind(self._pressed_in_list, self._waits),
            RETRY: ButtonKind(self._pressed_retry, self._failed_last),
        }

    # Waiting messages.

    async def _queue(self, conversation: Conversation, call: Call) -> None:
        if call.line.arguments.lower() == "clear":
            return await self._clear(conversation, call)
        message, prompt = self._list(conversation, call.texts)
        await self._answers.show(call, message, "/queue", also=lambda tx: prompts.create(tx, prompt))

    async def _clear(self, conversation: Conversation, call: Call) -> None:
        persons = set()

        def whose(address: Address, person: str) -> bool:
            theirs = call.is_admin or person == call.person
            if theirs:
                persons.add(person)
            return theirs

        def sentence(texts: Texts) -> str:
            return texts.dropped_by["admin" if call.is_admin and call.message.address.kind != "dm" else "author"]

        dropped = await conversation.drop_waiting(sentence, whose)
        text = call.texts.queue_cleared.format(count=dropped) if dropped else call.texts.queue_none_yours
        await self._answers.say(call, text, "/queue")
        for person in sorted(persons):
            log_act(Action.DROP, call, conversation, of=person)

    async def _waits(self, conversation: Conversation, prompt: PromptRow, press: Press) -> bool:
        waiting = conversation.line.find(chosen(prompt, press.option)[1])
        return waiting is not None and (press.is_admin or waiting.row.speaker == press.person)

    async def _pressed(self, conversation: Conversation, prompt: PromptRow, press: Press) -> str:
        """Handle a press on a waiting message; the message itself shows the result."""
        done = await self._do(conversation, prompt, press)
        await self._answers.nothing(press.event_id, f"button {done}")
        return press.texts.pressed[done]

    async def _pressed_in_list(self, conversation: Conversation, prompt: PromptRow, press: Press) -> str:
        """Handle a press in the list of /queue, and update the list."""
        done = await self._do(conversation, prompt, press)
        message, fresh = self._list(conversation, press.texts)
        await self._answers.change(press, message, f"button {done}", also=lambda tx: prompts.create(tx, fresh))
        return press.texts.pressed[done]

    async def _do(self, conversation: Conversation, prompt: PromptRow, press: Press) -> str:
        """Carry out a button's action if it is still possible; returns the result, a key of `Texts.pressed`."""
        action, run_id = chosen(prompt, press.option)
        waiting, active = conversation.line.find(run_id), conversation.active
        if waiting is None:
            return "begun" if active is not None and active.run_id == run_id else "over"
        own = waiting.row.speaker == press.person
        if not own and not press.is_admin:
            return "not_yours"
        if action == DROP:
            await conversation.drop(waiting, lambda texts: texts.dropped_by["author" if own else "admin"])
            log_act(Action.DROP, press, conversation, of=waiting.row.speaker, run=run_id)
            return "drop"
        if active is not None and active.speaker != press.person and not press.is_admin:
            return "not_yours_to_stop"
        await conversation.run_next(waiting)
        log_act(Action.RUN_NEXT, press, conversation, of=waiting.row.speaker, run=run_id)
        if active is not None:
            log_act(Action.STOP, press, conversation, of=active.speaker, run=active.run_id)
        return "now"

    def _list(self, conversation: Conversation, texts: Texts) -> tuple[OutboundMessage, PromptRow]:
        """The list of running and waiting messages, and the prompt that stores its buttons."""
        now, waiting = self._clock.now(), list(conversation.line)
        running, since = conversation.active, conversation.active_since or now
        if conversation.stopping and waiting:  # the next one is about to begin
            running, since = waiting.pop(0).row, now
        lines = []
        if running is not None:
            lines.append(texts.queue_running.format(**_about(running, since, now, texts)))
        if waiting:
            lines.append(texts.queue_head)
        for number, one in enumerate(waiting[:SHOWN], 1):
            about = _about(one.row, one.row.created_at, now, texts)
            lines.append(texts.queue_line.format(number=number, **about))
        if len(waiting) > SHOWN:
            lines.append(texts.queue_more.format(count=len(waiting) - SHOWN))
        if conversation.arriving:
            lines.append(texts.queue_arriving.format(count=conversation.arriving))
        lines.append(texts.queue_hint if waiting or conversation.arriving else "" if lines else texts.queue_nothing)
        options = [[action, one.row.run_id] for one in waiting[:SHOWN] for action in (RUN_NOW, DROP)]
        prompt = question(QUEUE, secrets.token_hex(8), conversation.key, options, now)
        labels = (texts.button_run_now, texts.button_drop)
        buttons = tuple(
            tuple(
                Button(label=f"{row + 1} · {label}", data=f"{prompt.id}:{2 * row + column}")
                for column, label in enumerate(labels)
            )
            for row in range(len(options) // 2)
        )
        text = "\n\n".join(line for line in lines if line)
        return OutboundMessage(text=text, buttons=buttons, final=True), prompt

    # Retries.

    async def _retry(self, conversation: Conversation, call: Call) -> None:
        refusal = await self._again(conversation, call)
        if refusal is not None:
            await self._answers.say(call, refusal, "/retry")

    async def _failed_last(self, conversation: Conversation, prompt: PromptRow, press: Press) -> bool:
        last = None if conversation.busy else await conversation.last_run()
        return (
            last is not None
            and last.run_id == chosen(prompt, press.option)[1]
            and (press.is_admin or last.speaker == press.person)
        )

    async def _pressed_retry(self, conversation: Conversation, prompt: PromptRow, press: Press) -> str:
        _, run_id = chosen(prompt, press.option)
        texts, refusal = press.texts, await self._again(conversation, press, only=run_id)
        if refusal in (None, texts.retry_not_newest, texts.retry_lost):  # there is nothing left for it to do
            await self._answers.without_buttons(press, "button retry")
            return refusal or texts.pressed["retry"]
        await self._answers.nothing(press.event_id, "button refused")
        return refusal

    async def _again(self, conversation: Conversation, by: Call | Press, only: str | None = None) -> str | None:
        """Answer the last exchange again, which settles the event, and return None; or the reason why not.

        only: the run that has to be the last one.
        """
        texts = by.texts
        if conversation.busy:
            return texts.retry_busy
        last = await conversation.last_run()
        if last is None:
            return texts.retry_nothing
        if only is not None and last.run_id != only:
            return texts.retry_not_newest
        if last.speaker != by.person and not by.is_admin:
            return texts.retry_not_yours
        if last.input.is_blank or not last.is_readable:  # deleted by its person, or stored by another version
            return texts.retry_lost
        message_id = by.message.platform_message_id if isinstance(by, Call) else None
        try:
            await conversation.repeat(last, by.event_id, message_id)
        except LookupError:  # pruned
            return texts.retry_lost
        log_act(Action.RETRY, by, conversation, of=last.speaker, run=last.run_id)
        return None


def _about(run: RunRow, since: datetime, now: datetime, texts: Texts) -> dict[str, str]:
    """The contents of a run's line in the list: its first words, its person, its age."""
    run_input, context = run.input, run.context
    words = run_input.words.strip() or ", ".join(file.name for file in run_input.files)
    age = texts.duration((now - since).total_seconds())
    return {"text": inline(words) or "…", "name": inline(context.speaker.display_name) or "?", "age": age}
