"""What the harness is told about a run: frozen, JSON-able, no chat types in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

Progress = Literal["off", "short", "full"]
"""What people see of the work: nothing, a label for each call, or the calls themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """The person who speaks. id is `account:native id`; display_name is untrusted text.

    is_person: False for who speaks anonymously or in the name of a chat.
    """

    id: str
    display_name: str
    is_admin: bool = False
    is_person: bool = True


HOOK = "hook:"
"""What `RunContext.schedule` begins with where a webhook started the turn."""
COMMANDS = ("new", "stop", "retry", "undo", "threads", "models", "agent", "skills", "memory", "reminders", "help")
"""Commands of the chat that the agent is told of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a conversation is. platform: what people call it, "" where that is not known. title: of a group, untrusted
    text. commands: (name, how people type it there) of each of COMMANDS; () where none is known."""

    platform: str = ""
    title: str = ""
    commands: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """Kept with the run row, so that a resume after a restart needs nothing else.

    model: a name of the config's list. schedule: what started this turn: the id of a schedule, or HOOK and the name of
    a webhook; "" where a person did.
    skills_off: those that were turned off for the conversation. intermediate: which of the run's messages people are
    shown; progress: how much of what it does; voice: whether the answer is spoken too, "" as usual; heading: what
    stands above its answer from the beginning on, in Markdown.
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
    """What a voice message says, as far as anybody listened to it.

    transcript: its words, written down by a machine. problem: why there are none, in the gateway's own terms; note: the
    same for the model, a clause in English.
    """

    transcript: str = ""
    problem: str = ""
    note: str = ""

    @property
    def listened(self) -> bool:
        """Whether it was tried."""
        return bool(self.transcript or self.problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """A file that came with the message, already on disk under the thread's uploads.

    text_path: its text, converted, in the same folder; None where there is none. note: what else the model is to know
    of it, such as why there is no text; a clause in English. voice: of a voice message, None of any other file. sha256,
    text_sha256: of the file and of its text as they came, since agents can change both; "" where that is not known.
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
    """A turn that is to be a research of its own. style: "" for that of the settings. auto: its plan waits for nobody.
    resumes: go on with the newest research of the thread, in the place of a new one. files: that came to the thread
    before, the newest first."""

    style: str = ""
    auto: bool = False
    resumes: bool = False
    files: tuple[InputFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInput:
    """One turn's input.

    message_id: the id that the user's message gets in the thread (from its inbox row, so a repeat is the same message).
    quote: what the message replies to. background: what others said since the last answer, oldest first; data, not
    instructions. dictated: the text, or a part of it, was spoken, and the platform wrote it down. skill: the name of
    the one that was chosen for this turn, "" for none. steers: it may be heard by the run that works when it is said,
    in place of a turn of its own. steered: what was said while this turn's run worked and heard by it, oldest first.
    people: names of others who spoke to the agent there lately, untrusted text. research: the text is a question to be
    researched. choice: "start", "change" or "stop" where the text says just that, for a plan that waits for it.
    collections: of the knowledge, that the text names (`@handbook`) and that there are for who says it.
    """

    message_id: str
    text: str
    files: tuple[InputFile, ...] = ()
    quote: str = ""
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
        """What the person said: the text, and behind it the transcripts of the voice messages."""
        spoken = [file.voice.transcript for file in self.files if file.voice is not None and file.voice.transcript]
        return "\n".join([*([self.text] if self.text.strip() or not spoken else []), *spoken])

    @property
    def whole(self) -> RunInput:
        """All that the run heard, as one input."""
        if not self.steered:
            return self
        heard = (self, *self.steered)
        return replace(
            self,
            text="\n".join(each.text for each in heard if each.text),
            files=tuple(file for each in heard for file in each.files),
            quote="\n".join(each.quote for each in heard if each.quote),
            background=tuple(line for each in heard for line in each.background),
            dictated=any(each.dictated for each in heard),
            steered=(),
        )

    @property
    def is_blank(self) -> bool:
        """Its words were deleted: nobody ever sends nothing."""
        return not self.words.strip() and not any(file.name for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """What people have read of a message that its run was not able to end."""

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
    """A message that is taken out of a thread. message_id: None for all that are there by then."""

    message_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadView:
    """A thread at one of its checkpoints, as programs see it: JSON types, in the form of LangChain's messages.

    messages: of persons, the assistant and its tools; what the harness added for the model is left out. open: a turn is
    under way. run_id: of the run that made the checkpoint, "" for none. created_at: ISO 8601.
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
    """The newest research of a thread. run_id: of the run that worked on it last. phase: as in
    harness/research/record.py. can_resume: it was left in the middle, or ended without a report. steps: (title, state),
    state "" for one that has not ended. sources: pages that were read. file: of the report, in the sandbox. past:
    earlier ones of the thread, oldest first, as (title, phase, sources)."""

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
    """A title that a model made, as it said it, and the tokens that it took."""

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
"""What stands for a context or an input that another version stored in another form."""
