"""What the harness knows about a run: frozen, JSON-serializable, without chat types."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

Progress = Literal["off", "short", "full"]
"""How much of the work people see: nothing, a label for each call, or the calls themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """The person who speaks. id is `account:native id`; display_name is untrusted text.

    is_person: False for an anonymous speaker, or one who speaks in the name of a chat.
    """

    id: str
    display_name: str
    is_admin: bool = False
    is_person: bool = True


HOOK = "hook:"
"""Prefix of `RunContext.schedule` for a turn that a webhook started."""
COMMANDS = ("new", "stop", "retry", "undo", "threads", "models", "agent", "skills", "memory", "reminders", "help")
"""Chat commands that the agent knows of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a conversation takes place. platform: its usual name, "" if unknown. title: of a group, untrusted text.
    commands: (name, how people type it there) for each of COMMANDS; () if unknown."""

    platform: str = ""
    title: str = ""
    commands: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The facts of a run, kept with its row, so that a resume after a restart needs nothing else.

    model: a name of the config's list. schedule: what started this turn: the id of a schedule, or HOOK and the name of
    a webhook; "" for a person. skills_off: skills turned off for the conversation. intermediate: which of the run's
    messages people see; progress: how much of its work; voice: whether the answer is spoken too, "" for the default;
    heading: Markdown shown above the answer from the start.
    """

    thread_id: str
    run_id: str
    account: str
    conversation: str
    owner: str
    speaker: Speaker
    is_group: bool
    locale: str
    model: str
    agent: str = "default"
    schedule: str = ""
    skills_off: tuple[str, ...] = ()
    timezone: str = "UTC"
    place: Place = Place()
    intermediate: Literal["all", "last"] = "all"
    progress: Progress = "short"
    voice: Literal["", "on", "off"] = ""
    heading: str = ""

    @property
    def is_hooked(self) -> bool:
        """Whether a webhook started this turn."""
        return self.schedule.startswith(HOOK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Voice:
    """The content of a voice message, if it was transcribed.

    transcript: its words, as transcribed by a machine. problem: why it has none, as one of the gateway's codes; note:
    the same for the model, a clause in English.
    """

    transcript: str = ""
    problem: str = ""
    note: str = ""

    @property
    def listened(self) -> bool:
        """Whether a transcription was attempted."""
        return bool(self.transcript or self.problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """A file attached to the message, already on disk in the thread's uploads.

    text_path: its converted text, in the same folder; None if there is none. note: what else the model should know,
    such as why there is no text; a clause in English. voice: for a voice message; None for any other file. sha256,
    text_sha256: of the file and its text as received, since agents can change both; "" if unknown.
    """

    path: Path
    name: str
    mime_type: str
    size: int
    text_path: Path | None = None
    note: str = ""
    voice: Voice | None = None
    sha256: str = ""
    text_sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResearchRequest:
    """A turn that is a separate research. style: "" for that of the settings. auto: the plan waits for no approval.
    resumes: continue the thread's newest research instead of starting one. files: received in the thread earlier,
    newest first."""

    style: str = ""
    auto: bool = False
    resumes: bool = False
    files: tuple[InputFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInput:
    """One turn's input.

    message_id: the id that the user's message gets in the thread (from its inbox row, so a repeat is the same message).
    quote: what the message replies to. recalled: the same if the agent said it. background: what others said since the
    last answer, oldest first; data, not instructions. dictated: the text, or part of it, was spoken and transcribed by
    the platform. skill: the name of the skill chosen for this turn, "" for none. steers: a run that is already active
    may take it in, instead of a separate turn. steered: messages that this turn's run took in while it was active,
    oldest first. people: names of others who recently spoke to the agent there, untrusted text. research: the text is a
    question to be researched. choice: "start", "change" or "stop" if the text says just that, for a plan that waits for
    it. collections: knowledge collections that the text names (`@handbook`) and the speaker can use.
    """

    message_id: str
    text: str
    files: tuple[InputFile, ...] = ()
    quote: str = ""
    recalled: str = ""
    background: tuple[str, ...] = ()
    dictated: bool = False
    skill: str = ""
    people: tuple[str, ...] = ()
    steers: bool = False
    steered: tuple[RunInput, ...] = ()
    research: ResearchRequest | None = None
    choice: str = ""
    collections: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """What the person said: the text, followed by the transcripts of the voice messages."""
        spoken = [file.voice.transcript for file in self.files if file.voice is not None and file.voice.transcript]
        return "\n".join([*([self.text] if self.text.strip() or not spoken else []), *spoken])

    @property
    def whole(self) -> RunInput:
        """Everything that the run took in, as one input."""
        if not self.steered:
            return self
        heard = (self, *self.steered)
        return replace(
            self,
            text="\n".join(each.text for each in heard if each.text),
            files=tuple(file for each in heard for file in each.files),
            quote="\n".join(each.quote for each in heard if each.quote),
            recalled="\n".join(each.recalled for each in heard if each.recalled),
            background=tuple(line for each in heard for line in each.background),
            dictated=any(each.dictated for each in heard),
            steered=(),
        )

    @property
    def is_blank(self) -> bool:
        """Whether its words were deleted: an empty message is never sent."""
        return not self.words.strip() and not any(file.name for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """The part of a message that people have read although its run could not finish it."""

    run_id: str
    message_id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One message of a thread as people see it. role: "user" or "assistant"."""

    message_id: str
    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Removal:
    """A message to be removed from a thread. message_id: None for all messages present."""

    message_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadView:
    """A thread at one of its checkpoints, as programs see it: JSON types, in the form of LangChain's messages.

    messages: of people, the assistant and its tools; messages that the harness added for the model are left out. open:
    a turn is in progress. run_id: of the run that made the checkpoint, "" for none. created_at: ISO 8601.
    """

    checkpoint_id: str
    parent_id: str | None
    created_at: str
    run_id: str
    step: int
    open: bool
    messages: tuple[dict[str, Any], ...]
    todos: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResearchView:
    """The newest research of a thread. run_id: of the last run that worked on it. phase: as in
    harness/research/record.py. can_resume: it was interrupted, or ended without a report. steps: (title, state), state
    "" for one that has not ended. sources: number of pages read. file: of the report, in the sandbox. past: the
    thread's earlier ones, oldest first, as (title, phase, sources)."""

    run_id: str
    question: str
    title: str
    phase: str
    can_resume: bool
    steps: tuple[tuple[str, str], ...]
    sources: int
    file: str = ""
    past: tuple[tuple[str, str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResearchFiles:
    """The newest research of a thread as files. markdown: the report, and what each step found. record: JSON with the
    question, the plan, the findings, the sources with their hashes and quotations, and the check."""

    markdown: str
    record: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Titled:
    """A title that a model made, verbatim, and the tokens used."""

    text: str
    input_tokens: int
    output_tokens: int


RUN_CONTEXT: TypeAdapter[RunContext] = TypeAdapter(RunContext)
RUN_INPUT: TypeAdapter[RunInput] = TypeAdapter(RunInput)
UNREADABLE_CONTEXT = RunContext(
    thread_id="",
    run_id="",
    account="",
    conversation="",
    owner="",
    speaker=Speaker(id="", display_name=""),
    is_group=False,
    locale="",
    model="",
)
UNREADABLE_INPUT = RunInput(message_id="", text="?")
"""Placeholder for a context or input stored by another version in another form."""
