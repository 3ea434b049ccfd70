"""Settings of an app: what is accepted, and what is said of the rest."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from channels.feishu.config import FeishuConfig
from channels.registry import channel_class, config_class, names_group
from tests.tables import table

GOOD: dict[str, Any] = {"app_id": " cli_a1b2c3d4 ", "app_secret": " s3cret "}


def test_the_smallest_settings() -> None:
    config = FeishuConfig.model_validate(GOOD)
    assert (config.app_id, config.app_secret.get_secret_value()) == ("cli_a1b2c3d4", "s3cret")
    assert config.root == "https://open.feishu.cn"


@pytest.mark.parametrize(
    ("domain", "root"),
    [
        ("lark", "https://open.larksuite.com"),
        ("https://open.example.com/", "https://open.example.com"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
    ],
)
def test_the_domain_is_a_name_or_a_root(domain: str, root: str) -> None:
    assert FeishuConfig.model_validate({**GOOD, "domain": domain}).root == root


@table(
    ("field", "value"),
    [
        ("app_id", "ou_a1b2c3"),
        ("app_id", "123"),
        ("app_secret", ""),
        ("app_secret", "two words"),
        ("domain", "feishu.cn"),
        ("domain", "https://open.feishu.cn/open-apis"),
        ("domain", "https://open.example.com:PORT"),
        ("receipt", "👍"),
        ("max_download_mb", 200),
        ("unknown", 1),
    ],
)
def test_what_cannot_be_right_is_refused_without_showing_it(field: str, value: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        FeishuConfig.model_validate({**GOOD, field: value})
    assert "s3cret" not in str(caught.value)


def test_the_registry_knows_it() -> None:
    assert config_class("feishu") is FeishuConfig
    assert channel_class("feishu").__name__ == "FeishuChannel"
    assert names_group("feishu", "oc_1")
    assert names_group("feishu", "ou_1") is False
