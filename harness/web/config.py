"""The settings section `web:`; bot/ puts it into the one config tree."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from harness.config import Section
from harness.web.rules import rule


class SearchSettings(Section):
    """Who is asked when the agent searches. Nobody unless a provider is chosen."""

    provider: Literal["none", "duckduckgo", "tavily", "searxng"] = Field(
        default="none", description="none, duckduckgo (no key), tavily (a key), or searxng (a server of your own)"
    )
    api_key: SecretStr | None = Field(default=None, description="Of tavily")
    base_url: str | None = Field(default=None, description="Of searxng; other for tavily only where it is mirrored")
    max_results: int = Field(default=5, ge=1, le=20, description="The most that one search gives")
    region: str = Field(
        default="",
        max_length=40,
        pattern=r"^[A-Za-z -]*$",
        description="duckduckgo: as in de-de; searxng: a language, as in de; tavily: a country, as in germany",
    )
    timeout: float = Field(default=15.0, gt=0, le=120, description="Seconds that a search may take")

    @field_validator("api_key", mode="before")
    @classmethod
    def _empty_is_none(cls, value: Any) -> Any:
        return None if value == "" else value

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Self:
        if self.provider == "tavily" and self.api_key is None:
            raise ValueError("provider: tavily needs api_key beside it")
        if self.provider == "searxng" and self.base_url is None:
            raise ValueError("provider: searxng needs base_url beside it, the address of the server")
        return self


class FetchSettings(Section):
    """Whether the agent reads pages. The public internet only, and what `allow` opens."""

    enabled: bool = Field(default=False, description="Whether the agent can read pages of the web")
    max_mb: float = Field(default=5.0, gt=0, le=50, description="What is read of one page, unpacked")
    timeout: float = Field(default=30.0, gt=0, le=300, description="Seconds for one page, redirects included")
    allow: tuple[str, ...] = Field(
        default=(),
        max_length=500,
        description="Hosts, addresses and networks that are not public, or :ports other than 80 and 443",
    )

    @field_validator("allow")
    @classmethod
    def _can_be_understood(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for entry in value:
            rule(entry)
        return value


class WebSettings(Section):
    """What the agent has of the web: nothing by default."""

    search: SearchSettings = SearchSettings()
    fetch: FetchSettings = FetchSettings()

    @property
    def is_on(self) -> bool:
        return self.fetch.enabled or self.search.provider != "none"
