"""How to reach the network: one proxy, the hosts that need none, extra trusted CAs. Never read from HTTP_PROXY."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from harness.config import Section

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
"""A proxy, possibly with user:password in it; "direct" for none."""


def _comma_list(value: Any) -> Any:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


class NetworkSettings(Section):
    """Used by every channel and model that has no proxy of its own."""

    proxy: ProxyUrl | None = None
    no_proxy: Annotated[tuple[str, ...], BeforeValidator(_comma_list)] = Field(
        default=("localhost", "127.0.0.0/8", "::1"),
        description="Host names with their subdomains, addresses, networks, or *",
    )
    ca_file: Path | None = Field(default=None, description="PEM file of CAs to trust besides the system's")

    def proxy_for(self, url: str, override: str | None = None) -> str | None:
        """The proxy for a URL, None for a direct connection.

        override: the channel's own setting; given for one purpose, it wins over no_proxy too.
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
