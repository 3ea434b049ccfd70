"""The sections of the settings tree owned by bot/, each checked by itself; model.py combines them.

Persons and groups are exact strings `account:native id`, never names. The network is configured only here, never by
HTTP_PROXY.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)

from harness.config import OptionalSecret, Section
from harness.context import Progress

# Persons and groups.

ANYBODY = "*"
ACCOUNT_ID = r"^[a-z0-9][a-z0-9_-]{0,31}$"

_FORM = 'should be "account:id", for example as /whoami prints it'
_ODD_NUMBER = re.compile(r"[+-]?0\d+|\+\d+|-0")


def check_identity(value: Any) -> str:
    """Return the value if it is an exact `account:native id`. Raises ValueError, whose text does not repeat it."""
    if isinstance(value, Mapping):
        raise ValueError(f"is a mapping: remove the space after the colon, or put it in quotes; it {_FORM}")
    if not isinstance(value, str):
        raise ValueError(f"has no account prefix; it {_FORM}")
    if value == ANYBODY:
        return value
    if any(c.isspace() or not c.isprintable() for c in value):
        raise ValueError("contains a space or an invisible character")
    if unicodedata.normalize("NFKC", value) != value:
        raise ValueError("contains look-alike characters; copy the id from /whoami")
    account, colon, native = value.partition(":")
    if account.startswith("@") or native.startswith("@"):
        raise ValueError("is a name, and names change hands; use the id that /whoami shows")
    if not colon or not native or not re.match(ACCOUNT_ID, account):
        raise ValueError(_FORM)
    if native == ANYBODY:
        raise ValueError("does not accept a pattern: list each one")
    if _ODD_NUMBER.fullmatch(native):
        raise ValueError("is not written as the platform writes it (a leading zero or plus sign)")
    return value


def _check_named(value: Any) -> str:
    if value == ANYBODY:
        raise ValueError("does not accept *: list each one")
    return check_identity(value)


def _nobody(value: Any) -> Any:
    """null, "" and [] all mean nobody."""
    return () if value is None or value == "" else value


Identity = Annotated[str, BeforeValidator(check_identity)]
NamedIdentity = Annotated[str, BeforeValidator(_check_named)]
Identities = Annotated[tuple[Identity, ...], BeforeValidator(_nobody)]
"""Persons or groups, or "*" for everyone."""
NamedIdentities = Annotated[tuple[NamedIdentity, ...], BeforeValidator(_nobody)]
"""Persons, never "*"."""


def with_account(account: str, value: Any) -> Any:
    """An entry of a channel's own list: a bare id there belongs to that channel's account, written 12 or "12"."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{account}:{value}"
    if isinstance(value, str) and value and value != ANYBODY and ":" not in value:
        return f"{account}:{value}"
    return value


# The network.

DIRECT = "direct"


def _check_proxy(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if text == DIRECT:
        return value
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(f"should be http://host:port or https://host:port, or {DIRECT} for none")
    return value


ProxyUrl = Annotated[SecretStr, AfterValidator(_check_proxy)]
"""A proxy, possibly with user:password; "direct" for none."""


def _check_host_pattern(value: str) -> str:
    if "/" in value and _network(value) is None:
        raise ValueError("should be a host name, an address, a network such as 10.0.0.0/8, or *")
    return value


HostPattern = Annotated[str, AfterValidator(_check_host_pattern)]


def _comma_list(value: Any) -> Any:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


class NetworkSettings(Section):
    """The network settings of all channels and models without their own proxy."""

    proxy: ProxyUrl | None = None
    no_proxy: Annotated[tuple[HostPattern, ...], BeforeValidator(_comma_list)] = Field(
        default=("localhost", "127.0.0.0/8", "::1"),
        description="Host names with their subdomains, addresses, networks, or *",
    )
    ca_file: Path | None = Field(default=None, description="PEM file of CAs to trust besides the system's")

    def proxy_for(self, url: str, override: str | None = None) -> str | None:
        """The proxy for a URL, None for a direct connection.

        override: the channel's own setting; since it is specific, it takes precedence over no_proxy, too.
        """
        if override is not None:
            return None if override == DIRECT else override
        proxy = self.proxy.get_secret_value() if self.proxy else DIRECT
        host = (urlsplit(url).hostname or "").rstrip(".")
        if proxy == DIRECT or any(_matches(host, pattern) for pattern in self.no_proxy):
            return None
        return proxy


def _matches(host: str, pattern: str) -> bool:
    if pattern == "*":
        return True
    address = _address(host)
    if address is not None:
        network = _network(pattern)
        return network is not None and address.version == network.version and address in network
    name = pattern.lower().removeprefix("*").removeprefix(".").rstrip(".")
    return bool(name) and (host == name or host.endswith(f".{name}"))


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _network(pattern: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(pattern.strip("[]"), strict=False)
    except ValueError:
        return None


# The other sections.


_SERVER = re.compile(r"(?:[^:/]*(?::[^@]*)?@)?(?:\[[^/?]+\]|[^/:?@]*)(?::[0-9]+)?(?:[/?].*)?", re.DOTALL)
"""What follows postgresql://, as SQLAlchemy reads it: the first @ ends the password."""


class DatabaseSettings(Section):
    """The database. url: PostgreSQL's; without one the database is an SQLite file in data_dir."""

    url: OptionalSecret = None

    @field_validator("url")
    @classmethod
    def _is_postgresql(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None:
            return None
        scheme, _, server = value.get_secret_value().partition("://")
        if scheme not in ("postgresql", "postgres"):
            raise ValueError("should be postgresql://user:password@host/database; for SQLite leave it out")
        if not _SERVER.fullmatch(server):
            raise ValueError("has no valid host and port after the password; there, write @ as %40 and % as %25")
        return value


LOG_FILE = "antler.log"
"""The log file in the data folder; rotated ones have a number appended."""


class LogSettings(Section):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"
    file: bool = Field(default=True, description="Also log to antler.log in the data folder, for `antler logs`")

    @field_validator("level", mode="before")
    @classmethod
    def _any_case(cls, value: Any) -> Any:
        return value.lower() if isinstance(value, str) else value


class GroupSettings(Section):
    """Groups. allow: groups as `account:chat id`. members: to whom the bot listens there. answer: when it answers."""

    allow: Identities = ()
    members: Literal["any", "listed"] = "any"
    answer: Literal["mention", "always", "off"] = "mention"


class AccessSettings(Section):
    """Who may use the bot; nobody by default. Grants made in chats or by `antler access` are added to this.

    dm: what a stranger receives for a private message: "pairing" a code that an admin can approve, "allowlist" their
    id, "open" an answer.
    """

    dm: Literal["pairing", "allowlist", "open"] = "pairing"
    allow: Identities = ()
    admins: NamedIdentities = ()
    groups: GroupSettings = GroupSettings()
    i_accept_public: bool = False

    @property
    def is_public(self) -> bool:
        """Whether strangers have access: the list of persons or of groups is open to everyone."""
        return self.dm == "open" or ANYBODY in self.allow or ANYBODY in self.groups.allow

    @model_validator(mode="after")
    def _public_only_on_purpose(self) -> Self:
        if self.is_public and not self.i_accept_public:
            raise ValueError("dm: open and * let everyone in and need i_accept_public: true next to them")
        return self


class ConversationSettings(Section):
    """Conversations. busy: the effect of a message that arrives during a run. debounce_seconds: in which a person's
    further messages join the first one before it is answered. join_seconds: in which they join an answer that has
    begun and shown nothing; this delays nothing. group_*: how groups are handled. agent: the default agent.
    intermediate: whether the agent's messages before tool calls stay above its last one. progress: how much of its
    work is shown."""

    busy: Literal["queue", "collect", "steer", "interrupt", "rollback", "reject"] = "steer"
    debounce_seconds: float = Field(default=0, ge=0, le=60)
    join_seconds: float = Field(default=3, ge=0, le=60)
    group_scope: Literal["chat", "speaker"] = "chat"
    group_context: Literal["on", "off"] = "on"
    group_control: Literal["admins", "members"] = "admins"
    agent: str = "default"
    intermediate: Literal["all", "last"] = "all"
    progress: Progress = "short"


class LimitSettings(Section):
    """Limits. concurrent_runs: per process. queued_total: waiting messages in all conversations together.
    messages_per_minute: one person's sustained rate, with message_burst of them at once. model_calls and run_seconds:
    per run; waiting for a person is not counted."""

    concurrent_runs: int = Field(default=200, gt=0)
    queued_per_conversation: int = Field(default=20, gt=0)
    queued_total: int = Field(default=2000, gt=0)
    messages_per_minute: float = Field(default=60, gt=0)
    message_burst: int = Field(default=30, gt=0)
    model_calls: int = Field(default=100, gt=0)
    run_seconds: float = Field(default=1800, gt=0)


class UploadSettings(Section):
    """Limits on files that people send, in megabytes: per file, per message or album, per thread, and per person within
    24 hours. convert: documents are also converted to text, in the sandbox."""

    max_file_mb: float = Field(default=20, gt=0)
    max_message_mb: float = Field(default=50, gt=0)
    max_thread_mb: float = Field(default=200, gt=0)
    max_person_mb_per_day: float = Field(default=500, gt=0)
    convert: bool = True


class BudgetSettings(Section):
    """A spending limit: tokens, input and output; money, in the currency of the models' prices. None: unlimited."""

    tokens: int | None = Field(default=None, gt=0)
    money: float | None = Field(default=None, ge=0.000001, allow_inf_nan=False)


class BudgetsSettings(Section):
    """Budgets. run: of one answer, including its subagents. *_day: from midnight to midnight in `timezone`, of one
    conversation, of one person everywhere, and of all together."""

    run: BudgetSettings = BudgetSettings()
    conversation_day: BudgetSettings = BudgetSettings()
    speaker_day: BudgetSettings = BudgetSettings()
    gateway_day: BudgetSettings = BudgetSettings()


class TitleSettings(Section):
    """Titles of threads.

    model: makes a title from the first exchange; "same": the model that answered; "": use the message's first words.
    """

    enabled: bool = True
    model: str = ""


class ScheduleSettings(Section):
    """Reminders and scheduled tasks. enabled: the agent can create them; existing ones fire in any case.
    min_interval_minutes: between two occurrences of a repeating one."""

    enabled: bool = True
    max_per_person: int = Field(default=20, gt=0)
    max_per_chat: int = Field(default=50, gt=0)
    min_interval_minutes: int = Field(default=15, ge=1, le=24 * 60)


class DataSettings(Section):
    """Retention. keep_days: how long the events of finished runs are kept. keep_threads_days: after which an unused
    thread is deleted with its files; None: never."""

    keep_days: int = Field(default=30, gt=0)
    keep_threads_days: int | None = Field(default=None, gt=0)


OPENAI = "https://api.openai.com/v1"


class TranscriptionSettings(Section):
    """A server with OpenAI's /audio/transcriptions API. Voice messages are transcribed if this section exists."""

    model: str = Field(min_length=1, max_length=200, description="The provider's name of the model")
    base_url: str = OPENAI
    api_key: SecretStr | None = None
    language: str = Field(
        default="",
        max_length=16,
        pattern=r"^([A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})?)?$",
        description="Language spoken, such as de; empty: the provider detects it",
    )
    timeout: float = Field(default=120.0, gt=0, le=3600, description="Seconds for one voice message, retries included")
    max_minutes: float = Field(default=30.0, gt=0, description="Longer ones are not sent, if their length is known")
    max_mb: float = Field(default=25.0, gt=0, description="Larger ones are not sent")

    @field_validator("language", mode="before")
    @classmethod
    def _none_is_empty(cls, value: Any) -> Any:
        return "" if value is None else value


class OtlpSettings(Section):
    """An OpenTelemetry collector. url: the full address to which spans are posted."""

    url: str = Field(pattern=r"^https?://\S+$")
    headers: dict[str, SecretStr] = Field(default={})


class LangfuseSettings(Section):
    base_url: str = Field(default="https://cloud.langfuse.com", pattern=r"^https?://\S+$")
    public_key: str = Field(min_length=1)
    secret_key: SecretStr


class LangsmithSettings(Section):
    base_url: str = Field(default="https://api.smith.langchain.com", pattern=r"^https?://\S+$")
    api_key: SecretStr
    project: str = "antler"


class TracingSettings(Section):
    """Receivers of traces of runs; none by default. content: include the text of people, models and tools."""

    content: bool = False
    otlp: OtlpSettings | None = None
    langfuse: LangfuseSettings | None = None
    langsmith: LangsmithSettings | None = None

    @property
    def is_on(self) -> bool:
        return any((self.otlp, self.langfuse, self.langsmith))
