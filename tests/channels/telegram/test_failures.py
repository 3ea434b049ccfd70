"""What each answer of a server or of something before it means; the common ones are tried over the wire elsewhere."""

from __future__ import annotations

import pytest

from channels.errors import ChannelError, Fatal, OutcomeUnknown, RateLimited, Rejected, Temporary
from channels.telegram.failures import Refusal, read_refusal, sorted_out
from tests.tables import table


def error_of(code: int, *, method: str = "sendMessage", repeatable: bool = False) -> ChannelError:
    return sorted_out(method, Refusal(code, "", {}), repeatable, "acc")


@table(
    ("code", "error"),
    [
        (302, Temporary),
        (402, Rejected),
        (404, Rejected),
        (407, Temporary),
        (408, Temporary),
        (413, Rejected),
        (500, OutcomeUnknown),
        (502, OutcomeUnknown),
        (504, OutcomeUnknown),
        (599, OutcomeUnknown),
    ],
)
def test_codes_of_a_send(code: int, error: type[ChannelError]) -> None:
    assert type(error_of(code)) is error


@pytest.mark.parametrize("code", [500, 502, 504])
def test_a_server_error_of_a_repeatable_call_is_temporary(code: int) -> None:
    assert type(error_of(code, repeatable=True)) is Temporary


def test_only_the_methods_that_every_server_knows_tell_of_a_bad_token() -> None:
    assert isinstance(error_of(404, method="getUpdates"), Fatal)
    assert isinstance(error_of(401), Fatal)


@table(
    ("payload", "seconds"),
    [
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
    ],
)
def test_how_long_to_wait_is_read_from_what_there_is(payload: bytes, seconds: float) -> None:
    error = sorted_out("sendMessage", read_refusal(429, payload), False, "acc")
    assert isinstance(error, RateLimited)
    assert error.retry_after == seconds
