"""The settings sections that the harness owns; bot/settings.py puts them into the one config tree."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, SecretStr


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class ModelSettings(Section):
    """One entry of `models:`. The first one is the default."""

    name: str = Field(
        description="What people type after /models; letters, digits, dots, dashes", pattern=r"^[\w.:-]{1,64}$"
    )
    use: str = Field(
        default="langchain_openai:ChatOpenAI", description="module:Class of a LangChain chat model, or demo"
    )
    model: str = Field(default="", description="The provider's name of the model")
    display_name: str = ""
    base_url: str | None = None
    api_key: SecretStr | None = None
    max_tokens: int | None = Field(default=None, gt=0)
    temperature: float | None = Field(default=None, ge=0, le=2)
    timeout: float = Field(default=120.0, gt=0, description="Seconds without a byte from the provider")
    supports_vision: bool = False
    context_window: int = Field(default=128_000, gt=0, description="Tokens")


class SummarizationSettings(Section):
    max_messages: int = Field(default=60, ge=4, description="Summarise when a thread has more messages")
    keep: int = Field(default=20, ge=2, description="Messages kept verbatim")
    max_share: float = Field(
        default=0.8, gt=0, le=1, description="Or when the history passes this share of context_window"
    )


class LlmSettings(Section):
    max_retries: int = Field(default=3, ge=0, le=10)
    max_retry_wait: float = Field(
        default=60.0, gt=0, description="A longer Retry-After ends the run with an honest answer"
    )
