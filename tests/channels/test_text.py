"""The Markdown tree: what a reply says, for all platforms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.texts.markdown import plain as literal
from channels.text.blocks import (
    Bold,
    Code,
    CodeBlock,
    Heading,
    Italic,
    LineBreak,
    Link,
    ListBlock,
    Paragraph,
    Quote,
    Rule,
    Spoiler,
    Strike,
    Table,
    Text,
    plain,
)
from channels.text.inline import WINDOW_UNITS, parse_inlines, windows
from channels.text.parse import parse, read_blocks
from channels.text.tables import fit
from tests.tables import table


def test_marks_become_nodes() -> None:
    assert parse_inlines("a **b *c*** ~~d~~ ||e|| `f`") == (
        Text("a "),
        Bold((Text("b "), Italic((Text("c"),)))),
        Text(" "),
        Strike((Text("d"),)),
        Text(" "),
        Spoiler((Text("e"),)),
        Text(" "),
        Code("f"),
    )


def test_line_ends_are_kept_and_br_is_one() -> None:
    assert parse_inlines("a\nb<br/>c") == (Text("a"), LineBreak(), Text("b"), LineBreak(), Text("c"))


@pytest.mark.parametrize("source", ["a || b || c", "2 * 3 * 4", "snake_case_name", "|||", "~5 and ~6", "a ** b"])
def test_signs_that_are_no_marks_stay(source: str) -> None:
    assert plain(parse_inlines(source)) == source


@pytest.mark.parametrize(
    ("source", "formula"),
    [
        (r"\(a_b\)", "a_b"),
        ("\\[\nx = \\frac{a}{b}\n\\]", r"x = \frac{a}{b}"),
        ("$$ a_b_c $$", "a_b_c"),
    ],
)
def test_a_formula_keeps_its_backslashes_and_underscores(source: str, formula: str) -> None:
    assert parse_inlines(f"**so** {source} *holds*") == (
        Bold((Text("so"),)),
        Text(" "),
        Code(formula),
        Text(" "),
        Italic((Text("holds"),)),
    )


@pytest.mark.parametrize(
    ("source", "shown"),
    [(r"\[x\] \(see above\)", "[x] (see above)"), ("$$ and $$", "$$ and $$"), (r"\(a_b and c_d", "(a_b and c_d")],
)
def test_escaped_brackets_are_no_formula(source: str, shown: str) -> None:
    assert parse_inlines(source) == (Text(shown),)


@pytest.mark.parametrize("text", ["report (v1.2).pdf", "[a_b] (x = y)", r"C:\a (b\c) [d\e]", r"\(a_b\)", "$$ a*b $$"])
def test_text_that_is_escaped_whole_is_no_formula(text: str) -> None:
    assert parse_inlines(literal(text)) == (Text(text),)


def test_chinese_needs_no_space_around_marks() -> None:
    assert parse_inlines("他说：**你好，**世界") == (Text("他说："), Bold((Text("你好，"),)), Text("世界"))


@table(
    "url",
    [
        "javascript:alert(1)",
        "JavaScript:alert(1)",
        "tg://resolve?domain=x",
        "file:///etc/passwd",
        "slack://open",
        "data:text/html,x",
        "/relative",
        "http:",
        "vbscript:x",
    ],
)
def test_links_elsewhere_are_shown_as_text(url: str) -> None:
    assert parse_inlines(f"[label]({url})") == (Text(f"label ({url})"),)


@pytest.mark.parametrize("url", ["http://a.b", "https://a.b/c?d=e", "mailto:a@b.c", "tel:+123"])
def test_links_with_an_allowed_scheme_are_links(url: str) -> None:
    assert parse_inlines(f"[label]({url})") == (Link(url, (Text("label"),)),)


def test_an_image_is_a_link_and_never_more() -> None:
    assert parse_inlines("![alt](https://a.b/c.png)") == (Link("https://a.b/c.png", (Text("alt"),)),)
    assert parse_inlines("![](https://a.b/c.png)") == (Link("https://a.b/c.png", (Text("https://a.b/c.png"),)),)
    assert parse_inlines("[![alt](https://a.b/c.png)](https://d.e)") == (Link("https://d.e", (Text("alt"),)),)


def test_entities_cannot_bring_back_what_sanitizing_removes() -> None:
    assert parse_inlines("a&#x202E;b&#0;c &amp; <https://x.y/%E2%80%AEz>")[0] == Text("ab\ufffdc & ")
    assert "\u202e" not in plain(parse_inlines("<https://x.y/%E2%80%AEz>"))


def test_blocks() -> None:
    blocks = parse("# One\n\n> two\n\n```py title=x\n\tthree\n```\n\n---\n\n- [x] four\n- five\n\n3. six\n")
    assert blocks == (
        Heading(1, (Text("One"),)),
        Quote((Paragraph((Text("two"),), True),), True),
        CodeBlock("py", "    three", True),
        Rule(True),
        blocks[4],
        blocks[5],
    )
    bullets, numbers = blocks[4], blocks[5]
    assert isinstance(bullets, ListBlock)
    assert isinstance(numbers, ListBlock)
    assert [item.checked for item in bullets.items] == [True, None]
    assert (bullets.start, numbers.start) == (None, 3)


def test_a_rule_below_text_makes_no_heading() -> None:
    assert parse("text\n---") == (Paragraph((Text("text"),)), Rule())


def test_html_is_shown_as_written() -> None:
    assert parse("<script>alert(1)</script>\n<b>x</b>") == (
        Paragraph((Text("<script>alert(1)</script>"), LineBreak(), Text("<b>x</b>"))),
    )


def test_a_table_has_as_many_cells_in_each_row() -> None:
    (table,) = parse("| a | b |\n|:-:|--:|\n| 1 |\n| 2 | 3 | 4 |")
    assert isinstance(table, Table)
    assert table.align == ("center", "right")
    assert [len(row) for row in table.rows] == [2, 2]
    assert table.source.splitlines()[0] == "| a | b |"


def test_nothing_is_lost_however_deep_it_is_nested() -> None:
    assert "word" in repr(parse("> " * 60 + "word"))
    assert "word" in repr(parse("- " * 60 + "word"))
    assert "word" in plain(parse_inlines("**" * 200 + "word" + "**" * 200))


@table(
    ("source", "shown"),
    [
        ("**half a sen", (Bold((Text("half a sen"),)),)),
        ("a `co", (Text("a "), Code("co"))),
        ("x **bold*", (Text("x "), Bold((Text("bold"),)))),
        ("see [label](http", (Text("see label"),)),
        ("~~a **b", (Strike((Text("a "), Bold((Text("b"),)))),)),
        ("||secr", (Spoiler((Text("secr"),)),)),
        ("2 * 3", (Text("2 * 3"),)),
        ("a_b", (Text("a_b"),)),
    ],
)
def test_a_growing_reply_looks_as_if_its_marks_were_closed(source: str, shown: object) -> None:
    assert parse(source, growing=True) == (Paragraph(shown),)  # type: ignore[arg-type]  # built above


def test_a_finished_reply_keeps_its_open_marks() -> None:
    assert parse("a **b") == (Paragraph((Text("a **b"),)),)


@given(st.text(alphabet="ab *_`~|[]()\n.😀", max_size=6000))
def test_windows_are_the_text_and_stay_while_it_grows(source: str) -> None:
    pieces = list(windows(source))
    assert "".join(pieces) == source
    assert all(len(piece) <= WINDOW_UNITS for piece in pieces)
    assert list(windows(source + "x"))[: len(pieces) - 1] == pieces[:-1]


@given(st.text(), st.booleans())
def test_any_text_is_read(source: str, growing: bool) -> None:
    parse(source, growing=growing)


PIECES = [
    "text *a*\n",
    "\n",
    "\n",
    "```\n",
    "~~~\n",
    "- item\n",
    "1. one\n",
    "> quote\n",
    "  more\n",
    "    deep\n",
    "# h\n",
]
TABLE = "a|b\n-|-\nc|d\n"


@given(st.lists(st.sampled_from([*PIECES, TABLE, "---\n", "words " * 100 + "\n"]), max_size=60), st.booleans())
def test_reading_piece_by_piece_gives_the_same_blocks(pieces: list[str], growing: bool) -> None:
    source = "".join(pieces)
    assert parse(source, growing=growing) == read_blocks(source, growing=growing)


def test_a_grid_keeps_columns_in_line() -> None:
    (table,) = parse("| name | n |\n|---|--:|\n| 日本 | 1 |\n| שלום | 22 |\n| 👨‍👩‍👧 | 3 |")
    assert isinstance(table, Table)
    grid = fit(table, 42)
    assert grid is not None
    assert grid.row(table.header) == ("name |  n",)
    assert grid.row(table.rows[0]) == ("日本 |  1",)
    assert grid.row(table.rows[1]) == ("\u200eשלום\u200e | 22",)
    assert grid.row(table.rows[2]) == ("👨‍👩‍👧   |  3",)


def test_a_grid_wraps_a_wide_column_and_gives_up_when_that_is_not_enough() -> None:
    (table,) = parse("| a | b |\n|---|---|\n| x | " + "word " * 12 + "|")
    assert isinstance(table, Table)
    grid = fit(table, 42)
    assert grid is not None
    assert len(grid.row(table.rows[0]) or ()) == 2
    (wide,) = parse("|" + "a long header|" * 6 + "\n|" + "---|" * 6)
    assert isinstance(wide, Table)
    assert fit(wide, 42) is None
