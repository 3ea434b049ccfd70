"""Calls that wait for a person: what the graph stands at, and how it goes on; for runner.py."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from langgraph.types import Command

from harness.events import ApprovalRequested

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from langgraph.types import StateSnapshot

    from harness.graph.turn import Turn
    from harness.guardrails.approvals import Approval, CallKey
    from harness.ports import AnyRunEvent, Clock


@dataclass(frozen=True, slots=True)
class Standing:
    """What an open step of the graph waits for. waiting: interrupt -> what was asked there. working: a task of it has
    still something to do besides."""

    waiting: Mapping[str, Mapping[str, str]]
    working: bool


def standing(state: StateSnapshot) -> Standing:
    """Of a thread that was stopped in mid-turn, or waits."""
    waiting = {each.id: each.value for task in state.tasks for each in task.interrupts}
    return Standing(waiting, any(not task.interrupts and task.result is None for task in state.tasks))


def unanswered(stand: Standing, decided: Mapping[CallKey, Approval]) -> list[Mapping[str, str]]:
    """What has still to be decided before the graph can go on; empty when it can, or has other work to do."""
    open_ = [asked for asked in stand.waiting.values() if _key(asked) not in decided]
    return [] if stand.working else open_


def going_on(stand: Standing, decided: Mapping[CallKey, Approval]) -> Command[Any] | None:
    """The input with which the graph goes on: every decision at its own interrupt."""
    answers = {
        interrupt: {"allowed": decided[_key(asked)].allowed, "reason": decided[_key(asked)].reason}
        for interrupt, asked in stand.waiting.items()
        if _key(asked) in decided
    }
    return Command(resume=answers) if answers else None


def requests(turn: Turn, asked: Iterable[Mapping[str, str]], clock: Clock, ask_seconds: float) -> Iterator[AnyRunEvent]:
    """An event for each; they are the last for now."""
    for each in asked:
        expires = clock.now() + timedelta(seconds=ask_seconds)
        yield turn.event(ApprovalRequested, expires_at=expires, **each)


def _key(asked: Mapping[str, str]) -> CallKey:
    return asked["call_id"], asked["args_hash"]
