"""Threads as people read them: messages, what the agent did for them, how long that took and what it cost.

Assembled from runs and their events; messages before the oldest run that is still known come from the agent's own
history of the thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from bot.http.resources.sight import Sight, unknown
from bot.store import overview, search
from bot.store.usage import NANO
from harness.events import (
    RUN_EVENT,
    Failed,
    FileReady,
    Finished,
    ModelRetrying,
    Notice,
    Question,
    Resumed,
    SubagentEnded,
    SubagentStarted,
    SubagentState,
    TextDelta,
    TextReset,
    TodosChanged,
    ToolEnded,
    ToolStarted,
)

if TYPE_CHECKING:
    from bot.http.auth import Caller
    from bot.http.parts import HttpParts
    from bot.store.overview import RunRecord, ThreadFacts
    from bot.store.usage import Spent
    from harness.context import HistoryEntry

SHOWN_RUNS = 100
"""The newest exchanges of a thread."""
SHOWN_THREADS = 50
LONGEST_TITLE = 80

StepKind = Literal["text", "tool", "subagent", "plan", "approval", "retry", "notice", "resumed", "question"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Tokens of model calls, cached ones being part of the input, and their price by currency, in its unit."""

    input: int = 0
    output: int = 0
    cached: int = 0
    calls: int = 0
    money: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A thread in a list. title: or its beginning, where it has none. runs: exchanges that are still known. part: it is
    a group's, and everything here covers only what the caller said to the agent there and its answers to that. excerpt:
    of the message with the words searched for, "" where the title has them."""

    thread_id: str
    conversation: str
    owner: str
    title: str
    created_at: datetime
    last_at: datetime
    runs: int
    current: bool
    own: bool
    part: bool
    cost: Cost
    excerpt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Others:
    """The counts of everyone else's threads, for operators; readable: they may read these too."""

    threads: int
    owners: int
    runs: int
    readable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Threads:
    """A list of threads. others: None for callers who do not operate."""

    threads: tuple[Listed, ...]
    more: bool
    others: Others | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something the agent said or did before its answer. title: the name of a tool or subagent, the kind of a notice.
    text: what it said, or did, in a line. ok: None while unknown. seconds: its duration, as far as is known."""

    kind: StepKind
    title: str = ""
    text: str = ""
    ok: bool | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A person's message, and its answer. event_id: for `/why`. answer: Markdown, "" where there is none; whole: it is
    complete. failure: the kind, "" for none. first_words, seconds, slot_wait: durations in seconds."""

    run_id: str
    event_id: int
    at: datetime
    person: str
    name: str
    words: str
    heard: tuple[str, ...]
    quote: str
    files: tuple[str, ...]
    state: str
    detail: str
    scheduled: bool
    model: str
    models: tuple[str, ...]
    steps: tuple[Step, ...]
    answer: str
    whole: bool
    failure: str
    presented: tuple[str, ...]
    first_words: float | None
    slot_wait: float | None
    seconds: float | None
    cost: Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """A message from before the oldest exchange that is still known. role: "user" or "assistant"."""

    role: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """A thread with its exchanges. left_out: how many older exchanges are known but not included."""

    thread: Listed
    earlier: tuple[Earlier, ...]
    exchanges: tuple[Exchange, ...]
    left_out: int


class Transcripts:
    """Threads that a caller may see."""

    def __init__(self, parts: HttpParts) -> None:
        self._parts = parts
        self._sight = Sight(parts)

    async def list(self, caller: Caller, *, everybody: bool = False, skip: int = 0) -> Threads:
        """The caller's threads with their part of those of groups, or all where administrators read them; and for
        operators how many others have."""
        everybody = everybody and self._sight.reads_all(caller)
        person = None if everybody else caller.person
        limit = SHOWN_THREADS + 1
        found, spent, others = await self._parts.store.read(
            lambda tx: (
                (rows := overview.threads_of(tx, person, limit, skip)),
                overview.spent_by_threads(tx, rows),
                overview.count_others(tx, caller.person) if caller.may("operate") else None,
            )
        )
        return Threads(
            threads=tuple(_listed(row, caller, spent.get(row.thread_id)) for row in found[:SHOWN_THREADS]),
            more=len(found) > SHOWN_THREADS,
            others=None if others is None else Others(**others._asdict(), readable=self._sight.reads_all(caller)),
        )

    async def search(self, caller: Caller, text: str, *, everybody: bool = False) -> Threads:
        """Those of these threads whose title, or one message, has all of the words; the newest SHOWN_THREADS."""
        everybody = everybody and self._sight.reads_all(caller)
        wanted, person = search.words_of(text), None if everybody else caller.person
        async with self._parts.gatekeeper.searching(caller):
            found = await self._parts.store.read(lambda tx: search.threads_with(tx, person, wanted, SHOWN_THREADS + 1))
        threads = [row for row, _ in found]
        spent = await self._parts.store.read(lambda tx: overview.spent_by_threads(tx, threads))
        return Threads(
            threads=tuple(
                replace(_listed(row, caller, spent.get(row.thread_id)), excerpt=excerpt)
                for row, excerpt in found[:SHOWN_THREADS]
            ),
            more=len(found) > SHOWN_THREADS,
            others=None,
        )

    async def read(self, caller: Caller, thread_id: str) -> Transcript:
        """One thread; of a group's thread, for those who may not read all of it, the caller's part. Raises HttpProblem,
        also where it is another person's."""
        found = await self._parts.store.read(lambda tx: overview.thread(tx, thread_id))
        if found is not None and not self._sight.reads(caller, found.owner):
            found = await self._parts.store.read(lambda tx: overview.thread(tx, thread_id, caller.person))
        if found is None:
            raise unknown("thread")
        known, spent = await self._parts.store.read(
            lambda tx: (
                overview.runs_of_thread(tx, found, SHOWN_RUNS),
                overview.spent_by_threads(tx, [found]).get(thread_id),
            )
        )
        thread, left_out = _listed(found, caller, spent), max(0, found.runs - len(known))
        if found.speaker:
            exchanges = tuple(_part(exchange_of(each)) for each in known if not each.row.input.is_blank)
            return Transcript(thread=thread, earlier=(), exchanges=exchanges, left_out=left_out)
        history = await (await self._parts.harness()).history(thread_id)
        return Transcript(
            thread=thread,
            earlier=tuple(_earlier(history, known)) if len(known) < SHOWN_RUNS else (),
            exchanges=tuple(exchange_of(record) for record in known),
            left_out=left_out,
        )


def _listed(found: ThreadFacts, caller: Caller, spent: Spent | None) -> Listed:
    return Listed(
        thread_id=found.thread_id,
        conversation=found.conversation,
        owner=found.owner,
        title=" ".join((found.title or found.begins).split())[:LONGEST_TITLE],
        created_at=found.created_at,
        last_at=found.last_at,
        runs=found.runs,
        current=found.current,
        own=found.owner == caller.person,
        part=bool(found.speaker),
        cost=cost_of([spent] if spent is not None else []),
    )


def cost_of(spent: Iterable[Spent]) -> Cost:
    cost = Cost()
    money: dict[str, float] = {}
    for each in spent:
        total = each.totals
        cost = replace(
            cost,
            input=cost.input + total.input,
            output=cost.output + total.output,
            cached=cost.cached + total.cached,
            calls=cost.calls + total.calls,
        )
        for currency, nano in each.costs.items():
            money[currency] = money.get(currency, 0.0) + nano / NANO
    return replace(cost, money=money)


def _earlier(history: list[HistoryEntry], known: list[RunRecord]) -> list[Earlier]:
    """The messages before the oldest known exchange; all of them where none is known."""
    ids = {each.row.input.message_id for each in known}
    first = next((place for place, entry in enumerate(history) if entry.message_id in ids), len(history))
    return [Earlier(role=entry.role, text=entry.text) for entry in history[: first if ids else len(history)]]


def exchange_of(record: RunRecord) -> Exchange:
    row, told = record.row, _Told(record)
    given = row.input
    ended = row.ended_at
    return Exchange(
        run_id=row.run_id,
        event_id=row.inbox_ids[0] if row.inbox_ids else 0,
        at=row.created_at,
        person=row.speaker,
        name=row.context.speaker.display_name,
        words=given.words,
        heard=tuple(each.words for each in given.steered),
        quote=given.quote,
        files=tuple(file.name for file in given.whole.files),
        state=str(row.state),
        detail=record.detail,
        scheduled=bool(row.context.schedule),
        model=row.context.model,
        models=tuple(record.spent),
        steps=tuple(told.steps),
        answer=told.answer,
        whole=told.whole,
        failure=told.failure,
        presented=tuple(dict.fromkeys(told.files)),
        first_words=_seconds(record.first_words),
        slot_wait=_seconds(record.slot_wait),
        seconds=(ended - row.started_at).total_seconds() if ended and row.started_at else None,
        cost=cost_of(record.spent.values()),
    )


def _part(exchange: Exchange) -> Exchange:
    """A group member's view of their own exchange: their words and the answer. Its other contents may be based on what
    others said."""
    return replace(exchange, quote="", steps=())


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


class _Told:
    """A run's events folded: the steps in order, and then the answer."""

    def __init__(self, record: RunRecord) -> None:
        self.steps: list[Step] = []
        self.answer = ""
        self.whole = False
        self.failure = ""
        self.files: list[str] = []
        self._record = record
        self._texts: dict[str, int] = {}
        self._open: dict[str, int] = {}
        for _, body in record.events:
            self._add(RUN_EVENT.validate_json(body))
        self._add_approvals()
        self._end()

    def _add(self, event: object) -> None:
        match event:
            case TextDelta():
                self._say(event)
            case TextReset() if event.message_id in self._texts:
                place = self._texts.pop(event.message_id)
                self.steps[place] = replace(self.steps[place], text="")
            case ToolStarted():
                self._begin(event.call_id, Step(kind="tool", title=event.tool, text=event.description or event.summary))
            case ToolEnded():
                self._finish(event.call_id, ok=event.ok)
            case SubagentStarted():
                # It says more than the call that began it.
                self._begin(event.call_id, Step(kind="subagent", title=event.subagent, text=event.description))
            case SubagentEnded():
                self._finish(event.call_id, ok=event.state is SubagentState.COMPLETED, seconds=float(event.seconds))
            case TodosChanged():
                done = sum(str(state) == "completed" for _, state in event.todos)
                self.steps.append(Step(kind="plan", text=f"{done}/{len(event.todos)}"))
            case ModelRetrying():
                self._retry(Step(kind="retry", title=str(event.kind), text=str(event.attempt)))
            case Notice():
                self.steps.append(Step(kind="notice", title=event.kind, text=event.model))
            case Resumed():
                self.steps.append(Step(kind="resumed", text=str(event.attempt)))
            case Question():
                self.steps.append(Step(kind="question", text=", ".join(event.options)))
            case FileReady():
                self.files.append(event.file.name)
            case Finished():
                self.answer, self.whole = event.text, True
                self.files += [file.name for file in event.files]
                self._texts.pop(event.message_id, None) if not event.text else self._drop_text(event.message_id)
            case Failed():
                self.failure = str(event.kind)
            case _:
                pass

    def _say(self, event: TextDelta) -> None:
        place = self._texts.get(event.message_id)
        if place is None:
            self._texts[event.message_id] = len(self.steps)
            self.steps.append(Step(kind="text", text=event.text))
        else:
            self.steps[place] = replace(self.steps[place], text=self.steps[place].text + event.text)

    def _drop_text(self, message_id: str) -> None:
        """Drop the text of the answer itself, which is no step."""
        place = self._texts.pop(message_id, None)
        if place is not None:
            self.steps[place] = replace(self.steps[place], text="")

    def _begin(self, call_id: str, step: Step) -> None:
        place = self._open.get(call_id)
        if place is None:
            self._open[call_id] = len(self.steps)
            self.steps.append(step)
        else:
            self.steps[place] = step

    def _finish(self, call_id: str, *, ok: bool, seconds: float | None = None) -> None:
        place = self._open.get(call_id)
        if place is None:
            return
        known = self.steps[place]
        began, done = self._record.calls.get(call_id, (None, None))
        if seconds is None and began is not None and done is not None:
            seconds = round((done - began).total_seconds(), 3)
        ok = ok if known.ok is None else known.ok and ok
        self.steps[place] = replace(known, ok=ok, seconds=known.seconds if seconds is None else seconds)

    def _retry(self, step: Step) -> None:
        if not self.steps or self.steps[-1] != step:  # a long pause is reported several times
            self.steps.append(step)

    def _add_approvals(self) -> None:
        for tool, shown, decision in self._record.asked:
            ok = None if decision is None else decision in ("once", "chat")
            self.steps.append(Step(kind="approval", title=tool, text=f"{decision or 'open'}: {shown}", ok=ok))

    def _end(self) -> None:
        """Use the last text as the answer, as far as it came, where the run has none."""
        if not self.answer and self._texts:
            place = max(self._texts.values())
            self.answer = self.steps[place].text
            self.steps[place] = replace(self.steps[place], text="")
        self.steps = [step for step in self.steps if step.kind != "text" or step.text.strip()]
