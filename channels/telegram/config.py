"""The operator's settings for a Telegram account; imports no SDK. Built by the settings, read by the adapter."""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from channels.capabilities import NotifyAfter

_TOKEN = re.compile(r"[0-9]{1,20}:[A-Za-z0-9_-]{30,}")


class TelegramRate(BaseModel):
    """The rate that the Bot API tolerates in the long run (Bots FAQ, "My bot is hitting limits"), edits included."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    per_second: float = Field(default=30.0, gt=0, description="Calls a second of the whole bot")
    per_chat_per_second: float = Field(default=1.0, gt=0, description="Calls a second in one chat")
    per_group_per_minute: float = Field(default=20.0, gt=0, description="Messages and edits a minute in one group")


class TelegramConfig(BaseModel):
    """One bot. base_url is the root of a Bot API server; the paths /bot and /file/bot are appended here."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    token: SecretStr = Field(description="From @BotFather, such as 123456:ABC...; one running program per token")
    base_url: str = Field(default="https://api.telegram.org", description="Root of the Bot API server, with its scheme")
    rate: TelegramRate = TelegramRate()
    streaming: Literal["edits", "draft"] = Field(
        default="edits", description="draft: DMs show a live preview, then one message"
    )
    notify_after: NotifyAfter = 30.0
    adopt_placeholders: bool = Field(default=False, description="After a crash, look for a sent but unrecorded message")
    max_download_mb: float = Field(
        default=20.0, gt=0, description="MiB; larger attachments are refused; the cloud API stops at 20"
    )
    poll_timeout: int = Field(default=25, ge=1, le=50, description="Seconds that one long poll is held open")

    @field_validator("token")
    @classmethod
    def _token_form(cls, token: SecretStr) -> SecretStr:
        if not _TOKEN.fullmatch(token.get_secret_value().strip()):
            raise ValueError("not a bot token: expected digits, a colon and at least 30 letters, digits, _ or -")
        return SecretStr(token.get_secret_value().strip())

    @field_validator("base_url")
    @classmethod
    def _base_url_form(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https"):
            raise ValueError('needs a scheme, such as "http://127.0.0.1:8081" or "https://api.telegram.org"')
        if not parts.hostname:
            raise ValueError("names no host")
        if parts.query or parts.fragment:
            raise ValueError("must be a root URL without query or fragment")
        return url.rstrip("/")

    @staticmethod
    def names_group(native_id: str) -> bool:
        """Whether an id is a group's: chats of several people have negative ids (Bot API, "Chat")."""
        return native_id.startswith("-")
