"""The check of citations: numbers, quotes, links, a model's own list of sources; and the findings for the chat."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from harness.research.citations import check, key_findings
from harness.web.sources import ReadPage, Source, hash_of
from tests.tables import table

if TYPE_CHECKING:
    from collections.abc import Collection

    from harness.research.citations import Checked

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Read:
    """Pages that a research has read. texts: of each in turn, with all that was read of it over time."""

    def __init__(self, *texts: str | tuple[str, ...]) -> None:
        self.pages: list[ReadPage] = []
        self.texts: dict[str, str] = {}
        for number, each in enumerate(texts, 1):
            read = (each,) if isinstance(each, str) else each
            self.texts |= {hash_of(text): text for text in read}
            self.pages.append(ReadPage(tuple(source(number, text) for text in read)))

    def check(self, report: str, dead: Collection[int] = (), mark: str = "") -> Checked:
        """dead: numbers of pages."""
        addresses = [f"https://a.example/{number}" for number in dead]
        return check(report, self.pages, self.texts, dead=addresses, mark=mark)


def source(number: int, text: str) -> Source:
    return Source(
        thread_id="t1",
        run_id="r1",
        url=f"http://go.example/{number}",
        address=f"https://a.example/{number}",
        title=f"T{number}",
        kind="text/html",
        fetched_at=NOW,
        sha256=hash_of(text),
        characters=len(text),
    )


READ = Read(*(f"Tower {number} was painted in 19{number}0, its keepers say." for number in range(1, 5)))


def test_numbers_follow_the_order_of_the_report() -> None:
    checked = READ.check("Third [3], first [1] and third again [3].")
    assert checked.text == "Third [1], first [2] and third again [1]."
    assert [each.first.title for each in checked.cited] == ["T3", "T1"]
    assert checked.citations == 3
    assert checked.clean


def test_only_a_list_of_sources_is_taken_out_and_what_stands_behind_it_stays() -> None:
    report = "# T\n\nFirst [1].\n\n## Sources\n\n- [1] Tower 1\n2. https://a.example/2\n\n## Appendix\n\nMore [2]."
    assert READ.check(report).text == "# T\n\nFirst [1].\n\n## Appendix\n\nMore [2]."
    assert READ.check("First [1].\n\n## References\n[1]: https://a.example/1").text.strip() == "First [1]."
    chapter = "First [1].\n\n## 来源\n\n病毒来自别处 [2]。"
    assert READ.check(chapter).text == chapter


def test_several_numbers_in_one_pair_of_brackets_are_parted() -> None:
    assert READ.check("Both [1, 2] and [3][4] and [^2].").text == "Both [1][2] and [3][4] and [2]."


def test_a_number_without_a_source_is_taken_out_and_counted() -> None:
    checked = READ.check("True [1]. Made up [9] and [0, 2].")
    assert checked.text == "True [1]. Made up and [2]."
    assert checked.unknown == 2
    assert not checked.clean


def test_a_quote_that_stands_in_its_source_keeps_its_citation() -> None:
    checked = READ.check('They say "painted in 1920, its keepers" [2].')
    assert checked.text.endswith("[1].")
    assert (checked.quotes, checked.misquoted) == (1, ())


@pytest.mark.parametrize(
    "said", ['"painted by giants of old"', "“painted by giants of old”", "「由巨人粉刷而成的塔楼」"]
)
def test_words_that_do_not_stand_in_the_source_lose_their_citation(said: str) -> None:
    checked = READ.check(f"They say {said} [2]. Next [2].")
    assert checked.text == f"They say {said}. Next [1]."
    assert [(each.words, each.number) for each in checked.misquoted] == [(said[1:-1], 1)]


def test_a_quote_may_stand_in_any_of_its_sources() -> None:
    assert READ.check('"painted in 1930" [1][3].').text == '"painted in 1930" [1][2].'


def test_short_words_in_quotation_marks_are_no_quotes() -> None:
    assert READ.check('The "green" tower [1].').quotes == 0


def test_links_to_what_was_read_become_citations_and_others_words() -> None:
    text = "See [one](https://a.example/1/#part), [two](https://evil.example/x), https://a.example/3?utm_source=x. End."
    checked = READ.check(text)
    assert checked.text == "See one [1], two, [2]. End."
    assert checked.foreign == ("https://evil.example/x",)


def test_a_link_may_have_parentheses_and_a_picture_from_elsewhere_is_none() -> None:
    checked = READ.check("See [one](https://b.example/Tower_(old)), ![two](https://a.example/2).")
    assert checked.text == "See one, two [1]."
    assert checked.foreign == ("https://b.example/Tower_(old)",)


@table(
    ("target", "read"),
    [
        ('https://a.example/1 "A title"', True),
        ("<https://a.example/1> 'A title'", True),
        ('HTTP://evil.example/x "A title"', False),
        ("//evil.example/x.png", False),
    ],
)
def test_a_link_may_be_written_in_other_ways(target: str, read: bool) -> None:
    assert READ.check(f"See [one]({target}).").text == ("See one [1]." if read else "See one.")
    assert READ.check("See HTTP://evil.example/x.").text == "See ."


def test_code_is_left_alone() -> None:
    text = "Use `a[1]` and\n```\nx[2] = https://evil.example\n```\nas said [2]."
    checked = READ.check(text)
    assert checked.text == text.replace("said [2]", "said [1]")
    assert checked.foreign == ()


@pytest.mark.parametrize("heading", ["## Sources", "# References:", "### 参考文献", "## Key citations"])
def test_a_list_of_sources_that_the_model_wrote_is_dropped(heading: str) -> None:
    assert READ.check(f"Text [1].\n\n{heading}\n\n1. Invented\n2. https://evil.example").text == "Text [1]."


def test_a_section_that_is_only_called_alike_stays() -> None:
    text = "## Sources of error\n\nMany [1]."
    assert READ.check(text).text == text


def test_pages_with_the_same_content_are_one_source() -> None:
    checked = Read("the same", "the same").check("A [1], b [2].")
    assert checked.text == "A [1], b [1]."
    assert len(checked.cited) == 1
    assert checked.merged == 1


def test_key_findings_are_the_first_list() -> None:
    text = "# T\n\n## Key points\n\n- one [1]\n- two\n* three\n\n## More\n\n- four"
    assert key_findings(text) == ["one [1]", "two", "three"]
    assert key_findings("# T\n\n1. a\n2. b\n3. c\n4. d\n5. e\n6. f") == ["a", "b", "c", "d", "e"]


def test_without_a_list_the_first_paragraphs_stand_for_the_report() -> None:
    assert key_findings("# T\n\nOne.\n\n| a | b |\n\nTwo.") == ["One.", "Two."]


def test_a_quote_may_stand_in_what_a_page_said_before_it_changed() -> None:
    read = Read(("The tower is white today.", "The tower is green today."))
    for said in ('"The tower is white." [1]', '"the tower … green today" [1]'):
        assert read.check(said).text == said
    assert read.check('"The tower is red today" [1]').misquoted


def test_a_quote_of_a_page_whose_text_is_gone_loses_its_citation() -> None:
    read = Read("Words that are gone.")
    read.texts.clear()
    checked = read.check('"Words that are gone" [1]. All the same [1].')
    assert checked.text == '"Words that are gone". All the same [1].'
    assert len(checked.misquoted) == 1


def test_a_page_that_repeats_another_gives_its_number_to_the_first() -> None:
    checked = Read("the same", "another", "the same").check("A [3], b [2], c [1][3], d [1] [3].")
    assert checked.text == "A [1], b [2], c [1], d [1]."
    assert [page.first.title for page in checked.cited] == ["T1", "T2"]
    assert checked.citations == 4


def test_a_dead_source_is_taken_out_and_claims_without_another_are_marked() -> None:
    checked = READ.check("A [1]. B [2]. C [1][2]. D [9], [1]. | 5 [1] | 6 [3] |", dead=[1], mark="(?)")
    assert checked.text == "A (?). B [1]. C [1]. D (?), (?). | 5 (?) | 6 [2] |"
    assert [page.first.title for page in checked.dead] == ["T1"]
    assert (checked.unsourced, checked.unknown, checked.citations) == (4, 1, 3)
    assert not checked.clean


def test_what_loses_its_source_is_marked_however_it_was_cited() -> None:
    text = 'See [two](https://evil.example/x). "painted by giants" [1]. https://a.example/2 says it. ![p](https://x.example)'
    assert READ.check(text, dead=[2], mark="(?)").text == 'See two (?). "painted by giants" (?). (?) says it. p'
