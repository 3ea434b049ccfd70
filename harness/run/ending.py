"""The end of a run, or its pause: the last events of an answer, of a question, of calls that need a decision."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.types import Command

from harness.events import ApprovalRequested, Finished, Question
from harness.graph.calls import ASK
from harness.graph.messages import CALLS, LOOP, answer_text, cut_by, cut_by_budget, outcome_of
from harness.tools.asking import question_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from langchain_core.messages import AnyMessage
    from langgraph.types import StateSnapshot

    from harness.events import AnyRunEvent, ReadyFile, Report
    from harness.graph.turn import Turn
    from harness.guardrails.approvals import Approval, CallKey
    from harness.ports import Clock

QUESTION_LIFE = timedelta(days=7)


def last_word(messages: Sequence[AnyMessage]) -> AIMessage | None:
    """The message that ended a finished turn: the answer, or the one that asks. None for any other ending."""
    last = messages[-1]
    if isinstance(last, ToolMessage) and last.name == ASK:
        return next((message for message in reversed(messages) if isinstance(message, AIMessage)), None)
    return last if isinstance(last, AIMessage) else None


def last_events(
    turn: Turn,
    run_id: str,
    files: tuple[ReadyFile, ...],
    clock: Clock,
    *,
    personal: bool = False,
    report: Report | None = None,
) -> Iterator[AnyRunEvent]:
    """Question, if the answer is one, and Finished. personal: for a question. report: the delivered one. Raises
    RuntimeError if the graph ended without an answer."""
    answer = turn.answer
    question = question_of(answer) if answer is not None else None
    if not isinstance(answer, AIMessage) or (answer.tool_calls and question is None):
        raise RuntimeError("the graph ended without an answer")
    if question is not None:
        expires = clock.now() + QUESTION_LIFE
        about = {"text": question.text, "options": question.options, "expires_at": expires, "personal": personal}
        yield turn.event(Question, prompt_id=f"q{run_id}", **about)
    yield turn.event(
        Finished,
        outcome=outcome_of(answer),
        text=answer_text(answer) if question is None else question.text,
        message_id=answer.id or "",
        calls=cut_by(answer, CALLS),
        repeated=cut_by(answer, LOOP),
        budget=cut_by_budget(answer),
        files=files,
        report=report,
    )


@dataclass(frozen=True, slots=True)
class Standing:
    """What an open step of the graph waits for. waiting: interrupt -> the request there. working: one of its tasks
    still has other work to do."""

    waiting: Mapping[str, Mapping[str, str]]
    working: bool


def standing(state: StateSnapshot) -> Standing:
    """The open step of a thread that was stopped in mid-turn, or is waiting."""
    waiting = {each.id: each.value for task in state.tasks for each in task.interrupts}
    return Standing(waiting, any(not task.interrupts and task.result is None for task in state.tasks))


def unanswered(stand: Standing, decided: Mapping[CallKey, Approval]) -> list[Mapping[str, str]]:
    """The decisions still missing before the graph can continue; empty if it can, or has other work to do."""
    open_ = [asked for asked in stand.waiting.values() if _key(asked) not in decided]
    return [] if stand.working else open_


def going_on(stand: Standing, decided: Mapping[CallKey, Approval]) -> Command[Any] | None:
    """The input with which the graph continues: each decision at its own interrupt."""
    answers = {
        interrupt: {"allowed": decided[_key(asked)].allowed, "reason": decided[_key(asked)].reason}
        for interrupt, asked in stand.waiting.items()
        if _key(asked) in decided
    }
    return Command(resume=answers) if answers else None


def requests(turn: Turn, asked: Iterable[Mapping[str, str]], clock: Clock, ask_seconds: float) -> Iterator[AnyRunEvent]:
    """An event for each request; they are the last for now."""
    for each in asked:
        expires = clock.now() + timedelta(seconds=ask_seconds)
        yield turn.event(ApprovalRequested, expires_at=expires, **each)


def _key(asked: Mapping[str, str]) -> CallKey:
    return asked["call_id"], asked["args_hash"]
