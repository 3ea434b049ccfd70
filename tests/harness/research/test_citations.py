"""The check of citations: numbers, quotes, links, a model's own list of sources; and the findings for the chat."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from harness.research.citations import check, key_findings
from harness.research.sources import Source, occurs

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def source(number: int, text: str = "") -> Source:
    words = text or f"Tower {number} was painted in 19{number}0, its keepers say."
    return Source(address=f"https://a.example/{number}", title=f"T{number}", texts=(words,), fetched_at=NOW)


SOURCES = [source(number) for number in range(1, 5)]


def test_numbers_follow_the_order_of_the_report() -> None:
    checked = check("Third [3], first [1] and third again [3].", SOURCES)
    assert checked.text == "Third [1], first [2] and third again [1]."
    assert [each.title for each in checked.cited] == ["T3", "T1"]
    assert checked.citations == 3
    assert checked.clean


def test_several_numbers_in_one_pair_of_brackets_are_parted() -> None:
    assert check("Both [1, 2] and [3][4] and [^2].", SOURCES).text == "Both [1][2] and [3][4] and [2]."


def test_a_number_without_a_source_is_taken_out_and_counted() -> None:
    checked = check("True [1]. Made up [9] and [0, 2].", SOURCES)
    assert checked.text == "True [1]. Made up and [2]."
    assert checked.unknown == 2
    assert not checked.clean


def test_a_quote_that_stands_in_its_source_keeps_its_citation() -> None:
    checked = check('They say "painted in 1920, its keepers" [2].', SOURCES)
    assert checked.text.endswith("[1].")
    assert (checked.quotes, checked.misquoted) == (1, ())


@pytest.mark.parametrize(
    "said", ['"painted by giants of old"', "“painted by giants of old”", "「由巨人粉刷而成的塔楼」"]
)
def test_words_that_do_not_stand_in_the_source_lose_their_citation(said: str) -> None:
    checked = check(f"They say {said} [2]. Next [2].", SOURCES)
    assert checked.text == f"They say {said}. Next [1]."
    assert [(each.words, each.number) for each in checked.misquoted] == [(said[1:-1], 1)]


def test_a_quote_may_stand_in_any_of_its_sources() -> None:
    assert check('"painted in 1930" [1][3].', SOURCES).text == '"painted in 1930" [1][2].'


def test_short_words_in_quotation_marks_are_no_quotes() -> None:
    assert check('The "green" tower [1].', SOURCES).quotes == 0


def test_links_to_what_was_read_become_citations_and_others_words() -> None:
    text = "See [one](https://a.example/1/#part), [two](https://evil.example/x), https://a.example/3. End."
    checked = check(text, SOURCES)
    assert checked.text == "See one [1], two, [2]. End."
    assert checked.foreign == ("https://evil.example/x",)


def test_code_is_left_alone() -> None:
    text = "Use `a[1]` and\n```\nx[2] = https://evil.example\n```\nas said [2]."
    checked = check(text, SOURCES)
    assert checked.text == text.replace("said [2]", "said [1]")
    assert checked.foreign == ()


@pytest.mark.parametrize("heading", ["## Sources", "# References:", "### 参考文献", "## Key citations"])
def test_a_list_of_sources_that_the_model_wrote_is_dropped(heading: str) -> None:
    assert check(f"Text [1].\n\n{heading}\n\n1. Invented\n2. https://evil.example", SOURCES).text == "Text [1]."


def test_a_section_that_is_only_called_alike_stays() -> None:
    text = "## Sources of error\n\nMany [1]."
    assert check(text, SOURCES).text == text


def test_pages_with_the_same_content_are_one_source() -> None:
    same = [source(1, "the same"), source(2, "the same")]
    checked = check("A [1], b [2].", same)
    assert checked.text == "A [1], b [1]."
    assert len(checked.cited) == 1
    assert checked.merged == 1


def test_key_findings_are_the_first_list() -> None:
    text = "# T\n\n## Key points\n\n- one [1]\n- two\n* three\n\n## More\n\n- four"
    assert key_findings(text) == ["one [1]", "two", "three"]
    assert key_findings("# T\n\n1. a\n2. b\n3. c\n4. d\n5. e\n6. f") == ["a", "b", "c", "d", "e"]


def test_without_a_list_the_first_paragraphs_stand_for_the_report() -> None:
    assert key_findings("# T\n\nOne.\n\n| a | b |\n\nTwo.") == ["One.", "Two."]


def test_words_occur_whatever_their_blanks_capitals_and_signs() -> None:
    texts = ("It’s — as they\n  said — “Done”.",)
    assert occurs('IT\'S - as they said - "done"', texts)
    assert occurs("It's ... as they said", texts)
    assert not occurs("as they say", texts)
    assert not occurs("...", texts)
