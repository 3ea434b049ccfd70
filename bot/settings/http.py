"""The section `http`: the addresses of the page, the API, health and metrics, and who may reach them."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, SecretStr, StringConstraints, field_validator, model_validator

from bot.settings.sections import NamedIdentity
from harness.config import Section


def _host_and_port(value: str) -> tuple[str, int]:
    """Parse host:port. Raises ValueError."""
    parts = urlsplit(f"//{value}")
    if not parts.hostname or parts.port is None or parts.netloc != value or "@" in value:
        raise ValueError(_LISTEN_FORM)
    return parts.hostname, parts.port


_LISTEN_FORM = "should be host:port, such as 127.0.0.1:8080"


class TlsSettings(Section):
    """PEM files of a certificate with its chain, and of its key."""

    cert: Path
    key: Path


USUAL_HEADER = "Authorization"
HookName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,40}$")]


class HookSettings(Section):
    """A webhook. secret: signs its calls. signature: how they are signed: according to the Standard Webhooks
    specification, as by GitHub, or not at all: `header` then contains the secret itself. chat: the chat
    `account:chat` that it posts to. run: the agent's instruction for what was sent; false: it is posted to the chat
    unchanged."""

    secret: SecretStr
    signature: Literal["standard", "github", "header"] = "standard"
    header: Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9-]{0,60}$")] = USUAL_HEADER
    chat: NamedIdentity
    run: Literal[False] | str = False

    @field_validator("secret")
    @classmethod
    def _long_enough(cls, value: SecretStr) -> SecretStr:
        if len(value.get_secret_value()) < 16:
            raise ValueError("is shorter than 16 characters; `openssl rand -hex 32` generates one")
        return value

    @model_validator(mode="after")
    def _names_a_header_that_counts(self) -> Self:
        if self.header != USUAL_HEADER and self.signature != "header":
            raise ValueError("header only applies with signature: header")
        return self

    @field_validator("run")
    @classmethod
    def _says_something(cls, value: str | bool) -> str | bool:
        if value is not False and not str(value).strip():
            raise ValueError("is empty: say what the agent should do, or false")
        return value


def usable_address(value: Any) -> Any:
    """host:port to listen on, None if it is empty. Raises ValueError for anything else."""
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise ValueError(_LISTEN_FORM)
    _host_and_port(value)
    return value


Listen = Annotated[str | None, BeforeValidator(usable_address)]


class HttpSettings(Section):
    """The HTTP listener: the page, the API, health and metrics. listen: host:port; None: there is none. behind_proxy: a
    proxy with TLS is in front of it. proxies: addresses and networks of such proxies, which are trusted to name the
    client. url: the address at which people reach it, if it differs from `listen`; everything is below its path.
    session_days: after which people have to sign in again. metrics_token: required by /metrics, as
    `Authorization: Bearer ...`. admins_read_threads: administrators can read everyone's threads on the page, which
    the chats state. hooks: webhooks by name, called at /hooks/NAME."""

    listen: Listen = None
    tls: TlsSettings | None = None
    behind_proxy: bool = False
    proxies: tuple[str, ...] = ("127.0.0.1", "::1")
    url: str | None = None
    session_days: int = Field(default=30, ge=1, le=365)
    metrics_token: SecretStr | None = None
    admins_read_threads: bool = False
    hooks: dict[HookName, HookSettings] = Field(default={}, max_length=100)

    @field_validator("proxies")
    @classmethod
    def _are_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        try:
            return tuple(str(ipaddress.ip_network(each, strict=False)) for each in value)
        except ValueError:
            raise ValueError("should be addresses or networks, such as 10.0.0.5 or 172.18.0.0/16") from None

    @field_validator("url")
    @classmethod
    def _is_address(cls, value: str | None) -> str | None:
        if not value:
            return None
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError("should be an address such as https://antler.example.org or https://example.org/antler")
        return value.rstrip("/")

    @field_validator("metrics_token")
    @classmethod
    def _long_enough(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value.get_secret_value()) < 16:
            raise ValueError("is shorter than 16 characters; `openssl rand -hex 32` generates one")
        return value

    @model_validator(mode="after")
    def _encrypted_beyond_this_machine(self) -> Self:
        if self.listen is not None and not (self.is_local or self.tls or self.behind_proxy):
            raise ValueError(
                "listen is reachable from other machines: give tls a cert and a key, or set behind_proxy: true if a "
                "proxy with TLS is in front, or listen on 127.0.0.1"
            )
        if not self.behind_proxy and not all(ipaddress.ip_network(each).is_loopback for each in self.proxies):
            raise ValueError("proxies only apply behind a proxy: set behind_proxy: true")
        host = urlsplit(self.url or "").hostname or "localhost"
        if self.listen is not None and not (_is_near(host) or self.tls or self.behind_proxy):
            raise ValueError(
                "url is an address for other machines: set behind_proxy: true if a proxy with TLS is in front, or give "
                "tls a cert and a key"
            )
        return self

    def of_worker(self, listen: str) -> HttpSettings:
        """The listener of a worker at that address: with the same certificate, and without a proxy."""
        own: dict[str, Any] = {"listen": listen, "behind_proxy": False, "url": None, "hooks": {}}
        return self.model_copy(update=own)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to listen on; only if `listen` is given."""
        assert self.listen is not None
        return _host_and_port(self.listen)

    @property
    def root(self) -> str:
        """The address that people open, without a trailing slash; only if `listen` is given."""
        if self.url is not None:
            return self.url
        host, port = self.address
        shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # as opened on this machine
        return f"{'http' if self.tls is None else 'https'}://{f'[{shown}]' if ':' in shown else shown}:{port}"

    @property
    def base_path(self) -> str:
        """The path below which everything is served, such as /antler; "" for the root."""
        return urlsplit(self.url).path.rstrip("/") if self.url is not None else ""

    @property
    def is_secure(self) -> bool:
        """Whether browsers reach it with TLS."""
        return self.tls is not None or self.behind_proxy

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the listener itself."""
        return _is_near(self.address[0])

    @property
    def is_exposed(self) -> bool:
        """Whether other machines may reach it, even if only through a proxy."""
        return self.behind_proxy or not self.is_local


class WorkerSettings(Section):
    """Workers. enabled: runs are executed by separate `antler worker` processes. listen: host:port at which each of
    them answers health checks; None: nowhere."""

    enabled: bool = False
    listen: Listen = None


def _is_near(host: str) -> bool:
    return host == "localhost" or is_loopback(host)


def is_loopback(host: str) -> bool:
    """Whether that is a loopback address, which only this machine can reach."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
