"""config.yaml.example: complete, loadable once filled in, refused as it is."""

from __future__ import annotations

import re
import shutil
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import certifi
import pytest
from pydantic import BaseModel

from bot.settings import ConfigError, Settings, load
from bot.settings.model import COMMON_KEYS
from channels.registry import PLATFORMS, config_class
from harness.config import ModelSettings
from tests.bot.settings_files import TOKEN
from tests.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLE = Path(__file__).parents[3] / "config.yaml.example"


ENVIRONMENT = {"OPENAI_API_KEY": "sk-test", "TELEGRAM_BOT_TOKEN": TOKEN}


def fields_of(model: type[BaseModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield name
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from fields_of(kind)


def all_keys() -> set[str]:
    platforms = [name for platform in PLATFORMS for name in fields_of(config_class(platform))]
    return {*fields_of(Settings), *fields_of(ModelSettings), *COMMON_KEYS, *platforms} - {"adapter"}


@table("key", sorted(all_keys()))
def test_every_key_is_in_it_with_a_comment(key: str) -> None:
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    place = re.compile(rf"^[\s#-]*(.*[{{ ])?{re.escape(key)}:")
    assert any(place.match(line) for line in lines)


def test_every_value_has_a_comment_or_stands_below_one() -> None:
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    bare = [line for line in lines if re.match(r"\s+\w+: \S", line) and "#" not in line and "type:" not in line]
    assert bare == []


def test_it_loads_once_its_variables_are_set() -> None:
    settings = load(EXAMPLE, ENVIRONMENT)
    assert list(settings.channels) == ["telegram"]
    assert settings.access.allow == ()


def test_what_it_shows_below_the_channels_is_the_default() -> None:
    shown, default = load(EXAMPLE, ENVIRONMENT), Settings.model_validate({"channels": {"console": {}}})
    lists = {"network": {"proxy": None}}
    for name in set(Settings.model_fields) - {"models", "channels", "data_dir"}:
        section: Any = getattr(shown, name)
        if name in lists:
            section = section.model_copy(update=lists[name])
        assert section == getattr(default, name), name
    telegram = config_class("telegram")
    assert shown.channels["telegram"].adapter == telegram.model_validate({"token": TOKEN})


def test_its_variables_are_asked_for_each_by_key_and_name() -> None:
    with pytest.raises(ConfigError) as caught:
        load(EXAMPLE, {})
    asked = {problem.key: problem.message for problem in caught.value.problems}
    assert set(asked) == {"models[0].api_key", "channels.telegram.token"}
    assert "OPENAI_API_KEY" in asked["models[0].api_key"]
    assert "TELEGRAM_BOT_TOKEN" in asked["channels.telegram.token"]


SET = {
    **ENVIRONMENT,
    "SLACK_BOT_TOKEN": "xoxb-0000000000-example",
    "SLACK_APP_TOKEN": "xapp-0-example-000000",
    "FEISHU_APP_SECRET": "example",
    "WECOM_SECRET": "example",
    "ANTHROPIC_API_KEY": "example",
    "GEMINI_API_KEY": "example",
    "DEEPSEEK_API_KEY": "example",
    "TAVILY_API_KEY": "example",
    "BRAVE_API_KEY": "example",
    "JINA_API_KEY": "example",
    "EMBEDDINGS_KEY": "example",
    "RAGFLOW_KEY": "example",
    "DIFY_KEY": "example",
    "SANDBOX_TOKEN": "example-of-a-token-0123456789",
    "TRACKER_TOKEN": "example",
    "WIKI_TEAM_KEY": "example",
    "WIKI_SECRET": "example",
    "WIKI_REFRESH": "example",
    "ANTLER_METRICS_TOKEN": "example-of-a-token-0123456789",
    "ALERTS_SECRET": "example-of-a-secret-0123456789",
    "OTLP_AUTH": "Bearer example",
    "LANGFUSE_PUBLIC_KEY": "pk-lf-example",
    "LANGFUSE_SECRET_KEY": "sk-lf-example",
    "LANGSMITH_API_KEY": "example",
}
_COMMENTED = re.compile(r"^(\s*)# ( *)((?:- \{)?[a-z_]+: .*|[a-z_]+:)$")
_PROSE = re.compile(r"# [a-z_]+: |[^{]*\}\]$")
"""Sentences, and the rest of a value that begins in the line above."""
REQUIRED = {
    *("bot_token", "app_token", "app_id", "app_secret", "bot_id", "secret", "command", "url", "description"),
    *("system_prompt", "model", "grant", "token_url", "client_id", "client_secret"),
    *("public_key", "secret_key", "api_key", "cert", "key", "chat", "base_url"),
}
"""Of the sections that are comments as a whole: they go with each of their other keys."""


@cache
def uncommented() -> list[str]:
    """The example's lines, keys that are comments without their sign."""
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    found = [None if _PROSE.match(line) else _COMMENTED.match(line) for line in lines]
    return [f"{m[1]}{m[2]}{m[3]}" if m else "" for m in found]


def indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def with_key(number: int) -> str:
    """The example with one more key, in its section and with what that section needs."""
    lines, keys = EXAMPLE.read_text(encoding="utf-8").splitlines(), uncommented()
    wanted = {number}
    for above in range(number - 1, -1, -1):
        top = min(wanted)
        if not keys[above] or not indent(keys[top]):
            break
        if indent(keys[above]) < indent(keys[top]):
            wanted.add(above)
    for parent in tuple(wanted):
        for below in range(parent + 1, len(keys)):
            if not keys[below] or indent(keys[below]) <= indent(keys[parent]):
                break
            key, _, value = keys[below].strip().partition(":")
            its_own = parent == number and keys[number].partition(" #")[0].rstrip().endswith(
                ":"
            )  # a mapping, which cannot be empty
            if indent(keys[below]) == indent(keys[parent]) + 2 and (
                key in REQUIRED or (its_own and value.partition("#")[0].strip())
            ):
                wanted.add(below)
    for place in wanted:
        lines[place] = keys[place]
    section = next(place for place in range(min(wanted) - 1, -1, -1) if not lines[place].lstrip().startswith("#"))
    if indent(lines[section]) < indent(keys[min(wanted)]):
        lines[section] = re.sub(r": (\{\}|\[\])", ":", lines[section])
    return "\n".join(line for line in lines if not line.lstrip().startswith("#"))  # which take most of the reading


KEYS = [number for number, line in enumerate(uncommented()) if line]


@table("number", KEYS)
def test_every_commented_key_loads_when_it_is_uncommented(tmp_path: Path, number: int) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(with_key(number), encoding="utf-8")
    agent = tmp_path / "agents" / "support"
    agent.mkdir(parents=True, exist_ok=True)
    (agent / "SOUL.md").write_text("You help.", encoding="utf-8")
    shutil.copy(certifi.where(), tmp_path / "ca.pem")
    try:
        load(file, SET)
    except ConfigError as error:
        key = uncommented()[number].partition("  #")[0].strip()
        pytest.fail("; ".join([key, *(f"{problem.key}: {problem.message}" for problem in error.problems)]))
