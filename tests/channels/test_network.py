"""Which proxies and CAs can be used, whatever the platform; that they are used is tested with each adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from channels.base import Route
from channels.errors import Fatal
from channels.network import http_session, tls_context, usable_proxy
from tests.simulators.proxy.authority import PrivateAuthority

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("proxy", [None, "http://proxy:3128", "https://me:secret@proxy.example:8443", "http://[::1]:1"])
def test_what_can_be_a_proxy_stays_as_it_is_written(proxy: str | None) -> None:
    assert usable_proxy(Route(proxy=proxy), "main") == proxy


@pytest.mark.parametrize(
    "proxy", ["", "proxy:1", "socks5://hunter2@h:1", "gopher://me:hunter2@h:1", "http://", "http://me:hunter2@[::1"]
)
def test_what_cannot_is_fatal_and_shows_no_password(proxy: str) -> None:
    with pytest.raises(Fatal, match="proxy of account main") as failure:
        usable_proxy(Route(proxy=proxy), "main")
    assert "hunter2" not in f"{failure.value} {failure.value.hint}"


def test_a_file_that_holds_no_ca_is_fatal_and_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    for path in (tmp_path / "ca.pem", tmp_path / "missing.pem"):
        with pytest.raises(Fatal, match=rf"{path.name} of account main"):
            tls_context(Route(ca_file=path), "main")


def test_accounts_that_trust_the_same_share_a_context(tmp_path: Path) -> None:
    ca_file = PrivateAuthority.create(tmp_path).cert
    first, other = (tls_context(Route(ca_file=ca_file), account) for account in ("main", "other"))
    assert first is other is not tls_context(Route(), "main")


async def test_a_session_takes_nothing_of_the_environment() -> None:
    async with http_session(1, None) as session:
        assert not session.trust_env
        assert len(session.cookie_jar) == 0
