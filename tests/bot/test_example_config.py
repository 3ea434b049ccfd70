"""config.yaml.example: complete, loadable once filled in, refused as it is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest
from pydantic import BaseModel

from bot.settings import ConfigError, Settings, load
from bot.settings.model import COMMON_KEYS
from channels.registry import PLATFORMS, config_class
from harness.config import ModelSettings
from tests.bot.settings_files import TOKEN

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLE = Path(__file__).parents[2] / "config.yaml.example"


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


@pytest.mark.parametrize("key", sorted(all_keys()))
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
    shown, default = load(EXAMPLE, ENVIRONMENT), Settings.default()
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
