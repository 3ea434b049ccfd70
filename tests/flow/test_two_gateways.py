"""Two gateways on one PostgreSQL database: one leads, the other stands by and takes over. Never two receive at once,
nothing is lost, nothing is said twice. How long each takeover took is printed."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
import time
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from sqlalchemy.engine import make_url

from bot.store.writer import LEASE_SECONDS
from tests.flow.gateway import merged
from tests.simulators.pgbouncer import pgbouncer
from tests.simulators.relay import Relay
from tests.simulators.telegram.seen import Person

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.flow.gateway import World
    from tests.simulators.postgres import PostgresServer

pytestmark = pytest.mark.postgres

KILLED, STOPPED = 5.0, 2.0
"""Seconds within which a standby receives, after a kill -9, and after the end of a planned stop."""
SILENT = LEASE_SECONDS + 2 + 2 + 1 + 3
"""After a leader fell silent: its lease, the margin, its time to react, the standby's look, and connecting."""
FROZEN = 42.0
PEOPLE = tuple(Person(70_001 + number, f"Reader{number}") for number in range(4))
SETTINGS: dict[str, Any] = {
    "access": {"dm": "open", "i_accept_public": True},
    # A draft may hold the whole of a short answer. One that a killed or frozen process sent and did not record is found
    # again by this alone (docs/reliability.md).
    "channels": {
        "telegram": {"adopt_placeholders": True, "rate": {"per_second": 200, "per_chat_per_second": 20}},
    },
    "conversations": {"busy": "queue", "join_seconds": 0},
    "limits": {"queued_per_conversation": 500, "messages_per_minute": 10_000, "message_burst": 1000},
}


@dataclasses.dataclass
class Pair:
    """Two processes of `antler gateway`, each with a data folder of its own; `first` leads at the beginning."""

    first: World
    second: World
    said: list[tuple[Person, str]] = dataclasses.field(default_factory=list)

    async def say(self) -> None:
        number = len(self.said)
        person, words = PEOPLE[number % len(PEOPLE)], f"number {number} of many"
        self.said.append((person, words))
        await self.first.telegram.user_says(words, user=person)

    @contextlib.asynccontextmanager
    async def talking(self) -> AsyncIterator[None]:
        """People go on writing within the block."""

        async def talk() -> None:
            while True:
                await self.say()
                await asyncio.sleep(0.25)

        task = asyncio.create_task(talk())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def polled_after(self, moment: float, within: float) -> float:
        """Seconds from that moment until somebody began to receive."""
        telegram = self.first.telegram
        for _ in range(round(within / 0.1) + 50):
            polls = [each.arrived - moment for each in await telegram.records("getUpdates") if each.arrived > moment]
            if polls:
                return polls[0]
            await asyncio.sleep(0.1)
        raise AssertionError(f"nobody receives:\n{self.second.log}")

    async def all_is_answered_once(self) -> None:
        telegram = self.first.telegram
        for person, words in self.said[-len(PEOPLE) :]:
            await telegram.wait_for_text(person, f"You said: {words}", timeout=60)
        await telegram.wait_idle(quiet=2.0)
        shown = [message.text for person in PEOPLE for message in await telegram.bot_messages(person)]
        counts = {words: shown.count(f"You said: {words}") for _, words in self.said}
        wrong = {words: count for words, count in counts.items() if count != 1}
        assert not wrong, f"{wrong} of {len(counts)}"

    async def conflicts(self, since: float = 0.0) -> list[float]:
        """When one was told that another one receives, too."""
        polls = await self.first.telegram.records("getUpdates")
        return [each.arrived for each in polls if each.status == 409 and each.arrived > since]

    async def status(self, world: World) -> str:
        return (await world.command("status"))[1]


@pytest.fixture
def pair(world: World, postgres: PostgresServer) -> Iterator[Pair]:
    database = {"database": {"url": postgres.database().replace("+psycopg", "")}}
    first = dataclasses.replace(world, folder=_made(world.folder, "a"), settings=SETTINGS | database, role="gateway")
    second = dataclasses.replace(first, folder=_made(world.folder, "b"))
    yield Pair(first, second)
    for each in (first, second):
        if each.process is not None and each.process.returncode is None:
            each.process.send_signal(signal.SIGCONT)
            each.process.kill()


def _made(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


@contextlib.asynccontextmanager
async def both(pair: Pair) -> AsyncIterator[Pair]:
    """The first leads, has answered, and the second stands by."""
    try:
        await pair.first.start()
        await pair.second.begin()
        await pair.second.wait_for_log("standing by: ")
        for _ in PEOPLE:
            await pair.say()
        await pair.all_is_answered_once()
        yield pair
    except BaseException:
        print(f"--- first ---\n{pair.first.log}\n--- second ---\n{pair.second.log}")
        raise


def told(what: str, seconds: float) -> None:
    print(f"takeover after {what}: {seconds:.2f} s")


async def test_a_standby_says_what_it_is_and_holds_no_connection(pair: Pair) -> None:
    for port, each in enumerate((pair.first, pair.second), start=18_750 + os.getpid() % 1000):
        each.settings = each.settings | {"http": {"listen": f"127.0.0.1:{port}"}}
    async with both(pair):
        first, second = (f":{each.process.pid}" for each in (pair.first, pair.second) if each.process is not None)
        leads, stands_by = await pair.status(pair.first), await pair.status(pair.second)
        assert f"gateway: leads as {leads.partition('leads as ')[2].partition(':')[0]}{first}; standing by: " in leads
        assert second in leads
        assert "gateway: stands by; leader: " in stands_by
        assert f"{first}\n" in stands_by
        assert (await pair.second.command("status", "--check"))[0] == 0
        assert f"{first}\n" in (await pair.second.command("doctor"))[1]
        assert "run the command where" in (await pair.second.command("access", "list"))[1]
        assert await _get(pair.second, "healthz") == (200, "ok\n")
        assert await _get(pair.second, "readyz") == (503, "standby\n")
        assert await _get(pair.first, "readyz") == (200, "ok\n")
        assert await pair.conflicts() == []
        assert await pair.second.end() == 0
        assert "told to stop while standing by" in pair.second.log
        assert "standing by: none" in await pair.status(pair.first)
        assert await pair.first.end() == 0


async def _get(world: World, path: str) -> tuple[int, str]:
    url = f"http://{world.settings['http']['listen']}/{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


async def test_after_kill_9_the_standby_takes_over(pair: Pair) -> None:
    async with both(pair), pair.talking():
        await asyncio.sleep(1.0)
        killed = time.monotonic()
        await pair.first.kill()
        took = await pair.polled_after(killed, KILLED)
        told("kill -9", took)
        assert took < KILLED
        await pair.first.begin()
        await pair.first.wait_for_log("standing by: ")
        # And back again: the one that was killed first stands by as well as any.
        killed = time.monotonic()
        await pair.second.kill()
        assert await pair.polled_after(killed, KILLED) < KILLED
    await pair.all_is_answered_once()
    assert await pair.conflicts() == []
    assert await pair.first.end() == 0


async def test_after_a_planned_stop_the_standby_takes_over(pair: Pair) -> None:
    async with both(pair), pair.talking():
        # Edited while it stands by; it counts once it leads.
        pair.second.settings = pair.second.settings | {"limits": {**SETTINGS["limits"], "message_burst": 2000}}
        pair.second.write_config()
        await asyncio.sleep(1.0)
        asked = time.monotonic()
        assert await pair.first.end() == 0
        ended = time.monotonic()
        took = await pair.polled_after(asked, STOPPED)
        told("SIGTERM", took)
        assert asked + took < ended + STOPPED
        await pair.second.wait_for_log("now in force: limits, by")
    await pair.all_is_answered_once()
    assert await pair.conflicts() == []
    assert await pair.second.end() == 0


@pytest.mark.long
async def test_a_frozen_leader_is_replaced_and_silent_when_it_wakes_up(pair: Pair) -> None:
    first = pair.first
    async with both(pair):
        async with pair.talking():
            assert first.process is not None
            frozen = time.monotonic()
            first.process.send_signal(signal.SIGSTOP)
            took = await pair.polled_after(frozen + 1.0, SILENT) + 1.0
            told("SIGSTOP", took)
            assert took < SILENT
            await asyncio.sleep(frozen + FROZEN - time.monotonic())
            thawed = time.monotonic()
            first.process.send_signal(signal.SIGCONT)
            async with asyncio.timeout(15):
                assert await first.process.wait() == 1
        assert "another process has taken over the database" in first.log
        await pair.all_is_answered_once()
        assert await pair.conflicts(since=thawed) == [], "it did not ask for updates any more"
        await first.begin()
        await first.wait_for_log("standing by: ")
        assert await pair.second.end() == 0
        assert await first.end() == 0


@pytest.mark.parametrize(
    "silent", [pytest.param(False, id="cut"), pytest.param(True, id="silent", marks=pytest.mark.long)]
)
async def test_a_leader_without_its_database_stops_before_another_one_begins(
    pair: Pair, postgres: PostgresServer, *, silent: bool
) -> None:
    first, url = pair.first, make_url(pair.first.settings["database"]["url"])
    # A leader that lives takes back what the next one could not know of.
    for each in (pair.first, pair.second):
        each.settings = merged(each.settings, {"channels": {"telegram": {"adopt_placeholders": False}}})
    async with Relay(postgres.socket) as relay:
        cut_off = url.set(host="127.0.0.1", port=relay.port, query={}).render_as_string(hide_password=False)
        first.settings = first.settings | {"database": {"url": cut_off}}
        async with both(pair):
            async with pair.talking():
                await asyncio.sleep(1.0)
                began = time.monotonic()
                relay.fall_silent() if silent else relay.cut()
                await first.wait_for_log("receiving is paused while this process does not lead", LEASE_SECONDS + 5)
                alone = time.monotonic()
                took = await pair.polled_after(alone, SILENT) + alone - began
                told("silence" if silent else "a cut", took)
                assert took < (SILENT if silent else KILLED)
                assert alone - began < (LEASE_SECONDS + 1 if silent else 1.0)
                relay.heal()
                assert first.process is not None
                async with asyncio.timeout(30):
                    assert await first.process.wait() == 1
            assert "another process has taken over the database" in first.log
            assert "never retrieved" not in first.log
            await pair.all_is_answered_once()
            assert await pair.conflicts() == []
            assert await pair.second.end() == 0


@pytest.mark.long
async def test_a_server_that_restarts_leaves_one_leader(pair: Pair, postgres: PostgresServer) -> None:
    async with both(pair):
        async with pair.talking():
            await asyncio.sleep(1.0)
            began = time.monotonic()
            postgres.stop()
            await pair.first.wait_for_log("receiving is paused while this process does not lead", 5)
            postgres.start()
            told("a restart of PostgreSQL", await pair.polled_after(time.monotonic(), 15) + time.monotonic() - began)
            await asyncio.sleep(3.0)
        await pair.all_is_answered_once()
        assert await pair.conflicts() == []
        for each in (pair.second, pair.first):
            if each.process is not None and each.process.returncode is None:
                assert await each.end() == 0


@pytest.mark.long
async def test_a_single_process_goes_on_when_its_server_restarts(world: World, postgres: PostgresServer) -> None:
    url = postgres.database().replace("+psycopg", "")
    alone = dataclasses.replace(world, settings=SETTINGS | {"database": {"url": url}})
    pair = Pair(alone, alone)
    async with alone:
        async with pair.talking():
            await asyncio.sleep(1.0)
            postgres.stop()
            await alone.wait_for_log("receiving is paused while this process does not lead", 5)
            postgres.start()
            await alone.wait_for_log("receiving again", 20)
            await asyncio.sleep(2.0)
        await pair.all_is_answered_once()
        assert await pair.conflicts() == []
        assert "run: leads as" in await pair.status(alone)


@pytest.mark.long
async def test_behind_pgbouncer_in_session_mode_a_standby_takes_over(pair: Pair) -> None:
    direct = pair.first.settings["database"]["url"]
    with pgbouncer(direct, "session") as pooled:
        for each in (pair.first, pair.second):
            each.settings = each.settings | {"database": {"url": pooled}}
        async with both(pair), pair.talking():
            killed = time.monotonic()
            await pair.first.kill()
            took = await pair.polled_after(killed, KILLED)
            told("kill -9 behind PgBouncer", took)
            assert took < KILLED
        await pair.all_is_answered_once()
        assert await pair.second.end() == 0


async def test_pgbouncer_in_transaction_mode_is_told(pair: Pair) -> None:
    with pgbouncer(pair.first.settings["database"]["url"], "transaction") as pooled:
        pair.first.settings = pair.first.settings | {"database": {"url": pooled}}
        assert await pair.first.ends() == 78
    assert "pool_mode = session" in pair.first.log


async def test_without_postgresql_there_is_no_standby(world: World) -> None:
    world.role = "gateway"
    assert await world.ends() == 78
    assert "antler: database.url: `antler gateway` needs a PostgreSQL database" in world.log
