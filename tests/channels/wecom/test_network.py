"""The way to the platform: through the configured proxy with the configured CA, and through no other."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from channels.base import Route
from channels.errors import AttachmentFailed, Fatal
from channels.message import Message
from channels.wecom.channel import WecomChannel
from tests.channels.tls import proxied, tls_front
from tests.channels.wecom.support import ACCOUNT, Bytes, Gateway, config_for
from tests.simulators.proxy.authority import PrivateAuthority
from tests.simulators.wecom.seen import FileSpec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.simulators.process import SimulatorProcess
    from tests.simulators.wecom.client import WecomSimulator

HOST = "openws.wecom.test"


@asynccontextmanager
async def opened(wecom: WecomSimulator, route: Route, url: str) -> AsyncIterator[tuple[WecomChannel, Gateway]]:
    gateway = Gateway()
    channel = WecomChannel(ACCOUNT, config_for(wecom, url=url), gateway.ports(route))
    try:
        yield channel, gateway
    finally:
        await channel.close()


async def test_the_connection_goes_through_the_proxy_and_trusts_the_private_ca(
    wecom: WecomSimulator, wecom_process: SimulatorProcess, tmp_path: Path
) -> None:
    async with (
        proxied(tmp_path, HOST, wecom_process.port) as (proxy, route),
        opened(wecom, route, f"wss://{HOST}") as (channel, gateway),
    ):
        task = asyncio.create_task(channel.run(gateway.hello))
        await gateway.said_hello()
        await wecom.says("Through the tunnel")
        event = await gateway.event()
        assert isinstance(event, Message)
        assert {connect.target for connect in await proxy.connects(1)} == {f"{HOST}:443"}
        await proxy.cut()
        await wecom.wait_connected(times=2)
        task.cancel()
        await asyncio.wait([task])


async def test_a_server_that_nobody_vouches_for_is_not_talked_to(
    wecom: WecomSimulator, wecom_process: SimulatorProcess, tmp_path: Path
) -> None:
    authority = PrivateAuthority.create(tmp_path)
    async with (
        tls_front(authority, HOST, wecom_process.port) as port,
        opened(wecom, Route(), f"wss://127.0.0.1:{port}") as (channel, gateway),
    ):
        task = asyncio.create_task(channel.run(gateway.hello))
        await gateway.clock.slept_often(1)
        assert "SSL" in channel.health.detail
        task.cancel()
        await asyncio.wait([task])
    assert (await wecom.status()).subscriptions == 0


async def test_files_are_fetched_over_the_same_route(
    wecom: WecomSimulator, wecom_process: SimulatorProcess, tmp_path: Path
) -> None:
    async with (
        proxied(tmp_path, HOST, wecom_process.port) as (proxy, route),
        opened(wecom, route, f"wss://{HOST}") as (channel, gateway),
    ):
        task = asyncio.create_task(channel.run(gateway.hello))
        await gateway.said_hello()
        await wecom.sends("file", FileSpec(b"content", "a.bin"))
        event = await gateway.event()
        assert isinstance(event, Message)
        (attachment,) = event.attachments
        with pytest.raises(AttachmentFailed):  # unencrypted, which only a test server may be
            await channel.fetch(attachment, Bytes())
        sink = Bytes()
        await channel.fetch(replace(attachment, ref=attachment.ref.replace(wecom.root, f"https://{HOST}")), sink)
        assert sink.content == b"content"
        assert [connect.target for connect in await proxy.connects(2)] == [f"{HOST}:443"] * 2
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.parametrize("proxy", ["ftp://proxy:1", "http://", "http://user:canary@[::1"])
async def test_a_proxy_that_cannot_be_one_is_fatal_and_not_shown(wecom: WecomSimulator, proxy: str) -> None:
    async with opened(wecom, Route(proxy=proxy), wecom.url) as (channel, gateway):
        with pytest.raises(Fatal, match="proxy of account wecom") as caught:
            await asyncio.wait_for(channel.run(gateway.hello), 20)
        assert "canary" not in str(caught.value)


async def test_a_missing_ca_file_is_fatal_and_named(wecom: WecomSimulator, tmp_path: Path) -> None:
    async with opened(wecom, Route(ca_file=tmp_path / "ca.pem"), "wss://127.0.0.1:9") as (channel, gateway):
        with pytest.raises(Fatal, match=r"ca\.pem"):
            await asyncio.wait_for(channel.run(gateway.hello), 20)
