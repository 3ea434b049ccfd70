"""What a client of the API is told of a run: its events in order, each once, secrets never, gaps said."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.http.api.stream import Position, RunReader, _updates
from bot.http.api.telling import ToldText
from bot.http.api.threads import state_json
from bot.redaction import Redactor
from bot.runs import following
from bot.runs.following import Following
from bot.store.programs import ProgramThread
from bot.store.rows import RunRow, RunState
from channels.message import Address
from harness.context import RunContext, RunInput, Speaker, ThreadView
from harness.events import RUN_EVENT, Finished, Outcome, Resumed, TextDelta, TextReset, ToolEnded, ToolStarted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.http.api.stream import Frame
    from harness.events import AnyRunEvent

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


@pytest.mark.parametrize(
    ("kept", "open_", "following"),
    [(1, True, ["model"]), (2, True, ["tools"]), (3, True, ["tools"]), (4, True, ["model"]), (7, False, [])],
)
def test_a_state_says_which_node_is_next(kept: int, open_: bool, following: list[str]) -> None:
    view = ThreadView(
        checkpoint_id="c", parent_id=None, created_at="", run_id=RUN, step=1, open=open_, messages=LOOKED[:kept]
    )
    assert state_json("t", view)["next"] == following


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


def ai(number: int, text: str, *calls: str) -> dict[str, Any]:
    """A message of the assistant, with calls by their ids."""
    made = [{"id": each, "name": "look", "args": {"at": each}, "type": "tool_call"} for each in calls]
    usage = {"input_tokens": number, "output_tokens": 1, "total_tokens": number + 1}
    return message(f"{RUN}-{number}", "ai", text, tool_calls=made, usage_metadata=usage)


def result(call: str) -> dict[str, Any]:
    return message(f"r-{call}", "tool", f"seen {call}", tool_call_id=call)


ASKED = message("m1", "human", "Q")
ANSWERED = (ASKED, ai(1, "A"))
LOOKED = (ASKED, ai(1, "AB", "a", "b"), result("a"), result("b"), ai(2, "", "c"), result("c"), ai(3, "C"))


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


async def read(
    runs: Runs, *modes: str, messages: tuple[dict[str, Any], ...] = ANSWERED, run_id: str = RUN, **options: Any
) -> list[Frame]:
    threads = Threads(run_id, messages)
    reader = RunReader(runs, threads, THREAD, runs.row, modes, Redactor([SECRET]), **options)  # type: ignore[arg-type]  # stand-ins with what it asks for
    async with aclosing(reader.frames()) as frames:
        return [frame async for frame in frames]


def text_of(frames: Sequence[Frame]) -> str:
    return "".join(frame.data[0]["content"] for frame in frames if frame.event == "messages")


def started(seq: int, call: str) -> ToolStarted:
    return ToolStarted(run_id=RUN, seq=seq, call_id=call, tool="look", summary="")


def ended(seq: int, call: str) -> ToolEnded:
    return ToolEnded(run_id=RUN, seq=seq, call_id=call, tool="look", ok=True)


LOOKING = (
    *(delta(1, "A"), delta(2, "B"), started(3, "a"), ended(4, "a"), started(5, "b"), ended(6, "b")),
    *(started(7, "c"), ended(8, "c"), delta(9, "C", 3)),
    Finished(run_id=RUN, seq=10, outcome=Outcome.SUCCESS, text="C", message_id=f"{RUN}-3"),
)
"""Two calls one after the other, another round without words, and the answer."""


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
    # The state may come once more: nothing tells whether it was told with the event before.
    assert later == [frame for frame in rest[1:] if frame.event != "values" or frame in later]
    assert "gap" not in {frame.event for frame in rest}


async def test_calls_results_and_tokens_are_told_when_the_thread_holds_them(runs: Runs) -> None:
    tell(runs, *LOOKING)
    frames = await read(runs, "messages-tuple", messages=LOOKED, whole=True)
    found = [frame.data for frame in frames if frame.event == "messages"]
    assert [about["langgraph_node"] == "tools" for _, about in found] == [each["type"] == "tool" for each, _ in found]
    told: list[str] = []
    for message, _ in found:
        calls = [f"{part['index']} {part['name']} {part['args']}" for part in message.get("tool_call_chunks", ())]
        tokens = [f"{message['usage_metadata']['input_tokens']} in"] if message.get("usage_metadata") else []
        told.append(" ".join([message["content"], *calls, *tokens]).strip())
    assert told == [
        *("A", "B", '0 look {"at": "a"} 1 in', '1 look {"at": "b"}', "seen a", "seen b"),
        *('0 look {"at": "c"} 2 in', "seen c", "C", "3 in"),
    ]


@pytest.mark.parametrize("cut", range(1, 16))
async def test_who_comes_back_between_calls_gets_the_rest_once(runs: Runs, cut: int) -> None:
    tell(runs, *LOOKING)
    whole = await read(runs, "messages-tuple", "custom", messages=LOOKED, whole=True)
    known = [frame for frame in whole if frame.id and not frame.more][:cut]
    rest = await read(runs, "messages-tuple", "custom", messages=LOOKED, after=known[-1].id)
    assert whole[whole.index(known[-1]) + 1 :] == rest[1:]


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
    tell(runs, delta(1, "A"), finished(2))
    frames = await read(runs, "updates", "values", after="6-40-3", messages=written, run_id="")
    (gap,) = [frame.data for frame in frames if frame.event == "gap"]
    assert [each["content"] for each in gap["messages"]] == own
    assert frames[-2].data["messages"] == list(written), "the thread's values are told as they are"

    frames = await read(runs, "updates", whole=True, messages=written, run_id="")
    updates = [update["messages"] for frame in frames if frame.event == "updates" for update in frame.data.values()]
    assert [each["content"] for messages in updates for each in messages] == own


async def test_what_is_not_kept_any_more_is_a_gap(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "KEPT_EVENTS", 3)
    tell(runs, *(delta(seq, str(seq)) for seq in range(1, 9)))
    frames = await read(runs, "messages-tuple", after="7-2-3")
    assert [frame.event for frame in frames][:2] == ["metadata", "gap"]
    assert [frame.data[0]["type"] for frame in frames if frame.event == "messages"] == ["remove", "AIMessageChunk"]
    assert text_of(frames) == "12345678"


async def test_stored_events_take_the_place_of_those_that_are_not_kept(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "KEPT_EVENTS", 3)
    tell(runs, *LOOKING)
    runs.stored = [*LOOKING[1:]]
    frames = await read(runs, "custom", after="7-3-5")
    assert [(frame.event, (frame.data or {}).get("call_id")) for frame in frames][1:] == [
        *[("custom", call) for call in ("a", "b", "b", "c", "c")],
        *[("custom", None), ("gap", None), ("end", None)],
    ]
    assert [bool(frame.id and not frame.more) for frame in frames][1:] == [False] * 6 + [True, True]


async def test_of_a_run_that_was_taken_up_again_the_new_events_are_told(runs: Runs) -> None:
    runs.stored = [started(3, "a"), Resumed(run_id=RUN, seq=4, attempt=2), started(5, "b"), finished(6)]
    frames = await read(runs, "custom", after="6-40-5")
    told = [frame.data["type"] for frame in frames if frame.event == "custom"]
    assert told == ["resumed", "tool_started", "finished"]
    frames = await read(runs, "custom", after="7-5-5")
    assert [frame.data["type"] for frame in frames if frame.event == "custom"] == ["finished"]


async def test_a_run_of_an_earlier_process_is_told_from_the_store(runs: Runs) -> None:
    runs.stored = [delta(3, "A"), ToolStarted(run_id=RUN, seq=4, call_id="c", tool="ls", summary=""), finished(5)]
    frames = await read(runs, "messages-tuple", "custom", whole=True)
    assert text_of(frames) == "A"
    assert [frame.data["type"] for frame in frames if frame.event == "custom"] == ["tool_started", "finished"]


async def test_a_message_that_is_asked_for_once_more_takes_the_place_of_what_was_told(runs: Runs) -> None:
    tell(runs, delta(1, "Wrong"), TextReset(run_id=RUN, seq=2, message_id=f"{RUN}-1"), delta(3, "Right"), finished(4))
    frames = await read(runs, "messages-tuple", whole=True)
    kinds = [(frame.data[0]["type"], frame.data[0]["content"]) for frame in frames if frame.event == "messages"]
    assert kinds[:3] == [("AIMessageChunk", "Wrong"), ("remove", ""), ("AIMessageChunk", "Right")]


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
