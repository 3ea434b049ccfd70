"""The stream of a chat completion: events however they are cut, and text that arrived together as one chunk."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.utils.json import parse_partial_json

from harness.models.chat_openai import Events, joined, partial_json
from tests.tables import table


def text(content: str, **more: Any) -> dict[str, Any]:
    """A chunk that brings text; `more` goes into its choice."""
    return {"id": "c", "choices": [{"index": 0, "delta": {"content": content}, "finish_reason": None} | more]}


def thought(content: str) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, "delta": {"content": None, "reasoning_content": content}}]}


def texts(chunks: list[Any]) -> list[str]:
    return [chunk["choices"][0]["delta"]["content"] for chunk in chunks]


BODY = (
    b": keep-alive\r\n\r\n"
    b'data: {"a": 1}\r\n\r\n'
    b'event: message\ndata:{"b":\ndata: "\xc3\xa4\xf0\x9f\x98\x80"}\n\n'
    b'data: {"c": 3}\n\n'
    b"data: [DONE]\n\n"
    b'data: {"after": "the end"}\n\n'
)


@given(cuts=st.lists(st.integers(0, len(BODY)), max_size=8))
def test_events_are_the_same_wherever_the_network_cuts(cuts: list[int]) -> None:
    events, places = Events(), [0, *sorted(cuts), len(BODY)]
    found: list[Any] = []
    for start, end in itertools.pairwise(places):
        if not events.done:
            found += events.feed(BODY[start:end])
    assert found == [{"a": 1}, {"b": "ä😀"}, {"c": 3}]
    assert events.done


def test_an_event_that_is_not_finished_is_none() -> None:
    assert list(Events().feed(b'data: {"a": 1}\n')) == []


def test_what_is_not_json_is_an_error() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        list(Events().feed(b"data: <html>\n\n"))
    with pytest.raises(ValueError, match="utf-8"):
        list(Events().feed(b'data: "\xff"\n\n'))


def test_text_that_arrived_together_is_one_chunk() -> None:
    assert texts(list(joined([text("one "), text("two "), text("three")]))) == ["one two three"]


def test_thoughts_and_text_stay_apart() -> None:
    chunks = list(joined([thought("hm"), thought("m"), text("so"), text(" it is")]))
    assert [chunk["choices"][0]["delta"] for chunk in chunks] == [
        {"content": None, "reasoning_content": "hmm"},
        {"content": "so it is"},
    ]


CALL = {"id": "c", "choices": [{"index": 0, "delta": {"content": "x", "tool_calls": [{"index": 0}]}}]}


@table(
    "other",
    [
        text("", finish_reason="stop"),
        text("x", finish_reason="length"),
        text("x", logprobs={"content": []}) | {"usage": {"total_tokens": 1}},
        {"choices": [], "usage": {"total_tokens": 3}},
        {"error": {"message": "overloaded"}},
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
        {"choices": [text("a")["choices"][0], text("b")["choices"][0]]},
        {"choices": [{"index": 0, "delta": {"content": ["no", "text"]}}]},
        CALL,
        {"choices": None},
        [],
        None,
    ],
)
def test_everything_else_passes_as_it_is(other: Any) -> None:
    assert list(joined([text("a"), text("b"), other, text("c"), text("d")])) == [text("ab"), other, text("cd")]


@given(st.lists(st.one_of(st.text(min_size=1), st.none())))
def test_no_text_is_lost_or_moved(pieces: list[str | None]) -> None:
    other = {"choices": [], "usage": {"total_tokens": 3}}
    chunks = list(joined([other if piece is None else text(piece) for piece in pieces]))
    told = "".join("|" if chunk == other else chunk["choices"][0]["delta"]["content"] for chunk in chunks)
    assert told == "".join("|" if piece is None else piece for piece in pieces)


ARGUMENTS = (
    '{"command": "ls -la", "n": [1, 20, {"k": null}], "t": true}',
    '{"a": "x\\n\\"y\\\\"}',
    ' { "nested" : [ [ { } , "" ] , false ] } ',
)


@pytest.mark.parametrize("whole", ARGUMENTS)
def test_arguments_that_end_too_early_are_read_as_langchain_reads_them(whole: str) -> None:
    for end in range(1, len(whole) + 1):
        if not whole[:end].isspace():
            assert partial_json(whole[:end]) == parse_partial_json(whole[:end]), whole[:end]


@table(
    "text, read",
    [
        ('{"path": "/a", "content": "line\nline"}', {"path": "/a", "content": "line\nline"}),
        ('{"a": 1}</tool_call>', {"a": 1}),
        ("", None),
        ("ls -la", None),
        ('{"command": "rm -r x", "really": no', None),
        ('{"n": [1}', {"n": [1]}),
    ],
)
def test_arguments_that_can_be_read_and_others(text: str, read: Any) -> None:
    if read is None:
        with pytest.raises(ValueError, match=r"column \d"):
            partial_json(text)
    else:
        assert partial_json(text) == read


def test_a_long_text_that_ends_too_early_is_kept() -> None:
    text = "some text \\n" * 20_000
    assert partial_json(f'{{"path": "a", "content": "{text}') == {"path": "a", "content": text.replace("\\n", "\n")}
