"""The settings tree. It is frozen and accepts no unknown keys; each section belongs to the part that uses it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar
from urllib.parse import unquote, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    BaseModel,
    Field,
    SecretStr,
    SerializeAsAny,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from bot.settings.http import HttpSettings, WorkerSettings
from bot.settings.layers import SOURCES
from bot.settings.problems import did_you_mean
from bot.settings.sections import (
    ACCOUNT_ID,
    AccessSettings,
    BudgetsSettings,
    ConversationSettings,
    DatabaseSettings,
    DataSettings,
    LimitSettings,
    LogSettings,
    NetworkSettings,
    ProxyUrl,
    ScheduleSettings,
    TitleSettings,
    TracingSettings,
    TranscriptionSettings,
    UploadSettings,
    with_account,
)
from channels.base import Route
from channels.http.config import HttpConfig
from channels.registry import OWN, PLATFORMS, config_class, names_group
from harness.acp.config import AcpAgentSettings, AgentName
from harness.config import (
    LlmSettings,
    LoopSettings,
    ModelSettings,
    PriceSettings,
    Section,
    SummarizationSettings,
    ToolSettings,
)
from harness.guardrails.config import GuardrailSettings
from harness.knowledge.config import KnowledgeSettings
from harness.mcp.config import McpServerSettings, ServerName, ToolSearchSettings
from harness.media.config import ImageSettings, SpeechSettings
from harness.memory.config import MemorySettings
from harness.research.config import ResearchSettings
from harness.skills.config import SkillEvolutionSettings, SkillsSettings
from harness.subagents.config import SubagentsSettings
from harness.web.config import WebSettings
from sandbox.config import SandboxSettings

AccountId = Annotated[str, StringConstraints(pattern=ACCOUNT_ID)]
Locale = Literal["auto", "en", "zh"]
_Section = TypeVar("_Section", bound=BaseModel)

COMMON_KEYS = ("type", "access", "conversations", "locale", "agent", "proxy")
"""Keys of a channel that the gateway reads; all others belong to the platform's config class."""


BUILT_IN: Mapping[str, Any] = {
    "channels": {"console": {}},
    "guardrails": {
        "rules": [
            {
                "tool": "write_file",
                "arguments": {"path": r"order\.txt$"},
                "decision": "ask",
                "reason": "It is an order.",
            }
        ]
    },
}
"""The configuration without a file: the terminal, the demo model by default, and a rule that asks before the tour's
order."""


_TAKEN = "web and api are built-in accounts, which exist while http.listen is set: choose another name"


_OURS = object()
"""A stand-in for the settings of an account that has one of these names."""


class ChannelSettings(Section):
    """One account. adapter: the platform's own settings, an instance of `channels.registry.config_class(type)`."""

    type: str
    access: AccessSettings | None = None
    conversations: ConversationSettings | None = None
    locale: Locale | None = None
    agent: str | None = None
    proxy: ProxyUrl | None = None
    adapter: SerializeAsAny[BaseModel]

    @model_validator(mode="before")
    @classmethod
    def _not_ours(cls, value: Any) -> Any:
        if value is _OURS:  # raised here rather than where it is detected, so that the error names the account
            raise ValueError(_TAKEN)
        return value

    @field_validator("type")
    @classmethod
    def _known_platform(cls, value: str) -> str:
        if value not in PLATFORMS:
            raise ValueError(f"unknown platform; {did_you_mean(value, PLATFORMS.keys() - OWN)}")
        return value

    @field_validator("adapter", mode="plain")
    @classmethod
    def _by_platform(cls, value: Any, info: ValidationInfo) -> BaseModel:
        if "type" not in info.data:
            raise PydanticCustomError("platform_unknown", "cannot be checked without its platform")
        wanted = config_class(info.data["type"])
        # Faults in here keep their path in the tree: pydantic merges a nested ValidationError into the outer one.
        return value if isinstance(value, wanted) else wanted.model_validate(value)


class Settings(BaseSettings):
    """The whole configuration. `bot.settings.load` builds it from files; tests build it directly."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, case_sensitive=True)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Values given directly, and the sources of `load`, which know the line or the variable of each value."""
        return (init_settings, *SOURCES.get())

    data_dir: Path = Field(default=Path("data"), validate_default=True)
    database: DatabaseSettings = DatabaseSettings()
    workers: WorkerSettings = WorkerSettings()
    log: LogSettings = LogSettings()
    http: HttpSettings = HttpSettings()
    tracing: TracingSettings = TracingSettings()
    locale: Locale = "auto"
    timezone: str = "UTC"
    shutdown_grace_seconds: float = Field(default=30.0, ge=0)
    network: NetworkSettings = NetworkSettings()
    models: tuple[ModelSettings, ...] = Field(default=(ModelSettings(name="demo", use="demo"),), min_length=1)
    channels: dict[AccountId, ChannelSettings] = Field(min_length=1)
    access: AccessSettings = AccessSettings()
    conversations: ConversationSettings = ConversationSettings()
    limits: LimitSettings = LimitSettings()
    budgets: BudgetsSettings = BudgetsSettings()
    summarization: SummarizationSettings = SummarizationSettings()
    llm: LlmSettings = LlmSettings()
    loop: LoopSettings = LoopSettings()
    guardrails: GuardrailSettings = GuardrailSettings()
    sandbox: SandboxSettings = SandboxSettings()
    uploads: UploadSettings = UploadSettings()
    transcription: TranscriptionSettings | None = None
    speech: SpeechSettings | None = None
    images: ImageSettings | None = None
    web: WebSettings = WebSettings()
    tools: tuple[ToolSettings, ...] = Field(default=(), max_length=200)
    tool_groups: tuple[str, ...] = ()
    mcp_servers: dict[ServerName, McpServerSettings] = Field(default={})
    acp_agents: dict[AgentName, AcpAgentSettings] = Field(default={}, max_length=20)
    tool_search: ToolSearchSettings = ToolSearchSettings()
    skills: SkillsSettings = SkillsSettings()
    skill_evolution: SkillEvolutionSettings = SkillEvolutionSettings()
    subagents: SubagentsSettings = SubagentsSettings()
    research: ResearchSettings = ResearchSettings()
    schedules: ScheduleSettings = ScheduleSettings()
    title: TitleSettings = TitleSettings()
    memory: MemorySettings = MemorySettings()
    knowledge: KnowledgeSettings = KnowledgeSettings()
    agents_dir: Path = Field(default=Path("agents"), validate_default=True)
    data: DataSettings = DataSettings()

    @classmethod
    def default(cls, data_dir: Path | None = None) -> Settings:
        """The settings without any configuration: the terminal and the demo model, data below the working directory."""
        return cls.model_validate({**BUILT_IN, **({"data_dir": data_dir} if data_dir else {})})

    @field_validator("data_dir", "agents_dir")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        try:
            return ZoneInfo(value).key
        except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError: a folder of zones, such as Europe
            raise ValueError("is not a time zone; use a name such as Europe/Berlin") from None

    @field_validator("channels", mode="before")
    @classmethod
    def _split_channels(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {account: _split_channel(str(account), channel) for account, channel in value.items()}

    @model_validator(mode="after")
    def _own_accounts(self) -> Self:
        """Add the accounts of the page and the API if the HTTP service is enabled."""
        if self.http.listen is not None:
            folder = HttpConfig(uploads=self.data_dir / "users")
            self.channels.update({name: ChannelSettings(type=name, adapter=folder) for name in sorted(OWN)})
        return self

    @model_validator(mode="after")
    def _workers_meet_in_a_server(self) -> Self:
        """Check the requirements of workers, which share only PostgreSQL with the gateways."""
        if self.workers.enabled and self.database.url is None:
            fault = _fault(("workers", "enabled"), "needs PostgreSQL; set database.url")
            raise ValidationError.from_exception_data("Settings", [fault], hide_input=True)
        if self.workers.enabled and not self.memories_in_database:
            fault = _fault(("memory", "storage"), "is for one process; workers need auto or database")
            raise ValidationError.from_exception_data("Settings", [fault], hide_input=True)
        return self

    @model_validator(mode="after")
    def _hooks_speak_in_accounts(self) -> Self:
        """Check that the account of each webhook's chat exists."""
        faults = [
            _fault(("http", "hooks", name, "chat"), f"unknown account; channels has {', '.join(self.channels)}")
            for name, hook in self.http.hooks.items()
            if hook.chat.partition(":")[0] not in self.channels
        ]
        if faults:
            raise ValidationError.from_exception_data("Settings", faults, hide_input=True)
        return self

    @model_validator(mode="after")
    def _no_inherited_opening(self) -> Self:
        """Check that the general section does not open a channel with `i_accept_public: false`."""
        faults = [
            _fault(
                ("channels", account, "access", "i_accept_public"),
                "is false, but this account inherits access that is open to everyone; close it here too",
            )
            for account in self.channels
            if self.access_for(account).is_public and not self.access_for(account).i_accept_public
        ]
        if faults:
            raise ValidationError.from_exception_data("Settings", faults, hide_input=True)
        return self

    @property
    def zone(self) -> ZoneInfo:
        """The time zone in which days begin at midnight."""
        return ZoneInfo(self.timezone)

    @property
    def database_url(self) -> str:
        """The URL for SQLAlchemy, with the password: `sqlite:///...` or `postgresql+psycopg://...`."""
        if self.database.url is None:
            return f"sqlite:///{self.data_dir / 'antler.db'}"
        return "postgresql+psycopg://" + self.database.url.get_secret_value().partition("://")[2]

    @property
    def checkpoints(self) -> str:
        """The location of the agent's checkpoints: a separate file for SQLite, the same database for PostgreSQL."""
        if self.database.url is None:
            return str(self.data_dir / "checkpoints.db")
        return self.database.url.get_secret_value()

    @property
    def database_files(self) -> tuple[Path, ...]:
        """SQLite's files; none with PostgreSQL."""
        return (self.data_dir / "antler.db", Path(self.checkpoints)) if self.database.url is None else ()

    @property
    def custom_skills(self) -> Path:
        """The folder of this installation's own skills, which need not exist."""
        return self.skills.custom or self.data_dir / "skills" / "custom"

    @property
    def memories_in_database(self) -> bool:
        """Whether memories are stored in the database, rather than in files below data_dir."""
        return self.memory.storage == "database" or (self.memory.storage == "auto" and self.database.url is not None)

    def access_for(self, account: str) -> AccessSettings:
        """The access rules of an account: for each key its own if set, else the general one."""
        return _overlay(self.access, self.channels[account].access)

    def conversations_for(self, account: str) -> ConversationSettings:
        """The conversation settings of an account, determined as in access_for."""
        return _overlay(self.conversations, self.channels[account].conversations)

    def names_group(self, account: str, native_id: str) -> bool | None:
        """Whether an id is a group's and not a person's; None if ids of the account's platform do not show it."""
        return names_group(self.channels[account].type, native_id)

    def agent_for(self, account: str) -> str:
        """The agent of the account's conversations without a chosen one."""
        return self.channels[account].agent or self.conversations_for(account).agent

    def locale_for(self, account: str) -> Locale:
        """The account's language setting, else the general one."""
        return self.channels[account].locale or self.locale

    def network_route(self, url: str, override: str | None = None) -> tuple[str | None, Path | None]:
        """(proxy URL or None for direct, file of extra CAs or None) for a URL; override: a specific proxy."""
        return self.network.proxy_for(url, override), self.network.ca_file

    def model_route(self, name: str) -> tuple[str | None, Path | None]:
        """network_route of a model's provider; one without a URL is assumed to be on the internet."""
        url = next((model.base_url for model in self.models if model.name == name), None)
        return self.network_route(url or "https://internet.invalid")

    def account_route(self, account: str, url: str) -> Route:
        """network_route with the account's own proxy, if it has one."""
        own = self.channels[account].proxy
        proxy, ca_file = self.network_route(url, own.get_secret_value() if own else None)
        return Route(proxy=proxy, ca_file=ca_file)

    @property
    def prices(self) -> dict[str, PriceSettings]:
        """The prices of models, and of services for pictures, speech and embeddings, by name, as far as given."""
        services = (self.images, self.speech, *self.knowledge.endpoints.values())
        priced = [(model.name, model.price) for model in self.models]
        priced += [(service.name, service.token_price) for service in services if service is not None]
        return {name: price for name, price in priced if price is not None}

    def secrets(self) -> frozenset[str]:
        """All secrets of the tree, including the adapters', for redaction: whole values, and passwords within URLs."""
        return frozenset(secret_values(self))


def _split_channel(account: str, raw: Any) -> Any:
    """Separate the gateway's keys from the platform's; without `type` the account's id names the platform."""
    if isinstance(raw, ChannelSettings):
        return raw
    if account in OWN or (isinstance(raw, Mapping) and raw.get("type") in tuple(OWN)):
        return _OURS
    if raw is None:
        raw = {}
    if not isinstance(raw, Mapping):
        return raw
    split: dict[str, Any] = {key: raw[key] for key in COMMON_KEYS if key in raw}
    if "type" not in split and account in PLATFORMS:
        split["type"] = account
    if "access" in split:
        split["access"] = _own_ids(account, split["access"])
    split["adapter"] = {key: value for key, value in raw.items() if key not in COMMON_KEYS}
    return split


def _own_ids(account: str, access: Any) -> Any:
    if not isinstance(access, Mapping):
        return access
    lists = {
        key: [with_account(account, entry) for entry in access[key]]
        for key in ("allow", "admins")
        if isinstance(access.get(key), list)
    }
    groups = access.get("groups")
    if isinstance(groups, Mapping) and isinstance(groups.get("allow"), list):
        return {**access, **lists, "groups": {**groups, "allow": [with_account(account, g) for g in groups["allow"]]}}
    return {**access, **lists}


def _overlay(general: _Section, own: _Section | None) -> _Section:
    """The general section, overridden by an account's own values."""
    if own is None:
        return general
    values: dict[str, Any] = {}
    for name in own.model_fields_set:
        mine, theirs = getattr(own, name), getattr(general, name)
        values[name] = _overlay(theirs, mine) if isinstance(mine, BaseModel) else mine
    return general.model_copy(update=values)


def _fault(path: tuple[str | int, ...], message: str) -> InitErrorDetails:
    return InitErrorDetails(type=PydanticCustomError("value_error", message), loc=path, input=None)


def secret_values(value: Any) -> Iterator[str]:
    """All SecretStr values of the tree, and the passwords in all its URLs, as written and decoded."""
    if isinstance(value, SecretStr):
        text = value.get_secret_value()
        if text and not _is_plain_server(text):
            yield text
            yield from _credentials(text)
        yield from _url_passwords(text)
    elif isinstance(value, str):
        yield from _url_passwords(value)
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from secret_values(getattr(value, name))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from secret_values(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from secret_values(item)


def _credentials(text: str) -> Iterator[str]:
    """The part after the scheme of an Authorization header, which its recipient may repeat alone."""
    scheme, _, rest = text.partition(" ")
    if rest and scheme.lower() in ("bearer", "basic", "token"):
        yield rest.strip()


def _url_passwords(text: str) -> Iterator[str]:
    userinfo = _netloc(text).rpartition("@")[0]
    password = userinfo.partition(":")[2]
    yield from {part for part in (userinfo, password, unquote(password)) if part}


def _is_plain_server(text: str) -> bool:
    """Whether it is only the URL of a server (a proxy without a password): its name in a log is no leak."""
    netloc = _netloc(text)
    return bool(netloc) and "@" not in netloc and text.rstrip("/").endswith(f"://{netloc}")


def _netloc(text: str) -> str:
    try:
        return urlsplit(text).netloc if "://" in text else ""
    except ValueError:
        return ""
