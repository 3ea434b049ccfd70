"""The way to the server: TLS with a private CA, through a CONNECT proxy, and nothing from the environment."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

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
    from pathlib import Path

SETTINGS = client_settings("https://sandboxes.test")


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
        provider = RemoteProvider(SETTINGS, proxy=proxy.url, ca_file=authority.cert)
        report = await provider.start()
        assert (report.provider, report.bash) == ("remote", True)
        sandbox = await provider.acquire("t")
        result = await sandbox.execute_command("echo hello", timeout=SECONDS)
        assert result.output == "hello\n"
        await provider.shutdown()

        for wrong in (
            RemoteProvider(SETTINGS, proxy=proxy.url),
            RemoteProvider(SETTINGS, proxy="http://127.0.0.1:1", ca_file=authority.cert),
        ):
            with pytest.raises(SandboxUnavailable, match="reached"):
                await wrong.start()
        with pytest.raises(SandboxUnavailable, match="proxy"):
            await RemoteProvider(
                client_settings("https://unknown.test"), proxy=proxy.url, ca_file=authority.cert
            ).start()


@pytest.mark.parametrize(
    ("way", "hint"),
    [
        ({"proxy": "ftp://user:secret@host"}, "network.proxy"),
        ({"proxy": "http://user:secret@host:port"}, "network.proxy"),
        ({"ca_file": "/no/such/file"}, "network.ca_file"),
    ],
)
def test_a_way_that_cannot_be_used(way: dict[str, str], hint: str) -> None:
    with pytest.raises(SandboxUnavailable) as failure:
        RemoteProvider(SETTINGS, **way)  # type: ignore[arg-type]
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
        {"url": "http://host", "token": "sh0rt"},
        {"url": "http://host", "token": " a-token-of-the-tests "},
        {"url": "http://host", "token": "a token with an\nend of a line"},
    ],
)
def test_settings_that_are_refused(remote: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="remote") as failure:
        SandboxSettings.model_validate({"use": "remote", "remote": remote})
    assert not any(secret in str(failure.value) for secret in ("secret", "sh0rt"))


async def test_another_version_or_another_server_is_said(tmp_path: Path) -> None:
    async with served(tmp_path) as service:
        elsewhere = RemoteProvider(client_settings(f"http://{service.address}/elsewhere"))
        with pytest.raises(SandboxError, match="not found"):
            await elsewhere.start()
