"""The settings section `web:`; bot/ puts it into the one config tree."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Literal

from pydantic import Field, field_validator

from harness.config import OptionalSecret, Section
from harness.web.search.config import SearchSettings

PORTS = frozenset({80, 443})
LONGEST_NAME = 253
LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)", re.ASCII)
NUMBER = re.compile(r"[0-9].*", re.ASCII)
"""The last label of an address in any notation: no public name ends in a label that begins like that."""
NEVER = tuple(
    ipaddress.ip_network(each)
    for each in (
        # IPv4: this host, link-local with the clouds' metadata, multicast, reserved, metadata of single clouds.
        *("0.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "240.0.0.0/4"),
        *("100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32"),
        # IPv6: the same, and every way of writing an IPv4 address: mapped, NAT64, Teredo, 6to4.
        *("::/128", "fe80::/10", "fec0::/10", "ff00::/8", "fd00:ec2::/32", "fd20:ce::/32"),
        *("::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2001::/32", "2002::/16"),
    )
)
_COMPATIBLE = ipaddress.IPv6Network("::/96")
_LOOPBACK = ipaddress.IPv6Address("::1")
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of the allow list: a host, every host under `*.`, or a network. port: None for PORTS."""

    host: str = ""
    network: Network | None = None
    port: int | None = None

    def opens(self, port: int) -> bool:
        return port in PORTS if self.port is None else port == self.port

    def names(self, host: str) -> bool:
        if self.host.startswith("*."):
            return host.endswith(self.host[1:]) and len(host) >= len(self.host)
        return bool(self.host) and host == self.host

    def holds(self, address: Address) -> bool:
        return self.network is not None and address.version == self.network.version and address in self.network


def rule(entry: str) -> Rule:
    """An entry of the config: host, *.host, address or network, each with or without :port ([..]:port for IPv6).

    Raises ValueError with a text to follow the key's name.
    """
    text = entry.strip().lower()
    if (network := _network(text)) is not None:
        return Rule(network=network)
    name, port = _without_port(text)
    if (network := _network(name.removeprefix("[").removesuffix("]"))) is not None:
        return Rule(network=network, port=port)
    labels = name.removeprefix("*.").split(".")
    if len(name) > LONGEST_NAME or not all(map(LABEL.fullmatch, labels)) or NUMBER.fullmatch(labels[-1]):
        raise ValueError("should be host names, addresses or networks, such as wiki.example.org:8080 or 10.1.0.0/16")
    return Rule(host=name, port=port)


def _network(text: str) -> Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def _without_port(text: str) -> tuple[str, int | None]:
    name, colon, port = text.rpartition(":")
    if not colon:
        return text, None
    if not port.isascii() or not port.isdigit() or not 0 < int(port[:6]) < 65536:
        raise ValueError("should be host names, addresses or networks; a port is a number up to 65535")
    return name, int(port)


def is_never(address: Address) -> bool:
    """Whether an address is in NEVER, or written in a way that hides another one."""
    if isinstance(address, ipaddress.IPv4Address):
        return any(address in each for each in NEVER)
    if address.scope_id is not None or (address in _COMPATIBLE and address != _LOOPBACK):
        return True
    return any(address in each for each in NEVER)


class ReaderSettings(Section):
    """A service that reads pages for the agent: `url` is requested with the page's address appended."""

    url: str = Field(
        pattern=r"^https?://[^\s]+$",
        description="Such as https://r.jina.ai/; it receives the addresses of the pages requested from it",
    )
    api_key: OptionalSecret = Field(default=None, description="Sent as a bearer token")


class FetchSettings(Section):
    """Whether the agent reads pages: only of the public internet, and of what `allow` opens."""

    enabled: bool = Field(default=False, description="Whether the agent can read web pages")
    max_mb: float = Field(default=5.0, gt=0, le=50, description="Limit of one page, decompressed")
    max_document_mb: float = Field(
        default=20.0, ge=0, le=200, description="Limit of a PDF, Word file and the like; 0: none is read"
    )
    timeout: float = Field(default=30.0, gt=0, le=300, description="Seconds for one page, redirects included")
    allow: tuple[str, ...] = Field(
        default=(),
        max_length=500,
        description="Hosts, addresses and networks that are not public, or :ports other than 80 and 443",
    )

    robots: bool = Field(default=True, description="Whether pages that a robots.txt forbids are skipped")
    host_interval: float = Field(
        default=0.5, ge=0, le=60, description="Seconds between two requests to the same host; 0 for none"
    )
    only_known: bool = Field(
        default=True,
        description="Whether a research fetches only addresses that it was given, has found, or that are in a page",
    )
    cache_minutes: float = Field(
        default=60.0, ge=0, le=1440, description="How long a page is not loaded again in the same thread; 0: it is"
    )
    browser: Literal["off", "auto"] = Field(
        default="off", description="auto: pages that need JavaScript are opened with the sandbox's chromium"
    )
    reader: ReaderSettings | None = Field(
        default=None, description="Fetches pages and documents that cannot be read here"
    )

    @field_validator("allow")
    @classmethod
    def _can_be_understood(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for entry in value:
            rule(entry)
        return value


class WebSettings(Section):
    """The agent's web access: none by default."""

    search: SearchSettings = SearchSettings()
    fetch: FetchSettings = FetchSettings()

    @property
    def is_on(self) -> bool:
        return self.fetch.enabled or self.search.is_on
