"""Which way a URL goes: the proxy, its exceptions, an account's own proxy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr

from bot.settings import Settings
from bot.settings.sections import NetworkSettings
from tests.tables import table

if TYPE_CHECKING:
    from pathlib import Path

PROXY = "http://user:password@proxy.example:3128"


def network(*no_proxy: str) -> NetworkSettings:
    return NetworkSettings(proxy=SecretStr(PROXY), no_proxy=no_proxy)


@table(
    ("pattern", "url", "direct"),
    [
        ("example.com", "https://example.com/x", True),
        ("example.com", "https://api.example.com", True),
        (".example.com", "https://api.example.com", True),
        ("*.example.com", "https://api.example.com", True),
        ("EXAMPLE.com", "https://api.Example.COM.:443", True),
        ("example.com", "https://badexample.com", False),
        ("example.com", "https://example.com.evil.test", False),
        ("10.0.0.0/8", "http://10.1.2.3:8081", True),
        ("10.0.0.0/8", "http://11.1.2.3", False),
        ("10.1.2.3", "http://10.1.2.3", True),
        ("10.1.2.3", "http://10.1.2.30", False),
        ("127.0.0.0/8", "http://[::ffff:127.0.0.1]/", True),
        ("::1", "http://[::1]:8080", True),
        ("[::1]", "http://[::1]:8080", True),
        ("fd00::/8", "http://[fd12::1]", True),
        ("fd00::/8", "http://10.1.2.3", False),
        ("*", "https://anywhere.test", True),
        ("", "https://anywhere.test", False),
        (".", "https://anywhere.test", False),
    ],
)
def test_exceptions(pattern: str, url: str, direct: bool) -> None:
    assert network(pattern).proxy_for(url) == (None if direct else PROXY)


@pytest.mark.parametrize("url", ["http://localhost:1", "http://127.0.0.1:8081", "http://127.9.9.9", "http://[::1]:1"])
def test_loopback_is_direct_unless_the_list_says_otherwise(url: str) -> None:
    assert NetworkSettings(proxy=SecretStr(PROXY)).proxy_for(url) is None
    assert network().proxy_for(url) == PROXY


def test_an_accounts_own_proxy_wins_over_everything() -> None:
    assert network("*").proxy_for("http://127.0.0.1", "http://own:1") == "http://own:1"
    assert network().proxy_for("https://example.com", "direct") is None


def test_the_environments_proxy_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    assert Settings.default().network_route("https://example.com") == (None, None)


def test_the_route_names_the_extra_cas(tmp_path: Path) -> None:
    settings = Settings.model_validate({"channels": {"console": {}}, "network": {"ca_file": tmp_path / "ca.pem"}})
    assert settings.network_route("https://example.com") == (None, tmp_path / "ca.pem")
