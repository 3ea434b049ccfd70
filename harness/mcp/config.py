"""The settings sections `mcp_servers` and `tool_search`; bot/settings/model.py puts them into the one config tree."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    StringConstraints,
    field_validator,
    model_validator,
)

from harness.config import Section

ServerName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$")]
AgentName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]
LEAD = "lead"
"""The name in `add_to_agents` of the agent that a person talks to; others are named by their type or role."""
Transport = Literal["stdio", "http", "sse"]

_TELLING = re.compile(r"key|token|secret|passw|pwd|credential|auth|private|cookie|session|dsn|pat$", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z][A-Za-z_.,/ -]*|[\d.:]+|/[\w./-]*")
_PLAIN_PATH = re.compile(r"(?:/[a-z._-]{0,24}|/v\d)*")
"""Such as /mcp or /oauth/token."""


def public_value(name: str, value: str) -> bool:
    """Whether a variable or header is so plain (a word, a number, a path) that redacting it would only do harm."""
    return not _TELLING.search(name) and bool(_WORD.fullmatch(value))


def _sorted_secrets(value: Any) -> Any:
    """Convert numbers and booleans to strings; values that are not plainly public become secrets."""
    if not isinstance(value, dict):
        return value
    return {name: _held(str(name), item) for name, item in value.items()}


def _held(name: str, value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return SecretStr(value) if isinstance(value, str) and not public_value(name, value) else value


Values = Annotated[dict[str, str | SecretStr], BeforeValidator(_sorted_secrets)]
"""Environment variables or headers."""


def _hidden_url(value: Any) -> Any:
    """Turn a URL that may contain a key into a secret."""
    if not isinstance(value, str):
        return value
    try:
        parts = urlsplit(value)
    except ValueError:
        return SecretStr(value)
    is_plain = not (parts.query or parts.fragment or parts.username or parts.password)
    return value if is_plain and _PLAIN_PATH.fullmatch(parts.path) else SecretStr(value)


def _check_url(value: str | SecretStr) -> str | SecretStr:
    try:
        parts = urlsplit(plain(value))
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("should be http://host/path or https://host/path")
    return value


Url = Annotated[str | SecretStr, BeforeValidator(_hidden_url), AfterValidator(_check_url)]


def plain(value: str | SecretStr) -> str:
    return value.get_secret_value() if isinstance(value, SecretStr) else value


class OAuthSettings(Section):
    """How a token is obtained. Without a token from the provider nothing is sent to the server."""

    grant: Literal["client_credentials", "refresh_token"] = "client_credentials"
    token_url: Url
    client_id: str = Field(min_length=1)
    client_secret: SecretStr | None = None
    refresh_token: SecretStr | None = Field(
        default=None, description="The first one; newer ones are stored in the data folder"
    )
    scope: str = ""
    audience: str = ""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.grant == "refresh_token" and self.refresh_token is None:
            raise ValueError("grant refresh_token needs a refresh_token")
        if self.grant == "client_credentials" and self.client_secret is None:
            raise ValueError("grant client_credentials needs a client_secret")
        return self


class HintSettings(Section):
    """What an operator declares about a tool, or about those whose names match a pattern; overrides what the server
    says. add_to_agents: replaces the server's setting."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    add_to_agents: tuple[AgentName, ...] | None = Field(default=None, max_length=50)


class ToolFilter(Section):
    """The server's own tool names; * matches anything. deny wins."""

    allow: tuple[str, ...] = ("*",)
    deny: tuple[str, ...] = ()


class McpServerSettings(Section):
    """One server. transport: by default stdio with a command, http with a url. add_to_agents: which agents have its
    tools, by type of subagent, role of a research, or LEAD; None: the lead agent, and the subagents that share its
    tools."""

    transport: Transport
    enabled: bool = True
    command: str | None = Field(default=None, min_length=1)
    args: tuple[str, ...] = ()
    env: Values = Field(default={})
    cwd: Path | None = None
    url: Url | None = None
    headers: Values = Field(default={})
    oauth: OAuthSettings | None = None
    timeout: float = Field(default=60.0, gt=0, le=3600, description="Seconds that one call may take")
    connect_timeout: float = Field(default=30.0, gt=0, le=300, description="Seconds to start and list its tools")
    tools: ToolFilter = ToolFilter()
    hints: dict[str, HintSettings] = Field(default={})
    add_to_agents: tuple[AgentName, ...] | None = Field(default=None, max_length=50)

    @field_validator("cwd")
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        if value is not None and not value.is_absolute():
            raise ValueError("should be an absolute path")
        return value

    @model_validator(mode="before")
    @classmethod
    def _transport(cls, values: Any) -> Any:
        if isinstance(values, dict) and "transport" not in values:
            return {**values, "transport": "http" if values.get("url") and not values.get("command") else "stdio"}
        return values

    @model_validator(mode="after")
    def _fitting(self) -> Self:
        local = self.transport == "stdio"
        if local and self.command is None:
            raise ValueError("needs a command (or, for a remote server, a url)")
        if not local and self.url is None:
            raise ValueError(f"needs a url for the transport {self.transport}")
        strange = ("url", "headers", "oauth") if local else ("command", "args", "env", "cwd")
        given = [name for name in strange if name in self.model_fields_set and getattr(self, name)]
        if given:
            raise ValueError(f"has {given[0]}, which the transport {self.transport} does not use")
        return self


class ToolSearchSettings(Section):
    """When MCP tools are deferred. auto: from `threshold` tools on."""

    enabled: Literal["auto", "on", "off"] = "auto"
    threshold: int = Field(default=20, ge=1)

    def defers(self, tools: int) -> bool:
        """Whether the model sees only the names of this many MCP tools until it searches for them."""
        return tools > 0 and (self.enabled == "on" or (self.enabled == "auto" and tools >= self.threshold))
