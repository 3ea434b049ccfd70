"""A run's events as a stream of server-sent events in LangGraph's modes.

An event's id is `<process>-<number>-<place>`: the epoch of the process, the number of the run's own event, and the
place among the frames made from that. So a client that reconnects gets what it missed, as far as that is kept;
otherwise an event `gap` reports the loss and holds the run's current messages.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from bot.http.api.runs import LOOK_AGAIN_SECONDS, file_json
from bot.http.api.telling import CALLS, ToldMessages, chunk, removed
from bot.http.api.threads import values_of
from bot.store.rows import RunState
from channels.supervision import within
from harness.events import (
    RUN_EVENT,
    ApprovalRequested,
    Failed,
    FileReady,
    Finished,
    ReasoningDelta,
    Resumed,
    TextDelta,
    TextReset,
    TodosChanged,
    ToolEnded,
    ToolStarted,
    Usage,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Mapping

    from bot.http.api.runs import Runs
    from bot.http.api.threads import Interrupts, Threads
    from bot.redaction import Redactor
    from bot.runs.following import RunStream
    from bot.store.programs import ProgramThread
    from bot.store.rows import RunRow
    from harness.context import ThreadView
    from harness.events import AnyRunEvent

KEPT, UPDATES, VALUES, MESSAGES, CUSTOM, INTERRUPT, ERROR, END = range(1, 9)
"""Places of the frames made from one event, in order. KEPT: messages that are complete; MESSAGES: those that grow."""
BEGINNING = "-1"
"""The Last-Event-ID that requests all that is kept."""
Node = Literal["model", "tools"]
_ID = re.compile(r"(\d{1,18})-(\d{1,18})-(\d)")
TOLD_OTHERWISE = (TextDelta, TextReset, ReasoningDelta, ApprovalRequested, Failed)
CHANGES = (ToolEnded, TodosChanged, Usage)
STATE_CHANGES = (ToolStarted, TextDelta, ReasoningDelta, Finished)
"""Events before which the thread may have a new state, once one of CHANGES has occurred: a tool begins after the
message that calls it was stored, and the model speaks after the results were."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a run's stream, ordered within a process."""

    epoch: int
    seq: int
    place: int

    def __str__(self) -> str:
        return f"{self.epoch}-{self.seq}-{self.place}"

    @classmethod
    def read(cls, text: str | None) -> Position | None:
        """The position in an id; None where it is none of ours."""
        found = _ID.fullmatch(text or "")
        return None if found is None else cls(*map(int, found.groups()))


@dataclass(frozen=True, slots=True)
class Frame:
    """One server-sent event. data: JSON types. more: another one with the same id follows, so that a client that has
    only this one gets both again."""

    event: str
    data: Any
    id: str = ""
    more: bool = False


class RunReader:
    """Follows one run for one client.

    modes: what is sent. after: the Last-Event-ID of a client that reconnects. whole: from the run's beginning, else
    from now on. resumed: the run continues after a decision that was just made, so that it no longer waits.
    """

    def __init__(
        self,
        runs: Runs,
        threads: Threads,
        thread: ProgramThread,
        row: RunRow,
        modes: Collection[str],
        redact: Redactor,
        *,
        after: str | None = None,
        whole: bool = False,
        resumed: bool = False,
    ) -> None:
        self._runs = runs
        self._threads = threads
        self._thread = thread
        self._row = row
        self._run_id = str(uuid.UUID(row.run_id))
        self._modes = frozenset(modes)
        self._after = Position.read(after)
        self._returns = bool(after) and after != BEGINNING
        self._whole = whole or after == BEGINNING
        self._resumed = resumed
        self._seq = 0
        self._told = ToldMessages(redact)
        self._seen: dict[str, Any] | None = None
        self._changed = True

    async def frames(self) -> AsyncGenerator[Frame, None]:
        """All events, until the run has ended or waits for a person; without `end` where the process stops first."""
        yield Frame(
            "metadata", {"run_id": self._run_id, "thread_id": self._thread.name, "attempt": max(1, self._row.attempt)}
        )
        followed = False
        while True:
            stream = await self._stream()
            if stream is not None:
                followed = True
                async for frame in self._live(stream):
                    yield frame
            self._row = await self._runs.load(self._row.run_id)
            if self._row.state.ended or await self._runs.waits(self._row):
                if not followed:
                    async for frame in self._missed(None):
                        yield frame
                async for frame in self._last():
                    yield frame
                return
            if stream is not None and stream.phase == "ended":
                return  # it is put aside: the process stops, and the client reconnects to the next one

    async def _stream(self) -> RunStream | None:
        """The event stream of the run, as soon as it works; None where it does not work here, and will not."""
        with self._runs.following.watch(self._row.conversation) as changed:
            while True:
                changed.clear()
                if (stream := self._runs.following.of(self._row.run_id)) is not None:
                    return stream
                row = await self._runs.load(self._row.run_id)
                if row.state.ended or self._runs.following.of(row.run_id) is not None:
                    return self._runs.following.of(row.run_id)
                await within(LOOK_AGAIN_SECONDS, changed.wait())

    # While it runs.

    async def _live(self, stream: RunStream) -> AsyncGenerator[Frame, None]:
        self._told.begin(stream.before)
        async for frame in self._started(stream):
            yield frame
        while True:
            version, phase = stream.version, stream.phase
            if 0 < self._seq < stream.floor:
                self._returns = True  # like a client that was away: it read too slowly
                async for frame in self._missed(stream):
                    yield frame
            for event in stream.since(self._seq):
                async for frame in self._of(event):
                    if self._is_new(frame):
                        yield frame
                self._seq = event.seq
            if phase == "ended" or (phase == "waiting" and (not self._resumed or await self._still_waits())):
                return
            await stream.newer(version)

    async def _still_waits(self) -> bool:
        return bool(await self._runs.waits(await self._runs.load(self._row.run_id)))

    def _is_new(self, frame: Frame) -> bool:
        after, own = self._after, Position.read(frame.id)
        return (
            after is None or own is None or own.epoch != after.epoch or (own.seq, own.place) > (after.seq, after.place)
        )

    async def _started(self, stream: RunStream) -> AsyncGenerator[Frame, None]:
        """Set the place from which events are sent to the client, and report what cannot be sent."""
        after, kept = self._after, stream.kept()
        newest = kept[-1].seq if kept else stream.floor
        if self._returns and (after is None or after.epoch != self._runs.epoch or after.seq < stream.floor):
            await self._pass(kept, newest)
            async for frame in self._missed(stream):
                yield frame
        elif after is not None:
            await self._pass(kept, after.seq - 1)
        elif self._whole and not stream.floor:
            self._seq = 0
        else:
            await self._pass(kept, newest)
            async for frame in self._state(newest):
                yield frame
            for frame in self._so_far(newest):
                yield frame

    async def _pass(self, kept: Collection[AnyRunEvent], seq: int) -> None:
        """Take account of the events up to that number without sending them."""
        passed = [event for event in kept if event.seq <= seq]
        if self._tells_messages and any(isinstance(event, CALLS) for event in passed):
            self._told.know(await self._view())
        for event in passed:
            self._told.take(event)
        self._seq = max(seq, 0)

    async def _missed(self, stream: RunStream | None) -> AsyncGenerator[Frame, None]:
        """Replace events that are not kept any more by the current messages of the turn."""
        after, self._after = self._after, None
        kept = () if stream is None else stream.kept()
        if stream is None:
            stored = await self._stored()
            self._seq = max((event.seq for event in stored), default=0)
            if self._whole and not self._returns:
                self._told.know(await self._view() if self._tells_messages else None)
                for event in stored:
                    async for frame in self._of(event):
                        yield frame
                return
            if after is not None and after.epoch == self._runs.epoch and after.seq >= self._seq:
                self._seq, self._after = after.seq, after
                return
        elif self._seq < stream.floor:
            after = Position(self._runs.epoch, self._seq, END)
            self._told.begin(stream.before)
            await self._pass(kept, kept[-1].seq if kept else stream.floor)
        # Only the last one has an id: a client that has a part of them gets all of them again.
        place, held = str(Position(self._runs.epoch, self._seq, CUSTOM)), None
        async for frame in self._instead(after, kept):
            if held is not None:
                yield replace(held, more=True)
            held = replace(frame, id=place)
        if held is not None:
            yield held

    async def _instead(self, after: Position | None, kept: tuple[AnyRunEvent, ...]) -> AsyncGenerator[Frame, None]:
        """The replacement for events that are not kept: those that are stored, and the turn as it is."""
        view = await self._view()
        told = [] if view is None else _messages_of(self._row, view)
        if self._returns:
            known = {event.seq: event for event in (*(await self._stored()), *kept)}
            for event in _behind([known[seq] for seq in sorted(known)], after, self._runs.epoch):
                if "custom" in self._modes and not isinstance(event, TOLD_OTHERWISE):
                    yield self._frame("custom", _custom(event), event.seq, CUSTOM)
            data = {"run_id": self._run_id, "reason": "events before this are no longer kept", "messages": told}
            yield self._frame("gap", data, self._seq, CUSTOM)
        elif self._tells_messages and not kept:
            for message in told:
                yield self._messages(message, self._seq)
        async for frame in self._state(self._seq, always=True):
            yield frame
        for frame in self._so_far(self._seq):
            yield frame

    async def _stored(self) -> list[AnyRunEvent]:
        return [RUN_EVENT.validate_json(body) for _, _, body in await self._runs.events(self._row)]

    def _so_far(self, seq: int) -> Iterator[Frame]:
        """The text of the message in progress, for a client that joins in the middle of it."""
        if not self._tells_messages or (making := self._told.in_the_making()) is None:
            return
        message_id, text = making
        if self._returns:
            yield self._messages(removed(message_id), seq, more=True)
        yield self._messages(chunk(message_id, text), seq)

    # One event.

    async def _of(self, event: AnyRunEvent) -> AsyncGenerator[Frame, None]:
        if self._tells_messages:
            if self._told.needs_thread(event):
                self._told.know(await self._view())
            for frame in self._all_of(self._told.kept(event), event.seq, KEPT):
                yield frame
        if isinstance(event, STATE_CHANGES) and (self._changed or isinstance(event, ToolStarted)):
            async for frame in self._state(event.seq):
                yield frame
        self._changed = isinstance(event, CHANGES) or (self._changed and not isinstance(event, STATE_CHANGES))
        if self._tells_messages:
            for frame in self._all_of(self._told.growing(event), event.seq, MESSAGES):
                yield frame
        if "custom" in self._modes and not isinstance(event, TOLD_OTHERWISE):
            yield self._frame("custom", _custom(event), event.seq, CUSTOM)

    @property
    def _tells_messages(self) -> bool:
        return "messages-tuple" in self._modes

    def _all_of(self, messages: Iterable[Mapping[str, Any]], seq: int, place: int) -> Iterator[Frame]:
        every = list(messages)
        for number, message in enumerate(every, 1):
            yield self._messages(message, seq, place, more=number < len(every))

    def _messages(self, message: Mapping[str, Any], seq: int, place: int = MESSAGES, *, more: bool = False) -> Frame:
        about = {
            "run_id": self._run_id,
            "thread_id": self._thread.name,
            "assistant_id": self._row.context.agent,
            "graph_id": self._row.context.agent,
            "langgraph_node": "tools" if message["type"] == "tool" else "model",
        }
        return replace(self._frame("messages", [dict(message), about], seq, place), more=more)

    def _frame(self, event: str, data: Any, seq: int, place: int) -> Frame:
        return Frame(event, data, str(Position(self._runs.epoch, seq, place)))

    # The thread's state.

    async def _view(self) -> ThreadView | None:
        return next(iter(await self._threads.views(self._thread)), None)

    async def _state(self, seq: int, *, always: bool = False) -> AsyncGenerator[Frame, None]:
        """Changes of the thread. always: its values even if nothing has changed."""
        if not self._modes & {"values", "updates"}:
            return
        view = await self._view()
        if view is None:
            return
        values, before = values_of(view), self._seen
        if before is None and self._whole and not self._returns:
            own = {id(message) for message in _messages_of(self._row, view)}
            before = {"messages": [each for each in values["messages"] if id(each) not in own]}  # as the run found it
        self._seen = values
        if "updates" in self._modes and before is not None:
            updates = list(_updates(before, values))
            for number, (node, update) in enumerate(updates, 1):
                frame = self._frame("updates", {node: update}, seq, UPDATES)
                yield replace(frame, more=number < len(updates))
        if "values" in self._modes and (always or values != before):
            yield self._frame("values", values, seq, VALUES)

    # Its end.

    async def _last(self) -> AsyncGenerator[Frame, None]:
        seq, row = self._seq, self._row
        async for frame in self._state(seq):
            if self._is_new(frame) or frame.event == "values":
                yield frame
        waits = await self._interrupts(row)
        if waits:
            if "updates" in self._modes:
                yield self._frame("updates", {"__interrupt__": waits}, seq, INTERRUPT)
            if "values" in self._modes:
                values = {**(self._seen or {}), "__interrupt__": waits}
                yield self._frame("values", values, seq, INTERRUPT)
        problem = await self._runs.problem(row)
        if problem is not None:
            yield self._frame("error", {"error": problem.code, "message": problem.message}, seq, ERROR)
        yield self._frame("end", None, seq, END)

    async def _interrupts(self, row: RunRow) -> Interrupts:
        if row.state is RunState.WAITING:
            return await self._threads.approvals(row)
        return await self._threads.question(row)


def _behind(events: list[AnyRunEvent], after: Position | None, epoch: int) -> list[AnyRunEvent]:
    """The events missing at a client that has all up to `after`. Not all that an earlier process sent was stored when
    it died, and the next one continued behind that with the same numbers."""
    last = 0 if after is None else after.seq
    if after is not None and after.epoch != epoch:
        last = min(last, max((event.seq for event in events if isinstance(event, Resumed)), default=last + 1) - 1)
    return [event for event in events if event.seq > last]


def _custom(event: AnyRunEvent) -> dict[str, Any]:
    """An event of the run, without data meant for this machine."""
    told: dict[str, Any] = RUN_EVENT.dump_python(event, mode="json")
    if isinstance(event, FileReady):
        told["file"] = file_json(event.file)
    if isinstance(event, Finished):
        told["files"] = [file_json(file) for file in event.files]
    return told


def _messages_of(row: RunRow, view: ThreadView) -> list[dict[str, Any]]:
    """The messages that a run has added to its thread: none of later runs, none written by programs afterwards."""
    found: list[dict[str, Any]] = []
    calls: set[str] = set()
    goes_on = False
    for message in view.messages:
        if message["type"] == "human":
            goes_on = message["id"] == row.input.message_id
        elif (message["id"] or "").startswith(f"{row.run_id}-") or message.get("tool_call_id") in calls:
            goes_on = True
            calls |= {call["id"] for call in message.get("tool_calls", ())}
            found.append(message)
        elif message["id"] is None and goes_on:  # the note that an answer was cut off
            found.append(message)
    return found


def _updates(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[Node, dict[str, Any]]]:
    """The additions of nodes, by node, in order. The plan is the work of a tool."""
    known = {message["id"] for message in before["messages"]}
    added: list[tuple[Node, dict[str, Any]]] = []
    for message in now["messages"]:
        if message["id"] in known or message["type"] == "human":
            continue
        node: Node = "tools" if message["type"] == "tool" else "model"
        if not added or added[-1][0] != node:
            added.append((node, {"messages": []}))
        added[-1][1]["messages"].append(message)
    if (plan := now.get("todos", [])) != before.get("todos", []):
        own = next((update for node, update in reversed(added) if node == "tools"), None)
        if own is None:
            added.append(("tools", {"todos": plan}))
        else:
            own["todos"] = plan
    yield from added
