"""Servers elsewhere, over streamable HTTP and SSE: failures of one request and of the connection, tokens, bounds."""

from __future__ import annotations

import asyncio
import json
import socket
import stat
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from harness.mcp.config import McpServerSettings
from harness.mcp.errors import CallFailed
from tests.harness.mcp.conftest import named, text_of
from tests.simulators.mcp.web import CLIENT
from tests.simulators.process import SimulatorProcess
from tests.simulators.proxy.authority import PrivateAuthority
from tests.simulators.proxy.client import ProxySimulator

if TYPE_CHECKING:
    from tests.harness.mcp.conftest import Bench

PATHS = {"http": "/mcp", "sse": "/sse"}
both = pytest.mark.parametrize("transport", ["http", "sse"])


def server(bench: Bench, *arguments: str) -> SimulatorProcess:
    return SimulatorProcess("tests.simulators.mcp", "http", "--report", str(bench.reports.port), *arguments)


def at(port: int, transport: str = "http", path: str = "", **more: Any) -> McpServerSettings:
    url = f"http://127.0.0.1:{port}{path or PATHS[transport]}"
    return McpServerSettings.model_validate({"transport": transport, "url": url} | more)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def control(port: int, name: str) -> dict[str, Any]:
    async with httpx.AsyncClient(trust_env=False) as client:
        answer: dict[str, Any] = (await client.post(f"http://127.0.0.1:{port}/control/{name}")).json()
        return answer


@both
async def test_a_server_is_called(bench: Bench, transport: str) -> None:
    async with server(bench) as running, bench.pool(play=at(running.port, transport)) as pool:
        assert await text_of(pool, "echo", text="hello") == "play says hello"
        assert len(await text_of(pool, "big")) == 1_000_010
        many = [text_of(pool, "echo", text=str(number)) for number in range(20)]
        assert await asyncio.gather(*many) == [f"play says {number}" for number in range(20)]


@both
async def test_a_kill_during_a_call_is_told_and_the_server_comes_back(bench: Bench, transport: str) -> None:
    port = free_port()
    running = server(bench, "--port", str(port))
    await asyncio.to_thread(running.start)
    try:
        async with bench.pool(play=at(port, transport)) as pool:
            with pytest.raises(CallFailed, match=r"broke|failed during the call") as raised:
                await pool.call(named(pool, "crash"), {})
            assert raised.value.happened
            await asyncio.to_thread(running.stop)
            with pytest.raises(CallFailed, match=r"not connected now|cannot be reached") as raised:
                await pool.call(named(pool, "echo"), {"text": "x"})
            assert not raised.value.happened
            assert pool.facts[0].state == "retrying"
            await asyncio.to_thread(running.start)
            assert await text_of(pool, "echo", text="back") == "play says back"
            assert str(pool.facts[0]).startswith("play: ready")
    finally:
        await asyncio.to_thread(running.stop)


async def test_a_server_that_has_forgotten_the_session_is_asked_anew(bench: Bench) -> None:
    port = free_port()
    async with server(bench, "--port", str(port)) as first, bench.pool(play=at(port)) as pool:
        assert await text_of(pool, "echo", text="one") == "play says one"
        await asyncio.to_thread(first.stop)
        async with server(bench, "--port", str(port)):
            assert await text_of(pool, "echo", text="two") == "play says two"


@both
async def test_a_server_may_come_later(bench: Bench, transport: str) -> None:
    port = free_port()
    async with bench.pool(play=at(port, transport)) as pool:
        assert (pool.facts[0].state, pool.tools, pool.revision) == ("retrying", (), 0)
        assert "cannot be reached" in pool.facts[0].detail
        async with server(bench, "--port", str(port)):
            await bench.reports.heard("list")
            await until_ready(pool)
            assert await text_of(pool, "echo", text="late") == "play says late"


async def until_ready(pool: Any) -> None:
    """Its connection is made; the pool has no event for that, which nobody but tests would wait for."""
    async with asyncio.timeout(30):
        await pool._connections["play"]._ready.wait()


@both
async def test_a_call_that_hangs_is_given_up_and_others_go_on(bench: Bench, transport: str) -> None:
    async with server(bench) as running, bench.pool(play=at(running.port, transport, timeout=1.0)) as pool:
        hanging = asyncio.create_task(pool.call(named(pool, "hang"), {}))
        await bench.reports.heard("call hang")
        assert await text_of(pool, "echo", text="x") == "play says x"
        with pytest.raises(CallFailed, match="did not answer within"):
            await hanging
        await bench.reports.heard("hang over")


async def test_a_message_that_is_too_large_fails_its_call_only(bench: Bench) -> None:
    async with server(bench) as running, bench.pool(play=at(running.port)) as pool:
        with pytest.raises(CallFailed, match="more than 8 MB"):
            await pool.call(named(pool, "big"), {"size": 9_000_000})
        assert await text_of(pool, "echo", text="x") == "play says x"


@pytest.mark.parametrize(
    ("path", "why"),
    [("/broken", "it responded with status 500"), ("/moved", "it responded with status 307"), ("/token", "status 4")],
)
async def test_what_is_no_server_is_named(bench: Bench, path: str, why: str) -> None:
    async with server(bench) as running, bench.pool(play=at(running.port, path=path + "?key=k3y-canary")) as pool:
        assert pool.facts[0].state == "retrying"
        assert why in pool.facts[0].detail
        assert "k3y-canary" not in pool.facts[0].detail


def credentials(port: int) -> dict[str, Any]:
    return {
        "grant": "client_credentials",
        "token_url": f"http://127.0.0.1:{port}/token",
        "client_id": CLIENT[0],
        "client_secret": CLIENT[1],
    }


@both
async def test_tokens_are_got_kept_and_renewed_when_refused(bench: Bench, transport: str) -> None:
    async with server(bench, "--tokens") as running:
        settings = at(running.port, transport, oauth=credentials(running.port))
        async with bench.pool(play=settings) as pool:
            assert await text_of(pool, "echo", text="x") == "play says x"
            await control(running.port, "revoke")
            assert await text_of(pool, "echo", text="y") == "play says y"
        assert {"token-secret-1", "token-secret-2"} <= set(bench.learnt)
        (file,) = (bench.folder / "mcp").glob("*.json")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert json.loads(file.read_text())["token"]["access"] == "token-secret-2"
        async with bench.pool(play=settings) as pool:
            assert await text_of(pool, "echo", text="z") == "play says z"
        assert (await control(running.port, "nothing"))["tokens"] == 2


async def test_a_refresh_token_is_replaced_by_the_next(bench: Bench) -> None:
    async with server(bench, "--tokens") as running:
        oauth = credentials(running.port) | {"grant": "refresh_token", "refresh_token": "refresh-secret-0"}
        async with bench.pool(play=at(running.port, oauth=oauth)) as pool:
            await control(running.port, "revoke")
            assert await text_of(pool, "echo", text="x") == "play says x"
        async with bench.pool(play=at(running.port, oauth=oauth)) as pool:
            await control(running.port, "revoke")
            assert await text_of(pool, "echo", text="y") == "play says y"
        assert {"refresh-secret-1", "refresh-secret-2", "token-secret-3"} <= set(bench.learnt)


async def test_a_token_is_renewed_before_its_end(bench: Bench) -> None:
    async with server(bench, "--tokens") as running:
        await control(running.port, "short")
        async with bench.pool(play=at(running.port, oauth=credentials(running.port))) as pool:
            before = (await control(running.port, "nothing"))["tokens"]
            assert await text_of(pool, "echo", text="x") == "play says x"
            assert (await control(running.port, "nothing"))["tokens"] > before


async def test_a_refused_client_is_named_without_a_secret(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    async with server(bench, "--tokens") as running:
        wrong = credentials(running.port) | {"client_secret": "wr0ng-canary"}
        headers = {"X-Api-Key": "h3ader-canary"}
        async with bench.pool(play=at(running.port, oauth=wrong, headers=headers)) as pool:
            assert pool.facts[0].detail == "its token provider refused (401, invalid_client)"
        async with bench.pool(play=at(running.port)) as pool:
            assert pool.facts[0].detail == "it responded with status 401"
    assert "canary" not in caplog.text


@both
async def test_a_server_is_reached_through_a_proxy_with_a_private_authority(bench: Bench, transport: str) -> None:
    authority = PrivateAuthority.create(bench.folder)
    made = authority.issue("mcp.test")
    async with (
        server(bench, "--tokens", "--tls-cert", str(made.cert), "--tls-key", str(made.key)) as running,
        SimulatorProcess("tests.simulators.proxy") as proxy_process,
        ProxySimulator(proxy_process.port) as proxy,
    ):
        await proxy.route("mcp.test:443", running.port)
        bench.route = (proxy.url, authority.cert)
        oauth = credentials(running.port) | {"token_url": "https://mcp.test/token"}
        url = f"https://mcp.test{PATHS[transport]}"
        settings = McpServerSettings.model_validate({"transport": transport, "url": url, "oauth": oauth})
        async with bench.pool(play=settings) as pool:
            assert await text_of(pool, "echo", text="x") == "play says x"
        assert {connect.target for connect in await proxy.connects(at_least=2)} == {"mcp.test:443"}
