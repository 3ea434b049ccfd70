"""The model clients' transport: httpx's behaviour and errors, over aiohttp."""

from __future__ import annotations

import asyncio
import gc
import ssl
import weakref
import zlib
from contextlib import asynccontextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING

import httpx2
import pytest
from aiohttp import web

from harness.models import transport
from harness.models.transport import AiohttpTransport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def served(handler: Handler) -> AsyncIterator[str]:
    """A server for every path; yields its URL."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def client(timeout: float = 10.0, proxy: str | None = None) -> AsyncIterator[httpx2.AsyncClient]:
    through = AiohttpTransport(ssl.create_default_context(), proxy, connections=4)
    async with httpx2.AsyncClient(transport=through, timeout=timeout, trust_env=False) as opened:
        yield opened


async def test_a_request_and_its_answer_arrive_whole() -> None:
    async def answer(request: web.Request) -> web.Response:
        body = await request.json()
        echo = {"path": request.path_qs, "key": request.headers["Authorization"], "said": body["say"]}
        return web.json_response(echo, status=201, headers={"X-More": "yes"})

    async with served(answer) as url, client() as http:
        response = await http.post(f"{url}/v1/a%20b?x=1", json={"say": "ä😀"}, headers={"Authorization": "Bearer k"})
    assert response.status_code == 201
    assert response.headers["x-more"] == "yes"
    assert response.json() == {"path": "/v1/a%20b?x=1", "key": "Bearer k", "said": "ä😀"}


async def test_a_packed_answer_is_unpacked() -> None:
    async def answer(request: web.Request) -> web.Response:
        response = web.Response(text="word " * 1000)
        response.enable_compression(web.ContentCoding.gzip)
        return response

    async with served(answer) as url, client() as http:
        response = await http.get(url)
    assert response.text == "word " * 1000


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("packed", [False, True])
async def test_an_answer_that_is_too_large_takes_little_memory(
    status: int, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "MOST_ANSWER", 1_000_000)
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=status, headers={"Content-Encoding": "gzip"} if packed else {})
        await response.prepare(request)
        zeros = bytes(10_000_000)
        await response.write(packer.compress(zeros) + packer.flush(zlib.Z_SYNC_FLUSH) if packed else zeros)
        return response

    read = 0
    async with served(answer) as url, client() as http, http.stream("GET", url) as response:
        with pytest.raises(httpx2.ReadError) if status == 200 else nullcontext():
            async for data in response.aiter_bytes():
                assert len(data) <= 10_000_000 // 4
                read += len(data)
    assert read <= 1_000_000


async def test_an_answer_that_is_not_packed_as_it_says_is_an_error() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=b"plain", headers={"Content-Encoding": "gzip"})

    async with served(answer) as url, client() as http:
        with pytest.raises(httpx2.DecodingError):
            await http.get(url)


async def test_an_event_stream_comes_whole_and_in_order() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for number in range(50):
            await response.write(f"data: {number}\n\n".encode())
        return response

    async with served(answer) as url, client() as http, http.stream("GET", url) as response:
        received = [data async for data in response.aiter_bytes()]
    assert b"".join(received).decode() == "".join(f"data: {number}\n\n" for number in range(50))


async def test_connections_are_used_again() -> None:
    peers: list[object] = []

    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        peers.append(request.transport.get_extra_info("peername"))
        return web.Response(text="hi")

    async with served(answer) as url, client() as http:
        for _ in range(3):
            await http.post(url, content=b"x")
    assert len(peers) == 3
    assert len(set(peers)) == 1


async def test_a_kept_connection_keeps_nothing_of_the_turn_that_made_it() -> None:
    class Turn:
        pass

    running: ContextVar[Turn | None] = ContextVar("running", default=None)

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text="answer")

    async with served(answer) as url, client() as http:

        async def turn() -> weakref.ref[Turn]:
            running.set(mine := Turn())
            assert (await http.get(url)).text == "answer"
            return weakref.ref(mine)

        left = await asyncio.create_task(turn())
        assert (await http.get(url)).text == "answer"  # by the same connection
        gc.collect()
        assert left() is None


async def test_who_stops_waiting_ends_the_request() -> None:
    began = asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        began.set()
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async with served(answer) as url, client() as http:
        asking = asyncio.create_task(http.get(url))
        await began.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert [task for task in asyncio.all_tasks() if "ClientSession" in repr(task.get_coro())] == []


async def test_a_server_that_is_not_there() -> None:
    async with client() as http:
        with pytest.raises(httpx2.ConnectError):
            await http.get("http://127.0.0.1:9")


async def test_a_proxy_that_is_not_there_is_told_without_its_password() -> None:
    async with client(proxy="http://me:pa55word@127.0.0.1:9") as http:
        with pytest.raises(httpx2.ProxyError) as failure:
            await http.get("https://model.test")
    assert "pa55word" not in str(failure.value)


async def test_silence_is_a_time_out() -> None:
    async def hang(request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    async with served(hang) as url, client(timeout=0.2) as http:
        with pytest.raises(httpx2.ReadTimeout):
            await http.get(url)


async def test_a_connection_that_breaks_is_no_time_out() -> None:
    async def reset(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        raise AssertionError

    async with served(reset) as url, client() as http:
        with pytest.raises(httpx2.ReadError):
            await http.post(url, content=b"x")


async def test_half_a_body_is_an_error() -> None:
    async def break_off(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"half")
        assert request.transport is not None
        request.transport.close()
        return response

    async with served(break_off) as url, client() as http:
        with pytest.raises(httpx2.ReadError):
            await http.get(url)
