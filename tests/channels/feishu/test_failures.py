"""What each refusal of the platform means for the caller."""

from __future__ import annotations

import json
from typing import Any

import pytest

from channels.errors import (
    ChannelError,
    ChatGone,
    EditRefused,
    Fatal,
    MessageGone,
    OutcomeUnknown,
    RateLimited,
    Rejected,
    Temporary,
    TopicClosed,
)
from channels.feishu.api import Answer
from channels.feishu.failures import MissingScope, Refusal, Refused, StaleToken, read_refusal, sorted_out
from tests.tables import table


def refused(
    code: int, message: str = "said", status: int = 400, repeatable: bool = True, **headers: str
) -> ChannelError:
    refusal = read_refusal(status, json.dumps({"code": code, "msg": message}).encode(), headers)
    assert refusal is not None
    return sorted_out("POST x", refusal, repeatable, "work")


TABLE: list[tuple[int, type[ChannelError]]] = [
    (99991400, RateLimited),
    (230020, RateLimited),
    (11232, RateLimited),
    (99991663, StaleToken),
    (99991661, StaleToken),
    (99991672, MissingScope),
    (10003, Fatal),
    (10014, Fatal),
    (230006, Fatal),
    (99991401, Fatal),
    (230002, ChatGone),
    (230013, ChatGone),
    (232009, ChatGone),
    (230011, MessageGone),
    (230027, TopicClosed),
    (230035, TopicClosed),
    (230031, EditRefused),
    (230110, MessageGone),
    (231003, MessageGone),
    (230072, EditRefused),
    (200740, EditRefused),
    (300311, EditRefused),
    (230001, Refused),
    (230025, Refused),
    (230028, Refused),
    (300317, Refused),
    (123456, Rejected),
    (2200, Temporary),
]


@table(("code", "kind"), TABLE)
def test_each_code_has_its_meaning(code: int, kind: type[ChannelError]) -> None:
    error = refused(code)
    assert type(error) is kind or (kind is Rejected and type(error) is Refused)
    assert f"({code})" in str(error)


@table("repeatable", [True, False])
@table(("status", "body"), [(500, b"<html>"), (502, b""), (200, b"no json"), (200, b"[]")])
def test_garbage_and_broken_servers_leave_it_open_what_happened(status: int, body: bytes, repeatable: bool) -> None:
    refusal = read_refusal(status, body, {})
    assert refusal is not None
    error = sorted_out("POST x", refusal, repeatable, "work")
    assert type(error) is (Temporary if repeatable else OutcomeUnknown)


def test_a_redirect_or_a_proxys_refusal_changed_nothing() -> None:
    for status in (302, 407, 408):
        assert type(sorted_out("x", Refusal(status, status, ""), False, "work")) is Temporary
    assert type(sorted_out("x", Refusal(404, 404, ""), False, "work")) is Refused


def test_success_is_no_refusal() -> None:
    assert read_refusal(200, b'{"code": 0}', {}) is None
    assert read_refusal(400, b'{"code": 0}', {}) == Refusal(400, 400, "", {})


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"x-ogw-ratelimit-reset": "7"}, 7.0),
        ({"retry-after": "3"}, 3.0),
        ({"x-ogw-ratelimit-reset": "soon"}, 1.0),
        ({"x-ogw-ratelimit-reset": "0"}, 1.0),
        ({"x-ogw-ratelimit-reset": "999999"}, 3600.0),
        ({}, 1.0),
    ],
)
def test_how_long_to_wait_is_read_from_the_headers(headers: dict[str, Any], seconds: float) -> None:
    error = sorted_out("x", Refusal(429, 99991400, "", headers), True, "work")
    assert isinstance(error, RateLimited)
    assert error.retry_after == seconds


@table("data", [None, [], "x", 5, {"a": 1}])
def test_the_data_of_an_answer_is_an_object_whatever_it_is(data: object) -> None:
    answer = Answer("GET x", 200, {}, json.dumps({"code": 0, "data": data}).encode())
    assert answer.body()["data"] == (data if isinstance(data, dict) else {})


def test_missing_scopes_are_named() -> None:
    error = refused(
        99991672, "Access denied. One of the following scopes is required: [im:message, im:message:send]. 点击"
    )
    assert isinstance(error, MissingScope)
    assert error.scopes == ("im:message", "im:message:send")
    assert "im:message, im:message:send to the app of account work" in error.hint
    assert "named in the message" in MissingScope("x", (), "work").hint


def test_the_reason_within_a_refused_card_counts() -> None:
    error = refused(230099, "Failed to create card content, ext=ErrCode: 11310; ErrMsg: card table number over limit;")
    assert isinstance(error, Refused)
    assert error.code == 11310


def test_an_unknown_message_is_gone() -> None:
    text = "Your request contains an invalid request parameter, ext=invalid message_id om_x"
    assert type(refused(230001, text)) is MessageGone
