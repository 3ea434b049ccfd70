"""What a client of the API is told of a run: its events in order, each once, secrets never, gaps said."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.http.api.stream import Position, RunReader, ToldText, _updates
from bot.redaction import Redactor
from bot.runs import following
from bot.runs.following import Following
from bot.store.programs import ProgramThread
from bot.store.rows import RunRow, RunState
from channels.message import Address
from harness.context import RunContext, RunInput, Speaker, ThreadView
from harness.events import RUN_EVENT, Finished, Outcome, TextDelta, TextReset, ToolStarted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.http.api.stream import Frame
    from harness.ports import AnyRunEvent

SECRET = "sk-0123456789"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUN = "0" * 32
PIECES = st.lists(st.sampled_from(["sk-", "0123", "456789", "sk-0", " words ", "s", "é"]), max_size=12)


def told(text: ToldText, pieces: Sequence[str], *, end: bool = True) -> str:
    """What a client holds after these pieces."""
    held = ""
    for piece in pieces:
        for each in text.feed(piece):
            held = "" if each is None else held + each
    for each in text.end() if end else ():
        held = "" if each is None else held + each
    return held


@given(PIECES)
def test_a_secret_is_never_told_and_the_rest_wholly(pieces: list[str]) -> None:
    redact = Redactor([SECRET])
    assert SECRET not in told(ToldText(redact), pieces, end=False)
    assert told(ToldText(redact), pieces) == redact("".join(pieces))


@given(PIECES, PIECES)
def test_a_text_that_is_told_once_more_ends_as_it_is(first: list[str], again: list[str]) -> None:
    redact, held = Redactor([SECRET]), ""
    text = ToldText(redact)
    held = told(text, first, end=False)
    text.again()
    for each in [*(each for piece in again for each in text.feed(piece)), *text.end()]:
        held = "" if each is None else held + each
    assert held == redact("".join(again))


def test_the_same_text_once_more_is_not_told_again() -> None:
    text = ToldText(Redactor([]))
    assert list(text.feed("Hello")) == ["Hello"]
    text.again()
    assert list(text.feed("Hel")) == []
    assert list(text.feed("lo there")) == [" there"]


def test_positions_are_read_back_and_nothing_else_is() -> None:
    position = Position(3, 17, 2)
    assert Position.read(str(position)) == position
    for text in (None, "", "-1", "3-17", "3-17-2-1", "a-b-c", "9" * 40):
        assert Position.read(text) is None


def test_updates_name_the_node_of_each_message_in_order() -> None:
    before = {"messages": [{"id": "1", "type": "human"}]}
    added = [
        {"id": "2", "type": "ai"},
        {"id": "3", "type": "tool"},
        {"id": "4", "type": "tool"},
        {"id": "5", "type": "ai"},
    ]
    now = {"messages": [*before["messages"], *added], "todos": [{"content": "x", "status": "pending"}]}
    found = list(_updates(before, now))
    assert [node for node, _ in found] == ["model", "tools", "model"]
    assert found[1][1] == {"messages": added[1:3], "todos": now["todos"]}


@dataclass
class Runs:
    """The store and the runs, as far as a reader asks them."""

    row: RunRow
    following: Following = field(default_factory=Following)
    epoch: int = 7
    stored: list[AnyRunEvent] = field(default_factory=list)

    async def load(self, run_id: str) -> RunRow:
        return self.row

    async def waits(self, row: RunRow) -> list[Any]:
        return []

    async def problem(self, row: RunRow) -> None:
        return None

    async def events(self, row: RunRow) -> list[tuple[int, str, str]]:
        return [(event.seq, event.type, RUN_EVENT.dump_json(event).decode()) for event in self.stored]


def message(message_id: str | None, kind: str, content: str, **more: Any) -> dict[str, Any]:
    return {"id": message_id, "type": kind, "content": content} | more


ANSWERED = (message("m1", "human", "Q"), message(f"{RUN}-1", "ai", "A"))


@dataclass
class Threads:
    """A thread that holds a question and an answer. run_id: of what was written into it last, "" for a program."""

    run_id: str = RUN
    messages: tuple[dict[str, Any], ...] = ANSWERED

    async def views(self, thread: ProgramThread) -> list[ThreadView]:
        return [
            ThreadView(
                checkpoint_id="c",
                parent_id=None,
                created_at="",
                run_id=self.run_id,
                step=1,
                open=False,
                messages=self.messages,
            )
        ]

    async def question(self, row: RunRow) -> list[Any]:
        return []


THREAD = ProgramThread(key="api:x-1", person="api:x", name="1", created_at=NOW, updated_at=NOW)


@pytest.fixture
def runs() -> Runs:
    context = RunContext(
        thread_id="t",
        run_id=RUN,
        account="api",
        conversation=THREAD.key,
        owner="api:x",
        speaker=Speaker(id="api:x", display_name=""),
        is_group=False,
        locale="en",
        model="main",
    )
    row = RunRow(
        run_id=RUN,
        thread_id="t",
        conversation=THREAD.key,
        speaker="api:x",
        inbox_ids=(1,),
        reply_key=RUN,
        address=Address(account="api", chat="x-1"),
        reply_to=None,
        context=context,
        input=RunInput(message_id="m1", text="Q"),
        epoch=7,
        created_at=NOW,
        state=RunState.SUCCESS,
    )
    made = Runs(row)
    made.following.accounts = frozenset({"api"})
    return made


def delta(seq: int, text: str, message: int = 1) -> TextDelta:
    return TextDelta(run_id=RUN, seq=seq, message_id=f"{RUN}-{message}", text=text)


def finished(seq: int, text: str = "A") -> Finished:
    return Finished(run_id=RUN, seq=seq, outcome=Outcome.SUCCESS, text=text, message_id=f"{RUN}-1")


async def read(runs: Runs, *modes: str, threads: Threads | None = None, **options: Any) -> list[Frame]:
    reader = RunReader(runs, threads or Threads(), THREAD, runs.row, modes, Redactor([SECRET]), **options)  # type: ignore[arg-type]  # stand-ins with what it asks for
    async with aclosing(reader.frames()) as frames:
        return [frame async for frame in frames]


def text_of(frames: Sequence[Frame]) -> str:
    return "".join(frame.data[0]["content"] for frame in frames if frame.event == "messages")


def tell(runs: Runs, *events: AnyRunEvent) -> None:
    stream = runs.following.begin(runs.row)
    assert stream is not None
    for event in events:
        stream.tell(event)
    runs.following.end(runs.row)


async def test_events_are_told_in_order_and_the_end_last(runs: Runs) -> None:
    tell(runs, delta(1, "A"), delta(2, "B"), finished(3, "AB"))
    frames = await read(runs, "messages-tuple", "custom", "values", whole=True)
    assert text_of(frames) == "AB"
    assert (frames[0].event, frames[-1].event) == ("metadata", "end")
    positions = [Position.read(frame.id) for frame in frames if frame.id]
    assert None not in positions
    order = [(each.seq, each.place) for each in positions if each is not None]
    assert order == sorted(set(order))


@pytest.mark.parametrize("cut", range(1, 8))
async def test_whoever_comes_back_gets_the_rest_once(runs: Runs, cut: int) -> None:
    tell(runs, delta(1, "A"), delta(2, "B"), delta(3, SECRET[:5]), delta(4, SECRET[5:]), delta(5, "C"), finished(6))
    whole = await read(runs, "messages-tuple", "custom", "values", whole=True)
    known = [frame for frame in whole if frame.id and not frame.more][:cut]
    rest = await read(runs, "messages-tuple", "custom", "values", after=known[-1].id)
    later = whole[whole.index(known[-1]) + 1 :]
    assert later == rest[1:]
    assert "gap" not in {frame.event for frame in rest}


async def test_an_id_of_another_process_is_a_gap_with_the_turn_as_it_is(runs: Runs) -> None:
    tell(runs, delta(1, "A"), finished(2))
    frames = await read(runs, "values", after="6-40-3")
    assert [frame.event for frame in frames] == ["metadata", "gap", "values", "end"]
    assert [message["content"] for message in frames[1].data["messages"]] == ["A"]


CALL = message(f"{RUN}-1", "ai", "", tool_calls=[{"id": "c1", "name": "ls", "args": {}}])
RESULT = message("t1", "tool", "a.txt", tool_call_id="c1")
NOTED = message("note", "ai", "Written by a program.")


@pytest.mark.parametrize(
    ("written", "own"),
    [
        ((*ANSWERED, NOTED), ["A"]),
        ((*ANSWERED, message("asked", "human", "And?"), NOTED), ["A"]),
        ((ANSWERED[0], CALL, RESULT, message(f"{RUN}-2", "ai", "One."), NOTED), ["", "a.txt", "One."]),
        ((ANSWERED[0], message(None, "ai", "Cut o"), NOTED), ["Cut o"]),
        ((message("m0", "human", "Before"), message(f"{'1' * 32}-1", "ai", "Earlier.")), []),
    ],
)
async def test_what_programs_wrote_afterwards_is_not_told_as_the_runs_words(
    runs: Runs, written: tuple[dict[str, Any], ...], own: list[str]
) -> None:
    threads = Threads(run_id="", messages=written)
    tell(runs, delta(1, "A"), finished(2))
    frames = await read(runs, "updates", "values", after="6-40-3", threads=threads)
    (gap,) = [frame.data for frame in frames if frame.event == "gap"]
    assert [each["content"] for each in gap["messages"]] == own
    assert frames[-2].data["messages"] == list(written), "the thread's values are told as they are"

    frames = await read(runs, "updates", whole=True, threads=threads)
    updates = [update["messages"] for frame in frames if frame.event == "updates" for update in frame.data.values()]
    assert [each["content"] for messages in updates for each in messages] == own


async def test_what_is_not_kept_any_more_is_a_gap(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "KEPT_EVENTS", 3)
    tell(runs, *(delta(seq, str(seq)) for seq in range(1, 9)))
    frames = await read(runs, "messages-tuple", after="7-2-3")
    assert [frame.event for frame in frames][:2] == ["metadata", "gap"]
    assert [frame.data[0]["type"] for frame in frames if frame.event == "messages"] == ["remove", "AIMessageChunk"]
    assert text_of(frames) == "12345678"


async def test_a_run_of_an_earlier_process_is_told_from_the_store(runs: Runs) -> None:
    runs.stored = [delta(3, "A"), ToolStarted(run_id=RUN, seq=4, call_id="c", tool="ls", summary=""), finished(5)]
    frames = await read(runs, "messages-tuple", "custom", whole=True)
    assert text_of(frames) == "A"
    assert [frame.data["type"] for frame in frames if frame.event == "custom"] == ["tool_started", "finished"]


async def test_a_message_that_is_asked_for_once_more_takes_the_place_of_what_was_told(runs: Runs) -> None:
    tell(runs, delta(1, "Wrong"), TextReset(run_id=RUN, seq=2, message_id=f"{RUN}-1"), delta(3, "Right"), finished(4))
    frames = await read(runs, "messages-tuple", whole=True)
    kinds = [(frame.data[0]["type"], frame.data[0]["content"]) for frame in frames if frame.event == "messages"]
    assert kinds == [("AIMessageChunk", "Wrong"), ("remove", ""), ("AIMessageChunk", "Right")]


async def test_a_process_that_stops_ends_the_stream_without_an_end(runs: Runs) -> None:
    tell(runs, delta(1, "A"))
    runs.row = replace(runs.row, state=RunState.PENDING)
    frames = await read(runs, "messages-tuple", whole=True)
    assert "end" not in {frame.event for frame in frames}


def test_nothing_is_kept_of_accounts_that_nobody_follows(runs: Runs) -> None:
    runs.following.accounts = frozenset()
    assert runs.following.begin(runs.row) is None
    assert runs.following.of(RUN) is None


def test_who_watches_a_conversation_hears_of_its_changes_only(runs: Runs) -> None:
    with runs.following.watch("api:one") as one, runs.following.watch("api:two") as two:
        runs.following.note("api:one")
        assert (one.is_set(), two.is_set()) == (True, False)
    runs.following.note("api:one")
