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

OTHERWISE = {
    *("not_signed_in", "csrf"),  # reason() in page.js
    *("not_readable", "too_many_waiting", "no_id", "kept"),  # the message is in the reader's language
    *("no_file", "not_from_here", "not_writable", "unreadable", "withheld"),  # of the config, as are its faults
    *("bad_token", "no_such_code", "not_a_session", "too_many_codes"),  # the API's alone
    *("knowledge_unavailable", "link_over", "too_many_streams", "unknown_host"),  # not told by scripts
}
"""Codes that page.js has no text for."""


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


def test_what_went_wrong_is_told_in_every_language() -> None:
    told = {key.removeprefix("problem_") for key in words("en").part("client") if key.startswith("problem_")}
    files = [file for file in HERE.parent.rglob("*.py") if file.parent.name != "api" and file.name != "hooks.py"]
    codes = {code for file in files for code in CODE.findall(file.read_text("utf-8"))}
    assert told | OTHERWISE == codes
    assert not told & OTHERWISE
    assert "problem_" in (HERE / "static" / "page.js").read_text("utf-8")


def test_the_language_of_a_browser() -> None:
    assert accepted("zh-CN,zh;q=0.9,en;q=0.8") == "zh"
    assert accepted("fr-FR,fr;q=0.9,en;q=0.8") == "en"
    assert accepted("") == accepted("*") == "en"
