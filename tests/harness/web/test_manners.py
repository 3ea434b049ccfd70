"""What a robots.txt asks for, and the time between two requests to a host."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.web.addresses import Rules, WebError
from harness.web.fetch import Fetcher
from harness.web.guard import GuardedTransport
from harness.web.manners import KEPT_SECONDS, MOST_ROBOTS, Crowded, Manners, Pace, Robots
from tests.harness.support import TurnedClock
from tests.simulators.web.site import page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.simulators.web.site import Site

RULES = """\
# of the whole site
User-agent: *
Disallow: /

User-Agent: Antler/1.0   # and another one
User-agent: other
Disallow: /private
Allow: /private/open
Disallow: /*.pdf$
Disallow: /search?q=
Disallow:
Sitemap: https://a.example/sitemap.xml
"""


@pytest.mark.parametrize(
    ("target", "allowed"),
    [
        ("/", True),
        ("/private", False),
        ("/private/x", False),
        ("/private/open/x", True),
        ("/%70rivate/x", False),
        ("/a/b.pdf", False),
        ("/a/b.pdf?x", True),
        ("/search?q=x", False),
        ("/search", True),
        ("/robots.txt", True),
    ],
)
def test_the_group_that_names_antler_counts(target: str, allowed: bool) -> None:
    assert Robots(RULES).allows(target) is allowed


def test_everybodys_rules_count_where_none_names_antler() -> None:
    assert not Robots("user-agent: *\ndisallow: /x\n").allows("/x/y")
    assert Robots("user-agent: GoogleBot\ndisallow: /\n").allows("/x")
    assert Robots("Disallow: /\n").allows("/x")  # of no group
    assert Robots("User-agent: antler\nAllow: /\nDisallow: /\n").allows("/x")  # of equals, what allows


@given(st.text(max_size=300), st.text(max_size=50))
def test_any_text_is_understood_somehow(text: str, path: str) -> None:
    assert isinstance(Robots(text).allows(f"/{path}"), bool)
    assert isinstance(Robots(f"User-agent: *\nDisallow: /{text}").allows(f"/{path}"), bool)


def test_a_pattern_that_is_made_to_take_long() -> None:
    robots = Robots("User-agent: *\n" + f"Disallow: /{'*a' * 2000}b$\n" * 50)
    assert robots.allows("/" + "a" * 4000)


def test_rules_made_of_wildcards_cost_next_to_nothing() -> None:
    begun = time.process_time()
    rules = Robots("User-agent: *\nDisallow: /a*b*c\nDisallow: /" + "*%" * (MOST_ROBOTS // 2))
    assert time.process_time() - begun < 0.5
    assert not rules.allows("/axbxc")
    assert rules.allows("/x%%")


async def test_requests_to_one_host_keep_their_distance() -> None:
    clock = TurnedClock()
    pace = Pace(2.0, 5.0, clock)
    await pace.turn("a")
    await pace.turn("b")
    assert clock.slept == []
    await pace.turn("a")
    assert clock.slept == [2.0]


class Still(TurnedClock):
    """Time that stands: nobody's turn comes."""

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


async def test_who_would_wait_too_long_is_refused() -> None:
    clock = Still()
    pace = Pace(2.0, 5.0, clock)
    for _ in range(3):
        await pace.turn("a")
    with pytest.raises(Crowded):
        await pace.turn("a")
    assert clock.slept == [2.0, 4.0]
    clock.advance(60)
    await pace.turn("a")


class Polite:
    """A fetcher with manners in front of a site."""

    def __init__(self, site: Site, *, robots: bool = True) -> None:
        rules = Rules([f"127.0.0.1:{site.port}"])
        self.clock = TurnedClock()
        self.transport = GuardedTransport(rules, lambda url: (None, None))
        self.fetcher = Fetcher(rules, self.transport, lambda url: self.manners.before(url))
        self.manners = Manners(self.fetcher.robots, self.clock, robots=robots, interval=1.0)

    async def get(self, url: str) -> str:
        found = await self.fetcher.get(url, most=lambda kind: 100_000, seconds=20, whose="ann")
        return (found.body or b"").decode()


@pytest.fixture
async def polite(site: Site) -> AsyncIterator[Polite]:
    polite = Polite(site)
    yield polite
    await polite.transport.aclose()


def paths(site: Site) -> list[str]:
    return [asked.path for asked in site.asked]


async def test_waiting_for_a_turn_takes_nothing_of_the_time_for_a_page(site: Site) -> None:
    rules = Rules([f"127.0.0.1:{site.port}"])
    transport = GuardedTransport(rules, lambda url: (None, None))
    fetcher = Fetcher(rules, transport, lambda url: asyncio.sleep(1.1))
    try:
        found = await fetcher.get(site.url("/text"), most=lambda kind: 100, seconds=1, whose="ann")
        assert found.body == b"plain words"
        with pytest.raises(WebError, match="more than 1 seconds"):
            await fetcher.get(site.url("/silent"), most=lambda kind: 100, seconds=1, whose="ann")
    finally:
        await transport.aclose()


async def test_a_site_is_asked_once_what_programs_may_read(polite: Polite, site: Site) -> None:
    site.own["/robots.txt"] = page("User-agent: *\nDisallow: /article\n", "text/plain")
    assert await polite.get(site.url("/text")) == "plain words"
    for url in (site.url("/article"), site.url("/redirect?to=/article")):
        with pytest.raises(WebError, match=r"asks programs not to read this page \(robots.txt\)"):
            await polite.get(url)
    assert paths(site) == ["/robots.txt", "/text", "/redirect"]
    polite.clock.advance(KEPT_SECONDS)
    await polite.get(site.url("/text"))
    assert paths(site)[-2:] == ["/robots.txt", "/text"]


async def test_every_request_waits_for_the_hosts_turn(polite: Polite, site: Site) -> None:
    await polite.get(site.url("/chain/2"))
    assert paths(site) == ["/robots.txt", "/chain/2", "/chain/1", "/chain/0"]
    assert polite.clock.slept == [1.0, 1.0]


@pytest.mark.parametrize("to", ["http://10.0.0.1/robots.txt", "/loop"])
async def test_rules_that_lead_nowhere_forbid_nothing(polite: Polite, site: Site, to: str) -> None:
    from tests.simulators.web.site import write

    async def elsewhere(asked: object, writer: object) -> None:
        write(writer, "", status=302, Location=to)  # type: ignore[arg-type]

    site.own["/robots.txt"] = elsewhere
    assert await polite.get(site.url("/text")) == "plain words"


async def test_rules_that_cannot_be_told_now_forbid_all(polite: Polite, site: Site) -> None:
    from tests.simulators.web.site import write

    async def broken(asked: object, writer: object) -> None:
        write(writer, "no", status=503)  # type: ignore[arg-type]

    site.own["/robots.txt"] = broken
    with pytest.raises(WebError, match=r"Its robots.txt cannot be read now: It answered 503"):
        await polite.get(site.url("/text"))
    assert paths(site) == ["/robots.txt"]


async def test_without_the_setting_nobody_is_asked(site: Site) -> None:
    site.own["/robots.txt"] = page("User-agent: *\nDisallow: /\n", "text/plain")
    rude = Polite(site, robots=False)
    assert await rude.get(site.url("/text")) == "plain words"
    assert paths(site) == ["/text"]
    await rude.transport.aclose()


def test_rules_are_kept_for_antler_and_everybody_alone() -> None:
    others = "".join(f"user-agent: other-{number}\n" for number in range(2000))
    rules = "".join(f"disallow: /{number}\n" for number in range(500))
    robots = Robots(f"{others}{rules}user-agent: *\ndisallow: /closed\n")
    assert (robots.allows("/7"), robots.allows("/closed")) == (True, False)
    assert len(robots._rules) == 1
