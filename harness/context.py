"""What the harness is told about a run: frozen, JSON-able, no chat types in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """The person who speaks. id is `account:native id`; display_name is untrusted text."""

    id: str
    display_name: str
    is_admin: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """Kept with the run row, so that a resume after a restart needs nothing else.

    workspace: the thread's folder on this machine (never shown to the model). model: a name of the config's list.
    """

    thread_id: str
    run_id: str
    trace_id: str
    account: str
    conversation: str
    owner: str
    speaker: Speaker
    is_group: bool
    locale: str
    workspace: str
    model: str
    agent: str = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """A file that came with the message, already on disk under the thread's uploads.

    text_path: its text, converted, in the same folder; None where there is none.
    """

    path: Path
    name: str
    mime_type: str
    size: int
    text_path: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInput:
    """One turn's input.

    message_id: the id that the user's message gets in the thread (from its inbox row, so a repeat is the same message).
    quote: what the message replies to. background: what others said since the last answer, oldest first; data, not
    instructions.
    """

    message_id: str
    text: str
    files: tuple[InputFile, ...] = ()
    quote: str = ""
    background: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One message of a thread as people see it. role: "user" or "assistant"."""

    message_id: str
    role: str
    text: str


RUN_CONTEXT: TypeAdapter[RunContext] = TypeAdapter(RunContext)
RUN_INPUT: TypeAdapter[RunInput] = TypeAdapter(RunInput)
