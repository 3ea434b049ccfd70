"""Writes config files for the tests of the settings, and reads back what was found wrong with them."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from bot.settings import ConfigError, ConfigProblem, Settings, load

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TOKEN = "123456789:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
CHANNELS = f'channels: {{telegram: {{token: "{TOKEN}"}}}}\n'


def write(folder: Path, text: str) -> Path:
    file = folder / "config.yaml"
    file.write_text(dedent(text), encoding="utf-8")
    return file


def settings_of(folder: Path, text: str, env: Mapping[str, str] | None = None) -> Settings:
    return load(write(folder, text), env or {})


def problems_of(folder: Path, text: str, env: Mapping[str, str] | None = None) -> tuple[ConfigProblem, ...]:
    with pytest.raises(ConfigError) as caught:
        load(write(folder, text), env or {})
    return caught.value.problems


def found(folder: Path, text: str, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """key -> "line: message; suggestion" of every problem."""
    return {
        problem.key: f"{problem.line}: {problem.message}" + (f"; {problem.suggestion}" if problem.suggestion else "")
        for problem in problems_of(folder, text, env)
    }
