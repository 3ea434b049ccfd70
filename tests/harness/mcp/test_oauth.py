"""Tokens that several processes share: a refresh token may be good for one time only."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import httpx
from pydantic import SecretStr

from bot.clock import SystemClock
from harness.mcp import oauth
from harness.mcp.config import OAuthSettings
from harness.mcp.oauth import Tokens

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SETTINGS = OAuthSettings(
    grant="refresh_token",
    token_url=SecretStr("https://tokens.example.org/token"),
    client_id="antler",
    refresh_token=SecretStr("refresh-0"),
)


class Provider:
    """Whoever comes with a refresh token that was used is refused, as if it were stolen. keeps: the first one stays
    valid, and answers have null in its place."""

    def __init__(self, *, keeps: bool = False) -> None:
        self.given = 0
        self.keeps = keeps

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.MockTransport(self._answer))

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        (shown,) = parse_qs(request.content.decode())["refresh_token"]
        if shown != f"refresh-{0 if self.keeps else self.given}":
            return httpx.Response(400, json={"error": "invalid_grant"})
        self.given += 1
        following = None if self.keeps else f"refresh-{self.given}"
        given = {"access_token": f"access-{self.given}", "refresh_token": following}
        await asyncio.sleep(0.2)
        return httpx.Response(200, json=given)


def tokens(folder: Path, provider: Provider) -> Tokens:
    """As one process has them."""
    return Tokens(SETTINGS, folder / "mcp" / "play.json", provider.client, SystemClock(), lambda secret: None)


async def test_of_processes_that_need_a_new_token_at_once_one_asks_for_it(tmp_path: Path) -> None:
    provider = Provider()
    processes = [tokens(tmp_path, provider) for _ in range(3)]
    refused = ""
    for number in (1, 2):
        access = await asyncio.gather(*(each.access(refused) for each in processes))
        refused = f"access-{number}"
        assert (set(access), provider.given) == ({refused}, number)


async def test_a_process_that_never_gives_the_token_free_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oauth, "LOCK_SECONDS", 0.3)
    first, second = (tokens(tmp_path, provider) for provider in (Provider(), Provider()))
    async with first._cache.alone():
        assert await second.access() == "access-1"


async def test_a_refresh_token_that_is_not_replaced_stays(tmp_path: Path) -> None:
    found = tokens(tmp_path, Provider(keeps=True))
    assert await found.access() == "access-1"
    assert await found.access("access-1") == "access-2"
