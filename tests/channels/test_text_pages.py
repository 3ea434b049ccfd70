"""A reply as pages of a platform's own Markdown: what each option of a dialect does."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest

from channels.text.marks import Dialect
from channels.text.outline import pages
from tests.channels.text_support import CHARACTERS, DIALECTS, UTF8_BYTES, said
from tests.tables import table

TABLE = "| a | b |\n|---|--:|\n| **1** | 2 |"
EXAMPLES = [
    ("marks", CHARACTERS, "**a** *b* ~~c~~ `d`", "**a** *b* ~~c~~ `d`"),
    ("marks within marks", CHARACTERS, "*a **b** c*", "*a **b** c*"),
    ("punctuation leaves a mark that it would hide", CHARACTERS, "**你好，**世界", "**你好**，世界"),
    ("code leaves a mark that it would hide", CHARACTERS, "**用 `pip`**装", "**用** `pip`装"),
    ("no spoilers", CHARACTERS, "||d||", "d"),
    ("signs stay signs", CHARACTERS, r"2 \* 3 \*x\* snake_case \# & <b>", "2 * 3 \\*x\\* snake_case # &amp; &lt;b&gt;"),
    ("text begins no other block", CHARACTERS, "\\# a\n\\- b\n1\\. c\n\\+", "\\# a\n\\- b\n1\\. c\n\\+"),
    ("links", CHARACTERS, "[a *b*](https://c.d/(e))", "[a *b*](https://c.d/%28e%29)"),
    ("code with backticks", CHARACTERS, "`` a`b ``", "``a`b``"),
    ("a heading", CHARACTERS, "## a\nb", "## a\nb"),
    ("lists", CHARACTERS, "- a\n  - b\n\n9. c\n10. d\n    - e", "- a\n    - b\n\n9. c\n10. d\n    - e"),
    ("two lists stay two", CHARACTERS, "- a\n* b", "- a\n\n* b"),
    ("code in an item", CHARACTERS, "- a\n  ```py\n  b\n    c\n  ```", "- a\n    ```py\n    b\n      c\n    ```"),
    ("tasks", CHARACTERS, "- [x] a\n- [ ] b", "- [x] a\n- [ ] b"),
    ("tasks without boxes", UTF8_BYTES, "- [x] a\n- [ ] b", "- ☑ a\n- ☐ b"),
    ("a quote", CHARACTERS, "> a\n> b\n>\n> - c", "> a\n> b\n>\n> - c"),
    ("a rule", CHARACTERS, "a\n\n---\n\nb", "a\n\n---\n\nb"),
    ("a fence is as long as it must be", CHARACTERS, "~~~py\n```\na\n```\n~~~", "````py\n```\na\n```\n````"),
    ("an open fence is closed", CHARACTERS, "```py\na", "```py\na\n```"),
    ("a table", CHARACTERS, TABLE, "| a | b |\n| --- | --: |\n| **1** | 2 |"),
    ("a table as code", UTF8_BYTES, TABLE, "```\na | b\n--+--\n1 | 2\n```"),
    (
        "a table too many",
        replace(CHARACTERS, tables=1),
        f"{TABLE}\n\nx\n\n{TABLE}",
        "| a | b |\n| --- | --: |\n| **1** | 2 |\n\nx\n\n```\na | b\n--+--\n1 | 2\n```",
    ),
    (
        "a table with links that cannot be a table",
        UTF8_BYTES,
        "| a | b |\n|---|---|\n| c | [d](https://e.f) |",
        "a: **c**\nb: [d](https://e.f)",
    ),
    ("only an opened fence", CHARACTERS, "```", "\\`\\`\\`"),
]


@table(("dialect", "source", "shown"), [row[1:] for row in EXAMPLES])
def test_what_a_dialect_shows(dialect: Dialect, source: str, shown: str) -> None:
    assert pages(source, dialect, 1000) == (shown,)


def test_a_blank_text_has_no_pages() -> None:
    assert pages(" \n\u200b", CHARACTERS, 1000) == ()


def test_a_page_has_a_least_size() -> None:
    with pytest.raises(ValueError, match="60 units"):
        pages("a", CHARACTERS, 59)


def test_a_growing_text_looks_as_if_its_marks_were_closed() -> None:
    assert pages("a **b", CHARACTERS, 1000, growing=True) == ("a **b**",)
    assert pages("a **b", CHARACTERS, 1000) == ("a \\*\\*b",)


def test_what_spans_pages_is_closed_and_opened_again() -> None:
    code = "\n".join(f"line {number:02}" for number in range(20))
    first, *_, last = pages(f"```py\n{code}\n```", CHARACTERS, 100)
    assert first.startswith("```py\nline 00\n")
    assert first.endswith("\n```")
    assert last.startswith("```py\n")
    assert last.endswith("line 19\n```")

    rows = "\n".join(f"| row {number:02} | x |" for number in range(20))
    for page in pages(f"| a | b |\n|---|---|\n{rows}", CHARACTERS, 100):
        assert page.startswith("| a | b |\n| --- | --- |\n| row")

    for page in pages("> " + "word " * 100, CHARACTERS, 100):
        assert page.startswith("> word")
    first, *others = pages("7. " + "word " * 100, CHARACTERS, 100)
    assert first.startswith("7. word")
    assert {page[:8] for page in others} == {"7. … wor"}


def test_a_table_counts_on_its_page_only() -> None:
    text = "\n\n".join([TABLE] * 6)
    assert pages(text, replace(CHARACTERS, tables=2), 10_000)[0].count("```\na | b") == 4
    assert all("```" not in page for page in pages(text, replace(CHARACTERS, tables=2), 100))


def test_a_cell_that_is_too_long_goes_on_in_further_rows() -> None:
    source = f"| a | b |\n|---|---|\n| c | {'word ' * 40}|"
    shown = pages(source, CHARACTERS, 200)
    assert all(page.startswith("| a | b |\n") for page in shown)
    assert said(shown).count("word") == 40


def test_the_beginning_of_a_long_reply_is_not_written_again() -> None:
    measured = 0

    def measure(text: str) -> int:
        nonlocal measured
        measured += len(text)
        return len(text)

    dialect = replace(CHARACTERS, measure=measure)
    paragraph = "The quick brown fox jumps over the lazy dog. " * 6
    text = "\n\n".join(f"Number {number}: {paragraph}" for number in range(200)) + f"\n\n{paragraph}"
    pages(text, dialect, 3500, growing=True)
    measured = 0
    pages(text + " and", dialect, 3500, growing=True)
    assert measured < 20_000


@table("dialect", DIALECTS)
@table("hostile", ["<!channel>", "<@U1>", '<at user_id="all"></at>', "&lt;!here&gt;", "<!-- x"])
@table(
    "place",
    ["{}", "**{}**", "# {}", "- [x] {}", "> {}", "[{}](https://a.b)", "| a |\n|---|\n| {} |", "||{}||", "{}" * 60],
)
def test_nothing_reaches_the_platform_unescaped(dialect: Dialect, hostile: str, place: str) -> None:
    strict = replace(dialect, escape_code=html.escape)
    for limit in (120, 4000):
        for page in pages(place.replace("{}", hostile), strict, limit):
            assert not re.search(r"<[!@a]|&(?!amp;|lt;|gt;|quot;)", page.removeprefix(">"))


@pytest.mark.parametrize("unit", ["**a", "*a ", "word "])
def test_a_long_line_is_not_written_again_for_each_of_its_pieces(unit: str) -> None:
    written = 0

    def counted(text: str) -> str:
        nonlocal written
        written += len(text)
        return text

    amounts = []
    for size in (10_000, 40_000):
        written = 0
        dialect = Dialect(measure=len, escape=counted, escape_code=str)
        assert len(pages((unit * size)[:size], dialect, 10**6)) == 1
        amounts.append(written)
    assert amounts[1] < 5 * amounts[0]
