"""A reply as pages of a platform's own Markdown: what holds for any text."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from channels.text.blocks import (
    Bold,
    Code,
    CodeBlock,
    Heading,
    Inline,
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
from channels.text.outline import pages
from channels.text.parse import parse
from channels.text.sanitize import is_blank
from tests.channels.text_support import CHARACTERS, DIALECTS, JSON_BYTES, UTF8_BYTES, letters, said
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from channels.text.blocks import Block, Inlines
    from channels.text.marks import Dialect

WORDS = st.text(alphabet="ab 好，。.!*_`~|[]()<&#>-+1\\😀é\u0301\n", max_size=30)
BLOCKS = st.sampled_from(
    [
        "text *a* **b** ~~c~~ `d` ||e||\n",
        "**好，**的 *x* **y** [l *m*](https://x.x)\n",
        "\n",
        "\n",
        "```py\nx = 1\n```\n",
        "~~~\n```\n\n  y\n~~~\n",
        "```\n",
        "- item\n",
        "- [x] done\n",
        "* other\n",
        "1. one\n",
        "5) five\n",
        "> quote\n",
        "> > deeper\n",
        "  more\n",
        "    - deep\n",
        "        still deeper\n",
        "# heading #\n",
        "---\n",
        "words and words " * 12 + "\n",
        "没有空格的一长串文字" * 8 + "\n",
        "👨‍👩‍👧" * 20 + "\n",
        "x" * 150 + "\n",
        "~~~\n" + "`" * 30 + "\n" + "x" * 80 + "\n~~~\n",
        "\n| x | - |\n|---|:-:|\n| 1 | **2** |\n| three three three | 4 |\n\n",
        "\n| x | - |\n|---|:-:|\n| " + "long " * 30 + "| [x](https://x.x) |\n\n",
    ]
)
MARKDOWN = st.lists(BLOCKS | WORDS, max_size=30).map("".join)
ANY = settings(max_examples=examples(150))


@ANY
@given(MARKDOWN, st.sampled_from(DIALECTS), st.sampled_from([60, 61, 90, 200, 1000, 3500]), st.booleans())
def test_every_page_fits_and_closes_its_fences(text: str, dialect: Dialect, limit: int, growing: bool) -> None:
    shown = pages(text, dialect, limit, growing=growing)
    assert bool(shown) is not is_blank(text)
    for page in shown:
        assert dialect.measure(page) <= limit
        assert not is_blank(page)
        assert page == page.strip("\n")
        assert page.encode()
        assert closed(page), page


def closed(page: str) -> bool:
    """Whether each fence has its end."""
    fence = ""
    for line in page.split("\n"):
        match = re.match(r"(?:[\s>*+-]|\d+[.)] )*(`{3,})[^`]*$", line)
        if match and not fence:
            fence = match.group(1)
        elif fence and line.lstrip(" >") == fence:
            fence = ""
    return not fence


@ANY
@given(st.lists(BLOCKS, max_size=30).map("".join), st.sampled_from([60, 90, 200, 1000, 3500]))
def test_nothing_is_lost(text: str, limit: int) -> None:
    shown = pages(text, CHARACTERS, limit)
    # Where a page has no room for a link, its address is text.
    assert said(shown).replace("https", "") == letters(text).replace("https", "")


@settings(max_examples=examples(25))
@given(
    st.lists(BLOCKS | WORDS, min_size=50, max_size=100).map(lambda pieces: "".join(pieces) * 5),
    st.sampled_from([(CHARACTERS, 3500), (JSON_BYTES, 14_000), (UTF8_BYTES, 10_000)]),
    st.integers(200, 2000),
)
def test_while_a_text_grows_all_pages_but_the_last_two_stay(text: str, at: tuple[Dialect, int], step: int) -> None:
    before: tuple[str, ...] = ()
    for end in range(step, len(text), step):
        shown = pages(text[:end], *at, growing=True)
        settled = max(0, len(before) - 2)
        assert shown[:settled] == before[:settled]
        before = shown


@ANY
@given(MARKDOWN)
def test_a_page_is_read_as_the_blocks_that_it_was_written_from(text: str) -> None:
    shown = pages(text, CHARACTERS, 100_000)
    assert len(shown) <= 1
    blocks = shape(parse(text), look=without_marks)
    assert shape(parse("".join(shown)), look=without_marks) == blocks or not blocks


@ANY
@given(st.lists(BLOCKS, max_size=30).map("".join))
def test_a_page_is_read_with_the_marks_that_it_was_written_from(text: str) -> None:
    shown = pages(text, CHARACTERS, 100_000)
    blocks = shape(parse(text), look=with_marks)
    assert shape(parse("".join(shown)), look=with_marks) == blocks or not blocks


def shape(blocks: Sequence[Block], look: Callable[[Inlines], object]) -> list[object]:
    """What the blocks are, without empty lines and empty blocks, and what is seen of their text."""
    return [found for block in blocks for found in shape_of(block, look)]


def shape_of(block: Block, look: Callable[[Inlines], object]) -> list[object]:
    match block:
        case Heading(level, inlines):
            return [("heading", level, text)] if (text := look(inlines)) else []
        case Paragraph(inlines):
            return [text] if (text := look(inlines)) else []
        case CodeBlock(language, text):
            return [("code", language, text.rstrip())] if text.strip() else []
        case ListBlock(items, start):
            found = [(item.checked, shape(item.blocks, look)) for item in items]
            return [("list", start, found)] if any(inside for _, inside in found) else []
        case Quote(blocks):
            return [("quote", inside) for inside in [shape(blocks, look)] if inside]
        case Table(header, rows, align):
            return [("table", align, [[look(cell) for cell in row] for row in (header, *rows)])]
        case Rule():
            return ["rule"]


def without_marks(inlines: Inlines) -> str:
    return "".join(plain(inlines).split())


def with_marks(inlines: Inlines) -> list[tuple[str, frozenset[object]]]:
    """Letters with what they are in; signs count without, as a mark may give them up."""
    looks = [(char, styles) for char, styles in letters_of(inlines, frozenset()) if not char.isspace()]
    return [(char, styles if char.isalnum() else frozenset()) for char, styles in looks]


def letters_of(inlines: Inlines, styles: frozenset[object]) -> list[tuple[str, frozenset[object]]]:
    found: list[tuple[str, frozenset[object]]] = []
    for node in inlines:
        match node:
            case Text(text):
                found += [(char, styles) for char in text]
            case Code(text):
                found += [(char, frozenset({Code})) for char in text]
            case LineBreak():
                found.append(("\n", styles))
            case Link(url, children):
                found += letters_of(children, styles | {url})
            case Spoiler(children):  # no platform's Markdown has them
                found += letters_of(children, styles)
            case Bold(children) | Italic(children) | Strike(children):
                found += letters_of(children, styles | {type(node)})
    return found


@ANY
@given(st.lists(st.sampled_from(["a", "好", " ", ".", "，", "(", "\n"]), max_size=12).map("".join), st.data())
def test_marks_are_read_back_wherever_they_stand(text: str, data: st.DataObject) -> None:
    kinds: tuple[type[Inline], ...] = (Bold, Italic, Strike, Spoiler)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    parts = [text[start:end] for start, end in itertools.pairwise([0, *cuts, len(text)])]
    signs = {Bold: "**", Italic: "*", Strike: "~~", Spoiler: "||"}
    source = "".join(
        f"{signs[kind]}{part}{signs[kind]}" for part in parts for kind in [data.draw(st.sampled_from(kinds))]
    )
    assume(not re.search(r"^\s*~~~", source, re.MULTILINE))
    (shown,) = pages(source, CHARACTERS, 1000) or ("",)
    again = pages(shown, CHARACTERS, 1000) or ("",)
    assert said([shown]) == letters(source)
    assert again == (shown,)
