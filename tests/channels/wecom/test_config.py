"""The settings of a WeCom account: what is refused, and that the secret never shows."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from channels.wecom.config import WecomConfig
from tests.tables import table

GIVEN = {"bot_id": "aibABC", "secret": "canary-secret"}


def test_id_and_secret_are_enough() -> None:
    config = WecomConfig.model_validate(GIVEN)
    assert config.url == "wss://openws.work.weixin.qq.com"
    assert (config.welcome, config.bot_name, config.reconnect_after_kick) == (None, "", False)
    rate = config.rate
    assert (rate.per_chat_per_minute, rate.per_chat_per_hour) == (30, 1000)
    assert "canary" not in f"{config!r} {config} {config.model_dump_json()}"


def test_blanks_and_the_at_sign_are_forgiven() -> None:
    config = WecomConfig.model_validate({"bot_id": " aibABC\n", "secret": " canary\n", "bot_name": "@Antler "})
    assert (config.bot_id, config.secret.get_secret_value(), config.bot_name) == ("aibABC", "canary", "Antler")


@table(
    ("settings", "says"),
    [
        ({"secret": ""}, "is empty"),
        ({"secret": "canary with blanks"}, "whitespace"),
        ({"url": "https://openws.work.weixin.qq.com"}, "needs a scheme"),
        ({"url": "wss://"}, "names no host"),
        ({"url": "wss://wecom.example.com:PORT"}, "[Pp]ort"),
        ({"rate": {"per_chat_per_minute": 0}}, "greater than 0"),
        ({"max_download_mb": 0}, "greater than 0"),
        ({"token": "x"}, "Extra inputs"),
        ({"bot_id": ""}, "at least 1 character"),
    ],
)
def test_what_cannot_work_is_refused_without_showing_the_secret(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says) as refusal:
        WecomConfig.model_validate(GIVEN | settings)
    assert "canary" not in str(refusal.value)
