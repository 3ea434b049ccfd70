"""What the client gives: threads, messages, files, and the events of a run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Decision = Literal["once", "chat", "deny"]
"""Of a tool call: allow it, allow it from now on in its thread, deny it."""
Strategy = Literal["enqueue", "reject", "interrupt", "rollback"]
"""What a message does while its thread is busy; see docs/api.md."""
ThreadStatus = Literal["idle", "busy", "interrupted", "error"]
Role = Literal["user", "assistant", "tool"]
_ROLES: Mapping[str, Role] = {"human": "user", "ai": "assistant", "tool": "tool"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """A conversation. status: "interrupted" where it waits for an approval or an answer."""

    id: str
    status: ThreadStatus
    metadata: Mapping[str, Any]
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a thread. tool: whose result it is, "" for none."""

    id: str
    role: Role
    text: str
    tool: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file that was uploaded for a message. size in bytes."""

    id: str
    name: str
    kind: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How the gateway is. well: every part of it works. uptime in seconds. running, waiting: answers."""

    well: bool
    version: str
    uptime: float
    running: int
    waiting: int


# The events of a run, in the order in which they may come.


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run was begun; always the first event."""

    thread_id: str
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A message of the assistant grew. text: all of it so far. added: what is new of it; where the model was asked once
    more and says something else, that is the whole text. A run may have several messages."""

    message_id: str
    text: str
    added: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Something else happened in the run. kind: as `tool_started` or `todos_changed`. line: for people, in English, ""
    where there is nothing to say. data: what the gateway tells of it."""

    kind: str
    line: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file of the answer. path: of the sandbox. size in bytes."""

    thread_id: str
    run_id: str
    name: str
    path: str
    mime_type: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A tool call waits for a person's decision. arguments: for people, cut where they are long. reason: the rule's.
    options: what may be answered; without an answer it is denied at expires_at."""

    id: str
    thread_id: str
    run_id: str
    tool: str
    arguments: str
    reason: str
    options: tuple[Decision, ...]
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The agent asks something, and its run ends with that: the next message of the thread is the answer."""

    id: str
    thread_id: str
    run_id: str
    text: str
    options: tuple[str, ...]
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a run came to; always the last event.

    text: the last message. files: in their order. question: what the agent wants to know. stopped: somebody ended the
    run, and text is what there was. limited: a limit cut the work.
    """

    thread_id: str
    run_id: str
    text: str
    files: tuple[File, ...] = ()
    question: Question | None = None
    stopped: bool = False
    limited: bool = False


Event = Run | Text | Progress | File | Approval | Question | Answer


# What the gateway's JSON says.


def thread_of(told: Mapping[str, Any]) -> Thread:
    return Thread(
        id=told["thread_id"],
        status=told["status"],
        metadata=told["metadata"],
        created_at=datetime.fromisoformat(told["created_at"]),
        updated_at=datetime.fromisoformat(told["updated_at"]),
    )


def messages_of(told: Mapping[str, Any]) -> list[Message]:
    """The messages of a thread's values."""
    return [
        Message(
            id=each["id"] or "",
            role=_ROLES[each["type"]],
            text=each["content"],
            tool=(each["name"] or "") if each["type"] == "tool" else "",
        )
        for each in told.get("messages", ())
    ]


def file_of(run: Run, told: Mapping[str, Any]) -> File:
    return File(
        thread_id=run.thread_id,
        run_id=run.run_id,
        name=told["name"],
        path=told["path"],
        mime_type=told["mime_type"],
        size=told["size"],
    )


def approval_of(run: Run, told: Mapping[str, Any]) -> Approval:
    """told: an interrupt of LangGraph's protocol."""
    value = told["value"]
    return Approval(
        id=told["id"],
        thread_id=run.thread_id,
        run_id=run.run_id,
        tool=value["tool"],
        arguments=value["arguments"],
        reason=value["reason"],
        options=tuple(value["options"]),
        expires_at=datetime.fromisoformat(value["expires_at"]),
    )


def question_of(run: Run, told: Mapping[str, Any]) -> Question:
    """told: an event of the run, or an interrupt's value."""
    return Question(
        id=told["prompt_id"],
        thread_id=run.thread_id,
        run_id=run.run_id,
        text=told["text"],
        options=tuple(told["options"]),
        expires_at=datetime.fromisoformat(told["expires_at"]),
    )


def line_of(told: Mapping[str, Any]) -> str:
    """What an event of a run says to people."""
    match told.get("type"):
        case "tool_started":
            return str(told["description"] or " ".join(filter(None, (told["tool"], told["summary"]))))
        case "tool_progress":
            return str(told["line"] or f"{told['tool']}: {told['seconds']} s")
        case "subagent_started":
            return str(told["description"])
        case "subagent_progress":
            return str(told["description"] or told["summary"] or f"{told['seconds']} s")
        case "todos_changed":
            return next((str(step) for step, state in told["todos"] if state == "in_progress"), "")
        case "model_retrying":
            return f"the model does not answer ({told['kind']}); tried again in {told['delay']:.0f} s"
        case "resumed":
            return "the gateway was restarted; the run goes on"
    return ""
