"""The section `transcription` of the settings: the service that transcribes voice messages."""

from __future__ import annotations

from typing import Any

from pydantic import Field, SecretStr, field_validator

from harness.config import Section

OPENAI = "https://api.openai.com/v1"


class TranscriptionSettings(Section):
    """A server that speaks OpenAI's /audio/transcriptions. Voice messages are transcribed where this section is."""

    model: str = Field(min_length=1, max_length=200, description="The provider's name of the model")
    base_url: str = OPENAI
    api_key: SecretStr | None = None
    language: str = Field(
        default="",
        max_length=16,
        pattern=r"^([A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})?)?$",
        description="That people speak, such as de; empty: the provider finds out",
    )
    timeout: float = Field(default=120.0, gt=0, le=3600, description="Seconds for one voice message, retries included")
    max_minutes: float = Field(default=30.0, gt=0, description="Longer ones are not sent, where their length is known")
    max_mb: float = Field(default=25.0, gt=0, description="Larger ones are not sent")

    @field_validator("language", mode="before")
    @classmethod
    def _none_is_empty(cls, value: Any) -> Any:
        return "" if value is None else value
