"""Scenario `page`: the cost of the page without visitors, once opened, and while 200 readers follow answers.

Scenario `first-paint`: time until a browser shows it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import time
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

import httpx

from bot.control.server import ask, connection
from bot.http.auth import COOKIE, CSRF_HEADER
from tests.bench.chats import ROUND_SECONDS, warm_up
from tests.bench.figures import Figure, Outcome, Target, percentile, spread
from tests.bench.gauge import Memory, memory, watching
from tests.bench.stage import LIFTED, LONG, stage
from tests.bench.starts import start
from tests.bench.timeline import calls, label, requests, timings
from tests.flow.gateway import merged

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from tests.bench.stage import Stage
    from tests.bench.timeline import Timing

ON_TELEGRAM, ON_PAGE, READERS = 25, 25, 200
"""Chats answered concurrently on each, and streams, distributed among the chats of the page."""
SESSIONS = 4
"""Sessions of the readers: one may have 200 concurrent requests."""
FIRST_PAGE_CHAT = 9_000_001
"""First number for the questions of the page's chats; no Telegram chat has one so high."""
LOOK_SECONDS = 0.2
MOST_MEMORY, MOST_START, SLOWER, FIRST_PAINT = Target(25), Target(0.3), Target(1.05), Target(1)
_LOADED = re.compile(r'(?:href|src)="(/static/[^"]+)"')
FINAL = b'"final":true'


@dataclass(frozen=True)
class Looks:
    """Size of the scenario. pairs: of starts without and with the page, and of rounds without and with readers.
    idle_seconds: before memory is read."""

    pairs: int
    idle_seconds: float


async def page_cost(looks: Looks) -> Outcome:
    """Measure the cost of the page's presence, then that of many readers."""
    outcome = await _presence(looks)
    with_readers = await _readers(looks.pairs)
    outcome.figures += with_readers.figures
    outcome.details |= with_readers.details
    outcome.problems += with_readers.problems
    return outcome


# Presence, and the first visit.


async def _presence(looks: Looks) -> Outcome:
    """Measure starts without and with the page, alternately on the same data, after one of each as a warm-up."""
    seconds: dict[bool, list[float]] = {False: [], True: []}
    used: dict[bool, list[Memory]] = {False: [], True: []}
    opened: list[Memory] = []
    first: list[float] = []
    async with stage(1, {}) as scene:
        for number in range(looks.pairs + 1):
            for there in (False, True) if number % 2 else (True, False):
                scene.world.settings = merged(scene.world.settings, _http() if there else {"http": None})
                took = await start(scene)
                await asyncio.sleep(looks.idle_seconds)
                idle = memory(scene.pid)
                if there and number:
                    first.append(await _opened(scene))
                    await asyncio.sleep(looks.idle_seconds)
                    opened.append(memory(scene.pid))
                await scene.world.stop()
                if number:
                    seconds[there].append(took)
                    used[there].append(idle)
    added = [more - less for less, more in zip(seconds[False], seconds[True], strict=True)]
    rss = {there: median(each.rss for each in found) for there, found in used.items()}
    pss = {there: median(each.pss for each in found) for there, found in used.items()}
    figures = [
        Figure("first_poll_off_p50", percentile(seconds[False], 50), "s"),
        Figure("first_poll_on_p50", percentile(seconds[True], 50), "s"),
        Figure("start_added_p50", percentile(added, 50), "s", MOST_START),
        Figure("rss_off", rss[False], "MB"),
        Figure("rss_on", rss[True], "MB"),
        Figure("rss_opened", median(each.rss for each in opened), "MB"),
        Figure("rss_added", median(each.rss for each in opened) - rss[False], "MB", MOST_MEMORY),
        Figure("pss_added", median(each.pss for each in opened) - pss[False], "MB"),
        Figure("first_visit_p50", percentile(first, 50), "s"),
    ]
    return Outcome(figures, {"starts": looks.pairs, "idle_seconds": looks.idle_seconds})


async def _opened(scene: Stage) -> float:
    """Seconds of a first visit, from the request for the page until everything is loaded."""
    async with _visitor(scene) as client:
        began = time.monotonic()
        shown = await client.get("/")
        assert shown.status_code == 200, shown.text
        loaded = await asyncio.gather(*(client.get(path) for path in set(_LOADED.findall(shown.text))))
        assert loaded, "a page that loads nothing"
        assert all(each.status_code == 200 for each in loaded)
        return time.monotonic() - began


def _http() -> dict[str, Any]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return {"http": {"listen": f"127.0.0.1:{free.getsockname()[1]}"}}


@contextlib.asynccontextmanager
async def _visitor(scene: Stage) -> AsyncIterator[httpx.AsyncClient]:
    """A client that has opened a sign-in link, and sends the headers that the pages send."""
    async with connection(scene.world.data_dir) as (reader, writer):
        link: str = (await ask(reader, writer, "signin", do="link"))["text"]
    root, _, code = link.rpartition("/signin/")
    async with httpx.AsyncClient(base_url=root, trust_env=False, timeout=ROUND_SECONDS) as client:
        answer = await client.post("/signin", data={"code": code})
        assert answer.status_code == 303, answer.text
        client.headers[CSRF_HEADER] = (await client.get("/api/me")).json()["csrf"]
        yield client


# In a browser.

PAINTED = """async () => {
    let [painted] = performance.getEntriesByName("first-contentful-paint");
    painted ??= await new Promise((resolve) => new PerformanceObserver((list) => {
        const [found] = list.getEntriesByName("first-contentful-paint");
        if (found) resolve(found);
    }).observe({ type: "paint", buffered: true }));
    return painted.startTime;
}"""
"""Milliseconds from the start of navigation to the first text or image, by the browser's clock."""


async def first_paint(loads: int) -> Outcome:
    """Measure a running gateway: each page in a fresh browser profile, so that nothing is cached; the start page also
    again in the same profile."""
    from tests.browser.conftest import CHROMIUM, missing

    if reason := missing():
        return Outcome([Figure("chat_p50", None, "s", FIRST_PAINT, reason=reason)])
    from playwright.async_api import async_playwright

    found: dict[str, list[float]] = {"chat": [], "chat_again": [], "answer": [], "now": []}
    async with stage(1, _http()) as scene, scene.world, _visitor(scene) as client, async_playwright() as driver:
        chat = (await client.post("/api/conversations")).json()["chat"]
        path = f"/api/conversations/{chat}/messages"
        assert (await client.post(path, json={"text": LONG.text, "client_id": "1"})).status_code == 202
        async with asyncio.timeout(ROUND_SECONDS):
            while True:
                if LONG.answer in (await client.get(path)).text:
                    break
                await asyncio.sleep(LOOK_SECONDS)
        root = str(client.base_url).rstrip("/")
        browser = await driver.chromium.launch(executable_path=CHROMIUM, chromium_sandbox=os.getuid() != 0)
        for _ in range(loads):
            for name, place in (("chat", "/"), ("answer", f"/c/{chat}"), ("now", "/now")):
                profile = await browser.new_context(base_url=root)
                await profile.add_cookies([{"name": COOKIE, "value": client.cookies[COOKIE], "url": root}])
                page = await profile.new_page()
                for seen in (name, "chat_again") if name == "chat" else (name,):
                    shown = await page.goto(place)
                    assert shown is not None
                    assert shown.status == 200, place
                    found[seen].append(await page.evaluate(PAINTED) / 1000)
                await profile.close()
        version = browser.version
        await browser.close()
    figures = [
        Figure(f"{name}_p50", percentile(seconds, 50), "s", FIRST_PAINT if name == "chat" else None)
        for name, seconds in found.items()
    ]
    return Outcome([*figures, Figure("chat_slowest", max(found["chat"]), "s")], {"loads": loads, "chromium": version})


# Many readers.


@dataclass
class Reader:
    """An open stream. finals: number of complete messages received; taken: bytes after the snapshot."""

    finals: int = 0
    taken: int = 0
    _task: asyncio.Task[None] | None = None
    _writer: asyncio.StreamWriter | None = None
    _rest: bytes = field(default=b"", repr=False)

    async def open(self, client: httpx.AsyncClient, chat: str) -> None:
        """Open the stream; return once the snapshot has arrived, which is not counted."""
        reader, self._writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
        head = f"GET /api/conversations/{chat}/events HTTP/1.1\r\nHost: {client.base_url.netloc.decode()}\r\n"
        self._writer.write(f"{head}Cookie: {COOKIE}={client.cookies[COOKIE]}\r\n\r\n".encode())
        told = b""
        async with asyncio.timeout(ROUND_SECONDS):
            while b"\n\n" not in told.partition(b"event: snapshot")[2]:
                more = await reader.read(65536)
                assert more, f"the stream was refused: {told[:300]!r}"
                told += more
        self._task = asyncio.create_task(self._read(reader), name="reader")

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while more := await reader.read(65536):
            self.taken += len(more)
            whole = self._rest + more
            self.finals += whole.count(FINAL)
            self._rest = whole[-len(FINAL) + 1 :]

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        if self._writer is not None:
            self._writer.close()


@dataclass
class Round:
    """Results of one round of all chats at once. cpu: of the gateway, in seconds."""

    found: list[Timing]
    cpu: float
    foreign_share: float
    taken: int = 0


async def _readers(pairs: int) -> Outcome:
    """Measure rounds without and with readers alternately, reversing the order with each pair. The compared answers are
    those of the Telegram chats, as the platform saw them."""
    rounds: dict[bool, list[Round]] = {False: [], True: []}
    problems: list[str] = []
    async with (
        stage(ON_TELEGRAM, merged(LIFTED, _http())) as scene,
        scene.world,
        _visitor(scene) as client,
        contextlib.AsyncExitStack() as stack,
        watching(scene.pid) as watch,
    ):
        visitors = [await stack.enter_async_context(_visitor(scene)) for _ in range(SESSIONS)]
        await warm_up(scene)
        chats = [(await client.post("/api/conversations")).json()["chat"] for _ in range(ON_PAGE)]
        await _round(scene, client, chats, 0, [], problems)
        for number in range(2 * pairs):
            read = number % 4 in (1, 2)
            async with _reading(visitors, chats if read else []) as readers:
                rounds[read].append(await _round(scene, client, chats, number + 1, readers, problems))
    return Outcome(
        [
            *_compared(rounds),
            Figure("cpu_per_msg_alone", _cpu(rounds[False]), "ms"),
            Figure("cpu_per_msg_read", _cpu(rounds[True]), "ms"),
            Figure("rss_read", watch.highest.rss, "MB"),
        ],
        {
            "messages": 2 * pairs * (ON_TELEGRAM + ON_PAGE),
            "readers": READERS,
            "bytes_per_reader": round(median(each.taken for each in rounds[True]) / READERS),
            "foreign_cpu_share": round(max(each.foreign_share for found in rounds.values() for each in found), 3),
        },
        problems,
    )


def _compared(rounds: dict[bool, list[Round]]) -> list[Figure]:
    """Figures of the answers without and with readers, and the median slowdown over the pairs of rounds."""
    figures: list[Figure] = []
    for name, read in (("alone", False), ("read", True)):
        found = [timing for each in rounds[read] for timing in each.found]
        figures += spread(f"whole_{name}", [timing.whole_seconds for timing in found], "s")
        figures += spread(f"final_{name}", [timing.final_ms for timing in found], "ms")
    for percent, target in ((50, SLOWER), (95, None)):
        ratios = [
            percentile([timing.whole_seconds for timing in more.found], percent)
            / percentile([timing.whole_seconds for timing in less.found], percent)
            for less, more in zip(rounds[False], rounds[True], strict=True)
            if less.found and more.found
        ]
        figures.append(Figure(f"whole_p{percent}_ratio", median(ratios) if ratios else None, "x", target))
    return figures


def _cpu(rounds: Sequence[Round]) -> float:
    return 1000 * sum(each.cpu for each in rounds) / (len(rounds) * (ON_TELEGRAM + ON_PAGE))


@contextlib.asynccontextmanager
async def _reading(visitors: Sequence[httpx.AsyncClient], chats: Sequence[str]) -> AsyncIterator[list[Reader]]:
    """Open the readers of these chats; none without chats."""
    readers = [Reader() for _ in range(READERS if chats else 0)]
    try:
        for number, reader in enumerate(readers):
            await reader.open(visitors[number % len(visitors)], chats[number % len(chats)])
        yield readers
    finally:
        await asyncio.gather(*(reader.close() for reader in readers))


async def _round(
    scene: Stage,
    client: httpx.AsyncClient,
    chats: Sequence[str],
    number: int,
    readers: Sequence[Reader],
    problems: list[str],
) -> Round:
    """Let everyone write at once, on Telegram and on the page; return once all is answered and idle."""
    before = await scene.telegram.count_showing(LONG.answer)
    after = max((update.update_id for update in await scene.telegram.deliveries()), default=0)
    crowd, meter = scene.people[:ON_TELEGRAM], scene.meter()
    meter.begin()
    posts = [
        client.post(
            f"/api/conversations/{chat}/messages",
            json={"text": f"{LONG.text} {label(FIRST_PAGE_CHAT + place, number)}", "client_id": f"r{number}"},
        )
        for place, chat in enumerate(chats)
    ]
    said = scene.say_at_once(crowd, lambda person: f"{LONG.text} {label(person.id, number)}")
    answers, _ = await asyncio.gather(asyncio.gather(*posts), said)
    refused = [answer.text for answer in answers if answer.status_code != 202]
    assert not refused, refused[0]
    await scene.until_shown(LONG.answer, before + len(crowd), ROUND_SECONDS)
    await scene.until_quiet()
    await _until_idle(client)
    meter.end()
    missing = await _until_read(readers)
    if missing:
        problems.append(f"round {number}: {missing} of {len(readers)} readers saw no whole answer")
    updates = [update for update in await scene.telegram.deliveries() if update.update_id > after]
    since = min(update.queued_at for update in updates)
    asked = requests(record for record in await scene.model.completions() if record.started >= since)
    shown = calls(record for record in await scene.telegram.records() if record.arrived >= since)
    found, wrong = timings(updates, asked, shown, LONG.answer)
    problems += wrong
    on_page = sum(request.chat_id >= FIRST_PAGE_CHAT for request in asked)
    if on_page != len(chats):
        problems.append(f"round {number}: {on_page} of {len(chats)} chats of the page were answered")
    return Round(found, meter.cpu, meter.foreign_share, sum(reader.taken for reader in readers))


async def _until_idle(client: httpx.AsyncClient) -> None:
    """Wait until no answers are in progress, on the page either."""
    async with asyncio.timeout(ROUND_SECONDS):
        while True:
            told = (await client.get("/api/turns", params={"everybody": "true"})).json()
            if not told["turns"]:
                return
            await asyncio.sleep(LOOK_SECONDS)


async def _until_read(readers: Sequence[Reader]) -> int:
    """Number of readers that have not received a whole answer, after the last has had time for it."""
    deadline = time.monotonic() + ROUND_SECONDS
    while True:
        missing = sum(not reader.finals for reader in readers)
        if not missing or time.monotonic() > deadline:
            return missing
        await asyncio.sleep(LOOK_SECONDS)
