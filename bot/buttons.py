"""The buttons of runs: on a message that waits, and on an answer that failed. Their ids are derived from the run, so
that a restarted process shows the same; commands/waiting.py does what they say."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.store.rows import PromptRow
from channels.message import Button

if TYPE_CHECKING:
    from datetime import datetime

    from bot.store.rows import RunRow
    from bot.texts.catalogue import Texts

WAITING = "waiting"
RETRY = "retry"
RUN_NOW, DROP = "now", "drop"
LIFE = timedelta(days=7)


def question(kind: str, prompt_id: str, conversation: str, options: object, now: datetime) -> PromptRow:
    """A question that stays open for a week. options: JSON types."""
    return PromptRow(
        id=prompt_id,
        kind=kind,
        conversation=conversation,
        run_id=None,
        who=None,
        options=json.dumps(options),
        args_hash=None,
        message_id=None,
        expires_at=now + LIFE,
        answer=None,
        answered_by=None,
    )


def waiting_question(run: RunRow, now: datetime) -> PromptRow:
    options = [[RUN_NOW, run.run_id], [DROP, run.run_id]]
    return question(WAITING, _waiting_id(run), run.conversation, options, now)


def waiting_buttons(run: RunRow, texts: Texts) -> tuple[tuple[Button, ...], ...]:
    """Run now and Drop, for a message that waits."""
    prompt = _waiting_id(run)
    labels = (texts.button_run_now, texts.button_drop)
    return (tuple(Button(label=label, data=f"{prompt}:{index}") for index, label in enumerate(labels)),)


def retry_question(run: RunRow, now: datetime) -> PromptRow:
    return question(RETRY, _retry_id(run), run.conversation, [[RETRY, run.run_id]], now)


def retry_buttons(run: RunRow, texts: Texts) -> tuple[tuple[Button, ...], ...]:
    """Try again, for an answer that failed."""
    return ((Button(label=texts.button_retry, data=f"{_retry_id(run)}:0"),),)


def chosen(prompt: PromptRow, index: int) -> tuple[str, str]:
    """(what to do, run id) of a pressed button; empty when there is no such option."""
    options = json.loads(prompt.options)
    return tuple(options[index]) if index < len(options) else ("", "")


def _waiting_id(run: RunRow) -> str:
    return f"w{run.run_id}"


def _retry_id(run: RunRow) -> str:
    return f"r{run.run_id}"
