"""Which addresses may be fetched. Pure; applied before and while connecting, and to search results.

An address that is not listed must be on the public internet, on port 80 or 443. The allow list opens others, but never
those in NEVER (link-local, including every cloud's metadata, multicast, an IPv4 address in disguise).
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

import httpx

from harness.web.config import LABEL, LONGEST_NAME, NUMBER, PORTS, Address, is_never, rule
from sandbox.egress.guard import is_public

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


_DEFAULT_PORT = {"http": 80, "https": 443}
_LONGEST_URL = 4000
_UNPRINTED = re.compile(r"[\x00-\x20\x7f-\xa0\\\u3002\uff0e\uff61\u2028\u2029]")
"""Spaces and control characters, the backslash that some read as a slash, and characters like dots."""
_AUTHORITY_END = re.compile(r"[/?#]")
_NEVER_NAMES = frozenset({"metadata.google.internal", "metadata.goog", "instance-data.ec2.internal"})
_INSIDE = ("localhost", "local", "localdomain", "internal", "intranet", "private", "corp", "home.arpa", "lan")
"""Suffixes of names that are no public hosts: if a proxy resolves, the name is all that can be checked."""


class WebError(Exception):
    """Nothing was retrieved. The text is for the model: no secret, no internal address."""


class Refused(WebError):
    """The address may not be fetched. The text says why, and what an operator could allow."""


class Rules:
    """Rules on what may be fetched: the public internet, and what the operator's list opens."""

    def __init__(self, allow: Iterable[str] = ()) -> None:
        self._rules = tuple(map(rule, allow))

    def url(self, text: str) -> httpx.URL:
        """The URL, checked as far as it can be without resolving its host. Raises Refused."""
        url = _parsed(text)
        host, port = url.raw_host.decode("ascii"), port_of(url)
        literal = _literal(host)
        if literal is not None:
            self._address(host, literal, port)
        elif host in _NEVER_NAMES or not (self._is_listed(host, port) or _is_public_name(host)):
            raise Refused(f"{host} is not a public host. Only an operator can allow it (web.fetch.allow).")
        elif not self._may_open(host, port):
            raise Refused(f"Port {port} may not be used. Use an address on the usual ports, 80 and 443.")
        return url

    def addresses(self, host: str, port: int, found: Sequence[str]) -> None:
        """Raise Refused unless every address of a host may be connected to."""
        if not found:
            raise Refused(f"{host} has no address. Check the spelling of the name.")
        for each in found:
            try:
                address = ipaddress.ip_address(each)
            except ValueError:
                raise Refused(f"{host} has an unusable address.") from None
            self._address(host, address, port)

    def _address(self, host: str, address: Address, port: int) -> None:
        if is_never(address):
            raise Refused(f"{host} resolves to an address that is never fetched.")
        listed = any(each.opens(port) and (each.names(host) or each.holds(address)) for each in self._rules)
        if not listed and not is_public(str(address)):
            raise Refused(f"{host} resolves to a non-public address. Only an operator can allow it (web.fetch.allow).")
        if not listed and port not in PORTS:
            raise Refused(f"Port {port} may not be used. Use an address on the usual ports, 80 and 443.")

    def _is_listed(self, host: str, port: int) -> bool:
        return any(each.names(host) and each.opens(port) for each in self._rules)

    def _may_open(self, host: str, port: int) -> bool:
        """Whether a network of the list may still turn out to contain the host's address."""
        return port in PORTS or any(each.opens(port) for each in self._rules if each.names(host) or each.network)


def port_of(url: httpx.URL) -> int:
    return url.port if url.port is not None else _DEFAULT_PORT[url.scheme]


def _parsed(text: str) -> httpx.URL:
    """The URL as httpx parses it, which is also what is connected to: there is no second parser to disagree."""
    if len(text) > _LONGEST_URL or _UNPRINTED.search(text):
        raise Refused("This is not an address that can be fetched: give one plain http:// or https:// address.")
    try:
        url = httpx.URL(text)
        host = url.raw_host.decode("ascii")
        url.host  # noqa: B018  # raises for names that are not IDNA
    except (httpx.InvalidURL, UnicodeError):
        raise Refused("This address cannot be parsed: give one plain http:// or https:// address.") from None
    if url.scheme not in _DEFAULT_PORT:
        raise Refused("Only http:// and https:// addresses can be fetched.")
    if not host:
        raise Refused("This address has no host.")
    if "@" in _AUTHORITY_END.split(text.partition("//")[2], maxsplit=1)[0]:
        raise Refused("Addresses with a user name or password in them are not fetched.")
    if not 0 < port_of(url) < 65536:
        raise Refused("This address has an impossible port.")
    if _literal(host) is None and not _is_name(host):
        raise Refused("The host of this address is written in an unusual form: give its plain name.")
    return url


def _literal(host: str) -> Address | None:
    """The address, if the host is one; only the usual notation counts."""
    try:
        return ipaddress.IPv6Address(host) if ":" in host else ipaddress.IPv4Address(host)
    except ValueError:
        return None


def _is_name(host: str) -> bool:
    labels = host.split(".")
    plain = len(host) <= LONGEST_NAME and all(map(LABEL.fullmatch, labels))
    return plain and not NUMBER.fullmatch(labels[-1])


def _is_public_name(host: str) -> bool:
    return "." in host and not any(host == end or host.endswith(f".{end}") for end in _INSIDE)
