"""Settings of a Slack account; imports no SDK."""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

_BOT_TOKEN = re.compile(r"xoxb-[A-Za-z0-9-]{10,}")
_APP_TOKEN = re.compile(r"xapp-[A-Za-z0-9-]{10,}")
_KINDS = {
    "xoxb-": "a bot token",
    "xapp-": "an app-level token",
    "xoxp-": "a user token",
    "xoxe": "a token that expires (token rotation is on: switch it off in the app's settings)",
}


class SlackRate(BaseModel):
    """Rates that Slack tolerates for long (its "Rate limits" page); chat.update has a budget of the whole workspace."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    per_second: float = Field(default=10.0, gt=0, description="Calls a second of the whole app")
    per_chat_per_second: float = Field(default=1.0, gt=0, description="Calls a second in one channel or DM")
    edits_per_minute: float = Field(default=50.0, gt=0, description="Edits a minute over all channels")


class SlackConfig(BaseModel):
    """One app in one workspace. base_url is the root of the Web API; each method's name is appended to it."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    bot_token: SecretStr = Field(description="OAuth & Permissions, Bot User OAuth Token: xoxb-...")
    app_token: SecretStr = Field(
        description="Basic Information, App-Level Tokens, with the scope connections:write: xapp-..."
    )
    base_url: str = Field(default="https://slack.com/api/", description="Root of the Web API; GovSlack has its own")
    rate: SlackRate = SlackRate()
    streaming: Literal["edits", "stream"] = Field(
        default="edits", description="stream: answers in threads grow by Slack's own streaming, all others by edits"
    )
    thread_follow: bool = Field(
        default=True, description="In a thread that the bot takes part in, it answers without being mentioned"
    )
    receipt: Literal["none", "eyes"] = Field(
        default="none", description="eyes: the bot puts this reaction on a message while it works on it"
    )
    max_download_mb: float = Field(default=50.0, gt=0, description="MiB; larger attachments are refused")
    ping_interval: float = Field(
        default=10.0, ge=0.5, le=20, description="Seconds between two pings of the socket; an unanswered one ends it"
    )

    @field_validator("bot_token")
    @classmethod
    def _bot_token_form(cls, token: SecretStr) -> SecretStr:
        return _checked(token, _BOT_TOKEN, "a bot token (xoxb-...): see OAuth & Permissions, Bot User OAuth Token")

    @field_validator("app_token")
    @classmethod
    def _app_token_form(cls, token: SecretStr) -> SecretStr:
        return _checked(token, _APP_TOKEN, "an app-level token (xapp-...): see Basic Information, App-Level Tokens")

    @field_validator("base_url")
    @classmethod
    def _base_url_form(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https"):
            raise ValueError('needs a scheme, such as "https://slack.com/api/"')
        if not parts.hostname:
            raise ValueError("names no host")
        if parts.query or parts.fragment:
            raise ValueError("is a root: it takes no query and no fragment")
        return url.rstrip("/") + "/"

    @staticmethod
    def names_group(native_id: str) -> bool:
        """Whether an id is a channel's (C...) or an older private channel's (G...); people are T.../U..., DMs D...."""
        return native_id.startswith(("C", "G"))


def _checked(token: SecretStr, form: re.Pattern[str], wanted: str) -> SecretStr:
    """The token without white space around it. Raises ValueError, which tells the token's kind and not the token."""
    value = token.get_secret_value().strip()
    if form.fullmatch(value):
        return SecretStr(value)
    kind = next((name for prefix, name in _KINDS.items() if value.startswith(prefix)), None)
    found = f"this is {kind}" if kind is not None and not value.startswith(form.pattern[:5]) else "this is none"
    raise ValueError(f"should be {wanted}; {found}")
