"""The settings section `sandbox.remote:`."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, field_validator

SHORTEST_TOKEN = 16


def _fits_a_header(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if not (text.isascii() and text.isprintable() and text == text.strip()):
        raise ValueError("should be ASCII characters without spaces at the ends")
    return value


Token = Annotated[SecretStr, Field(min_length=SHORTEST_TOKEN, max_length=4096), AfterValidator(_fits_a_header)]


class RemoteSettings(BaseModel):
    """Where the sandboxes of the provider `remote` are."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    url: str = Field(default="", max_length=2000, description="Of the server, such as https://sandboxes.example.org")
    token: Token | None = Field(default=None, description="What the server knows Antler by: a bearer token")
    connect_seconds: float = Field(default=10, gt=0, le=600, description="How long a connection may take to come about")
    answer_seconds: float = Field(
        default=60, gt=0, le=3600, description="How long the server may say nothing, of a running command too"
    )

    @field_validator("url")
    @classmethod
    def _a_server(cls, value: str) -> str:
        if not value:
            return value
        try:
            parts = urlsplit(value)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable or parts.username is not None or parts.query or parts.fragment:
            raise ValueError("should be http(s)://host[:port][/path], without a password in it")
        return value.rstrip("/")
