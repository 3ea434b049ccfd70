"""Words as they are indexed, and texts cut into passages: pure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.knowledge.passages import passages_of
from harness.knowledge.port import Hit
from harness.knowledge.words import MOST_ASKED, asked_words, words_of
from harness.web.search.merging import fused


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("退款", "客户可以申请退款。"),
        ("退款政策", "政策：三十天内退款"),
        ("茶", "绿茶"),
        ("茶", "茶叶"),
        ("りんご", "青いりんごの木"),
        ("ubergrosse", "Übergröße kostet mehr"),
        ("Übergröße", "UBERGROSSE"),
        ("ＦＴＳ５", "fts5 works"),
        ("флот", "Балтийский Флот"),
    ],
)
def test_what_is_asked_is_found(question: str, text: str) -> None:
    indexed = words_of(text)
    asked = asked_words(question)
    assert any(
        word in indexed if not word.endswith("*") else any(each.startswith(word[:-1]) for each in indexed)
        for word in asked
    )


def test_common_words_are_asked_for_only_alone() -> None:
    assert asked_words("What is the refund?") == ["refund"]
    assert asked_words("who is it") == ["who", "is", "it"]
    assert asked_words("???") == []


@given(st.text())
def test_words_are_letters_and_digits_and_bounded(text: str) -> None:
    assert all(word.isascii() and word.isalnum() for word in words_of(text))
    asked = asked_words(text)
    assert len(asked) <= MOST_ASKED
    assert all(word.rstrip("*").isalnum() for word in asked)


def test_passages_keep_page_and_headings() -> None:
    text = f"# Guide\n\n{'Intro. ' * 40}\n\n## Refunds\n\nWithin thirty days.\f## Fares\n\n{'Cheap. ' * 40}"
    passages = passages_of(text, 400)
    assert [(each.page, each.heading) for each in passages] == [
        (1, "Guide"),
        (1, "Guide › Refunds"),
        (2, "Guide › Fares"),
    ]
    assert "thirty days" in passages[1].text


def test_a_table_keeps_its_head_in_every_part() -> None:
    rows = "\n".join(f"| {year} | {year * 2} |" for year in range(1900, 1990))
    passages = passages_of(f"| Year | Ships |\n| --- | --- |\n{rows}", 400)
    assert len(passages) > 3
    assert all(each.text.startswith("| Year | Ships |\n| --- | --- |\n|") for each in passages)


def test_headings_in_code_are_none() -> None:
    (passage,) = passages_of("# Shell\n\n```\n# no heading\n\nls\n```\n", 400)
    assert passage.heading == "Shell"
    assert "# no heading\n\nls" in passage.text


@given(st.text(alphabet=st.sampled_from("ab .\n#|\f退款。-`"), max_size=600), st.integers(50, 300))
def test_nothing_is_lost_and_nothing_is_too_long(text: str, most: int) -> None:
    passages = passages_of(text, most)
    assert all(len(each.text) <= most * 1.1 + 2 for each in passages)
    kept = "".join("".join(each.text.split()) for each in passages)
    for sign in "ab退款":
        assert kept.count(sign) >= text.count(sign)


def test_rankings_are_fused_by_reciprocal_rank() -> None:
    assert fused([["a", "b", "c"], ["b", "d"]], 3) == ["b", "a", "d"]
    assert fused([[], []], 3) == []


def test_an_address_opens_the_place() -> None:
    def hit(**more: object) -> Hit:
        known = {"key": "1", "collection": "port", "name": "a b.pdf", "text": "The light is green. It blinks."}
        return Hit(**(known | more))  # type: ignore[arg-type]

    assert hit(page=3).address == "knowledge:port/a%20b.pdf#page=3"
    assert hit(url="https://x.org/a.pdf", page=3).address == "https://x.org/a.pdf#page=3"
    assert hit(url="https://x.org/a", heading="Guide › The fares").address == "https://x.org/a#:~:text=The%20fares"
    assert hit(url="https://x.org/a").address == "https://x.org/a#:~:text=The%20light%20is%20green.%20It%20blinks."
    assert hit(url="https://x.org/a#b").address == "https://x.org/a#b"
    assert hit(title="Port", page=3, heading="Fares").place == "Port, page 3, Fares"
