"""All groups of commands, for the composition root."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.commands.access import AccessCommands
from bot.commands.agent import agent_commands
from bot.commands.approvals import ApprovalCommands
from bot.commands.deleting import DeletingCommands
from bot.commands.group import Answers
from bot.commands.memory import MemoryCommands
from bot.commands.models import model_commands
from bot.commands.questions import QuestionCommands
from bot.commands.reminders import ReminderCommands
from bot.commands.skills import SkillCommands
from bot.commands.table import Commands
from bot.commands.talk import TalkCommands
from bot.commands.threads import ThreadCommands
from bot.commands.timezone import TimezoneCommands
from bot.commands.undo import UndoCommands
from bot.commands.usage import UsageCommands
from bot.commands.waiting import WaitingCommands

if TYPE_CHECKING:
    from collections.abc import Callable

    from bot.access.desk import AccessDesk
    from bot.forgetting.service import Forgetting
    from bot.memory.book import MemoryBook
    from bot.patience import PatientStore
    from bot.respond import Responder
    from bot.runs.manager import RunManager
    from bot.runs.presented import Presented
    from bot.schedule.book import ScheduleBook
    from bot.skills.service import SkillService
    from bot.souls import AgentChoices
    from bot.spending import Spending
    from bot.status import StatusPage
    from channels.base import Clock


def make_commands(
    responder: Responder,
    status: StatusPage,
    clock: Clock,
    desk: AccessDesk,
    schedules: ScheduleBook,
    *,
    store: PatientStore,
    runs: RunManager,
    spending: Spending,
    pictures: Presented,
    agents: AgentChoices,
    skills: SkillService,
    forgetting: Callable[[], Forgetting],
    memory: MemoryBook,
) -> Commands:
    """pictures: keeps those of /usage, and the files of /memory export."""
    answers = Answers(responder)
    deleting = DeletingCommands(answers, forgetting, clock)
    return Commands(
        answers,
        [
            TalkCommands(answers, status, agents, clock),
            WaitingCommands(answers, clock),
            UndoCommands(answers, store, runs, spending.budgets, agents),
            deleting,
            ThreadCommands(answers, store, spending.days, clock, deleting.ask_thread),
            UsageCommands(answers, spending.page, pictures),
            QuestionCommands(answers, clock),
            ApprovalCommands(answers, clock),
            model_commands(answers, agents, clock),
            agent_commands(answers, agents, clock),
            SkillCommands(answers, skills, agents.agent_of),
            MemoryCommands(answers, memory, store, pictures, clock),
            TimezoneCommands(answers, clock, spending.days.zone),
            ReminderCommands(answers, schedules, clock),
            AccessCommands(answers, desk, clock),
        ],
    )
