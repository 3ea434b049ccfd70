"""Registering an app by a scanned code: the SDK's own flow in its process, against the simulator."""

from __future__ import annotations

import base64
import gzip
import json
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from channels.base import Route
from channels.feishu.config import SCOPES
from channels.feishu.registration import EVENTS, RegistrationFailed, register
from tests.channels.tls import proxied

if TYPE_CHECKING:
    from pathlib import Path

    from tests.simulators.feishu.client import FeishuSimulator


def direct(url: str) -> Route:
    return Route()


async def test_who_scans_the_code_gets_an_app_with_what_antler_needs(feishu: FeishuSimulator) -> None:
    shown: list[tuple[str, int]] = []
    await feishu.scanned()
    made = await register(feishu.domain, lambda url, seconds: shown.append((url, seconds)), direct)
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
        await register(feishu.domain, lambda url, seconds: None, direct)


async def test_it_goes_through_the_proxy_and_trusts_the_configured_authority(
    feishu: FeishuSimulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # one of the environment does not count
    await feishu.scanned()
    port = urlsplit(feishu.domain).port
    assert port is not None
    async with proxied(tmp_path, "feishu.example", port) as (proxy, route):
        made = await register("https://feishu.example", lambda url, seconds: None, lambda url: route)
        assert {connect.target for connect in await proxy.connects()} == {"feishu.example:443"}
    assert made.app_id == feishu.app_id
