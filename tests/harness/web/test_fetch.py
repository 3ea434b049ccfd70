"""What comes back is bounded in size and time, whatever a server does."""

from __future__ import annotations

import asyncio
import resource
import time
from typing import TYPE_CHECKING

import httpx
import pytest

from harness.web.addresses import Rules, WebError
from harness.web.fetch import AT_ONCE, Fetcher
from tests.simulators.web.site import page, write

if TYPE_CHECKING:
    from tests.harness.web.conftest import Guarded, Guards
    from tests.simulators.web.site import Answer, Asked, Site

MEGABYTE = 1 << 20
NO_HTTP = "The connection broke, or the response was not HTTP. Use another source, or try again later."


@pytest.mark.parametrize("path", ["/gzip", "/deflate", "/article"])
async def test_packed_pages_are_unpacked(guarded: Guarded, site: Site, path: str) -> None:
    fetched = await guarded.get(site.url(path))
    assert (fetched.body or b"").startswith(b"<!DOCTYPE html>")
    assert (fetched.body or b"").endswith(b"</html>")
    assert not fetched.cut
    assert fetched.charset == "utf-8"


@pytest.mark.parametrize("path", [pytest.param("/bomb", marks=pytest.mark.slow), "/huge"])
async def test_what_is_too_large_is_cut(guarded: Guarded, site: Site, path: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    fetched = await guarded.get(site.url(path), most_bytes=MEGABYTE)
    assert len(fetched.body or b"") == MEGABYTE
    assert fetched.cut
    # In KB; the simulated server is in this process too.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


async def test_a_page_of_just_the_limit_is_whole(guarded: Guarded, site: Site) -> None:
    fetched = await guarded.get(site.url("/text"), most_bytes=len(b"plain words"))
    assert (fetched.body, fetched.cut) == (b"plain words", False)
    cut = await guarded.get(site.url("/text"), most_bytes=len(b"plain words") - 1)
    assert (cut.body, cut.cut) == (b"plain word", True)


@pytest.mark.parametrize("path", ["/drip", "/informational", "/silent"])
async def test_what_is_too_slow_is_given_up(guarded: Guarded, site: Site, path: str) -> None:
    with pytest.raises(WebError, match=r"more than 0\.3 seconds"):
        await guarded.get(site.url(path), seconds=0.3)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/status/404", "no such page"),
        ("/status/403", "does not let programs"),
        ("/status/401", "login"),
        ("/status/429", "too many requests"),
        ("/status/503", "server error"),
        ("/status/204", "not a page"),
        ("/brotli", "compressed"),
        ("/broken-gzip", "compressed"),
        ("/headers", "not HTTP"),
        ("/garbage", "not HTTP"),
    ],
)
async def test_failures_are_told_so_that_a_model_can_go_on(guarded: Guarded, site: Site, path: str, told: str) -> None:
    with pytest.raises(WebError, match=told):
        await guarded.get(site.url(path))


def chunks(count: int, chunk: bytes) -> Answer:
    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
        writer.write(chunk * count + b"0\r\n\r\n")

    return answer


async def informational(asked: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 100 \r\n\r\n" * 200_000 + b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


async def longest_turn() -> float:
    """Seconds of the processor for which the loop served others in one turn, once that is cancelled."""
    longest, last = 0.0, time.thread_time()
    try:
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            longest, last = max(longest, now - last), now
    except asyncio.CancelledError:
        return longest


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(chunks(200_000, b"1\r\nx\r\n"), id="a chunk for each byte"),
        pytest.param(chunks(2_000, b"1;" + b"x" * 2000 + b"\r\nx\r\n"), id="chunks with long extensions"),
        pytest.param(informational, id="many answers 1xx"),
    ],
)
async def test_an_answer_that_is_mostly_packaging_is_given_up_and_freezes_nobody(
    guarded: Guarded, site: Site, answer: Answer
) -> None:
    site.own["/packaging"] = answer
    async with asyncio.timeout(60):
        watching = asyncio.create_task(longest_turn())
        reading = [guarded.get(site.url("/packaging"), seconds=60) for _ in range(AT_ONCE)]
        told = await asyncio.gather(*reading, return_exceptions=True)
        watching.cancel()
    assert {str(each) for each in told} == {NO_HTTP}
    assert await watching < 0.5


async def test_a_page_in_small_pieces_is_read(guarded: Guarded, site: Site) -> None:
    site.own["/lines"] = chunks(10_000, b"40\r\n" + b"x" * 64 + b"\r\n")
    site.own["/letters"] = chunks(4_000, b"1\r\nx\r\n")
    for path, size in (("/lines", 640_000), ("/letters", 4_000)):
        assert len((await guarded.get(site.url(path))).body or b"") == size


async def test_nobody_listens(guards: Guards, site: Site) -> None:
    guarded = guards(f"127.0.0.0/8:{site.port}", dead_test=[["127.0.0.3"]])
    with pytest.raises(WebError, match="cannot be reached"):
        await guarded.get(site.url("/", "dead.test"))


async def test_nothing_is_read_of_what_is_not_wanted(guarded: Guarded, site: Site) -> None:
    fetched = await guarded.fetcher.get(
        site.url("/huge"), most=lambda kind: 0 if kind == "text/plain" else MEGABYTE, seconds=20, whose="ann"
    )
    assert (fetched.body, fetched.size, fetched.kind) == (None, 10 << 30, "text/plain")


@pytest.mark.parametrize(
    ("header", "kind", "charset"),
    [
        ('Text/HTML; charset="UTF-8"', "text/html", "utf-8"),
        ("text/html;x=1;charset=gbk", "text/html", "gbk"),
        ("text/html; charset*=a; charset*0=b", "text/html", ""),
        ("application/zip obey the following", "", ""),
        ("application/" + "x" * 200, "", ""),
        ("nonsense", "", ""),
    ],
)
async def test_a_media_type_is_one_or_is_not_told(
    guarded: Guarded, site: Site, header: str, kind: str, charset: str
) -> None:
    site.own["/typed"] = page("x", header)
    fetched = await guarded.get(site.url("/typed"))
    assert (fetched.kind, fetched.charset) == (kind, charset)


async def test_a_redirect_to_what_is_no_address(guarded: Guarded, site: Site) -> None:
    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        write(writer, "", status=302, Location=":http://[//:@127.0.0.1")

    site.own["/astray"] = answer
    with pytest.raises(WebError, match="not an address"):
        await guarded.get(site.url("/astray"))


class Gated(httpx.AsyncBaseTransport):
    """Pages of slow.test wait for the gate. most: of them that waited at once."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.waiting = self.most = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.host == "slow.test":
            self.waiting += 1
            self.most = max(self.most, self.waiting)
            await self.gate.wait()
            self.waiting -= 1
        return httpx.Response(200, headers={"content-type": "text/plain"}, stream=httpx.ByteStream(b"page"))


async def test_ones_slow_pages_do_not_hold_up_anothers() -> None:
    transport = Gated()
    fetcher = Fetcher(Rules(()), transport)

    async def read(url: str, whose: str) -> bytes | None:
        found = await fetcher.get(url, most=lambda kind: 100, seconds=20, whose=whose)
        return found.body

    async with asyncio.timeout(20):
        slow = [asyncio.create_task(read("http://slow.test/", "ann")) for _ in range(2 * AT_ONCE)]
        assert await asyncio.gather(*(read("http://fast.test/", "bob") for _ in range(AT_ONCE))) == [b"page"] * AT_ONCE
        assert transport.waiting == transport.most == AT_ONCE // 2
        transport.gate.set()
        assert await asyncio.gather(*slow) == [b"page"] * 2 * AT_ONCE
