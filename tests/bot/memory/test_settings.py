"""`memory:` in the config."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bot.settings import ConfigError, load
from bot.settings.summary import describe

if TYPE_CHECKING:
    from pathlib import Path


def config(folder: Path, memory: str) -> Path:
    path = folder / "config.yaml"
    path.write_text(f"data_dir: {folder}/data\nchannels:\n  console: {{}}\nmemory: {memory}\n")
    return path


@pytest.mark.parametrize(
    ("memory", "key"),
    [
        ("{model: nobody}", "memory.model"),
        ("{storage: cloud}", "memory.storage"),
        ("{max_facts: 0}", "memory.max_facts"),
        ("{remember: true}", "memory.remember"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, memory: str, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(config(tmp_path, memory), {})
    assert [problem.key for problem in caught.value.problems] == [key]


@pytest.mark.parametrize(
    ("memory", "told"),
    [
        ("{}", "of people and groups, in {folder}/data/users; demo learns"),
        ("{groups: false, storage: database}", "of people; groups have none, in the database; demo learns"),
        ("{enabled: false}", "nothing is remembered beyond a thread"),
    ],
)
def test_the_summary_says_what_is_remembered_and_where(tmp_path: Path, memory: str, told: str) -> None:
    assert f"memory    {told.format(folder=tmp_path)}\n" in describe(load(config(tmp_path, memory), {}))
