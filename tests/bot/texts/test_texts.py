"""The catalogue: every language says the same things with the same data."""

from __future__ import annotations

import re
from dataclasses import fields
from string import Formatter
from typing import Any, get_args

from bot.access.editor import RefusalKind
from bot.files.uploads import Problem
from bot.operations.health import Part
from bot.operations.health import Problem as HealthProblem
from bot.settings.model import BUILT_IN
from bot.store.access import AccessState
from bot.texts import LANGUAGES, language_of, texts_for
from bot.texts.commands import command, unmarked, written
from bot.texts.en import EN
from bot.texts.zh import ZH
from channels.base import ConnectionState
from channels.message import UNREAD, OutboundMessage
from channels.slack.config import COMMANDS
from harness.events import FailureKind
from harness.guardrails import rules
from harness.memory import taint
from tests.tables import table


def sentences(texts: Any) -> dict[str, str]:
    """Every sentence of a language by its path."""
    found: dict[str, str] = {}
    for field in fields(texts):
        value = getattr(texts, field.name)
        if isinstance(value, str):
            found[field.name] = value
        else:
            found |= {f"{field.name}.{key}": sentence for key, sentence in value.items()}
    return found


def marks(sentence: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(sentence) if name is not None}


def test_all_languages_have_the_same_sentences_with_the_same_marks() -> None:
    english = {path: marks(sentence) for path, sentence in sentences(EN).items()}
    for texts in LANGUAGES.values():
        assert {path: marks(sentence) for path, sentence in sentences(texts).items()} == english
        assert all(sentence.strip() for sentence in sentences(texts).values())


def test_every_kind_has_its_sentence() -> None:
    for texts in LANGUAGES.values():
        assert set(texts.failures) == set(FailureKind)
        assert set(texts.file_problem) == set(get_args(Problem))
        assert set(texts.status) >= set(ConnectionState)
        assert set(texts.outages) == set(HealthProblem)
        assert set(texts.outages_over) == set(Part)
        assert set(texts.access_state) == set(AccessState)
        assert set(texts.access_problem) == set(get_args(RefusalKind))
        assert set(texts.group_ask) == set(texts.group_opened) == {"any", "listed"}


def test_every_menu_lists_the_same_commands_in_the_same_order() -> None:
    for texts in LANGUAGES.values():
        assert list(texts.command_menu) == list(EN.command_menu)
        assert list(texts.admin_menu) == list(EN.admin_menu)
    assert [name for name, _ in COMMANDS] == [*EN.command_menu, *EN.admin_menu]


def test_there_is_a_sentence_for_all_that_cannot_be_read() -> None:
    for texts in LANGUAGES.values():
        assert set(texts.cannot_read) == UNREAD


def test_every_command_in_a_sentence_is_marked_as_one() -> None:
    names = "|".join((*EN.command_menu, *EN.admin_menu))
    bare = re.compile(rf"(?<![\w/])/(?:{names}|\{{command\}})\b")
    for language, plain in (("en", EN), ("zh", ZH)):
        found = sentences(texts_for(language))
        assert not {path: text for path, text in found.items() if bare.search(text)}
        assert {path: unmarked(text) for path, text in found.items()} == sentences(plain)


def test_a_marked_command_is_written_as_the_channel_writes_it() -> None:
    said = OutboundMessage(text=f"{texts_for('en').welcome} /help /usr/new", status=f"see {command('stop')}")
    shown = written(said, lambda name: f"@bot {name}")
    assert shown.text == f"{EN.welcome.replace('/help', '@bot help')} /help /usr/new"
    assert shown.status == "see @bot stop"


@table(("language", "form"), [("en", "; @bot /NAME REQUEST uses"), ("zh", "；@bot /名称 请求 立即")])
def test_how_a_skill_is_called_is_written_as_the_channel_writes_it(language: str, form: str) -> None:
    said = OutboundMessage(text=texts_for(language).command_menu["skills"])
    assert form in written(said, lambda name: f"@bot /{name}").text


def test_menu_descriptions_are_what_platforms_take() -> None:
    for texts in LANGUAGES.values():
        for name, description in (*texts.command_menu.items(), *texts.admin_menu.items()):
            assert name.isascii()
            assert name.islower()
            assert 3 <= len(description) <= 256


@table(
    ("seconds", "expected"),
    [
        *((-1, "0 s"), (0, "0 s"), (0.4, "0 s"), (45, "45 s"), (89, "89 s"), (120, "2 min"), (1800, "30 min")),
        *((5399, "90 min"), (5400, "2 h"), (7200, "2 h"), (172_799, "48 h"), (172_800, "2 d"), (864_000, "10 d")),
    ],
)
def test_a_length_of_time_in_the_unit_that_says_enough(seconds: float, expected: str) -> None:
    assert EN.duration(seconds) == expected


@table(
    ("fixed", "platform", "text", "expected"),
    [
        ("zh", "en", "hello", "zh"),
        ("auto", "zh-hans", "hello", "zh"),
        ("auto", "ZH_TW", "hello", "zh"),
        ("auto", "en-GB", "你好", "en"),
        ("auto", "de", "你好", "zh"),
        ("auto", None, "你好 world", "zh"),
        ("auto", None, "hello", "en"),
        ("auto", "", "", "en"),
        ("auto", None, "x" * 300 + "你", "en"),
    ],
)
def test_the_language_to_answer_in(fixed: str, platform: str | None, text: str, expected: str) -> None:
    assert language_of(fixed, platform, text) == expected


def test_an_unknown_language_gets_the_default() -> None:
    assert texts_for("tlh") is texts_for("en")
    assert texts_for("zh") is not texts_for("en")


def test_every_reason_of_a_built_in_rule_has_its_translation() -> None:
    """Those are sentences of the harness, which knows no language of people."""
    (ours,) = BUILT_IN["guardrails"]["rules"]
    reasons = {ours["reason"], *(getattr(rules, name) for name in ("UNREADABLE", "ON_THE_HOST", "DESTRUCTIVE"))}
    reasons |= {rules.CHANGES_ITSELF, taint.REASON}
    for texts in (EN, ZH):
        assert texts.approval_reasons.keys() == reasons
