"""Blocks of ours: nobody else writes one, and none comes out."""

from __future__ import annotations

import itertools
import time

from hypothesis import given
from hypothesis import strategies as st

from harness.text.frames import CONTEXT, FRAMES, VisibleStream, framed, neutral, visible

PIECES = st.lists(
    st.sampled_from(
        ["<", "</", ">", "a", " ", "\n", "antler-", "<antler-", "</antler-", "<b>", "x < y", *FRAMES]
        + [f"<{name}>" for name in FRAMES]
        + [f"</{name}>" for name in FRAMES]
    ),
    max_size=25,
).map("".join)


def streamed(text: str, cuts: list[int]) -> tuple[str, list[str]]:
    stream = VisibleStream()
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    shown = [stream.feed(text[a:b]) for a, b in itertools.pairwise(places)]
    return "".join(shown) + stream.end(), shown


@given(text=PIECES, cuts=st.lists(st.integers(0, 120), max_size=12))
def test_a_stream_shows_what_the_whole_text_shows_however_it_is_cut(text: str, cuts: list[int]) -> None:
    assert streamed(text, cuts)[0] == visible(text)


@given(text=PIECES)
def test_foreign_text_opens_and_closes_nothing(text: str) -> None:
    block = framed(CONTEXT, neutral(text))
    assert visible(f"before {block} after") == "before  after"


def test_somebodys_own_xml_stays_as_it_is() -> None:
    code = "<context>\n  <files a='1'/>\n</context>"
    assert visible(code) == neutral(code) == code


def test_a_repeated_block_is_hidden_from_its_first_letter() -> None:
    text = f"You said: hi\n\n{framed(CONTEXT, 'speaker: Ann')} bye"
    whole, shown = streamed(text, list(range(len(text))))
    assert whole == "You said: hi\n\n bye"
    assert not any("<" in piece or "Ann" in piece for piece in shown)


def test_a_text_of_blanks_is_looked_at_once() -> None:
    began = time.process_time()
    neutral("<" + " " * 200_000)
    assert time.process_time() - began < 5  # it took minutes


def test_an_answer_that_repeats_a_tag_is_looked_at_once() -> None:
    for beginning, piece in (("</antler-x>", "if a < b:\n"), ("<antler-x>a</antler-x>", "word "), ("<antler-", "x y ")):
        stream = VisibleStream()
        began = time.process_time()
        shown = [stream.feed(each) for each in (beginning, *[piece] * 20_000)]
        assert time.process_time() - began < 2  # it took up to half a minute
        assert "".join(shown).endswith(piece * 19_999)
