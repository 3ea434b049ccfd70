"""All groups of commands, for the composition root."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.commands.access import AccessCommands
from bot.commands.group import Answers
from bot.commands.models import ModelCommands
from bot.commands.table import Commands
from bot.commands.talk import TalkCommands
from bot.commands.waiting import WaitingCommands

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.access.desk import AccessDesk
    from bot.commands.models import ModelChoice
    from bot.respond import Responder
    from bot.status import StatusPage
    from channels.base import Clock


def make_commands(
    responder: Responder, status: StatusPage, models: Sequence[ModelChoice], clock: Clock, desk: AccessDesk
) -> Commands:
    """models: the first one is the default."""
    answers = Answers(responder)
    return Commands(
        answers,
        [
            TalkCommands(answers, status, models[0].name, clock),
            WaitingCommands(answers, clock),
            ModelCommands(answers, models, clock),
            AccessCommands(answers, desk, clock),
        ],
    )
