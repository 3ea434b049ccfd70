"""All groups of commands, for the composition root."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bot.commands.access import AccessCommands
from bot.commands.agent import agent_commands
from bot.commands.approvals import ApprovalCommands
from bot.commands.group import Answers
from bot.commands.models import model_commands
from bot.commands.questions import QuestionCommands
from bot.commands.reminders import ReminderCommands
from bot.commands.table import Commands
from bot.commands.talk import TalkCommands
from bot.commands.threads import ThreadCommands
from bot.commands.undo import UndoCommands
from bot.commands.usage import UsageCommands
from bot.commands.waiting import WaitingCommands

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.access.desk import AccessDesk
    from bot.commands.models import ModelChoice
    from bot.patience import PatientStore
    from bot.respond import Responder
    from bot.runs.manager import RunManager
    from bot.runs.presented import Presented
    from bot.schedule.book import ScheduleBook
    from bot.souls import AgentChoices
    from bot.spending import Spending
    from bot.status import StatusPage
    from channels.base import Clock


def make_commands(
    responder: Responder,
    status: StatusPage,
    models: Sequence[ModelChoice],
    clock: Clock,
    desk: AccessDesk,
    schedules: ScheduleBook,
    *,
    store: PatientStore,
    runs: RunManager,
    spending: Spending,
    pictures: Presented,
    agents: AgentChoices,
) -> Commands:
    """models: the first one is the default. pictures: keeps those of /usage."""
    answers = Answers(responder)
    return Commands(
        answers,
        [
            TalkCommands(answers, status, partial(agents.model_of, default=models[0].name), agents.agent_of, clock),
            WaitingCommands(answers, clock),
            UndoCommands(answers, store, runs, spending.budgets),
            ThreadCommands(answers, store, spending.days, clock),
            UsageCommands(answers, spending.page, pictures),
            QuestionCommands(answers, clock),
            ApprovalCommands(answers, clock),
            model_commands(answers, models, agents, clock),
            agent_commands(answers, agents, clock),
            ReminderCommands(answers, schedules, clock),
            AccessCommands(answers, desk, clock),
        ],
    )
