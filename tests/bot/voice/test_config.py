"""The section `transcription`: off without it, checked and told like the rest of the settings, its key in nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bot.settings import ConfigError
from bot.settings.summary import describe
from tests.bot.settings_files import settings_of

if TYPE_CHECKING:
    from pathlib import Path

CANARY = "c4n4ry-S3CRET"


def test_without_the_section_nobody_listens(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, "channels: {console: {}}")
    assert settings.transcription is None
    assert "voice     voice messages are not transcribed (no transcription)" in describe(settings)


def test_what_is_told_of_it_holds_no_secret(tmp_path: Path) -> None:
    section = f'{{model: whisper-1, api_key: {CANARY}, base_url: "https://me:{CANARY}@voice.example/v1"}}'
    settings = settings_of(tmp_path, f"channels: {{console: {{}}}}\ntranscription: {section}\n")
    assert "voice     whisper-1 at voice.example transcribes voice messages" in describe(settings)
    assert CANARY not in describe(settings)
    assert CANARY in settings.secrets()


@pytest.mark.parametrize(
    ("section", "key"),
    [
        ("{}", "transcription.model"),
        ("{model: ''}", "transcription.model"),
        ("{model: m, base_url: api.example}", "transcription.base_url"),
        ("{model: m, base_url: ''}", "transcription.base_url"),
        ("{model: m, language: English}", "transcription.language"),
        ("{model: m, timeout: 0}", "transcription.timeout"),
        ("{model: m, max_minutes: -1}", "transcription.max_minutes"),
        ("{model: m, max_mb: 0}", "transcription.max_mb"),
        ("{model: m, modle: n}", "transcription.modle"),
        ("{model: m, api_key: <your key>}", "transcription.api_key"),
    ],
)
def test_a_mistake_names_its_key(tmp_path: Path, section: str, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings_of(tmp_path, f"channels: {{console: {{}}}}\ntranscription: {section}\n")
    assert {problem.key for problem in caught.value.problems} == {key}
