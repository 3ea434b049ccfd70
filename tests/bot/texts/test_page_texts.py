"""The page's texts: each language has the same, and templates and scripts ask for none that is missing."""

from __future__ import annotations

import re
from string import Formatter

import pytest

from bot.http.page.navigation import GROUPS
from bot.http.page.view import HERE
from bot.texts import LANGUAGES
from bot.texts.page import PARTS, accepted, words

ASKED = re.compile(r"""\bt\("([a-z_]+\.[a-z_]+)"(?=[,)])""")
CODE = re.compile(r"""(?:HttpProblem|error_response)\(\s*\d+, "([a-z_]+)\"""")
SAID = re.compile(r"""\bsay\("([a-z_]+)\"""")


def marks(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


@pytest.mark.parametrize("part", PARTS)
def test_languages_have_the_same_texts_with_the_same_marks(part: str) -> None:
    tables = PARTS[part]
    assert set(tables) == set(LANGUAGES)
    for language, table in tables.items():
        assert set(table) == set(tables["en"]), language
        for key, text in table.items():
            assert text.strip(), key
            assert marks(text) == marks(tables["en"][key]), key


def test_every_text_that_is_asked_for_is_there() -> None:
    t = words("en")
    asked = {key for file in (HERE / "templates").rglob("*.html") for key in ASKED.findall(file.read_text("utf-8"))}
    said = {f"client.{key}" for file in (HERE / "static").glob("*.js") for key in SAID.findall(file.read_text("utf-8"))}
    assert len(asked) > 40
    menu = {f"shell.nav_{entry.name}" for group in GROUPS for entry in group.entries}
    for key in asked | said | menu:
        part, _, name = key.partition(".")
        assert name in t.part(part), key


def test_what_went_wrong_is_told_by_codes_that_there_are() -> None:
    told = {key.removeprefix("problem_") for key in words("en").part("client") if key.startswith("problem_")}
    assert told <= {code for file in HERE.parent.rglob("*.py") for code in CODE.findall(file.read_text("utf-8"))}
    assert "problem_" in (HERE / "static" / "page.js").read_text("utf-8")


def test_the_language_of_a_browser() -> None:
    assert accepted("zh-CN,zh;q=0.9,en;q=0.8") == "zh"
    assert accepted("fr-FR,fr;q=0.9,en;q=0.8") == "en"
    assert accepted("") == accepted("*") == "en"
