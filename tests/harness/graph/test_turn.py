"""Text as it streams: thinking apart, surrogate pairs whole, nothing lost."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessageChunk

from harness.events import ReasoningDelta, TextDelta
from harness.graph.messages import split_thinking
from harness.graph.signals import CallStarted
from harness.graph.turn import TextStream, Turn
from harness.text.plain import clean_text


def pieces(text: str, cuts: list[int]) -> list[str]:
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    return [text[a:b] for a, b in itertools.pairwise(places)]


def streamed(parts: list[str]) -> tuple[str, str]:
    stream, thought, text = TextStream(), "", ""
    for part in parts:
        more_thought, more_text = stream.feed(part)
        thought += more_thought
        text += more_text
    return thought, text + stream.end()


CUTS = st.lists(st.integers(0, 60), max_size=8)


@given(text=st.text(max_size=50), cuts=CUTS)
def test_plain_text_comes_through_however_it_is_cut(text: str, cuts: list[int]) -> None:
    if not text.lstrip().startswith("<think>"):
        assert streamed(pieces(text, cuts)) == ("", clean_text(text))


@given(
    thought=st.text(st.characters(exclude_characters="<", codec="utf-8"), max_size=20),
    text=st.text(max_size=20),
    cuts=CUTS,
)
def test_a_think_block_is_parted_however_it_is_cut(thought: str, text: str, cuts: list[int]) -> None:
    whole = f"<think>{thought}</think>{text}"
    found_thought, found_text = streamed(pieces(whole, cuts))
    assert found_thought == clean_text(thought)
    assert found_text.lstrip() == clean_text(text.lstrip()).lstrip()
    assert split_thinking(whole) == (thought.strip(), text.lstrip())


def test_an_emoji_in_two_halves_is_put_together() -> None:
    assert streamed(["a\ud83d", "\ude00b"]) == ("", "a😀b")
    assert streamed(["a\ud83d", "b"]) == ("", "a\ufffdb")


def test_thinking_that_never_ends_is_no_text() -> None:
    assert streamed(["<think>hm", "m, </thin"]) == ("hmm, ", "")


def test_blocks_of_other_vendors() -> None:
    turn = Turn("r1", 5)
    list(turn.events("custom", CallStarted("r1-1")))
    chunk = AIMessageChunk(
        content=[{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "yes"}, {"type": "tool_use"}]
    )
    assert list(turn.events("messages", (chunk, {"langgraph_node": "model"}))) == [
        ReasoningDelta(run_id="r1", seq=5, message_id="r1-1", text="hm"),
        TextDelta(run_id="r1", seq=6, message_id="r1-1", text="yes"),
    ]


def test_other_nodes_are_not_told() -> None:
    turn = Turn("r1", 1)
    assert list(turn.events("messages", (AIMessageChunk(content="secret"), {"langgraph_node": "tools"}))) == []
