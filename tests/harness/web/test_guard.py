"""The guarded client with real sockets: it goes to the very address that was checked, redirects included."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from harness.web.addresses import Refused, WebError
from harness.web.fetch import MOST_REDIRECTS
from tests.simulators.proxy.authority import PrivateAuthority
from tests.simulators.proxy.server import ProxyServer
from tests.simulators.web.site import Site

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.harness.web.conftest import Guarded, Guards

VICTIM = "127.0.0.2"


@pytest.fixture
async def victim(site: Site) -> AsyncIterator[Site]:
    """What nobody may reach: another address of this machine, on the site's port."""
    async with Site().serve(VICTIM, site.port) as victim:
        yield victim


@pytest.fixture
def authority(tmp_path: Path) -> PrivateAuthority:
    return PrivateAuthority.create(tmp_path)


def tls(authority: PrivateAuthority, host: str) -> ssl.SSLContext:
    import ssl

    made = authority.issue(host)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.cert, made.key)
    return context


async def test_a_page_is_read_under_its_name(guarded: Guarded, site: Site) -> None:
    fetched = await guarded.get(site.url("/article", "site.test"))
    assert b"lighthouse" in (fetched.body or b"")
    (asked,) = site.asked
    assert asked.headers["host"] == f"site.test:{site.port}"
    assert "cookie" not in asked.headers
    assert "authorization" not in asked.headers


async def test_a_name_that_changes_its_meaning_is_asked_once(guards: Guards, site: Site, victim: Site) -> None:
    guarded = guards(f"127.0.0.1:{site.port}", rebound_test=[["127.0.0.1"], [VICTIM]])
    await guarded.get(site.url("/article", "rebound.test"))
    assert guarded.names.asked == ["rebound.test"]
    assert (site.connections, victim.connections) == (1, 0)
    with pytest.raises(Refused):
        await guarded.get(site.url("/article", "rebound.test"))
    assert victim.connections == 0


async def test_one_bad_address_among_good_ones_spoils_the_name(guards: Guards, site: Site, victim: Site) -> None:
    for addresses in (["127.0.0.1", VICTIM], [VICTIM, "127.0.0.1"]):
        guarded = guards(f"127.0.0.1:{site.port}", mixed_test=[addresses])
        with pytest.raises(Refused, match="non-public"):
            await guarded.get(site.url("/", "mixed.test"))
    assert (site.connections, victim.connections) == (0, 0)


async def test_the_next_address_is_tried(guards: Guards, site: Site) -> None:
    guarded = guards(f"127.0.0.0/8:{site.port}", two_test=[["127.0.0.3", "127.0.0.1"]])
    await guarded.get(site.url("/article", "two.test"))
    assert site.connections == 1


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.2:{port}/",
        "http://[::ffff:127.0.0.2]:{port}/",
        "http://2130706434:{port}/",
        "http://inside.test:{port}/",
        "http://localhost/",
        "http://169.254.169.254/latest/meta-data/",
        "http://user:pw@site.test:{port}/",
        "//127.0.0.2:{port}/",
        "file:///etc/passwd",
        "gopher://127.0.0.2:{port}/",
        "http://site.test:22/",
    ],
)
async def test_redirects_are_checked_like_addresses(guards: Guards, site: Site, victim: Site, target: str) -> None:
    guarded = guards(f"127.0.0.1:{site.port}", site_test=[["127.0.0.1"]], inside_test=[[VICTIM]])
    to = quote(target.format(port=site.port), safe="")
    for status in (301, 302, 303, 307, 308):
        site.asked.clear()
        with pytest.raises(Refused):
            await guarded.get(site.url(f"/redirect?status={status}&to={to}", "site.test"))
        assert victim.connections == 0, status
        assert len(site.asked) == 1, status


async def test_a_name_may_not_move_between_two_redirects(guards: Guards, site: Site, victim: Site) -> None:
    guarded = guards(f"127.0.0.1:{site.port}", site_test=[["127.0.0.1"], [VICTIM]])
    with pytest.raises(Refused):
        await guarded.get(site.url("/redirect?to=/article", "site.test"))
    assert victim.connections == 0


async def test_redirects_are_followed_so_far(guarded: Guarded, site: Site) -> None:
    fetched = await guarded.get(site.url(f"/chain/{MOST_REDIRECTS}"))
    assert fetched.url.endswith("/chain/0")
    for path in (f"/chain/{MOST_REDIRECTS + 1}", "/chain/25", "/loop"):
        with pytest.raises(WebError, match="redirects more than"):
            await guarded.get(site.url(path))


async def test_nothing_that_a_host_said_is_told_to_another(guards: Guards, site: Site) -> None:
    guarded = guards(f"127.0.0.1:{site.port}", a_test=[["127.0.0.1"]], b_test=[["127.0.0.1"]])
    to = quote(site.url("/article", "b.test"), safe="")
    await guarded.get(site.url(f"/redirect?to={to}", "a.test"))
    first, second = site.asked
    assert second.headers["host"].startswith("b.test")
    assert set(second.headers) == set(first.headers)
    assert not {"cookie", "referer", "authorization"} & set(second.headers)


async def test_tls_is_for_the_name_and_the_connection_for_the_address(
    guards: Guards, authority: PrivateAuthority
) -> None:
    async with Site().serve(tls=tls(authority, "secure.test")) as site:
        secure, other = [["127.0.0.1"]], [["127.0.0.1"]]
        guarded = guards(f"127.0.0.1:{site.port}", ca_file=authority.cert, secure_test=secure, other_test=other)
        fetched = await guarded.get(f"https://secure.test:{site.port}/article")
        assert fetched.kind == "text/html"
        with pytest.raises(WebError, match="cannot be reached"):
            await guarded.get(f"https://other.test:{site.port}/article")
        untrusting = guards(f"127.0.0.1:{site.port}", secure_test=[["127.0.0.1"]])
        with pytest.raises(WebError, match="cannot be reached"):
            await untrusting.get(f"https://secure.test:{site.port}/article")


async def test_behind_a_proxy_the_proxy_resolves(guards: Guards, authority: PrivateAuthority) -> None:
    proxy = ProxyServer()
    server = await asyncio.start_server(proxy.handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, Site().serve(tls=tls(authority, "far.example")) as site:
        proxy.routes["far.example:443"] = site.port
        guarded = guards(
            proxy=f"http://me:s3cret@127.0.0.1:{port}", ca_file=authority.cert, inside_example=[["10.0.0.7"]]
        )
        fetched = await guarded.get("https://far.example/article")
        assert b"lighthouse" in (fetched.body or b"")
        # What the URL shows is checked here, and so is a name that means something here.
        for url in ("https://10.0.0.7/", "https://127.0.0.1/", "https://db.internal/", "https://inside.example/"):
            with pytest.raises(Refused):
                await guarded.get(url)
        with pytest.raises(WebError, match="proxy") as refused:
            await guarded.get("https://unknown.example/")
        assert "s3cret" not in str(refused.value)
        assert [each.target for each in proxy.connects] == ["far.example:443", "unknown.example:443"]
        assert proxy.connects[0].headers["proxy-authorization"].startswith("Basic ")
        assert "proxy-authorization" not in site.asked[0].headers


async def test_a_proxy_gets_the_whole_address_of_what_is_not_encrypted(guards: Guards, site: Site) -> None:
    guarded = guards(proxy=f"http://127.0.0.1:{site.port}")
    await guarded.get("http://far.example/article")
    (asked,) = site.asked
    assert asked.target == "http://far.example/article"


async def test_the_environment_is_not_asked(guarded: Guarded, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert (await guarded.get(site.url("/text"))).body == b"plain words"


async def test_the_system_is_asked_for_names(site: Site) -> None:
    from harness.web.addresses import Rules
    from harness.web.fetch import Fetcher
    from harness.web.guard import GuardedTransport

    rules = Rules([f"localhost:{site.port}"])
    transport = GuardedTransport(rules, lambda url: (None, None))
    fetcher = Fetcher(rules, transport)
    try:
        fetched = await fetcher.get(site.url("/text", "localhost"), most=lambda kind: 100, seconds=20, whose="ann")
        assert fetched.body == b"plain words"
        with pytest.raises(Refused, match="no address"):
            await fetcher.get("http://no-such-name.invalid/", most=lambda kind: 100, seconds=20, whose="ann")
    finally:
        await transport.aclose()
