"""The settings of `web.search`: which engines are queried, and how."""

from __future__ import annotations

import re
from typing import Any, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from harness.config import OptionalSecret, Section

_ROOM = "harness.web.search"
ENGINES = {
    "duckduckgo": f"{_ROOM}.duckduckgo:DuckDuckGo",
    "searxng": f"{_ROOM}.services:Searxng",
    "tavily": f"{_ROOM}.services:Tavily",
    "brave": f"{_ROOM}.services:Brave",
    "serper": f"{_ROOM}.services:Serper",
    "exa": f"{_ROOM}.services:Exa",
    "jina": f"{_ROOM}.services:Jina",
    "arxiv": f"{_ROOM}.libraries:Arxiv",
    "wikipedia": f"{_ROOM}.libraries:Wikipedia",
}
"""Name -> module:Class of the built-in engines; imported on use."""
WITH_KEY = frozenset({"tavily", "brave", "serper", "exa", "jina"})
WITH_URL = frozenset({"searxng"})
MOST_ENGINES = 9
_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", re.ASCII)
_REGION = r"^[A-Za-z -]*$"


class EngineSettings(Section):
    """One engine. use: of ENGINES, or module:Class of one's own, which receives these settings."""

    use: str = Field(
        max_length=300,
        description="duckduckgo, searxng, tavily, brave, serper, exa, jina, arxiv, wikipedia, or module:Class of your "
        "own engine",
    )
    api_key: OptionalSecret = Field(default=None, description="For tavily, brave, serper, exa and jina")
    base_url: str | None = Field(default=None, description="For searxng; for others only if mirrored")
    region: str = Field(default="", max_length=40, pattern=_REGION, description="A country or language")
    options: dict[str, Any] = Field(default={}, description="Further settings of your own engine")

    @field_validator("use")
    @classmethod
    def _is_known(cls, value: str) -> str:
        if value not in ENGINES and not _PATH.fullmatch(value):
            raise ValueError(f"should be one of {', '.join(ENGINES)}, or module:Class of your own engine")
        return value

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Self:
        _require("use", self.use, self.api_key, self.base_url)
        if self.options and self.use in ENGINES:
            raise ValueError(f"use: {self.use} takes no options; they are for engines of your own")
        return self


def _require(field: str, engine: str, api_key: SecretStr | None, base_url: str | None) -> None:
    if engine in WITH_KEY and api_key is None:
        raise ValueError(f"{field}: {engine} also needs api_key")
    if engine in WITH_URL and base_url is None:
        raise ValueError(f"{field}: {engine} also needs base_url, the address of the server")


class SearchSettings(Section):
    """The engines for the agent's searches. None unless one is chosen."""

    provider: Literal[
        "none", "duckduckgo", "searxng", "tavily", "brave", "serper", "exa", "jina", "arxiv", "wikipedia"
    ] = Field(default="none", description="The only search engine; list several in engines")
    api_key: OptionalSecret = Field(default=None, description="The provider's, if it needs one")
    base_url: str | None = Field(default=None, description="For searxng; for others only if mirrored")
    region: str = Field(
        default="",
        max_length=40,
        pattern=_REGION,
        description="A country or language; docs/web.md lists what each engine accepts",
    )
    engines: tuple[EngineSettings, ...] = Field(
        default=(),
        max_length=MOST_ENGINES,
        description="Queried together with the provider; their results are merged",
    )
    max_results: int = Field(default=5, ge=1, le=20, description="Most results of one search")
    timeout: float = Field(default=15.0, gt=0, le=120, description="Seconds that a search may take")

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Self:
        _require("provider", self.provider, self.api_key, self.base_url)
        return self

    @property
    def is_on(self) -> bool:
        return bool(self.asked)

    @property
    def asked(self) -> dict[str, EngineSettings]:
        """All engines, by their keys in the config."""
        found = {}
        if self.provider != "none":
            found["web.search"] = EngineSettings(
                use=self.provider, api_key=self.api_key, base_url=self.base_url, region=self.region
            )
        return found | {f"web.search.engines[{number}]": engine for number, engine in enumerate(self.engines)}
