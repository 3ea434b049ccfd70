"""Requests to an application in the same loop: bodies both ways as they are made, and what becomes of those cut off."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from antler.client import Client
from antler.connection import Connection, Patience
from antler.embedded import MOST_WAITING, AppTransport
from antler.errors import Conflict, NotStarted, RequestFailed, TooMany, Unreachable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Told(Exception):
    """Of the application."""


class App:
    """Does what the path says. log: what it came to."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.go_on = asyncio.Event()
        self.answers: list[tuple[int, dict[str, str], bytes]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.log.append(f"{scope['method']} {scope['path']} {scope['query_string'].decode()}".strip())
        await getattr(self, f"_{scope['path'].strip('/')}")(receive, send)

    async def _begin(self, send: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        raw = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        await send({"type": "http.response.start", "status": status, "headers": raw})

    async def _body(self, send: Any, body: bytes, *, more: bool = False) -> None:
        await send({"type": "http.response.body", "body": body, "more_body": more})

    async def _echo(self, receive: Any, send: Any) -> None:
        await self._begin(send)
        while (message := await receive())["more_body"]:
            await self._body(send, message["body"], more=True)
        await self._body(send, b"")

    async def _stepwise(self, receive: Any, send: Any) -> None:
        await self._begin(send)
        await self._body(send, b"one", more=True)
        await self.go_on.wait()
        await self._body(send, b"two")

    async def _endless(self, receive: Any, send: Any) -> None:
        await self._begin(send)
        while (await receive())["type"] == "http.request":
            pass
        self.log.append("left")

    async def _much(self, receive: Any, send: Any) -> None:
        await self._begin(send)
        for number in range(MOST_WAITING * 3):
            await self._body(send, bytes([number]), more=True)
            self.log.append("sent")
        await self._body(send, b"")

    async def _fails(self, receive: Any, send: Any) -> None:
        raise Told

    async def _breaks(self, receive: Any, send: Any) -> None:
        await self._begin(send)
        await self._body(send, b"half", more=True)
        raise Told

    async def _answers(self, receive: Any, send: Any) -> None:
        status, headers, body = self.answers.pop(0)
        await self._begin(send, status, headers)
        await self._body(send, body)


@pytest.fixture
def app() -> App:
    return App()


@pytest.fixture
async def http(app: App) -> AsyncIterator[httpx.AsyncClient]:
    transport = AppTransport(app, lambda: "")
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


async def test_a_body_reaches_the_application_and_comes_back(http: httpx.AsyncClient, app: App) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"first "
        yield b"second"

    answer = await http.post("/echo", params={"a": "1 2"}, content=body())
    assert (answer.status_code, answer.content) == (200, b"first second")
    assert app.log == ["POST /echo a=1+2"]


async def test_an_answer_is_read_while_it_is_made(http: httpx.AsyncClient, app: App) -> None:
    async with http.stream("GET", "/stepwise") as answer:
        pieces = answer.aiter_raw()
        assert await anext(pieces) == b"one"
        app.go_on.set()
        assert [piece async for piece in pieces] == [b"two"]


async def test_who_leaves_is_told_to_the_application(http: httpx.AsyncClient, app: App) -> None:
    async with http.stream("GET", "/endless"):
        pass
    await http.aclose()
    assert app.log[-1] == "left"


async def test_an_application_waits_for_its_reader(http: httpx.AsyncClient, app: App) -> None:
    async with http.stream("GET", "/much") as answer:
        pieces = answer.aiter_raw()
        await anext(pieces)
        for _ in range(MOST_WAITING * 10):
            await asyncio.sleep(0)
        assert app.log.count("sent") <= MOST_WAITING + 2
        rest = [piece async for piece in pieces]
    assert len(rest) == MOST_WAITING * 3 - 1


async def test_who_leaves_does_not_hold_up_the_application(http: httpx.AsyncClient, app: App) -> None:
    async with http.stream("GET", "/much"):
        pass
    await http.aclose()
    assert app.log.count("sent") == MOST_WAITING * 3


async def test_a_request_that_fails_is_a_lost_connection(http: httpx.AsyncClient) -> None:
    with pytest.raises(httpx.ReadError):
        await http.get("/fails")
    with pytest.raises(httpx.ReadError, match="cut off"):
        await http.get("/breaks")


async def test_a_gateway_that_has_stopped_is_named() -> None:
    transport = AppTransport(App(), lambda: "the disk is gone")
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        with pytest.raises(NotStarted, match="the disk is gone"):
            await client.get("/echo")


def error(code: str) -> bytes:
    return f'{{"error": {{"code": "{code}", "message": "No."}}}}'.encode()


async def test_what_may_be_asked_again_is_and_other_things_are_not(http: httpx.AsyncClient, app: App) -> None:
    connection = Connection(http, 20)
    app.answers = [(503, {"Retry-After": "0"}, error("starting")), (429, {"Retry-After": "0"}, b"?"), (200, {}, b"{}")]
    assert (await connection.ask("POST", "/answers")).json() == {}
    app.answers = [(409, {}, error("thread_busy"))]
    with pytest.raises(Conflict, match=r"No. \(409 thread_busy\)"):
        await connection.ask("POST", "/answers")
    app.answers = [(429, {"Retry-After": "3600"}, error("upload_quota"))]
    with pytest.raises(TooMany) as refused:
        await connection.ask("POST", "/answers")
    assert (refused.value.retry_after, refused.value.code) == (3600.0, "upload_quota")


async def test_a_lost_answer_is_asked_for_again(http: httpx.AsyncClient, app: App) -> None:
    with pytest.raises(Unreachable):
        await Connection(http, 0.3).ask("POST", "/fails")
    assert len(app.log) > 2


async def test_patience_ends() -> None:
    patience = Patience(0)
    with pytest.raises(Unreachable, match="nobody"):
        await patience.wait(Unreachable("nobody"))
    with pytest.raises(RequestFailed):
        await patience.wait(TooMany(429, "x", "y", retry_after=1))


@pytest.mark.parametrize("name", ["", "..", "../../memory", "x/../y", "a?b", "a#b", "a%2Fb", "a b"])
async def test_an_id_that_leads_elsewhere_is_not_sent(name: str) -> None:
    sent: list[str] = []

    def told(request: httpx.Request) -> httpx.Response:
        sent.append(str(request.url))
        return httpx.Response(200)

    async with Client("http://127.0.0.1", "token", transport=httpx.MockTransport(told)) as client:
        for call in (
            lambda: client.start("text", thread=name),
            lambda: client.stop(str(uuid.uuid4()), name),
            lambda: client.history(name),
            lambda: client.delete_thread(name),
            lambda: client.decide(name, "deny"),
            lambda: client.send("text", hook=name, secret="whsec_AAAA"),
        ):
            with pytest.raises(ValueError, match="is no id"):
                await call()
    assert sent == []
