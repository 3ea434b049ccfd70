"""The way to the server: TLS with a private CA, through a CONNECT proxy, and nothing from the environment."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.base import SandboxError, SandboxUnavailable
from sandbox.config import SandboxSettings
from sandbox.remote.provider import RemoteProvider
from tests.sandbox.remote.served import SECONDS, TOKEN, client_settings, served
from tests.simulators.process import SimulatorProcess
from tests.simulators.proxy.authority import PrivateAuthority
from tests.simulators.proxy.client import ProxySimulator
from tests.tables import table

if TYPE_CHECKING:
    from collections.abc import Callable

    from sandbox.base import Route

SETTINGS = client_settings("https://sandboxes.test")


def way(proxy: str | None = None, ca_file: Path | None = None) -> Callable[[str], Route]:
    return lambda url: (proxy, ca_file)


async def test_through_a_proxy_with_a_private_ca(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "ALL_PROXY", "SSL_CERT_FILE"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    authority = PrivateAuthority.create(tmp_path)
    made = authority.issue("sandboxes.test")
    tls = {"certificate": made.cert, "key": made.key}
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(served(tmp_path / "data", tls=tls))
        process = await stack.enter_async_context(SimulatorProcess("tests.simulators.proxy"))
        proxy = await stack.enter_async_context(ProxySimulator(process.port))
        await proxy.route("sandboxes.test:443", int(service.address.rpartition(":")[2]))
        provider = RemoteProvider(SETTINGS, route=way(proxy.url, authority.cert))
        report = await provider.start()
        assert (report.provider, report.bash) == ("remote", True)
        sandbox = await provider.acquire("t")
        result = await sandbox.execute_command("echo hello", timeout=SECONDS)
        assert result.output == "hello\n"
        await provider.shutdown()

        for wrong in (
            RemoteProvider(SETTINGS, route=way(proxy.url)),
            RemoteProvider(SETTINGS, route=way("http://127.0.0.1:1", authority.cert)),
        ):
            with pytest.raises(SandboxUnavailable, match="reached"):
                await wrong.start()
        unknown = RemoteProvider(client_settings("https://unknown.test"), route=way(proxy.url, authority.cert))
        with pytest.raises(SandboxUnavailable, match="proxy"):
            await unknown.start()


@pytest.mark.parametrize(
    ("proxy", "ca_file", "hint"),
    [
        ("ftp://user:secret@host", None, "network.proxy"),
        ("http://user:secret@host:port", None, "network.proxy"),
        (None, Path("/no/such/file"), "network.ca_file"),
    ],
)
def test_a_way_that_cannot_be_used(proxy: str | None, ca_file: Path | None, hint: str) -> None:
    with pytest.raises(SandboxUnavailable) as failure:
        RemoteProvider(SETTINGS, route=way(proxy, ca_file))
    assert hint in failure.value.hint
    assert "secret" not in str(failure.value)


@table(
    "remote",
    [
        {},
        {"url": "http://127.0.0.1"},
        {"token": TOKEN},
        {"url": "127.0.0.1:80", "token": TOKEN},
        {"url": "http://user:secret@host", "token": TOKEN},
        {"url": "http://host:port", "token": TOKEN},
        {"url": "http://host?a=b", "token": TOKEN},
        {"url": [], "token": TOKEN},
        {"url": ["http://a", ""], "token": TOKEN},
        {"url": ["http://a", 7], "token": TOKEN},
        {"url": {"a": "http://a"}, "token": TOKEN},
        {"url": ["http://a", "https://b"], "token": TOKEN},
        {"url": ["http://a", "http://A:80/"], "token": TOKEN},
        {"url": ["http://a", "http://user:secret@b"], "token": TOKEN},
        {"url": [f"http://{number}" for number in range(1001)], "token": TOKEN},
        {"url": "http://host", "token": "sh0rt"},
        {"url": "http://host", "token": " a-token-of-the-tests "},
        {"url": "http://host", "token": "a token with an\nend of a line"},
    ],
)
def test_settings_that_are_refused(remote: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="remote") as failure:
        SandboxSettings.model_validate({"use": "remote", "remote": remote})
    assert not any(secret in str(failure.value) for secret in ("secret", "sh0rt"))
    if remote.get("url", "http://host") != "http://host" and "token" in remote:
        assert "remote.url\n" in str(failure.value)


@pytest.mark.parametrize(
    ("url", "urls"),
    [
        ("https://a/", ("https://a",)),
        (["https://a/"], ("https://a",)),
        (["http://a", "http://a:81", "http://a/b/", "http://b"], ("http://a", "http://a:81", "http://a/b", "http://b")),
    ],
)
def test_one_address_or_several(url: str | list[str], urls: tuple[str, ...]) -> None:
    settings = SandboxSettings.model_validate({"use": "remote", "remote": {"url": url, "token": TOKEN}})
    assert settings.remote.urls == urls


async def test_another_version_or_another_server_is_said(tmp_path: Path) -> None:
    async with served(tmp_path) as service:
        elsewhere = RemoteProvider(client_settings(f"http://{service.address}/elsewhere"))
        with pytest.raises(SandboxError, match="not found"):
            await elsewhere.start()
