"""The message reducer: what DeltaChannel needs of it, and what the middlewares write through it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from harness.graph.state import reduce_messages

IDS = st.sampled_from("abcdef")
NEW = st.builds(
    lambda i, text, cls: cls(text, id=i), IDS, st.text(max_size=3), st.sampled_from([HumanMessage, AIMessage])
)
GONE = st.builds(lambda i: RemoveMessage(id=i), st.one_of(IDS, st.just(REMOVE_ALL_MESSAGES)))
WRITE = st.one_of(NEW, GONE, st.lists(st.one_of(NEW, GONE), max_size=4))
WRITES = st.lists(WRITE, max_size=6)


@given(start=WRITES, xs=WRITES, ys=WRITES)
def test_two_batches_equal_their_concatenation(start: list[Any], xs: list[Any], ys: list[Any]) -> None:
    state = reduce_messages([], start)
    assert reduce_messages(reduce_messages(state, xs), ys) == reduce_messages(state, xs + ys)


@given(start=WRITES, xs=WRITES)
def test_the_given_state_is_left_alone_and_ids_stay_unique(start: list[Any], xs: list[Any]) -> None:
    state = reduce_messages([], start)
    before = list(state)
    after = reduce_messages(state, xs)
    assert state == before
    ids = [message.id for message in after]
    assert len(ids) == len(set(ids))
    assert not any(isinstance(message, RemoveMessage) for message in after)


def texts(messages: list[AnyMessage]) -> list[str]:
    return [str(message.content) for message in messages]


def test_replacing_keeps_the_place_and_removing_then_adding_moves_to_the_end() -> None:
    state = reduce_messages([], [[HumanMessage("1", id="a"), HumanMessage("2", id="b")]])
    assert texts(reduce_messages(state, [HumanMessage("new", id="a")])) == ["new", "2"]
    assert texts(reduce_messages(state, [RemoveMessage(id="a"), HumanMessage("new", id="a")])) == ["2", "new"]


def test_remove_all_clears_what_came_before_it_only() -> None:
    state = reduce_messages([], [HumanMessage("old", id="a")])
    write = [HumanMessage("lost", id="b"), RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage("kept", id="a")]
    assert texts(reduce_messages(state, [write])) == ["kept"]


def test_removing_an_unknown_id_does_nothing() -> None:
    assert reduce_messages([HumanMessage("1", id="a")], [RemoveMessage(id="zz")]) == [HumanMessage("1", id="a")]
