"""The last events of a run with an answer, or with a question to the person; for runner.py."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from langchain_core.messages import AIMessage, ToolMessage

from harness.events import Finished, Question
from harness.graph.calls import ASK
from harness.graph.messages import CALLS, LOOP, answer_text, cut_by, cut_by_budget, outcome_of
from harness.tools.asking import question_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_core.messages import AnyMessage

    from harness.events import ReadyFile
    from harness.graph.turn import Turn
    from harness.ports import AnyRunEvent, Clock

QUESTION_LIFE = timedelta(days=7)


def last_word(messages: Sequence[AnyMessage]) -> AIMessage | None:
    """What a finished turn ended with: the answer, or the message that asks. None: with something else."""
    last = messages[-1]
    if isinstance(last, ToolMessage) and last.name == ASK:
        return next((message for message in reversed(messages) if isinstance(message, AIMessage)), None)
    return last if isinstance(last, AIMessage) else None


def last_events(turn: Turn, run_id: str, files: tuple[ReadyFile, ...], clock: Clock) -> Iterator[AnyRunEvent]:
    """Question, if it is one, and Finished. Raises RuntimeError when the graph ended without an answer."""
    answer = turn.answer
    question = question_of(answer) if answer is not None else None
    if not isinstance(answer, AIMessage) or (answer.tool_calls and question is None):
        raise RuntimeError("the graph ended without an answer")
    if question is not None:
        expires = clock.now() + QUESTION_LIFE
        about = {"text": question.text, "options": question.options, "expires_at": expires}
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
    )
