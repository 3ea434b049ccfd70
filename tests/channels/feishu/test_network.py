"""The way to the platform: calls and socket go through the configured proxy with the configured CA, and no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from channels.base import Route
from channels.errors import Fatal, Temporary
from channels.feishu.api import Network
from channels.feishu.channel import FeishuChannel
from tests.channels.feishu.support import Bench, bench_for, config_for
from tests.channels.gateway import ListeningGateway
from tests.channels.tls import proxied
from tests.simulators.feishu.seen import ALICE
from tests.simulators.process import SimulatorProcess

if TYPE_CHECKING:
    from pathlib import Path

    from tests.simulators.feishu.client import FeishuSimulator

HOST = "feishu.invalid"
ROOT = f"https://{HOST}"


def through(feishu: FeishuSimulator, route: Route) -> Bench:
    gateway = ListeningGateway()
    return Bench(feishu, gateway, FeishuChannel("feishu", config_for(feishu, domain=ROOT), gateway.ports(route)))


async def test_calls_and_socket_go_through_the_proxy_and_trust_the_private_ca(
    feishu: FeishuSimulator, feishu_process: SimulatorProcess, tmp_path: Path
) -> None:
    plain, secure = f"ws://127.0.0.1:{feishu_process.port}".encode(), f"wss://{HOST}".encode()
    assert len(plain) == len(secure)  # so that lengths that were announced stay right

    def to_the_front(chunk: bytes) -> bytes:
        """The socket's URL, which the simulator tells, leads to the front too."""
        return chunk.replace(plain, secure)

    async with proxied(tmp_path, HOST, feishu_process.port, to_the_front) as (proxy, route):
        bench = through(feishu, route)
        async with bench.running():
            await bench.channel.send(bench.dm, bench.part("through the proxy"), "k1")
            assert [message.text for message in await feishu.bot_messages(ALICE)] == ["through the proxy"]
            await feishu.user_says("and back")
            await bench.gateway.event()
        await bench.channel.close()
        stranger = through(feishu, Route(proxy=proxy.url))
        with pytest.raises(Temporary, match="ClientConnectorCertificateError"):
            await stranger.channel.send(bench.dm, bench.part("x"), "k2")
        await stranger.channel.close()
        assert {connect.target for connect in await proxy.connects()} == {f"{HOST}:443"}


async def test_a_proxy_that_refuses_means_nothing_was_sent(feishu: FeishuSimulator) -> None:
    async with SimulatorProcess("tests.simulators.proxy") as process:
        bench = through(feishu, Route(proxy=f"http://127.0.0.1:{process.port}"))
        with pytest.raises(Temporary, match="ClientHttpProxyError"):
            await bench.channel.send(bench.dm, bench.part("x"), "k1")
        await bench.channel.close()


async def test_proxies_of_the_environment_are_not_used(
    feishu: FeishuSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "WS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    bench = bench_for(feishu)
    async with bench.running():
        await bench.channel.send(bench.dm, bench.part("direct"), "k1")
    await bench.channel.close()


def test_an_unusable_route_is_fatal_and_shows_no_password(tmp_path: Path) -> None:
    with pytest.raises(Fatal) as failure:
        Network("feishu", ROOT, lambda url: Route(proxy="gopher://me:hunter2@h:1"))
    assert "hunter2" not in f"{failure.value} {failure.value.hint}"
    (tmp_path / "ca.pem").write_text("no certificate")
    for path in (tmp_path / "ca.pem", tmp_path / "missing.pem"):
        with pytest.raises(Fatal, match="CA file"):
            Network("feishu", ROOT, lambda url, path=path: Route(ca_file=path))  # type: ignore[misc]


async def test_no_secret_and_no_token_is_in_what_is_logged(
    feishu: FeishuSimulator, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    bench = bench_for(feishu)
    async with bench.running():
        await bench.channel.send(bench.dm, bench.part("hello"), "k1")
        await feishu.close_connections(None)
        await feishu.user_says("again")
        await bench.gateway.event()
    await bench.channel.close()
    assert feishu.app_secret not in caplog.text
    assert "device_id" not in caplog.text
