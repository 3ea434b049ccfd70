"""Commands: who handles a command or a button. They run in their conversation's order and never wait for a run."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from bot.texts.commands import command

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from bot.commands.group import Answers, ButtonKind, CommandGroup, CommandHandler
    from bot.conversations.actor import Conversation
    from bot.store.rows import PromptRow
    from bot.texts.command_line import Call, Press


WITHOUT_CONVERSATION = frozenset({"access", "allow", "disallow", "forget", "help", "pair", "whoami"})
"""Commands that act on no conversation, so that they mean something where there is none."""


class Commands:
    def __init__(self, answers: Answers, groups: Sequence[CommandGroup]) -> None:
        self._answers = answers
        self._commands: dict[str, CommandHandler] = {}
        self._buttons: dict[str, ButtonKind] = {}
        for group in groups:
            self._commands.update(group.commands)
            self._buttons.update(group.buttons)

    @property
    def names(self) -> Collection[str]:
        return self._commands.keys()

    def knows(self, name: str) -> bool:
        return name in self._commands

    async def handle(self, conversation: Conversation, call: Call, placed: bool = True) -> None:
        """placed: it was typed in a conversation; else only what needs none is done."""
        if not placed and self.knows(call.line.name) and call.line.name not in WITHOUT_CONVERSATION:
            text = call.texts.which_thread.format(command=call.line.name)
            return await self._answers.say(call, text, "typed outside of threads")
        await self._commands.get(call.line.name, self._unknown)(conversation, call)

    async def pressed(self, conversation: Conversation, prompt: PromptRow, press: Press) -> str:
        """Do what a button says; returns the button's short answer."""
        kind = self._buttons.get(prompt.kind)
        if kind is None:
            # Made by another version of Antler.
            await self._answers.nothing(press.event_id, "unknown button")
            return press.texts.button_expired
        return await kind.pressed(conversation, prompt, press)

    async def open_to(self, conversation: Conversation, prompt: PromptRow, press: Press) -> bool:
        """Whether the press would count."""
        kind = self._buttons.get(prompt.kind)
        return kind is not None and await kind.open_to(conversation, prompt, press)

    async def _unknown(self, conversation: Conversation, call: Call) -> None:
        text = call.texts.unknown_command.format(command=f"`{command(call.line.name)}`")
        near = difflib.get_close_matches(call.line.name, self._commands, n=1, cutoff=0.5)
        text += call.texts.did_you_mean.format(suggestion=f"`{command(near[0])}`") if near else call.texts.see_help
        await self._answers.say(call, text, "unknown command")
