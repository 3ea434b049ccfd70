"""The way to Slack: through the configured proxy with the configured CA, and through no other; the socket included."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from channels.base import Route
from channels.errors import Fatal, Temporary
from channels.slack.api import Network, SlackApi
from channels.slack.inbound import Me
from channels.slack.socket import Dispatcher, Socket
from tests.channels.slack.support import config_for
from tests.channels.tls import proxied
from tests.simulators.process import SimulatorProcess
from tests.tables import table

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from tests.simulators.slack.client import SlackSimulator

HOST = "slack.test"
ROOT = f"https://{HOST}/api/"
LOG = logging.getLogger("channels.test")


@asynccontextmanager
async def opened(slack: SlackSimulator, root: str, route: Route) -> AsyncIterator[SlackApi]:
    api = SlackApi("slack", config_for(slack, base_url=root), lambda url: route, LOG)
    try:
        yield api
    finally:
        await api.close()


async def test_everything_goes_through_the_proxy_and_trusts_the_private_ca(
    slack: SlackSimulator, simulator_process: SimulatorProcess, tmp_path: Path
) -> None:
    taken: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()

    async def take(kind: str, payload: Mapping[str, Any]) -> bool:
        taken.put_nowait(payload)
        return True

    async with proxied(tmp_path, HOST, simulator_process.port) as (proxy, route):
        async with opened(slack, ROOT, route) as api:
            assert (await api.call("auth.test", {}))["user_id"] == slack.bot_user_id
            url = (await api.open_connection()).replace(f"ws://127.0.0.1:{simulator_process.port}", f"wss://{HOST}")
            dispatcher = Dispatcher(api.client, LOG, Me("T0TEAM", slack.bot_user_id, "antler"), take)
            socket = Socket(dispatcher, url, api.network.proxy(url), lambda: None, ping=10.0)
            await socket.connect_async()
            said = await slack.user_says("through the proxy")
            await slack.wait_acked(said.event_ids[0])
            assert (await taken.get())["event"]["text"] == "through the proxy"
            await socket.close_async()
        assert {connect.target for connect in await proxy.connects()} == {f"{HOST}:443"}
        async with opened(slack, ROOT, Route(proxy=proxy.url)) as api:
            with pytest.raises(Temporary, match="ClientConnectorCertificateError"):
                await api.call("chat.postMessage", {}, repeatable=False)


async def test_a_proxy_that_refuses_means_nothing_was_sent(slack: SlackSimulator) -> None:
    async with (
        SimulatorProcess("tests.simulators.proxy") as process,
        opened(slack, ROOT, Route(proxy=f"http://127.0.0.1:{process.port}")) as api,
    ):
        with pytest.raises(Temporary, match="ClientHttpProxyError"):
            await api.call("chat.postMessage", {}, repeatable=False)


async def test_the_environment_decides_nothing(slack: SlackSimulator, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "SLACK_BOT_TOKEN", "SLACK_APP_TOKEN"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with opened(slack, slack.api_url, Route()) as api:
        assert (await api.call("auth.test", {}))["user_id"] == slack.bot_user_id


def test_each_host_has_a_route_of_its_own(slack: SlackSimulator) -> None:
    routes = {"https://slack.com/": "http://one:1", "https://wss-primary.slack.com/": "http://two:2"}
    network = Network("https://slack.com/api/", lambda url: Route(proxy=routes.get(_root(url))), "slack")
    assert network.proxy("https://slack.com/api/auth.test") == "http://one:1"
    assert network.proxy("wss://wss-primary.slack.com/link/?ticket=1") == "http://two:2"
    assert network.proxy("https://files.slack.com/x") is None


def _root(url: str) -> str:
    return "/".join(url.split("/")[:3]) + "/"


def test_an_unusable_route_is_fatal_and_shows_no_password(slack: SlackSimulator, tmp_path: Path) -> None:
    with pytest.raises(Fatal) as failure:
        SlackApi("slack", config_for(slack), lambda url: Route(proxy="gopher://me:hunter2@h:1"), LOG)
    assert "hunter2" not in f"{failure.value} {failure.value.hint}"
    (tmp_path / "ca.pem").write_text("no certificate")
    for path in (tmp_path / "ca.pem", tmp_path / "missing.pem"):
        route = Route(ca_file=path)
        with pytest.raises(Fatal, match="CA file"):
            SlackApi("slack", config_for(slack, base_url=ROOT), lambda url, route=route: route, LOG)  # type: ignore[misc]


@table(
    ("url", "trusted"),
    [
        ("https://files.slack.com/files-pri/T1-F1/a", True),
        ("https://slack.com/x", True),
        ("https://files.slack-gov.com/x", True),
        ("http://files.slack.com/x", False),
        ("https://notslack.com/x", False),
        ("https://files.slack.com.evil.example/x", False),
        ("https://slack.test/x", True),
        ("https://slack.test:8443/x", False),
        ("file:///etc/passwd", False),
    ],
)
def test_where_the_token_may_be_sent(url: str, trusted: bool) -> None:
    network = Network(ROOT, lambda url: Route(), "slack")
    assert network.is_trusted(url) is trusted
