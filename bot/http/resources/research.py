"""Researches as their threads record them: the plan with its steps, live during the work, the sources, the report; and
decisions on a waiting plan, posted in its chat as its person would write them there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from fastapi import Response

from bot.http.chats import file_of_answer
from bot.http.errors import HttpProblem
from bot.http.resources.acting import Acting
from bot.http.resources.sight import Sight, unknown
from bot.runs.research import unavailable
from bot.store import conversations, overview, runs
from bot.store.identity import OWN_ACCOUNTS, native_on
from bot.texts import texts_for
from bot.texts.commands import unmarked
from channels.message import Message, Sender
from harness.files.spool import Spool, SpoolSettings
from harness.research.plan import StepType
from harness.research.record import RESUMABLE, Finding, Phase

if TYPE_CHECKING:
    from pathlib import Path

    from bot.http.auth import Caller
    from bot.http.parts import HttpParts
    from bot.store.overview import ThreadFacts
    from bot.store.rows import RunRow
    from channels.message import Address
    from harness.research.record import Research

SHOWN_THREADS = 50
"""Threads covered by one list, newest first."""
LONGEST_TITLE = 200
LONGEST_CHANGE = 4000
Deed = Literal["start", "change", "stop", "answer", "resume"]
StepState = Literal["open", "working", "completed", "failed", "timed_out", "cancelled"]
WORKING = frozenset({Phase.BEGUN, Phase.PLANNING, Phase.WORKING})
_LIVE: Mapping[str, StepState] = {"pending": "open", "in_progress": "working", "completed": "completed"}
CONTRADICTIONS = ("contradiction", "矛盾", "冲突")
"""Words in the heading of a report's section on contradictions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastResearch:
    """An earlier research of the same thread, of which only this is kept."""

    title: str
    phase: str
    sources: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedResearch:
    """The newest research of a thread. title: of its plan, else the question. phase: begun, asked, review, planning,
    working, done, stopped or failed. busy: a run is active in its thread, or about to be. steps, ended: how many there
    are, and how many of them are over. at: when its thread was last used. past: oldest first."""

    thread_id: str
    conversation: str
    owner: str
    own: bool
    title: str
    phase: str
    busy: bool
    style: str
    steps: int
    ended: int
    sources: int
    at: datetime
    past: tuple[PastResearch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResearchList:
    """A list of researches. off: a key of why this gateway has none, "" where it does. more: there are older threads to
    list, with `skip`."""

    off: str
    researches: tuple[ListedResearch, ...]
    more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ResearchStep:
    """One step of the plan. kind: research, analysis or processing. after: ids of the steps that it waits for. finding:
    Markdown, partial where it was not completed. detail: why it was not. cut: it had to report early."""

    id: str
    title: str
    description: str
    kind: StepType
    after: tuple[str, ...]
    state: StepState
    finding: str
    detail: str
    seconds: int
    calls: int
    cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ResearchSource:
    """A source as numbered in the report. sha256: of the content read. quotes: words of it that the report quotes, all
    verified. gone: why it did not respond when the report was checked, "" where it did, None where it was not
    requested."""

    number: int
    address: str
    title: str
    fetched_at: str
    sha256: str
    quotes: tuple[str, ...]
    gone: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResearchFile:
    """A file that can be downloaded. size: bytes, None for one that is made on request."""

    name: str
    mime_type: str
    size: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResearchRecord:
    """A research with all that is recorded of it. run_id: of the last run that worked on it, by which a decision
    identifies its plan. asked: its question that waits for an answer. clarified: (question, answer) pairs. changes:
    requested by the person, oldest first. thought: the planner's. report: Markdown; its latest state is report_state.
    contradictions: the report's section on them. check: the counts of the citation check. actions: what the caller can
    do now. elsewhere: its chat continues in another thread, so that no message can reach it."""

    research: ListedResearch
    run_id: str
    question: str
    asked: str
    clarified: tuple[tuple[str, str], ...]
    changes: tuple[str, ...]
    thought: str
    steps: tuple[ResearchStep, ...]
    report_state: StepState
    report: str
    contradictions: str
    check: Mapping[str, int]
    sources: tuple[ResearchSource, ...]
    files: tuple[ResearchFile, ...]
    actions: tuple[Deed, ...]
    elsewhere: bool


@dataclass(frozen=True, slots=True)
class _Found:
    """A thread with a research. open: runs of the thread that have not ended, oldest first."""

    thread: ThreadFacts
    research: Research
    open: tuple[RunRow, ...]


class Researches:
    """Researches that a caller may see: their own, also in groups where they asked; and all where administrators read
    everybody's threads."""

    def __init__(self, parts: HttpParts) -> None:
        self._parts = parts
        self._sight = Sight(parts)
        self._acting = Acting(parts)

    async def list(self, caller: Caller, *, everybody: bool = False, skip: int = 0) -> ResearchList:
        """The researches of the caller's newest threads after `skip`, or of all where administrators read them."""
        everybody = everybody and self._sight.reads_all(caller)
        person = None if everybody else caller.person
        async with self._parts.gatekeeper.searching(caller):
            threads, rows = await self._parts.store.read(
                lambda tx: (overview.threads_of(tx, person, SHOWN_THREADS + 1, skip), runs.unended(tx))
            )
            busy = {row.thread_id for row in rows}
            found = []
            for thread in threads[:SHOWN_THREADS]:
                known = await self._parts.runs.research_record(thread.thread_id)
                if known is not None and self._may_see(caller, thread, known):
                    found.append(_listed(thread, known, caller, busy=thread.thread_id in busy))
        off = unavailable(self._parts.settings())
        return ResearchList(off=off, researches=tuple(found), more=len(threads) > SHOWN_THREADS)

    async def read(self, caller: Caller, thread_id: str) -> ResearchRecord:
        """The newest research of a thread. Raises HttpProblem, also where it is another person's."""
        found = await self._find(caller, thread_id)
        research, (steps, report_state) = found.research, self._steps(found)
        listed = _listed(found.thread, research, caller, busy=bool(found.open))
        return ResearchRecord(
            research=replace(listed, ended=sum(step.state not in ("open", "working") for step in steps)),
            run_id=research.run,
            question=research.question,
            asked=research.asked if research.phase is Phase.ASKED else "",
            clarified=research.clarified,
            changes=research.changes,
            thought=research.plan.thought if research.plan is not None else "",
            steps=steps,
            report_state=report_state,
            report=research.delivered,
            contradictions=contradictions_in(research.delivered),
            check={name: count for name, count in research.check.items() if isinstance(count, int)},
            sources=tuple(
                ResearchSource(
                    number=each.number,
                    address=each.address,
                    title=each.title,
                    fetched_at=each.fetched_at,
                    sha256=each.sha256,
                    quotes=each.quotes,
                    gone=each.gone,
                )
                for each in research.cited
            ),
            files=await self._files(research),
            actions=self._actions(caller, found),
            elsewhere=not found.thread.current,
        )

    async def _find(self, caller: Caller, thread_id: str) -> _Found:
        thread = await self._parts.store.read(lambda tx: overview.thread(tx, thread_id))
        known = await self._parts.runs.research_record(thread_id) if thread is not None else None
        if thread is None or known is None or not self._may_see(caller, thread, known):
            raise unknown("research")
        rows = await self._parts.store.read(runs.unended)
        return _Found(thread, known, tuple(row for row in rows if row.thread_id == thread_id))

    def _may_see(self, caller: Caller, thread: ThreadFacts, research: Research) -> bool:
        return research.who == caller.person or self._sight.reads(caller, thread.owner)

    def _steps(self, found: _Found) -> tuple[tuple[ResearchStep, ...], StepState]:
        """The steps, and the state of the report after them. Running work reports progress before it is stored."""
        research, active = found.research, self._parts.runs.active
        views = [active[row.run_id].view.plan for row in found.open if row.run_id in active]
        shown = next((plan for plan in views if len(plan) == len(research.steps) + 1), ())
        live: list[StepState] = [_LIVE[str(status)] for _, status in shown]
        live = live or ["open"] * (len(research.steps) + 1)
        steps, ended = [], research.ended_steps
        for step, state in zip(research.steps, live, strict=False):
            finding = ended.get(step.id, Finding(state="open"))
            steps.append(
                ResearchStep(
                    id=step.id,
                    title=step.title,
                    description=step.description,
                    kind=step.type,
                    after=step.depends_on,
                    state=finding.state if step.id in ended else state,
                    finding=finding.text,
                    detail=finding.detail,
                    seconds=finding.seconds,
                    calls=finding.calls,
                    cut=finding.cut,
                )
            )
        return tuple(steps), "completed" if research.delivered else live[-1]

    # Files.

    @property
    def _spool(self) -> Path:
        return self._parts.settings().data_dir / "spool"

    async def _presented(self, research: Research) -> dict[str, tuple[Path, str, int]]:
        """Files of the report that are still kept, by name: path, type and size."""
        spool = Spool(SpoolSettings(folder=self._spool))
        found: dict[str, tuple[Path, str, int]] = {}
        for run_id in research.runs:
            for file in await spool.files(run_id):
                found[file.name] = (self._spool / file.spooled, file.mime_type, file.size)
        return found

    async def _files(self, research: Research) -> tuple[ResearchFile, ...]:
        if research.plan is None:
            return ()
        kept = [
            ResearchFile(name=name, mime_type=mime_type, size=size)
            for name, (_, mime_type, size) in (await self._presented(research)).items()
        ]
        made = [
            ResearchFile(name=name, mime_type=mime_type, size=None)
            for name, mime_type in EXPORTED.items()
            if name not in {file.name for file in kept}
        ]
        return (*kept, *made)

    async def file(self, caller: Caller, thread_id: str, name: str) -> Response:
        """A response with a file of a research. Raises HttpProblem."""
        found = await self._find(caller, thread_id)
        kept = (await self._presented(found.research)).get(name)
        if kept is not None:
            return file_of_answer(kept[0], name, kept[1])
        files = await self._parts.runs.research_files(thread_id) if name in EXPORTED else None
        if files is None:
            raise unknown("file")
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        content = files.markdown if name == MARKDOWN else files.record
        return Response(content, media_type=f"{EXPORTED[name]}; charset=utf-8", headers=headers)

    # Decisions.

    def _actions(self, caller: Caller, found: _Found) -> tuple[Deed, ...]:
        """What the caller can do. Only the requester decides here; others do so in the chat, in their own name."""
        research = found.research
        if research.who != caller.person or unavailable(self._parts.settings()):
            return ()
        if found.open:
            works = research.phase in WORKING and found.open[0].speaker == caller.person
            return ("stop",) if works else ()
        if not found.thread.current:
            return ()
        if research.phase is Phase.REVIEW:
            return ("start", "change", "stop")
        if research.phase is Phase.ASKED:
            return ("answer",)
        can_resume = research.phase in RESUMABLE or (research.phase is Phase.STOPPED and research.plan is not None)
        return ("resume",) if can_resume else ()

    async def decide(self, caller: Caller, thread_id: str, deed: Deed, run_id: str, text: str = "") -> str:
        """Carry out a decision. run_id: of the record that the caller has seen. text: of a change or an answer. Returns
        what was done. Raises HttpProblem."""
        # Read first: a run that another decision opens in between is then seen as open, not as the last one.
        last = await self._parts.store.read(lambda tx: overview.last_run(tx, thread_id))
        found = await self._find(caller, thread_id)
        if deed not in self._actions(caller, found):
            raise _not_now()
        if found.research.run != run_id:
            raise HttpProblem(409, "research_changed", "it has changed in the meantime: reload the research")
        if deed == "stop" and found.open:
            return await self._acting.stop(caller, found.open[0].run_id)
        language = last.context.locale if last is not None else found.research.locale
        said = " ".join(text.split()) if deed in ("change", "answer") else _words(deed, language)
        if not said or said.startswith("/") != (deed == "resume"):
            raise HttpProblem(422, "no_change", "describe what should be different in words, not as a command")
        # Of the last run: only one decision can follow it.
        key = f"research-{last.run_id if last is not None else run_id}"
        if not await self._say(caller, found.thread, last, said, language, key):
            raise _not_now()
        return deed

    async def _say(
        self, caller: Caller, thread: ThreadFacts, last: RunRow | None, text: str, language: str, key: str
    ) -> bool:
        """Post it in the chat of the thread, in the caller's name; False where something with that key was posted
        before. Raises HttpProblem."""
        place = last.address if last is not None else None
        if place is None:
            place = await self._parts.store.read(lambda tx: conversations.place_of(tx, thread.conversation))
        if place is None or place.account not in self._parts.settings().channels:
            raise HttpProblem(409, "chat_gone", "its chat is no longer connected")
        if place.account in OWN_ACCOUNTS:
            talk = self._parts.web if place.account == self._parts.web.account else self._parts.api
            posted = await talk.post(caller, place.chat, text, client_id=key, locale=language or None)
            return not posted.repeated
        return await self._originate(caller, place, text, language, key)

    async def _originate(self, caller: Caller, place: Address, text: str, language: str, key: str) -> bool:
        row, now = self._parts.editor.book.row("person", caller.person), self._parts.clock.now()
        name = (row.name if row is not None else "") or caller.name
        message = Message(
            account=place.account,
            dedupe_keys=(key,),
            sent_at=now,
            received_at=now,
            address=place,
            platform_message_id="",
            sender=Sender(id=native_on(place.account, caller.person), display_name=name, locale=language or None),
            text=text,
            mention=True,
        )
        return await self._parts.bus.originate_once(message)


MARKDOWN = "report.md"
EXPORTED = {MARKDOWN: "text/markdown", "record.json": "application/json"}
"""The files of /research export, by name: made from the record at any time."""


def contradictions_in(report: str) -> str:
    """The Markdown below the report's heading about contradictions, "" where it has none."""
    found, level = [], 0
    for line in report.splitlines():
        marks = len(line) - len(line.lstrip("#"))
        is_heading = 1 < marks <= 6 and line[marks : marks + 1] == " "
        if level and is_heading and marks <= level:
            break
        if level:
            found.append(line)
        elif is_heading and any(word in line.casefold() for word in CONTRADICTIONS):
            level = marks
    return "\n".join(found).strip()


def _not_now() -> HttpProblem:
    return HttpProblem(409, "not_now", "that cannot be done now: reload the research")


def _words(deed: Deed, language: str) -> str:
    return "/research resume" if deed == "resume" else unmarked(texts_for(language).research[deed])


def _listed(thread: ThreadFacts, research: Research, caller: Caller, *, busy: bool) -> ListedResearch:
    # Earlier ones of a group's thread may belong to others.
    past = research.past if thread.owner == research.who else ()
    return ListedResearch(
        thread_id=thread.thread_id,
        conversation=thread.conversation,
        owner=thread.owner,
        own=research.who == caller.person,
        title=" ".join(research.title.split())[:LONGEST_TITLE],
        phase=research.phase.value,
        busy=busy,
        style=research.style.value,
        steps=len(research.steps),
        ended=len(research.ended_steps),
        sources=len(research.cited),
        at=thread.last_at,
        past=tuple(PastResearch(title=p.title, phase=p.phase.value, sources=p.sources) for p in past),
    )
