"""Settings sections that the harness owns; bot/settings puts them into the one config tree."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator

SAME = "same"
"""Value of `model` for a conversation's side jobs: the model that answers there."""


OptionalSecret = Annotated[SecretStr | None, BeforeValidator(lambda value: None if value == "" else value)]
"""An empty string counts as None, so that an environment variable can be left empty."""


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class PriceSettings(Section):
    """Cost of a model per million tokens. cached: of input that the provider read from its cache; as input if unset."""

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)
    cached: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    currency: str = Field(default="USD", pattern=r"^[A-Z]{3}$", description="ISO 4217")


class ModelSettings(Section):
    """One entry of `models:`. The first one is the default."""

    name: str = Field(
        description="What people type after /models; letters, digits, dots, dashes",
        max_length=64,
        pattern=r"^[\w.:-]+$",
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
    price: PriceSettings | None = None
    supports_thinking: bool = False
    thinking: bool = Field(default=True, description="Whether it thinks, if it supports that")
    show_thinking: bool = Field(default=False, description="Shows the newest line of it until the answer begins")
    return_thinking: bool = Field(default=False, description="Each request includes its earlier thinking")
    when_thinking_enabled: dict[str, Any] = Field(default={}, description="Added to each request; by the provider")
    when_thinking_disabled: dict[str, Any] = Field(default={}, description="As above, with `thinking: false`")
    fallbacks: tuple[str, ...] = Field(
        default=(), max_length=8, description="Other models, by name, tried in this order when it fails"
    )

    @property
    def full_name(self) -> str:
        """The model's name with the provider's name for it, for the log and for administrators."""
        return f"{self.name} ({self.model})" if self.model not in ("", self.name) else self.name

    @property
    def thinks(self) -> bool:
        """Whether the model thinks before it answers."""
        return self.supports_thinking and self.thinking

    @property
    def thinking_arguments(self) -> dict[str, Any]:
        """Extra request arguments that turn thinking on or off."""
        if not self.supports_thinking:
            return {}
        return self.when_thinking_enabled if self.thinking else self.when_thinking_disabled


class SummarizationSettings(Section):
    max_messages: int = Field(default=60, ge=4, description="Summarize when a thread has more messages")
    keep: int = Field(default=20, ge=2, description="Messages kept verbatim")
    max_share: float = Field(
        default=0.8, gt=0, le=1, description="Or when the history exceeds this share of context_window"
    )


class LoopSettings(Section):
    """Equal tool calls (same tool, same arguments) among the newest `window` of a turn."""

    warn: int = Field(default=3, ge=2, description="The model is told that it repeats itself")
    stop: int = Field(default=5, ge=2, description="No further tool call; the model has to answer")
    window: int = Field(default=20, ge=2, le=200)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.warn < self.stop <= self.window:
            raise ValueError("needs warn < stop <= window")
        return self


class ToolSettings(Section):
    """One entry of `tools:`, a LangChain tool of the operator's own."""

    use: str = Field(
        pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", max_length=300, description="module:variable of a LangChain tool"
    )
    group: str = Field(default="", max_length=64, pattern=r"^[\w.-]*$", description="Its name in tool_groups")
    name: str = Field(
        default="", max_length=64, pattern=r"^[\w-]*$", description="Its name for the model; its own if empty"
    )


class LlmSettings(Section):
    patience: float = Field(
        default=60.0,
        ge=0,
        le=600,
        description="Seconds for which a busy or unreachable provider is retried",
    )
    max_retries: int = Field(
        default=3, ge=0, le=10, description="Retries of an answer that breaks off, is empty or unreadable"
    )
    max_retry_wait: float = Field(
        default=60.0, gt=0, description="A longer Retry-After ends the run with an honest answer"
    )


EXTRAS = {
    "langchain_anthropic": "anthropic",
    "langchain_google_genai": "gemini",
    "langchain_deepseek": "deepseek",
    "langchain_ollama": "ollama",
}
"""Module of a vendor's chat model -> Antler's extra that installs it."""


def package_of(use: str) -> str:
    """The package to install for a `module:Class`, quoted for a shell: Antler's extra for the vendors it is tested
    with, else the package named like the module."""
    module = use.partition(":")[0].partition(".")[0]
    return extra_of(EXTRAS[module]) if module in EXTRAS else module.replace("_", "-")


def extra_of(name: str) -> str:
    """One of Antler's extras, quoted for a shell."""
    return f"'antler[{name}]'"


def install_command(package: str) -> str:
    """The command that installs a package into the Python that Antler runs in."""
    return f"{sys.executable} -m pip install {package}"
