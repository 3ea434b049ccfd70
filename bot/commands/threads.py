"""/threads: the threads of this conversation, newest first; a button, or its number, opens or deletes one."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from bot.commands.group import ButtonKind, CommandGroup, log_act, option_of
from bot.control.actions import Action
from bot.delivery.buttons import question
from bot.store import conversations, prompts
from bot.texts.markdown import inline
from channels.message import Button, OutboundMessage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from sqlalchemy import Connection

    from bot.commands.group import Answers
    from bot.conversations.actor import Conversation
    from bot.store.retrying import RetryingStore
    from bot.store.rows import ConversationRow, PromptRow, ThreadRow
    from bot.texts.catalogue import Texts
    from bot.texts.command_line import Call, Press
    from bot.usage.days import Days

THREAD = "thread"
SHOWN = 8
DELETE = "delete"


class ThreadCommands(CommandGroup):
    """The /threads command. days: of chats without a chosen time zone. ask_to_delete: asks to confirm a deletion."""

    def __init__(
        self,
        answers: Answers,
        store: RetryingStore,
        days: Days,
        ask_to_delete: Callable[[Conversation, Call, str, str], Awaitable[None]],
    ) -> None:
        super().__init__(answers)
        self._ask_to_delete = ask_to_delete
        self._store = store
        self._days = days
        self.commands = {"threads": self._threads}
        self.buttons = {THREAD: ButtonKind(self._pressed, self._open_to)}

    async def _threads(self, conversation: Conversation, call: Call) -> None:
        row, wanted = await conversation.row(call.message), call.line.arguments
        known = await self._known(row)
        if not wanted:
            message, prompt = self._list(row, known, call.texts)
            return await self._answers.show(call, message, "/threads", also=lambda tx: prompts.create(tx, prompt))
        first, _, rest = wanted.partition(" ")
        deletes = first.casefold() == DELETE
        wanted = rest.strip() if deletes else wanted
        number = int(wanted) if wanted.isdecimal() and len(wanted) < 4 else 0
        if not 1 <= number <= len(known):
            return await self._answers.say(call, call.texts.threads["unknown"], "/threads")
        if deletes:
            return await self._delete(conversation, call, known[number - 1])
        refusal = self._refusal(conversation, call.may_control, call.texts)
        if refusal is not None:
            return await self._answers.say(call, refusal, "/threads")
        thread = known[number - 1]
        text = call.texts.threads["resumed"].format(title=_title(thread, call.texts))
        await self._answers.say(call, text, "/threads", also=lambda tx: _resume(tx, row, thread.thread_id))
        conversation.forget_row()
        log_act(Action.RESUME_THREAD, call, conversation)

    async def _delete(self, conversation: Conversation, call: Call, thread: ThreadRow) -> None:
        if not call.may_control:
            return await self._answers.say(call, call.texts.not_allowed, "not allowed")
        await self._ask_to_delete(conversation, call, thread.thread_id, _title(thread, call.texts))

    async def _open_to(self, conversation: Conversation, prompt: PromptRow, press: Press) -> bool:
        return press.may_control

    async def _pressed(self, conversation: Conversation, prompt: PromptRow, press: Press) -> str:
        """Switch to the thread, and update the list in the same message."""
        texts, row = press.texts, await conversation.stored()
        refusal = self._refusal(conversation, press.may_control, texts)
        if refusal is not None or row is None:
            await self._answers.nothing(press.event_id, "button refused")
            return refusal or texts.button_expired
        thread_id = option_of(prompt, press.option)
        known = await self._known(row)
        chosen = next((thread for thread in known if thread.thread_id == thread_id), None)
        if chosen is None:
            await self._answers.nothing(press.event_id, "expired")
            return texts.button_expired
        row = replace(row, thread_id=thread_id)
        message, fresh = self._list(row, await self._known(row), texts)
        now = self._clock.now()

        def also(tx: Connection) -> None:
            prompts.answer(tx, prompt.id, press.person, thread_id, now)
            _resume(tx, row, thread_id)
            prompts.create(tx, fresh)

        await self._answers.change(press, message, "thread button", also)
        conversation.forget_row()
        log_act(Action.RESUME_THREAD, press, conversation)
        return texts.threads["resumed"].format(title=_title(chosen, texts)).replace("`", "")

    def _refusal(self, conversation: Conversation, may_control: bool, texts: Texts) -> str | None:
        if not may_control:
            return texts.not_allowed
        return texts.threads["busy"] if conversation.busy else None

    async def _known(self, row: ConversationRow) -> list[ThreadRow]:
        """Threads in which something was said, and the current one."""
        return await self._store.read(lambda tx: conversations.threads_of(tx, row, SHOWN))

    def _list(
        self, row: ConversationRow, known: Sequence[ThreadRow], texts: Texts
    ) -> tuple[OutboundMessage, PromptRow]:
        """The list with its buttons, and the prompt that stores them."""
        say, days = texts.threads, self._days.of(row)
        lines, buttons = [say["head"]], []
        options = [thread.thread_id for thread in known]
        prompt = question(THREAD, secrets.token_hex(8), row.key, options, self._clock.now())
        for place, thread in enumerate(known):
            here, title = thread.thread_id == row.thread_id, _title(thread, texts)
            said = say["messages"].format(count=thread.messages) if thread.messages else ""
            lines.append(
                say["line"].format(number=place + 1, title=title, date=days.told(thread.last_at), messages=said)
                + (say["here"] if here else "")
            )
            buttons.append((Button(label=("● " if here else "") + title[:60], data=f"{prompt.id}:{place}"),))
        text = "\n".join(lines) + "\n\n" + say["hint"]
        return OutboundMessage(text=text, buttons=tuple(buttons), final=True), prompt


def _resume(tx: Connection, row: ConversationRow, thread_id: str) -> None:
    conversations.resume_thread(tx, row.key, thread_id)


def _title(thread: ThreadRow, texts: Texts) -> str:
    """The thread's title, else its first words."""
    words = thread.title
    if not words and thread.first_input is not None:
        said = thread.first_input
        words = said.text.strip() or ", ".join(file.name for file in said.files)
    return inline(words) or texts.status["untitled"]
