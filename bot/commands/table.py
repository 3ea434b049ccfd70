"""The table of commands and buttons. Handlers run in their conversation's order and never wait for a run."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import TYPE_CHECKING

from bot.access import pairing
from bot.commands.access import AccessCommands, SignInCommands
from bot.commands.approvals import ApprovalCommands, QuestionCommands
from bot.commands.choosing import SwitchCommands, TimezoneCommands, agent_commands, model_commands
from bot.commands.deleting import DeletingCommands
from bot.commands.group import Answers
from bot.commands.knowledge import KnowledgeCommands
from bot.commands.memory import MemoryCommands
from bot.commands.reminders import ReminderCommands
from bot.commands.research import ResearchCommands
from bot.commands.skills import SkillCommands
from bot.commands.talk import TalkCommands, UndoCommands, UsageCommands, WhyCommands
from bot.commands.threads import ThreadCommands
from bot.commands.waiting import WaitingCommands
from bot.texts.commands import command

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from bot.access.editor import AccessEditor
    from bot.access.signin import SignIns
    from bot.commands.group import ButtonKind, CommandGroup, CommandHandler
    from bot.conversations.actor import Conversation
    from bot.conversations.services import ConversationPorts
    from bot.delivery.presented import Presented
    from bot.forgetting.service import Forgetting
    from bot.memory.keeper import MemoryKeeper
    from bot.operations.status import StatusPage
    from bot.operations.why import WhyPage
    from bot.schedule.service import ScheduleService
    from bot.store.rows import PromptRow
    from bot.texts.command_line import Call, Press
    from bot.usage.report import Spending


ALIASES = {"cancel": "stop", "clear": "new", "reset": "new", "commands": "help", "menu": "help"}
"""Names that other bots use for some of our commands. No list shows them."""
WITHOUT_CONVERSATION = frozenset(
    {"access", "allow", "disallow", "forget", "help", "pair", "start", "web", "whoami", "why"}
)
"""Commands that act on no conversation, so they work where there is none."""


def make_commands(
    ports: ConversationPorts,
    *,
    status: StatusPage,
    editor: AccessEditor,
    schedules: ScheduleService,
    spending: Spending,
    pictures: Presented,
    forgetting: Callable[[], Forgetting],
    memory: MemoryKeeper,
    abilities: Callable[[], Sequence[str]],
    why: WhyPage,
    signins: SignIns,
) -> Commands:
    """Make all commands for the conversations with these ports.

    pictures: keeps the pictures of /usage and the files of /memory export and /research export. abilities: keys of
    Texts.abilities.
    """
    store, agents, answers = ports.store, ports.agents, Answers(ports.responder, ports.store.clock)
    deleting = DeletingCommands(answers, forgetting)
    research = ResearchCommands(
        answers, ports.runs, ports.research, ports.report_style, store=store, days=spending.days, files=pictures
    )
    collections = KnowledgeCommands(answers, ports)
    return Commands(
        answers,
        [research, collections],
        [
            research,
            collections,
            TalkCommands(answers, store, status, agents, abilities),
            WaitingCommands(answers),
            UndoCommands(answers, store, ports.runs, spending.budgets, agents),
            deleting,
            ThreadCommands(answers, store, spending.days, deleting.ask_thread),
            UsageCommands(answers, spending.page, pictures),
            QuestionCommands(answers),
            ApprovalCommands(answers),
            model_commands(answers, agents),
            agent_commands(answers, agents),
            SkillCommands(answers, ports.skills, agents.agent_of),
            MemoryCommands(answers, memory, store, pictures, agents),
            TimezoneCommands(answers, spending.days),
            SwitchCommands(answers, ports.speaking),
            ReminderCommands(answers, schedules, spending.days),
            AccessCommands(answers, editor),
            SignInCommands(answers, signins),
            WhyCommands(answers, why),
        ],
    )


class Commands:
    """All commands and buttons. agents: groups of which some uses are for the agent."""

    def __init__(
        self, answers: Answers, agents: Sequence[ResearchCommands | KnowledgeCommands], groups: Sequence[CommandGroup]
    ) -> None:
        self._answers = answers
        self._agents = agents
        self._commands: dict[str, CommandHandler] = {}
        self._buttons: dict[str, ButtonKind] = {}
        for group in groups:
            self._commands.update(group.commands)
            self._buttons.update(group.buttons)

    @property
    def names(self) -> Collection[str]:
        return self._commands.keys() | ALIASES.keys()

    def knows(self, name: str) -> bool:
        return name in self.names

    async def is_for_agent(self, conversation: Conversation, call: Call) -> bool:
        """Whether a command goes to the agent like any other message."""
        group = next((each for each in self._agents if call.line.name in each.commands), None)
        return group is not None and await group.is_for_agent(conversation, call)

    async def handle(self, conversation: Conversation, call: Call, placed: bool = True) -> None:
        """Handle one use of a command. placed: typed in a conversation; otherwise only commands that need none work."""
        name = ALIASES.get(call.line.name, call.line.name)
        if name == "start" and call.is_admin and pairing.read(call.line.arguments) is not None:
            name = "pair"  # a link with a code makes the client send this
        call = replace(call, line=replace(call.line, name=name))
        if not placed and self.knows(call.line.name) and call.line.name not in WITHOUT_CONVERSATION:
            text = call.texts.which_thread.format(command=call.line.name)
            return await self._answers.say(call, text, "typed outside of threads")
        await self._commands.get(call.line.name, self._unknown)(conversation, call)

    async def pressed(self, conversation: Conversation, prompt: PromptRow, press: Press) -> str:
        """Carry out a button's action; returns the button's short answer."""
        kind = self._buttons.get(prompt.kind)
        if kind is None:
            # Created by another version of Antler.
            await self._answers.nothing(press.event_id, "unknown button")
            return press.texts.button_expired
        return await kind.pressed(conversation, prompt, press)

    async def open_to(self, conversation: Conversation, prompt: PromptRow, press: Press) -> bool:
        """Whether the press would have an effect."""
        kind = self._buttons.get(prompt.kind)
        return kind is not None and await kind.open_to(conversation, prompt, press)

    async def _unknown(self, conversation: Conversation, call: Call) -> None:
        text = call.texts.unknown_command.format(command=f"`{command(call.line.name)}`")
        listed = (*call.texts.command_menu, *(call.texts.admin_menu if call.is_admin else ()))
        meant = {name: name for name in listed} | ALIASES
        near = difflib.get_close_matches(call.line.name, meant, n=1, cutoff=0.6)
        suggested = [f"`{command(meant[name])}`" for name in near]
        text += call.texts.did_you_mean.format(suggestion=suggested[0]) if suggested else call.texts.see_help
        await self._answers.say(call, text, "unknown command")
