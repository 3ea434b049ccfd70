"""How runs end: the reason, what the chat then shows, and what it asks the person."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bot.delivery.buttons import (
    clarify_buttons,
    clarify_question,
    offer_buttons,
    offer_question,
    retry_buttons,
    retry_question,
)
from bot.store.rows import RunState, StopReason
from bot.store.runs import DEAD_LETTER
from bot.texts import texts_for
from channels.message import OutboundMessage
from harness.events import Failed, FailureKind, Finished, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from sqlalchemy import Connection

    from bot.runs.active import ActiveRun
    from bot.runs.render import RunView
    from bot.store.rows import PromptRow, RunRow
    from bot.store.runs import Waits
    from bot.texts.catalogue import Texts
    from channels.message import Button
    from harness.events import AnyRunEvent, Question, Report

log = logging.getLogger(__name__)


_GIVES_WAY = (StopReason.NEW_THREAD, StopReason.NEW_MESSAGE, StopReason.ROLLBACK, StopReason.FORGOTTEN)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended: its state, what the chat shows, and a detail for the log and the run row. retry: whether a
    button offers to try again. question: what the answer asks the person. report: the report that it delivers, below
    which further uses of it are offered. cause: of a failure, for the log. waits: the waiting times of the run."""

    state: RunState
    message: OutboundMessage
    detail: str = ""
    retry: bool = False
    question: Question | None = None
    report: Report | None = None
    cause: str = ""
    waits: Waits | None = None

    @property
    def awaited(self) -> bool:
        """Whether people wait for it: not if it gave way to something else that they asked for."""
        return self.state is not RunState.INTERRUPTED or self.detail not in _GIVES_WAY


@dataclass(frozen=True, slots=True)
class Aftermath:
    """Further effects of a run's end. unit: runs in the transaction that ends it. committed: called afterwards."""

    unit: Callable[[Connection], object] = lambda tx: None
    committed: Callable[[], None] = lambda: None


NO_AFTERMATH = Aftermath()


def stopped(reason: StopReason, view: RunView, texts: Texts, *, forgotten: bool = True) -> Ending:
    """The ending of a run that was stopped. forgotten: whether the rewind succeeded, if the reason requires one."""
    sentence = texts.stopped_by[reason]
    if reason.rewinds:
        sentence += texts.forgotten if forgotten else texts.not_forgotten
    return Ending(RunState.INTERRUPTED, view.ended(sentence, texts), str(reason))


def timed_out(seconds: float, view: RunView, texts: Texts) -> Ending:
    sentence = texts.timed_out.format(duration=texts.duration(seconds))
    return Ending(RunState.TIMEOUT, view.ended(sentence, texts), "run_seconds", retry=True)


def gave_up(deaths: int, view: RunView, texts: Texts) -> Ending:
    """The ending of a dead letter. deaths: number of processes that died while working on it."""
    sentence = texts.gave_up.format(deaths=deaths)
    return Ending(RunState.ERROR, view.ended(sentence, texts), DEAD_LETTER, retry=True)


def refused(budget: str, sentence: str) -> Ending:
    """The ending of a run that was not started because a budget is used up."""
    return Ending(RunState.LIMITED, OutboundMessage(text=sentence, final=True), f"budgets.{budget}")


def broken(detail: str, model: str, view: RunView, texts: Texts) -> Ending:
    """The ending of a run that a defect of the gateway ended."""
    sentence = texts.failures[FailureKind.INTERNAL].format(model=model, wait="")
    return Ending(RunState.ERROR, view.ended(sentence, texts), detail, retry=True)


def told(model: str, last: AnyRunEvent | None, view: RunView, texts: Texts) -> Ending:
    """The ending that follows from the agent's last event."""
    match last:
        case Finished():
            state = RunState.LIMITED if last.outcome is Outcome.LIMITED else RunState.SUCCESS
            return Ending(state, view.answer(last, texts), question=view.question, report=last.report)
        case Failed(kind=FailureKind.BUDGET):
            return Ending(RunState.LIMITED, view.failure(last, texts), f"budgets.{last.detail_for_log}")
        case Failed():
            model = last.full_name or last.model
            cause = f"failed ({last.kind}, {model}): {last.detail_for_log}"
            return Ending(RunState.ERROR, view.failure(last, texts), str(last.kind), retry=True, cause=cause)
        case _:
            return replace(broken("no ending", model, view, texts), cause="ended without a result")


def log_end(active: ActiveRun, ending: Ending) -> None:
    """Log one line for a run's end, whatever it was."""
    row, seconds, calls = active.row, active.clock.monotonic() - active.began, active.view.model_calls
    told = ending.cause or f"{ending.state}{f' ({ending.detail})' if ending.detail else ''}"
    log.log(
        logging.ERROR if ending.cause else logging.INFO,
        "run %s %s; %.1f s, %d model calls, %s",
        *(row.run_id, told, seconds, calls, row.conversation),
        extra={
            "event": "run_ended",
            "account": row.address.account,
            "conversation": row.conversation,
            "run": row.run_id,
            "person": row.speaker,
            "model": active.context.model,
            "state": str(ending.state),
            "tokens": active.tokens,
            "seconds": round(seconds, 2),
            "first_words": None if active.first_words is None else round(active.first_words, 2),
        },
    )


@dataclass(frozen=True, slots=True)
class Asks:
    """What an ending asks the person: to try again, the agent's question, or further uses of a report.
    prompts: returns the rows to record with the ending, given its time."""

    buttons: tuple[tuple[Button, ...], ...]
    prompts: Callable[[datetime], list[PromptRow]]


def asks_of(ending: Ending, row: RunRow) -> Asks:
    """The buttons below an ending, if it has any."""
    if ending.retry:
        texts = texts_for(row.context.locale)
        return Asks(retry_buttons(row, texts), lambda now: [retry_question(row, now)])
    asked = ending.question
    if asked is not None and asked.options:
        return Asks(clarify_buttons(asked), lambda now: [clarify_question(asked, row, now)])
    report = ending.report
    if report is not None:
        texts = texts_for(row.context.locale)
        return Asks(offer_buttons(report, row, texts), lambda now: [offer_question(report, row, now)])
    return Asks(ending.message.buttons, lambda now: [])
