"""What each answer of a server or of something before it means; the common ones are tried over the wire elsewhere."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from channels.base import Route
from channels.errors import ChannelError, ChatMoved, Fatal, OutcomeUnknown, RateLimited, Rejected, Temporary
from channels.message import Address
from channels.telegram.api import TelegramApi
from channels.telegram.config import TelegramConfig
from channels.telegram.outbound import TelegramPart
from tests.channels.telegram.support import new_token

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CHAT = Address(account="telegram", chat="1")
PART = TelegramPart(0, text="x")


@asynccontextmanager
async def answered(code: int, payload: bytes) -> AsyncIterator[TelegramApi]:
    """An account whose server answers everything like this."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=code, body=payload)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app) as server:
        config = TelegramConfig.model_validate({"token": new_token(), "base_url": str(server.make_url("/"))})
        api = TelegramApi("acc", config, lambda url: Route())
        try:
            yield api
        finally:
            await api.close()


async def error_of_a_send(code: int, payload: bytes = b"") -> ChannelError:
    async with answered(code, payload) as api:
        with pytest.raises(ChannelError) as failure:
            await api.send(CHAT, PART, None)
    return failure.value


CODES: list[tuple[int, type[ChannelError]]] = [
    (302, Temporary),
    (400, Rejected),
    (401, Fatal),
    (402, Rejected),
    (404, Rejected),
    (407, Temporary),
    (408, Temporary),
    (413, Rejected),
    (500, OutcomeUnknown),
    (502, OutcomeUnknown),
    (504, OutcomeUnknown),
    (599, OutcomeUnknown),
]


async def test_codes_of_a_send() -> None:
    assert [(code, type(await error_of_a_send(code))) for code, _ in CODES] == CODES


@pytest.mark.parametrize("code", [500, 502, 504])
async def test_a_server_error_of_a_repeatable_call_is_temporary(code: int) -> None:
    async with answered(code, b"") as api:
        with pytest.raises(Temporary):
            await api.edit(CHAT, "1", PART)


async def test_only_the_methods_that_every_server_knows_tell_of_a_bad_token() -> None:
    async with answered(404, b"") as api:
        with pytest.raises(Fatal, match=r"getUpdates: no description \(404\)"):
            await api.poll(None, 0, ["message"], 5.0)


FLOODS: list[tuple[bytes, float]] = [
    (b'{"description": "Too Many Requests: retry after 9", "parameters": {"retry_after": 12}}', 12),
    (b'{"description": "Too Many Requests: retry after 9"}', 9),
    (b'{"description": "Too Many Requests: retry after 9", "parameters": {"retry_after": 0}}', 9),
    (b'{"description": 5, "parameters": {"retry_after": "soon"}}', 5),
    (b'{"parameters": []}', 5),
    (b"[1]", 5),
    (b"<html>slow down</html>", 5),
    (b"[" * 100_000, 5),
    (b"\xff\xfe", 5),
    (b"", 5),
]


async def test_how_long_to_wait_is_read_from_what_there_is() -> None:
    for payload, seconds in FLOODS:
        error = await error_of_a_send(429, payload)
        assert isinstance(error, RateLimited), payload
        assert error.retry_after == seconds, payload


async def test_a_migration_is_told_whatever_else_the_answer_says() -> None:
    error = await error_of_a_send(400, b'{"description": 5, "parameters": {"migrate_to_chat_id": -1007, "x": []}}')
    assert isinstance(error, ChatMoved)
    assert error.new_chat == "-1007"


ANSWERS: list[Any] = [None, [], {}, {"result": None}, {"result": 5}, {"result": {}}, {"result": {"message_id": 1}}]


@pytest.mark.parametrize("answer", ANSWERS, ids=json.dumps)
async def test_an_answer_that_is_no_message_leaves_the_outcome_of_a_send_unknown(answer: Any) -> None:
    assert type(await error_of_a_send(200, json.dumps(answer).encode())) is OutcomeUnknown


async def test_only_the_id_of_a_sent_message_is_read() -> None:
    message = {"message_id": 7, "date": 1, "chat": {"id": 1, "type": "private"}, "poll": "of a later Bot API"}
    async with answered(200, json.dumps({"ok": True, "result": message}).encode()) as api:
        assert await api.send(CHAT, PART, None) == 7
