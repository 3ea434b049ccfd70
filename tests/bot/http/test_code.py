"""Code in colours: nothing of the text is lost or becomes markup, and every colour can be read in both themes."""

from __future__ import annotations

import re
from html import unescape
from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pygments.lexers import get_lexer_by_name

from bot.http.page import code
from bot.http.page.code import KINDS, LANGUAGES, LONGEST_LINE, MOST_CHARACTERS, SAME, coloured, language_of_file
from bot.http.page.markup import pieces
from bot.http.page.view import HERE
from bot.texts.page import words

if TYPE_CHECKING:
    from markupsafe import Markup

T = words("en")
PYTHON = 'def greet(name: str) -> str:\n    # a friendly word\n    return f"Hello {name}" if name else "2 < 3 & 4"\n'
FENCED = f"Look:\n\n```python\n{PYTHON}```\n"
SPAN = re.compile(r'<span class="tok-[a-z]">|</span>')


def plain(html: str) -> str:
    """The text that a browser shows of it."""
    return unescape(SPAN.sub("", html))


def test_words_of_code_have_their_colours() -> None:
    html = coloured("Python", PYTHON)
    assert '<span class="tok-k">def </span>' in html
    assert '<span class="tok-f">greet</span>' in html
    assert '<span class="tok-c"># a friendly word\n' in html
    assert "2 &lt; 3 &amp; 4" in html
    assert plain(html) == PYTHON


def test_an_unknown_language_is_left_plain() -> None:
    for name in ("", "klingon", "<script>", "python "):
        html = coloured(name, "if <b> & 1:")
        assert plain(html) == "if <b> & 1:"
        assert ("tok-" in html) == (name == "python ")


def test_long_code_and_long_lines_are_left_plain() -> None:
    for text in ("x = 1\n" * (MOST_CHARACTERS // 6 + 1), f"x = {'1' * LONGEST_LINE}\n"):
        assert coloured("python", text) == text


def test_what_takes_too_long_is_left_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "x = 1\n" * 500
    assert "tok-" in coloured("python", text)
    monkeypatch.setattr(code, "SECONDS", -1.0)
    code._coloured.cache_clear()
    assert coloured("python", text) == text
    code._coloured.cache_clear()


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_every_language_is_known_to_pygments(language: str) -> None:
    assert get_lexer_by_name(SAME.get(language, language)) is not None


@given(st.sampled_from(["python", "js", "html", "bash", "yaml", "diff", "sql"]), st.text(max_size=200))
def test_no_text_is_lost_or_becomes_markup(language: str, text: str) -> None:
    assert plain(coloured(language, text)) == text


def code_of(answer: list[Markup]) -> str:
    return "".join(answer).partition("<code>")[2].partition("</code>")[0]


def test_code_gets_its_colours_once_it_is_whole() -> None:
    assert "tok-" not in code_of(pieces(FENCED, T, growing=True))
    assert "tok-k" in code_of(pieces(FENCED + "\nThat is all.", T, growing=True))
    assert "tok-k" in code_of(pieces(FENCED, T))
    assert plain(code_of(pieces(FENCED, T))).rstrip() == PYTHON.rstrip()


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("a.py", "python"),
        ("A.HTML", "html"),
        ("Dockerfile", "dockerfile"),
        ("x.patch", "diff"),
        ("x.bin", ""),
        ("x", ""),
    ],
)
def test_a_files_name_tells_its_language(name: str, language: str) -> None:
    assert SAME.get(language_of_file(name), language_of_file(name)) in (language, {"python": "py"}.get(language))


def _luminance(colour: str) -> float:
    channels = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_every_colour_can_be_read_in_both_themes() -> None:
    """WCAG 2.2, 1.4.3: at least 4.5 : 1."""
    css = (HERE / "static" / "antler.css").read_text("utf-8")
    tokens = dict(re.findall(r"--([\w-]+): light-dark\((#\w{6}, #\w{6})\)", css))
    uses = dict(re.findall(r"\.tok-(\w) \{ color: var\(--([\w-]+)\)", css))
    assert uses.keys() == set(KINDS.values())
    for (kind, name), theme in product(uses.items(), (0, 1)):
        ground = "bad-soft" if kind == "d" else "ok-soft" if kind == "i" else "sunk"
        light, dark = sorted((_luminance(tokens[each].split(", ")[theme]) for each in (name, ground)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (name, theme)
