"""What is refused before anybody is known: large bodies, hosts and origins that are none, silent connections."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from bot.http import connections, guard
from bot.http.auth import SIGN_INS_AT_ONCE
from bot.http.guard import MOST_JSON
from tests.bot.http.served import ADMIN, PERSON, served
from tests.simulators.proxy.authority import PrivateAuthority

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.bot.http.served import ServedCore

SECONDS = 40.0
LARGE = ("/v1/chat/completions", "/v1/responses", "/api/langgraph/runs/wait", "/api/uploads?name=a.txt")


@asynccontextmanager
async def connection(world: ServedCore) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", world.server.port)
    try:
        async with asyncio.timeout(SECONDS):
            yield reader, writer
    finally:
        writer.close()


async def closed(reader: asyncio.StreamReader) -> bool:
    """Whether the server ends the connection, within the connection's time."""
    with suppress(ConnectionError):
        await reader.read()
    return reader.at_eof() or reader.exception() is not None


async def status(world: ServedCore, *lines: str) -> int:
    """The status of the answer to this head alone, without a byte of its body."""
    async with connection(world) as (reader, writer):
        writer.write("\r\n".join((*lines, "", "")).encode())
        head = await reader.readuntil(b"\r\n")
        return int(head.split()[1])


async def answers(world: ServedCore, *lines: str) -> bool:
    with suppress(ConnectionError, asyncio.IncompleteReadError):
        return await status(world, *lines) == 200
    return False


@pytest.mark.parametrize("path", LARGE)
async def test_nobody_sends_a_large_body_without_signing_in(tmp_path: Path, path: str) -> None:
    async with served(tmp_path) as world:
        for measured in (f"Content-Length: {20_000_000}", "Transfer-Encoding: chunked"):
            head = (f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", measured)
            assert await status(world, *head) == 401
            assert await status(world, *head, "Authorization: Bearer ant_nosuch") == 401


@pytest.mark.parametrize("path", ["/api/memory", "/api/conversations", "/v1/chat/completions"])
async def test_nobodys_body_is_parsed_however_small_it_is(tmp_path: Path, path: str) -> None:
    async with served(tmp_path) as world:
        answer = await world.client().post(path, content=b"[" * 9, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "not_signed_in")


async def test_json_has_its_own_limit_and_a_request_counts_once(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        program = await world.program(PERSON)
        token = f"Authorization: {program.headers['Authorization']}"
        large = (token, "Host: 127.0.0.1", f"Content-Length: {MOST_JSON + 1}")
        assert await status(world, "POST /v1/chat/completions HTTP/1.1", *large) == 413
        codes = {(await program.post("/v1/chat/completions", json={})).status_code for _ in range(120)}
        assert 429 not in codes
        read = await program.post("/v1/chat/completions", json={"model": "x" * 2_000_000})
        assert read.status_code in (400, 422), read.text


async def test_the_json_of_one_caller_takes_only_so_much_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "MOST_HELD", 3_000_000)
    path = "/v1/chat/completions"
    async with served(tmp_path) as world:
        program, other = await world.program(PERSON), await world.program(ADMIN)
        many = b'{"model": "none", "messages": [' + b"[]," * 600_000 + b"[]]}"
        assert (await program.post(path, content=many)).status_code == 413
        large = {"model": "x" * 2_000_000}
        assert (await program.post(path, json=large)).status_code == 422
        sent, more = asyncio.Event(), asyncio.Event()

        async def slowly() -> AsyncIterator[bytes]:
            yield b"x" * 1_500_000
            yield b"x" * 500_000  # taken once the server has read most of the first part
            sent.set()
            await more.wait()

        slow = asyncio.create_task(program.post(path, content=slowly()))
        await sent.wait()
        assert (await program.post(path, json=large)).status_code == 429
        assert (await other.post(path, json=large)).status_code == 422
        more.set()
        assert (await slow).status_code == 422
        assert (await program.post(path, json=large)).status_code == 422


@pytest.mark.parametrize("http", [{}, {"behind_proxy": True}])
async def test_a_host_or_an_origin_that_is_no_address_is_refused(tmp_path: Path, http: dict[str, Any]) -> None:
    async with served(tmp_path, http=http) as world:
        assert await status(world, "GET /healthz HTTP/1.1", "Host: [") == 421
        head = ("POST /signin HTTP/1.1", "Host: 127.0.0.1", "Content-Length: 0")
        assert await status(world, *head, "Origin: http://[") == 403


@pytest.mark.parametrize(("proxies", "apart"), [(["127.0.0.0/8", "10.9.0.0/16"], True), (["10.9.0.0/16"], False)])
async def test_addresses_are_told_apart_behind_the_proxies_of_the_config(
    tmp_path: Path, proxies: list[str], apart: bool
) -> None:
    async with served(tmp_path, http={"behind_proxy": True, "proxies": proxies}) as world:
        client = world.client(Authorization="Bearer ant_nosuch")
        codes = [
            (await client.get("/api/me", headers={"X-Forwarded-For": f"192.0.2.{n}, 10.9.0.1"})).status_code
            for n in range(SIGN_INS_AT_ONCE + 1)
        ]
        assert codes == [401] * SIGN_INS_AT_ONCE + [401 if apart else 429]


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"])
async def test_a_connection_without_a_request_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
    async with served(tmp_path) as world, connection(world) as (reader, writer):
        writer.write(sent)
        assert await closed(reader)


async def test_a_later_head_and_a_body_that_stop_half_way_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 3.0)
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.5)
    async with served(tmp_path) as world:
        async with connection(world) as (reader, writer):
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /healthz HTTP")
            assert (await reader.readuntil(b"\r\n")).split()[1] == b"200"
            assert await closed(reader)
        async with connection(world) as (reader, writer):
            writer.write(b"POST /hooks/a HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\nx")
            assert await closed(reader)


async def test_a_stream_outlives_the_time_for_a_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 2.0)
    monkeypatch.setattr(connections, "BODY_SECONDS", 2.0)
    async with served(tmp_path) as world:
        program = await world.program(PERSON)
        chat = (await program.post("/api/conversations")).json()["chat"]
        async with program.stream("GET", f"/api/conversations/{chat}/events") as stream:
            lines = stream.aiter_lines()
            async with asyncio.timeout(SECONDS):
                while "snapshot" not in await anext(lines):
                    pass
            async with connection(world) as (reader, _):
                assert await closed(reader), "the time for a request is over"
            said = {"text": "Hello", "client_id": "1"}
            assert (await program.post(f"/api/conversations/{chat}/messages", json=said)).status_code == 202
            async with asyncio.timeout(SECONDS):
                while "posted" not in await anext(lines):
                    pass


@pytest.mark.parametrize("is_proxy", [False, True])
async def test_an_address_has_so_many_connections_unless_it_is_a_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_proxy: bool
) -> None:
    monkeypatch.setattr(connections, "MOST_OF_ADDRESS", 2)
    async with served(tmp_path, http={"behind_proxy": is_proxy}) as world:
        head = ("GET /healthz HTTP/1.1", "Host: 127.0.0.1")
        async with connection(world), connection(world), connection(world) as (reader, _):
            if is_proxy:
                assert await status(world, *head) == 200
            else:
                assert await closed(reader)
        async with asyncio.timeout(SECONDS):
            while not await answers(world, *head):  # until the server has seen that the others are closed
                pass


async def test_connections_count_before_their_tls_handshake_and_in_total(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MOST_OF_ADDRESS", 2)
    monkeypatch.setattr(connections, "MOST_OPEN", 3)
    made = PrivateAuthority.create(tmp_path).issue("127.0.0.1")
    tls = {"cert": str(made.cert), "key": str(made.key)}
    async with served(tmp_path, http={"tls": tls}) as world, AsyncExitStack() as stack:

        async def silent(source: str) -> asyncio.StreamReader:
            reader, writer = await asyncio.open_connection("127.0.0.1", world.server.port, local_addr=(source, 0))
            stack.callback(writer.close)
            return reader

        async with asyncio.timeout(SECONDS):
            kept = [await silent("127.0.0.1"), await silent("127.0.0.1")]
            assert await closed(await silent("127.0.0.1"))
            kept.append(await silent("127.0.0.2"))
            assert await closed(await silent("127.0.0.3"))
        assert not any(reader.at_eof() for reader in kept)


def test_a_limit_that_is_met_again_and_again_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    addresses = connections.Addresses([])
    taken = [addresses.add("192.0.2.1") for _ in range(connections.MOST_OF_ADDRESS + 3)]
    assert taken.count(False) == 3
    assert [record.getMessage() for record in caplog.records] == ["192.0.2.1 has 250 connections, which is the limit"]


def test_an_ipv6_address_counts_with_its_neighbours() -> None:
    addresses = connections.Addresses(["172.18.0.0/16"])
    assert addresses.counted("2001:db8::1") == addresses.counted("2001:db8::ffff:2") != addresses.counted("2001:db9::1")
    assert addresses.counted("fe80::1%eth0") == "fe80::/64"
    assert addresses.counted("192.0.2.1") == "192.0.2.1"
    assert addresses.counted("172.18.3.4") is None
