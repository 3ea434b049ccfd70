"""The operator's settings for a Feishu or Lark app. Imports no SDK."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from channels.capabilities import NotifyAfter

DOMAINS = {"feishu": "https://open.feishu.cn", "lark": "https://open.larksuite.com"}
"""China's platform and the international one. An app exists on only one of them."""
LINKS = {"feishu": "https://applink.feishu.cn", "lark": "https://applink.larksuite.com"}
"""Beginnings of links that open the client."""
_APP_ID = re.compile(r"cli_[A-Za-z0-9_-]{4,60}")
_EMOJI = re.compile(r"[A-Za-z0-9_]{0,60}")


class FeishuRate(BaseModel):
    """The call rate that the open platform tolerates in the long run; all bots of a group share five per second."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    per_second: float = Field(default=40.0, gt=0, description="Calls a second of the whole app")
    per_chat_per_second: float = Field(default=5.0, gt=0, description="Calls a second in one chat")
    per_group_per_minute: float = Field(default=200.0, gt=0, description="Messages and edits a minute in one group")
    edits_per_minute: float = Field(default=800.0, gt=0, description="Edits a minute of the whole app")


class FeishuConfig(BaseModel):
    """One self-built app. domain: "feishu", "lark" or the root URL of a private deployment."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    app_id: str = Field(description="From Credentials & Basic Info in the developer console, such as cli_a1b2c3...")
    app_secret: SecretStr = Field(description="From the same page; one running program per app")
    domain: str = Field(default="feishu", description="feishu (China), lark (international), or a root URL")
    rate: FeishuRate = FeishuRate()
    thread_follow: bool = Field(
        default=True, description="In a thread, go on without being mentioned once a conversation has begun"
    )
    notify_after: NotifyAfter = 30.0
    receipt: str = Field(
        default="", description='Reaction on a message until its answer begins, such as "Typing" or "OnIt"; "": none'
    )
    max_download_mb: float = Field(default=50.0, gt=0, le=100, description="MiB; larger attachments are refused")

    @field_validator("app_id")
    @classmethod
    def _app_id_form(cls, app_id: str) -> str:
        if not _APP_ID.fullmatch(app_id.strip()):
            raise ValueError('not an app id: app ids begin with "cli_"')
        return app_id.strip()

    @field_validator("app_secret")
    @classmethod
    def _secret_form(cls, secret: SecretStr) -> SecretStr:
        value = secret.get_secret_value().strip()
        if not value or not value.isascii() or not value.isprintable() or " " in value:
            raise ValueError("not an app secret: expected letters and digits without spaces")
        return SecretStr(value)

    @field_validator("domain")
    @classmethod
    def _domain_form(cls, domain: str) -> str:
        if domain in DOMAINS:
            return domain
        parts = urlsplit(domain)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:  # reading the port checks it
            raise ValueError("expected feishu, lark, or a root URL with its scheme")
        if parts.query or parts.fragment or parts.path.strip("/"):
            raise ValueError("must be a root URL without path, query or fragment")
        return domain.rstrip("/")

    @field_validator("receipt")
    @classmethod
    def _receipt_form(cls, receipt: str) -> str:
        if not _EMOJI.fullmatch(receipt):
            raise ValueError('not a reaction: expected its name in the API, such as "Typing", "OnIt" or "THUMBSUP"')
        return receipt

    @property
    def root(self) -> str:
        """The open platform's root URL, without a trailing slash."""
        return DOMAINS.get(self.domain, self.domain)

    @staticmethod
    def names_group(native_id: str) -> bool:
        """Whether an id is a chat's (oc_...) and not a person's open_id, which begins with ou_."""
        return native_id.startswith("oc_")


@dataclass(frozen=True, slots=True)
class Scope:
    """A permission of the app. names: any one of them suffices. purpose: what does not work without it."""

    names: tuple[str, ...]
    purpose: str
    needed: bool = False


SCOPES = (
    Scope(("im:message", "im:message:send_as_bot"), "the bot cannot answer", needed=True),
    Scope(("im:message", "im:message:readonly"), "quoted and forwarded messages are not read"),
    Scope(("im:message.p2p_msg:readonly", "im:message.p2p_msg"), "private messages are not received"),
    Scope(
        ("im:message.group_at_msg:readonly", "im:message.group_at_msg", "im:message.group_msg"),
        "group messages are not received",
    ),
    Scope(("im:resource",), "files cannot be read or sent"),
    Scope(("cardkit:card:write",), "answers are not streamed"),
    Scope(("im:chat:readonly", "im:chat"), "group titles are unknown"),
    Scope(("contact:user.base:readonly",), "people are shown as ids instead of names"),
)
"""The scopes that operators import according to docs/setup-feishu.md."""
RECEIPT = Scope(("im:message.reactions:write_only", "im:message"), "the `receipt` reaction is not shown")
ALL_OF_GROUPS = "im:message.group_msg"
"""Optional: without it only those group messages are received that mention the bot."""
