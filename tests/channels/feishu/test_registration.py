"""Registering an app by a scanned code: the SDK's own flow in its process, against the simulator."""

from __future__ import annotations

import base64
import gzip
import json
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from channels.feishu.config import SCOPES
from channels.feishu.registration import EVENTS, RegistrationFailed, register

if TYPE_CHECKING:
    from tests.simulators.feishu.client import FeishuSimulator


async def test_who_scans_the_code_gets_an_app_with_what_antler_needs(feishu: FeishuSimulator) -> None:
    shown: list[tuple[str, int]] = []
    await feishu.scanned()
    made = await register(feishu.domain, lambda url, seconds: shown.append((url, seconds)))
    assert (made.app_id, made.app_secret, made.domain) == (feishu.app_id, feishu.app_secret, feishu.domain)
    ((url, seconds),) = shown
    assert (urlsplit(url).path, seconds) == ("/page/cli", 600)
    packed = parse_qs(urlsplit(url).query)["addons"][0]
    addons = json.loads(gzip.decompress(base64.urlsafe_b64decode(packed + "==")))
    assert {scope.names[0] for scope in SCOPES} <= set(addons["scopes"]["tenant"])
    assert addons["events"]["items"]["tenant"] == list(EVENTS)
    assert addons["callbacks"]["items"] == ["card.action.trigger"]


async def test_who_refuses_makes_none_and_the_platforms_words_are_told(feishu: FeishuSimulator) -> None:
    await feishu.scanned(error="access_denied", error_description="the tenant forbids it")
    with pytest.raises(RegistrationFailed, match="access_denied: the tenant forbids it"):
        await register(feishu.domain, lambda url, seconds: None)
