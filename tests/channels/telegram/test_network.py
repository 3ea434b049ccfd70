"""The way to the Bot API: through the configured proxy with the configured CA, and through no other."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from channels.base import Route
from channels.errors import AttachmentFailed, Fatal, Temporary
from channels.message import Address
from channels.telegram.api import TelegramApi
from channels.telegram.outbound import TelegramPart
from channels.telegram.request import Network
from tests.channels.telegram.support import config_for
from tests.channels.telegram.test_fetching import CountingSink
from tests.channels.tls import proxied
from tests.simulators.process import SimulatorProcess
from tests.simulators.telegram import faults
from tests.simulators.telegram.seen import FileSpec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.simulators.telegram.client import TelegramSimulator

HOST = "api.telegram.test"
ROOT = f"https://{HOST}"
DM = Address(account="telegram", chat="1")
PART = TelegramPart(0, text="x")


@asynccontextmanager
async def opened(telegram: TelegramSimulator, root: str, route: Route) -> AsyncIterator[TelegramApi]:
    api = TelegramApi("telegram", config_for(telegram, base_url=root), lambda url: route)
    try:
        yield api
    finally:
        await api.close()


async def test_everything_goes_through_the_proxy_and_trusts_the_private_ca(
    telegram: TelegramSimulator, simulator_process: SimulatorProcess, tmp_path: Path
) -> None:
    async with proxied(tmp_path, HOST, simulator_process.port) as (proxy, route):
        async with opened(telegram, ROOT, route) as api:
            assert (await api.who_am_i()).id == telegram.bot_id
            await telegram.user_says("x", file=FileSpec(content=b"x"))
            (update,) = await api.poll(None, 0, ["message"], 5.0)
            await telegram.fail("file", faults.not_found())
            with pytest.raises(AttachmentFailed, match="the file server returned 404"):
                await api.download(update["message"]["document"]["file_id"], CountingSink())
        assert [connect.target for connect in await proxy.connects()] == [f"{HOST}:443"] * 3
        async with opened(telegram, ROOT, Route(proxy=proxy.url)) as api:
            with pytest.raises(Temporary, match="ClientConnectorCertificateError"):
                await api.send(DM, PART, None)


async def test_a_proxy_that_refuses_means_nothing_was_sent(telegram: TelegramSimulator) -> None:
    async with SimulatorProcess("tests.simulators.proxy") as process:
        route = Route(proxy=f"http://127.0.0.1:{process.port}")
        async with opened(telegram, ROOT, route) as api:
            with pytest.raises(Temporary, match="ClientHttpProxyError"):
                await api.send(DM, PART, None)


async def test_proxies_of_the_environment_are_not_used(
    telegram: TelegramSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with opened(telegram, telegram.root, Route()) as api:
        assert (await api.who_am_i()).id == telegram.bot_id


async def test_an_unusable_route_is_fatal_and_shows_no_password(telegram: TelegramSimulator, tmp_path: Path) -> None:
    with pytest.raises(Fatal) as failure:
        TelegramApi("telegram", config_for(telegram), lambda url: Route(proxy="gopher://me:hunter2@h:1"))
    assert "hunter2" not in f"{failure.value} {failure.value.hint}"
    (tmp_path / "ca.pem").write_text("no certificate")
    for path in (tmp_path / "ca.pem", tmp_path / "missing.pem"):
        with pytest.raises(Fatal, match="CA file"):
            Network(ROOT, config_for(telegram).token, Route(ca_file=path), "telegram")
