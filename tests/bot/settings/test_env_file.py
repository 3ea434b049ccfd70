"""The .env file beside the config: secrets that neither the config nor the shell has to hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bot.settings import ConfigError
from bot.settings.load import SettingsSource, exposed, variables
from tests.bot.settings_files import TOKEN

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = "channels: {telegram: {token: $BOT_TOKEN}}\n"


def folder_with(tmp_path: Path, env: str) -> Path:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    (tmp_path / ".env").write_text(env)
    (tmp_path / ".env").chmod(0o600)
    return config


def test_its_variables_stand_in_for_the_environment(tmp_path: Path) -> None:
    settings = SettingsSource(folder_with(tmp_path, f"# the bot\nBOT_TOKEN={TOKEN}\nANTLER__LOCALE='zh'\n")).read()
    assert TOKEN in settings.secrets()
    assert settings.locale == "zh"


def test_the_environment_wins_and_no_value_refers_to_another(tmp_path: Path) -> None:
    config = folder_with(tmp_path, "A=file\nB=pa$A${A}\nC\n")
    assert variables(config, {"A": "shell"}) == {"A": "shell", "B": "pa$A${A}"}


def test_a_change_of_it_is_noticed(tmp_path: Path) -> None:
    config = folder_with(tmp_path, f"BOT_TOKEN={TOKEN}\n")
    source = SettingsSource(config)
    settings = source.read()
    assert source.signature(settings.agents_dir) == source.seen
    (tmp_path / ".env").write_text(f"BOT_TOKEN={TOKEN}x\n")
    assert source.signature(settings.agents_dir) != source.seen


def test_one_that_is_no_text_is_named(tmp_path: Path) -> None:
    config = folder_with(tmp_path, "")
    (tmp_path / ".env").write_bytes(b"A=\xff\xfe\x00\n")
    with pytest.raises(ConfigError, match=r"\.env.*not UTF-8"):
        SettingsSource(config).read()
    assert SettingsSource(config).data_dir() == tmp_path / "data"


@pytest.mark.parametrize(("mode", "told"), [(0o600, False), (0o400, False), (0o640, True), (0o604, True)])
def test_one_that_others_can_read_is_told_with_what_to_do(tmp_path: Path, mode: int, told: bool) -> None:
    config = folder_with(tmp_path, "")
    (tmp_path / ".env").chmod(mode)
    warning = exposed(config)
    assert (warning is not None and "chmod 600" in warning) is told


def test_without_one_nothing_changes(tmp_path: Path) -> None:
    env = {"A": "1"}
    assert variables(tmp_path / "config.yaml", env) is env
    assert exposed(None) is None
