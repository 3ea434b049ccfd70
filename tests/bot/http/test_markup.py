"""Answers as HTML: nothing of what a model or a person wrote becomes markup, and what is settled stays as it is."""

from __future__ import annotations

import time
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.http.page import math
from bot.http.page.markup import pieces
from bot.http.page.math import mathml
from bot.texts.markdown import plain
from bot.texts.page import words
from harness.research.telling import plain as plain_title

if TYPE_CHECKING:
    import re

T = words("en")
TAGS = frozenset(
    """h3 h4 h5 h6 p figure figcaption span button pre code ul ol li blockquote hr div table thead tbody tr th td br
    strong em s a math mrow mi mn mo mtext mspace mfrac msqrt mroot msub msup msubsup munder mover munderover mtable mtr
    mtd mstyle mpadded mphantom menclose ms""".split()  # noqa: SIM905  # a list of so many quotes reads worse
)
ATTRIBUTES = frozenset(
    {"class", "type", "data-copy", "tabindex", "start", "dir", "scope", "role", "aria-label", "href", "target", "rel"}
)
LINK = frozenset({"http", "https", "mailto", "tel"})


class Found(HTMLParser):
    """Tags, links and text of a piece of HTML. Fails at what no answer may hold."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self._in_math = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        self.tags.append(tag)
        self._in_math += tag == "math"
        for name, value in attrs:
            assert not name.startswith("on"), name
            assert name != "style"
            assert self._in_math or name in ATTRIBUTES, name
            if name == "href":
                assert tag == "a"
                assert urlsplit(value or "").scheme.lower() in LINK, value
                self.links.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        self._in_math -= tag == "math"

    def handle_data(self, data: str) -> None:
        self.text += data


def read(markdown: str, *, growing: bool = False) -> Found:
    found = Found()
    found.feed("".join(pieces(markdown, T, growing=growing)))
    found.close()
    return found


@pytest.mark.parametrize(
    "attempt",
    [
        "<script>alert(1)</script>",
        '<img src=x onerror="alert(1)">',
        "<svg/onload=alert(1)>",
        "[x](javascript:alert(1))",
        "[x](JaVaScRiPt:alert(1))",
        "[x](data:text/html;base64,PHNjcmlwdD4=)",
        "[x](vbscript:msgbox)",
        "![x](javascript:alert(1))",
        '[x](https://e.example/"onmouseover="alert(1))',
        "<javascript:alert(1)>",
        '```"><script>alert(1)</script>\ncode\n```',
        "```html\n</code></pre><script>alert(1)</script>\n```",
        "| <script>alert(1)</script> |\n|---|\n| <img src=x onerror=alert(1)> |",
        "||<b onclick=alert(1)>||",
        r"$\href{javascript:alert(1)}{x}$",
        r"$\style{position:fixed}{x}$ $\class{you}{x}$",
        r"$$\text{</math><script>alert(1)</script>}$$",
        "$<script>alert(1)</script>$",
        "`$</code><script>`$",
        "\ue000\ue001 $x$ \ue000",
        "# <iframe src=//e.example>",
        "- [x] <object data=x>",
        "> <style>*{}</style>",
    ],
)
def test_nothing_that_is_written_becomes_markup(attempt: str) -> None:
    for growing in (False, True):
        for cut in {len(attempt), len(attempt) // 2}:
            assert not {"script", "img", "svg", "iframe", "style"} & set(read(attempt[:cut], growing=growing).tags)


@given(st.text(alphabet=st.sampled_from("<>&\"'`$\\[](){}|*_~#-= \nabc1:/\ue000"), max_size=120), st.booleans())
def test_no_text_makes_a_tag_or_link_of_its_own(text: str, growing: bool) -> None:
    read(text, growing=growing)


@given(st.text(alphabet=st.sampled_from("()[]{}\\$*_^|~`<>&;#.!:-=+ 1axB"), max_size=60).map(str.strip))
def test_escaped_text_is_shown_literally(text: str) -> None:
    for line, written in ((text, plain(text)), (f"1 {text}", f"1 {plain_title(text)}")):
        shown = read(written)
        assert set(shown.tags) <= {"p"}
        assert "".join(shown.text.split()) == "".join(line.split())


def test_an_answer_is_written_with_all_that_markdown_has() -> None:
    found = read(
        "# Title\n\n**b** *i* ~~s~~ `c` [l](https://e.example/?a=1&b=2)\n\n1. one\n2. two\n   - [x] done\n\n> q"
        "\n\n---\n\n```python\nif a < b:\n    pass\n```\n\n| a | b |\n|---|--:|\n| 1 | 2 |"
    )
    expected = {
        "h3",
        "strong",
        "em",
        "s",
        "code",
        "a",
        "ol",
        "ul",
        "li",
        "blockquote",
        "hr",
        "pre",
        "table",
        "th",
        "td",
    }
    assert expected <= set(found.tags)
    assert found.links == ["https://e.example/?a=1&b=2"]
    assert "if a < b:\n    pass" in found.text
    assert "☑ done" in found.text


@pytest.mark.parametrize(
    ("source", "tags"),
    [
        (r"so $\frac{a_1}{b^2}$ it is", {"mfrac", "msub", "msup"}),
        (r"\[ \int_0^1 x\,dx \]", {"msubsup"}),
        (r"\(a < b\)", {"mo"}),
        ("$$\n\\sqrt{2}\n$$", {"msqrt"}),
    ],
)
def test_formulas_are_mathml(source: str, tags: set[str]) -> None:
    assert {"math", *tags} <= set(read(source).tags)


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("It costs $5, or $10 for two.", "It costs $5, or $10 for two."),
        ("`echo $HOME $PATH`", "echo $HOME $PATH"),
        ("```sh\nkill $$ ; echo $$\n```", "kill $$ ; echo $$"),
        (r"\$5 and \$6", "$5 and $6"),
        ("an open $x", "an open $x"),
    ],
)
def test_dollars_that_are_no_formula_stay(source: str, shown: str) -> None:
    found = read(source)
    assert shown in found.text
    assert "math" not in found.tags


@pytest.mark.parametrize("tex", ["x^2^3", r"\newcommand{\a}{\a\a}\a", "_{" * 700, r"\left("])
def test_a_formula_that_cannot_be_read_is_shown_as_it_is_written(tex: str) -> None:
    assert mathml(f"${tex}$") == f'<code class="tex">{tex}</code>'


def test_a_link_keeps_its_dollars() -> None:
    assert read("[x](https://e.example/$a$/b)").links == ["https://e.example/%24a%24/b"]


def test_while_an_answer_grows_its_settled_pieces_stay() -> None:
    paragraph = "Some words that make a paragraph of an answer, and $x_1$ with a formula. " * 8
    whole = "\n\n".join([f"## Part {n}\n\n{paragraph}" for n in range(8)])
    before = pieces(whole[:100], T, growing=True)
    assert len(before) == 1
    for end in range(200, len(whole), 200):
        after = pieces(whole[:end], T, growing=True)
        assert after[: len(before) - 1] == before[:-1]
        before = after
    assert len(before) > 2


class Counted:
    """A pattern that counts the characters that it looks at."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.pattern, self.looked = pattern, 0

    def search(self, text: str, start: int, end: int) -> re.Match[str] | None:
        found = self.pattern.search(text, start, end)
        self.looked += (end if found is None else found.end()) - start
        return found


@pytest.mark.parametrize("piece", ["$a ", "$a ` ", "$$a ` $$ ", r"\[a ", r"\(a ", r"$a \(b \[c "])
@pytest.mark.parametrize("end", ["", "x$ $$ \\] \\)"])
def test_signs_that_nothing_closes_are_looked_for_once(piece: str, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = {sign: Counted(pattern) for sign, pattern in math._CLOSING.items()}
    monkeypatch.setattr(math, "_CLOSING", counted)
    text = piece * 10_000 + end
    math.take_out(text)
    assert 0 < sum(each.looked for each in counted.values()) < 8 * len(text)


@given(st.lists(st.sampled_from(["$", "$$", "a", " ", "\n", "`", r"\(", r"\)", r"\[", r"\]", "x" * 900]), max_size=60))
def test_what_is_taken_out_is_put_back(parts: list[str]) -> None:
    text = "".join(parts)
    assert math.put_back(*math.take_out(text)) == text


def test_a_growing_answer_that_is_open_many_times_is_read_once() -> None:
    table = "| a | b |\n| - | - |\n" + "| 1 | 2 |\n" * 2000
    begun = time.process_time()
    first = pieces(table, T, growing=True)
    once = time.process_time() - begun
    assert all(pieces(table, T, growing=True) == first for _ in range(20))
    assert time.process_time() - begun < 3 * once
