"""The sections of a long page: what counts as a heading, how one is found, and what is true of any text."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.web.readable import Page
from harness.web.sections import find_section, outline, sections_of

TEXT = """\
Before all.
# Light
words
## Lamp ##
more
```
# no heading
```
# Fog horn
loud
"""


def test_sections_hold_what_is_below_their_headings() -> None:
    sections = sections_of(TEXT)
    assert [(each.number, each.level, each.title) for each in sections] == [
        (0, 1, "(text before the first heading)"),
        (1, 1, "Light"),
        (2, 2, "Lamp"),
        (3, 1, "Fog horn"),
    ]
    texts = [TEXT[each.start : each.end] for each in sections]
    assert texts[0] == "Before all.\n"
    assert texts[1].startswith("# Light")
    assert texts[1].endswith("```\n")
    assert texts[2] in texts[1]
    assert texts[3] == "# Fog horn\nloud\n"


def test_pages_of_a_document_stand_in_for_headings() -> None:
    text = "one\ftwo\fthree\f"
    assert [(each.title, text[each.start : each.end]) for each in sections_of(text)] == [
        ("Page 1", "one\f"),
        ("Page 2", "two\f"),
        ("Page 3", "three\f"),
    ]
    assert sections_of("one\ftwo") == []


@pytest.mark.parametrize(
    ("wanted", "title"),
    [
        ("2", "Lamp"),
        ("section 3", "Fog horn"),
        ("fog HORN", "Fog horn"),
        ("## Lamp", "Lamp"),
        ("Fog", "Fog horn"),
        ("horn", "Fog horn"),
        ("0", "(text before the first heading)"),
    ],
)
def test_a_section_is_found_by_number_or_words(wanted: str, title: str) -> None:
    found = find_section(sections_of(TEXT), wanted)
    assert found is not None
    assert found.title == title


@pytest.mark.parametrize("wanted", ["9", "", "nothing of the kind"])
def test_what_is_not_there_is_not_found(wanted: str) -> None:
    assert find_section(sections_of(TEXT), wanted) is None


def test_an_outline_that_is_too_long_loses_its_depths_first() -> None:
    text = "".join(f"# Part {number}\n## Detail {number}\n" for number in range(20))
    assert "Detail 3" in outline(sections_of(text), 10_000)
    short = outline(sections_of(text), 400)
    assert "Part 19" in short
    assert "Detail" not in short
    cut = outline(sections_of(text), 100)
    assert cut.endswith("more, up to number 40")
    assert len(cut) < 150


@given(st.text(alphabet="# ab\n`~\f=-", max_size=200))
def test_sections_of_any_text(text: str) -> None:
    sections = sections_of(text)
    for each in sections:
        assert 0 <= each.start < each.end <= len(text)
    for one, other in itertools.pairwise(each for each in sections if each.number):
        assert one.start < other.start
        assert other.start >= one.end or other.end <= one.end
        assert (other.start < one.end) == (other.level > one.level)
    if sections:
        assert not text[: sections[0].start].strip()
        assert max(each.end for each in sections) == len(text)
    assert isinstance(outline(sections, 50), str)


@pytest.mark.parametrize(
    ("kind", "path", "prose"),
    [
        ("text/html", "/x", True),
        ("", "/x", True),
        ("application/pdf", "/x", True),
        ("text/markdown", "/x", True),
        ("text/plain", "/README.md", True),
        ("text/plain", "/run.sh", False),
        ("text/x-python", "/x", False),
    ],
)
def test_remarks_of_programs_are_no_headings(kind: str, path: str, prose: bool) -> None:
    page = Page(url=f"https://a.example{path}", title="", text="# x", cut=False, kind=kind)
    assert page.is_prose is prose
