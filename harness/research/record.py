"""The record of a research as its thread stores it (the channel RESEARCH), and which turns belong to it."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from harness.context import ResearchFiles, ResearchView
from harness.graph.state import RESEARCH
from harness.research.config import Style
from harness.research.plan import Frozen, Plan, Step
from sandbox.base import UPLOADS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.context import InputFile, RunContext, RunInput
    from harness.web.sources import ReadPage

LONGEST_QUESTION = 8000
MOST_FILES = 20
MOST_PAST = 50
CLOSING = "deliver"
"""The graph's node after which any turn ends: an interrupted turn is closed as if at this node."""

COMPANIONS = {"podcast-script": frozenset({"speak"}), "ppt-generation": frozenset[str]()}
"""Skills that make something else out of a report, and the tools that each needs to be offered below one, besides those
that the skill itself names."""


class Phase(StrEnum):
    """Progress of a research. BEGUN: only a question. ASKED: it waits for the answer to its own question. REVIEW: its
    plan waits for a person. PLANNING: the plan is being changed as the person wants. WORKING: steps and report. DONE:
    answered. STOPPED: by a person, before it began. FAILED: no report could be made."""

    BEGUN = "begun"
    ASKED = "asked"
    REVIEW = "review"
    PLANNING = "planning"
    WORKING = "working"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


WAITING = frozenset({Phase.ASKED, Phase.REVIEW})
"""Phases in which its person's next message belongs to the research."""
RESUMABLE = frozenset({Phase.BEGUN, Phase.PLANNING, Phase.WORKING, Phase.FAILED})

FindingState = Literal["completed", "failed", "timed_out", "cancelled", "open"]


class Finding(Frozen):
    """The result of a step. text: partial unless the state is "completed". detail: why it failed. cut: it had to report
    early. "open": it failed and is to be retried."""

    state: FindingState
    text: str = ""
    detail: str = ""
    seconds: int = 0
    calls: int = 0
    cut: bool = False


class Cited(Frozen):
    """A source as numbered in the delivered report. sha256: of what was read. quotes: its words that the report quotes.
    gone: why it did not answer when the report was checked; "" if it did, None if it was not requested."""

    number: int
    address: str
    title: str
    fetched_at: str
    sha256: str = ""
    quotes: tuple[str, ...] = ()
    gone: str | None = None


class SentFile(Frozen):
    """A file that a person sent, as stored in the sandbox. kind: its media type. text: path of its converted text; ""
    for none. sha256, text_sha256: of both as received, "" if unknown."""

    name: str
    kind: str
    size: int
    path: str
    text: str = ""
    sha256: str = ""
    text_sha256: str = ""


class Past(Frozen):
    """An earlier research of the thread, as shown in a list."""

    title: str
    phase: Phase
    sources: int = 0
    file: str = ""


class Research(Frozen):
    """The record. id: of the run that began it. runs: that worked on it, the newest last; anything that one of them has
    read can be cited. who: person id. clarified: (question, answer) pairs. changes: requested by the person, oldest
    first. known: titles of the steps of the plan shown before. plans: number made since the question, without changed
    ones. files: those of the question, those already in the thread, and those sent with later messages about it.
    collections: of the knowledge, named by people. report: as written. delivered: its text after the check, numbered as
    in `cited`; whole: with its sources and the check, as in the file. past: the thread's earlier ones, oldest first."""

    id: str
    runs: tuple[str, ...]
    who: str
    phase: Phase
    question: str
    style: Style
    auto: bool = False
    topic: str = ""
    locale: str = ""
    clarified: tuple[tuple[str, str], ...] = ()
    asked: str = ""
    background: str = ""
    plan: Plan | None = None
    plans: int = 0
    changes: tuple[str, ...] = ()
    known: tuple[str, ...] | None = None
    choice: str = ""
    files: tuple[SentFile, ...] = ()
    collections: tuple[str, ...] = ()
    findings: dict[str, Finding] = Field(default_factory=dict)
    report: str = ""
    delivered: str = ""
    whole: str = ""
    file: str = ""
    cited: tuple[Cited, ...] = ()
    check: dict[str, Any] = Field(default_factory=dict)
    past: tuple[Past, ...] = ()

    def write(self, **changes: Any) -> dict[str, Any]:
        """An update of the thread's state that changes these fields; JSON types only."""
        changed = self.model_copy(update=changes).model_dump(mode="json", include=set(changes))
        return {RESEARCH: {"id": self.id, **changed}}

    def found(self, step: str, finding: Finding) -> dict[str, Any]:
        """An update of the thread's state that adds the result of a step."""
        return {RESEARCH: {"id": self.id, "findings": {step: finding.model_dump(mode="json")}}}

    @property
    def said(self) -> str:
        """Everything that people have said in it."""
        return "\n".join([self.question, *(answer for _, answer in self.clarified), *self.changes])

    @property
    def sent(self) -> dict[str, str]:
        """Path -> SHA-256 on receipt, for the files that people sent and their texts."""
        hashes = {path: known for file in self.files for path, known in _hashes(file)}
        return {path: known for path, known in hashes.items() if path and known}

    @property
    def title(self) -> str:
        return self.plan.title if self.plan is not None else self.question

    @property
    def run(self) -> str:
        """The run that works on it, or last did."""
        return self.runs[-1]

    @property
    def ended_steps(self) -> dict[str, Finding]:
        """The findings of the steps that have ended, in whatever way."""
        return {step: finding for step, finding in self.findings.items() if finding.state != "open"}

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.plan.steps if self.plan is not None else ()

    @property
    def failed_steps(self) -> list[tuple[Step, Finding]]:
        """The steps that were begun but not completed."""
        return [
            (step, self.findings[step.id])
            for step in self.steps
            if step.id in self.findings and self.findings[step.id].state not in ("completed", "open")
        ]


def _hashes(file: SentFile) -> tuple[tuple[str, str], ...]:
    return (file.path, file.sha256), (file.text, file.text_sha256)


def research_of(values: Mapping[str, Any]) -> Research | None:
    """The research of a thread's state; None if there is none, or it is another version's and unreadable."""
    found = values.get(RESEARCH)
    if not found:
        return None
    try:
        return Research.model_validate(found)
    except ValueError:
        return None


def research_view(research: Research, pages: Sequence[ReadPage]) -> ResearchView:
    """A research as shown to people, no matter which process works on it."""
    ended = research.ended_steps
    return ResearchView(
        run_id=research.run,
        question=research.question,
        title=research.plan.title if research.plan is not None else "",
        phase=research.phase.value,
        can_resume=research.phase in RESUMABLE or (research.phase is Phase.STOPPED and research.plan is not None),
        steps=tuple((step.title, ended[step.id].state if step.id in ended else "") for step in research.steps),
        sources=len(pages),
        file=research.file,
        past=tuple((each.title, each.phase.value, each.sources) for each in research.past),
    )


def belongs(values: Mapping[str, Any], ctx: RunContext, run_input: RunInput) -> bool:
    """Whether a run belongs to a research: it requests one, already works on one, or answers one that waits. values: of
    the thread's state, when the run begins or continues."""
    known = research_of(values)
    if known is None:
        return run_input.research is not None and not run_input.research.resumes
    if run_input.research is not None or known.run == ctx.run_id:
        return True
    if run_input.choice == "start" and known.phase in RESUMABLE:
        return known.who == ctx.speaker.id  # its run failed, and is retried
    return waits_for(known, ctx)


def waits_for(research: Research, ctx: RunContext) -> bool:
    """Whether this speaker's next message belongs to the research."""
    theirs = research.who == ctx.speaker.id or ctx.speaker.is_admin
    return research.phase in WAITING and theirs and not ctx.schedule


def begun(
    values: Mapping[str, Any], ctx: RunContext, run_input: RunInput, style: Style, *, reads_files: bool = True
) -> dict[str, Any]:
    """The state update with which a turn of a research begins. style: of the settings. reads_files: a sandbox to read
    them in is available."""
    known, asked = research_of(values), run_input.research
    if asked is not None and not asked.resumes:
        research = Research(
            id=ctx.run_id,
            runs=(ctx.run_id,),
            who=ctx.speaker.id,
            phase=Phase.BEGUN,
            question=run_input.words[:LONGEST_QUESTION],
            style=Style(asked.style) if asked.style in set(Style) else style,
            auto=asked.auto,
            files=_sent((), (*run_input.files, *asked.files)) if reads_files else (),
            collections=run_input.collections,
            past=_past(known),
        )
        return {RESEARCH: research.model_dump(mode="json")}
    if known is None:
        raise ValueError("a research turn in a thread without research")
    runs = tuple(dict.fromkeys((*known.runs, ctx.run_id)))
    if asked is not None or known.phase in RESUMABLE:
        again = {step: Finding(state="open") for step, each in known.findings.items() if each.state != "completed"}
        # The person that resumes it pays for it, and decides.
        return known.write(runs=runs, who=ctx.speaker.id, phase=_resumed(known), choice="", findings=again)
    words = run_input.words[:LONGEST_QUESTION]
    files = _sent(known.files, run_input.files if reads_files else ())
    named = tuple(dict.fromkeys((*known.collections, *run_input.collections)))
    if known.phase is Phase.ASKED:
        clarified = (*known.clarified, (known.asked, words))
        return known.write(runs=runs, phase=Phase.BEGUN, clarified=clarified, files=files, collections=named)
    changes = known.changes if run_input.choice else (*known.changes, words)
    choice = run_input.choice or "changed"
    return known.write(runs=runs, choice=choice, changes=changes, files=files, collections=named)


def _sent(known: Sequence[SentFile], files: Sequence[InputFile]) -> tuple[SentFile, ...]:
    """Files of a research with further ones. A voice message is part of the words instead."""
    further = (
        SentFile(
            name=file.name,
            kind=file.mime_type,
            size=file.size,
            path=f"{UPLOADS}/{file.path.name}",
            text=f"{UPLOADS}/{file.text_path.name}" if file.text_path is not None else "",
            sha256=file.sha256,
            text_sha256=file.text_sha256,
        )
        for file in files
        if file.voice is None
    )
    return tuple({each.path: each for each in (*known, *further)}.values())[:MOST_FILES]


def _past(known: Research | None) -> tuple[Past, ...]:
    """The thread's earlier research, including the one that a new question replaces."""
    if known is None:
        return ()
    if known.plan is None:
        return known.past  # small talk, or a question that never got as far as a plan
    last = Past(title=known.title[:200], phase=known.phase, sources=len(known.cited), file=known.file)
    return (*known.past, last)[-MOST_PAST:]


def exported(research: Research) -> ResearchFiles:
    """The full record of a research, for a person to keep: the delivered report with each step's findings, and
    everything as JSON."""
    found = [
        f"### {step.id}. {step.title} ({finding.state})\n\n{finding.text or finding.detail}"
        for step in research.steps
        if (finding := research.ended_steps.get(step.id)) is not None
    ]
    parts = [research.whole.rstrip() or f"# {research.title}\n\n{research.question}", "---", *found]
    kept = research.model_dump(mode="json", exclude={"who", "choice", "auto", "known", "whole", "report", "past"})
    record = json.dumps(kept, ensure_ascii=False, indent=2)
    return ResearchFiles(markdown="\n\n".join(parts) + "\n", record=record + "\n")


def _resumed(research: Research) -> Phase:
    """The phase in which it resumes: a waiting plan keeps waiting, a stopped one waits again."""
    if research.phase is Phase.STOPPED and research.plan is not None:
        return Phase.REVIEW
    if research.phase in (Phase.REVIEW, Phase.DONE, Phase.STOPPED):
        return research.phase
    if research.plan is None:
        return Phase.PLANNING if research.topic else Phase.BEGUN
    return Phase.PLANNING if research.phase is Phase.PLANNING else Phase.WORKING
