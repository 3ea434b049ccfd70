"""The proxy simulator: a client reaches a TLS server with a private certificate only through CONNECT."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.simulators.model.client import ModelSimulator
from tests.simulators.process import SimulatorProcess
from tests.simulators.proxy.authority import PrivateAuthority
from tests.simulators.proxy.client import ProxySimulator

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_name_that_only_the_proxy_knows_is_reached_through_it(tmp_path: Path) -> None:
    authority = PrivateAuthority.create(tmp_path)
    made = authority.issue("model.test")
    model_process = SimulatorProcess("tests.simulators.model", "--tls-cert", str(made.cert), "--tls-key", str(made.key))
    async with (
        model_process,
        SimulatorProcess("tests.simulators.proxy") as proxy_process,
        ModelSimulator(model_process.port, authority.cert) as model,
        ProxySimulator(proxy_process.port) as proxy,
        httpx.AsyncClient(
            proxy=proxy.url, verify=ssl.create_default_context(cafile=authority.cert), trust_env=False
        ) as client,
    ):
        headers = {"Authorization": f"Bearer {model.api_key}"}
        with pytest.raises(httpx.ProxyError):
            await client.get("https://model.test/v1/models", headers=headers)
        await proxy.route("model.test:443", model_process.port)
        answer = await client.get("https://model.test/v1/models", headers=headers)
        assert answer.status_code == 200
        connects = await proxy.connects(at_least=2)
        assert [(c.method, c.target, c.status) for c in connects] == [
            ("CONNECT", "model.test:443", 403),
            ("CONNECT", "model.test:443", 200),
        ]
        assert [record.path for record in await model.requests()] == ["/v1/models"]


async def test_a_cut_ends_the_open_tunnels() -> None:
    async with (
        SimulatorProcess("tests.simulators.model") as model,
        SimulatorProcess("tests.simulators.proxy") as process,
        ProxySimulator(process.port) as proxy,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", process.port)
        writer.write(f"CONNECT 127.0.0.1:{model.port} HTTP/1.1\r\n\r\n".encode())
        assert b" 200 " in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
        await proxy.cut()
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
        await writer.wait_closed()


async def test_plain_requests_are_recorded_and_refused() -> None:
    async with (
        SimulatorProcess("tests.simulators.proxy") as process,
        ProxySimulator(process.port) as proxy,
        httpx.AsyncClient(proxy=proxy.url, trust_env=False) as client,
    ):
        assert (await client.get("http://model.test/v1/models")).status_code == 405
        (seen,) = await proxy.connects()
        assert (seen.method, seen.target) == ("GET", "http://model.test/v1/models")
