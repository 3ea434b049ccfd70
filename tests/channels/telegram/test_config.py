"""The settings of a Telegram account: what is refused, and that the token never shows."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from channels.telegram.config import TelegramConfig
from tests.tables import table

TOKEN = "123456:AAcanary-canary-canary-canary-canary"


def test_a_token_is_enough() -> None:
    config = TelegramConfig.model_validate({"token": TOKEN})
    assert config.base_url == "https://api.telegram.org"
    assert (config.rate.per_second, config.rate.per_chat_per_second, config.rate.per_group_per_minute) == (30, 1, 20)
    assert (config.streaming, config.adopt_placeholders) == ("edits", False)
    assert TOKEN not in f"{config!r} {config} {config.model_dump_json()}"


def test_an_answer_that_grew_for_long_is_noticed_after_half_a_minute_or_never() -> None:
    def seconds(**settings: Any) -> float:
        return TelegramConfig.model_validate({"token": TOKEN, **settings}).notify_after

    assert (seconds(), seconds(notify_after=60), seconds(notify_after="off"), seconds(notify_after=0)) == (30, 60, 0, 0)
    with pytest.raises(ValidationError):
        seconds(notify_after=-1)


@pytest.mark.parametrize(
    "token", ["AAcanary", "123456", "123456:short-canary", "x123:AAcanary-canary-canary-canary-canary", TOKEN + "!", ""]
)
def test_a_wrong_token_is_refused_without_being_shown(token: str) -> None:
    with pytest.raises(ValidationError, match="not a bot token") as refusal:
        TelegramConfig.model_validate({"token": token})
    assert "canary" not in str(refusal.value)


def test_blanks_around_a_token_are_forgiven() -> None:
    config = TelegramConfig.model_validate({"token": f" {TOKEN}\n"})
    assert config.token.get_secret_value() == TOKEN


@table(
    ("settings", "says"),
    [
        ({"base_url": "127.0.0.1:8081"}, "needs a scheme"),
        ({"base_url": "ftp://h"}, "needs a scheme"),
        ({"base_url": "https://"}, "names no host"),
        ({"base_url": "https://h/?a=1"}, "must be a root URL"),
        ({"poll_timeout": 51}, "less than or equal to 50"),
        ({"streaming": "fast"}, "'edits' or 'draft'"),
        ({"rate": {"per_second": 0}}, "greater than 0"),
        ({"webhook": True}, "Extra inputs"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        TelegramConfig.model_validate({"token": TOKEN, **settings})


def test_a_root_may_end_with_a_slash() -> None:
    config = TelegramConfig.model_validate({"token": TOKEN, "base_url": "http://127.0.0.1:8081/"})
    assert config.base_url == "http://127.0.0.1:8081"
