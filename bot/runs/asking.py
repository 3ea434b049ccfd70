"""What the ending of a run asks the person: to try again, or what the agent wants to know. For manager.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.delivery.buttons import clarify_buttons, clarify_question, retry_buttons, retry_question
from bot.texts import texts_for
from harness.context import RUN_CONTEXT

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from bot.runs.endings import Ending
    from bot.store.rows import PromptRow, RunRow
    from channels.message import Button


@dataclass(frozen=True, slots=True)
class Asks:
    """prompts: to be recorded with the ending, of the time of it."""

    buttons: tuple[tuple[Button, ...], ...]
    prompts: Callable[[datetime], list[PromptRow]]


def of_ending(ending: Ending, row: RunRow) -> Asks:
    """The buttons below an ending, if it has any."""
    if ending.retry:
        texts = texts_for(RUN_CONTEXT.validate_json(row.context).locale)
        return Asks(retry_buttons(row, texts), lambda now: [retry_question(row, now)])
    asked = ending.question
    if asked is not None and asked.options:
        return Asks(clarify_buttons(asked), lambda now: [clarify_question(asked, row, now)])
    return Asks(ending.message.buttons, lambda now: [])
