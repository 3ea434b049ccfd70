"""The operator's settings for a WeCom account; imports no SDK. Built by the settings, read by the adapter."""

from __future__ import annotations

from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator


class WecomRate(BaseModel):
    """The rate tolerated in the long run (developer docs 101463), shared by replies, stream updates and pushes."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    per_second: float = Field(default=50.0, gt=0, description="Calls a second of the whole bot")
    per_chat_per_second: float = Field(default=2.0, gt=0, description="Calls a second in one chat")
    per_chat_per_minute: float = Field(default=30.0, gt=0, description="Calls a minute in one chat")
    per_chat_per_hour: float = Field(default=1000.0, gt=0, description="Calls an hour in one chat")


class WecomConfig(BaseModel):
    """One smart robot in API mode with a long connection."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    bot_id: str = Field(min_length=1, max_length=128, description="Bot ID of the robot's API mode, long connection")
    secret: SecretStr = Field(description="Secret shown with the Bot ID; one running program per robot")
    bot_name: str = Field(
        default="", max_length=64, description="What people type after @ in groups; empty: the first @word is left out"
    )
    url: str = Field(
        default="wss://openws.work.weixin.qq.com", description="Where to connect; other for private deployments"
    )
    rate: WecomRate = WecomRate()
    welcome: str | None = Field(
        default=None,
        max_length=2000,
        description='Said when a person opens the chat; left out: what Antler is; "": nothing',
    )
    max_download_mb: float = Field(default=20.0, gt=0, description="MiB; larger attachments are refused")
    reconnect_after_kick: bool = Field(
        default=False, description="Connect again a minute after another program has taken over the robot"
    )

    @field_validator("bot_id", "bot_name")
    @classmethod
    def _no_space_around(cls, value: str) -> str:
        return value.strip().removeprefix("@")

    @field_validator("secret")
    @classmethod
    def _secret_form(cls, secret: SecretStr) -> SecretStr:
        value = secret.get_secret_value().strip()
        if not value or any(char.isspace() for char in value):
            raise ValueError("is empty or contains whitespace")
        return SecretStr(value)

    @field_validator("url")
    @classmethod
    def _url_form(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("ws", "wss"):
            raise ValueError('needs a scheme, such as "wss://openws.work.weixin.qq.com"')
        if not parts.hostname or parts.port == 0:  # reading the port checks it
            raise ValueError("names no host")
        return url
