"""Scenario `year`: the database after a year of messages, compared to an empty one: sizes, starts, queries, upkeep.

One conversation is played through the gateway; every later message is a copy of its rows with different ids and times.
The gateway's own upkeep runs after each simulated day. Rows that it deletes after 30 days are written for the last
LAST_DAYS only, permanent ones (usage, threads, checkpoints) for all days; every tenth thread has its checkpoints.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from bot.clock import SystemClock
from bot.control.server import read_status
from bot.operations import upkeep
from bot.store import Store, conversations, inbox, outbox, overview, runs, search, shown, usage
from bot.store.sql import Instant
from bot.store.tables import metadata
from bot.usage.days import Days
from tests.bench.figures import Figure, Outcome, Target, percentile
from tests.bench.gauge import MEGABYTE, memory
from tests.bench.stage import LIFTED, LONG, stage
from tests.bench.starts import start
from tests.bench.timeline import label

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from sqlalchemy import Connection

    from bot.store.rows import ConversationRow
    from tests.bench.stage import Stage

KEPT = timedelta(days=30)
LAST_DAYS = 40
CHECKPOINTED = 10
PASSING = ("inbox", "inbox_keys", "runs", "run_events", "outbox")
STARTS, ASKED, SAID = 3, 7, 5
FIRST_PERSON = 10_001
MICROSECONDS = 1_000_000
DAY = 86_400 * MICROSECONDS
TEXT = LONG.text.replace(" 50", " 0")
FLAT = 2.0
"""Largest ratio of the time of a start, a message and a status to that with an empty database."""


@dataclass(frozen=True)
class Size:
    """Size of the scenario. messages: per day. turns: of a thread, before its person begins another one."""

    days: int
    messages: int
    people: int
    turns: int

    @classmethod
    def of(cls, messages: int, *, quick: bool) -> Size:
        """A size at which everyone writes ten messages a day."""
        return cls(42, 300, 30, 25) if quick else cls(365, messages, messages // 10, 70)


class At(SystemClock):
    """A clock that shows the end of a simulated day."""

    moment = datetime.now(UTC)

    def now(self) -> datetime:
        return self.moment


class TimedStore(Store):
    """A store that measures the longest write, and the total of all writes, in seconds."""

    longest = 0.0

    async def write(self, unit: Callable[[Connection], Any], *, within: float = 0.0) -> Any:
        began = time.perf_counter()
        try:
            return await super().write(unit, within=within)
        finally:
            self.longest = max(self.longest, time.perf_counter() - began)


@dataclass
class Sample:
    """The newest message of a gateway, as its rows. forms: of all tables, and of those with permanent rows; as JSON.
    ids: those that a copy replaces."""

    columns: dict[str, list[str]]
    forms: dict[bool, str]
    ids: dict[str, str]
    ended: int

    @classmethod
    def of(cls, database: sqlite3.Connection) -> Sample:
        run = _row(database, "SELECT * FROM runs ORDER BY seq DESC LIMIT 1")
        thread, person, event = run["thread_id"], run["chat"], json.loads(run["inbox_ids"])[0]
        where = {"inbox": f"id = {event}", "inbox_keys": f"inbox_id = {event}"}
        where |= dict.fromkeys(("runs", "run_events", "usage"), f"run_id = '{run['run_id']}'")
        where |= {"outbox": f"reply_key = '{run['reply_key']}'", "threads": f"thread_id = '{thread}'"}
        where |= {"conversations": f"thread_id = '{thread}'"}
        rows, columns = {}, {}
        for table, condition in where.items():
            found = database.execute(f"SELECT * FROM {table} WHERE {condition}")
            columns[table] = [column[0] for column in found.description]
            rows[table] = [list(row) for row in found]
        key = rows["inbox_keys"][0][columns["inbox_keys"].index("key")]
        call = rows["usage"][0][columns["usage"].index("call")]
        sent = rows["outbox"][0][columns["outbox"].index("idem_key")]
        ids = {"run": run["run_id"], "thread": thread, "person": person, "key": key, "call": call, "sent": sent}
        lasting = {table: found for table, found in rows.items() if table not in PASSING}
        return cls(columns, {True: json.dumps(rows), False: json.dumps(lasting)}, ids, run["ended_at"])

    def copy(self, new: dict[str, str], number: int, at: int, *, passing: bool) -> dict[str, list[list[Any]]]:
        """The rows of another message, answered at a time in microseconds. passing: with those that upkeep deletes
        later."""
        form = self.forms[passing]
        for name, old in self.ids.items():
            form = form.replace(old, new[name])
        rows: dict[str, list[list[Any]]] = json.loads(form)
        for table, found in rows.items():
            for row in found:
                for place, name in enumerate(self.columns[table]):
                    if name in OWN_NUMBERS.get(table, ()):
                        row[place] = number
                    elif row[place] is not None and isinstance(metadata.tables[table].c[name].type, Instant):
                        row[place] += at - self.ended
        return rows

    def add(self, database: sqlite3.Connection, table: str, rows: Sequence[Sequence[Any]]) -> None:
        places = ", ".join("?" * len(self.columns[table]))
        database.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({places})", rows)


OWN_NUMBERS = {"inbox": ("id",), "inbox_keys": ("inbox_id",), "runs": ("seq",), "usage": ("id",)}


@dataclass
class Kept:
    """Upkeep in the last simulated days. seconds: of a whole day's; held: the longest write of all."""

    seconds: list[float] = field(default_factory=list)
    held: float = 0.0


async def year(size: Size) -> Outcome:
    """Measure the same gateway before and after the year; its person has a thread of `size.turns`."""
    settings = LIFTED | {"access": {"admins": ["telegram:50001"]}}
    async with stage(1, settings) as scene:
        async with scene.world:
            for turn in range(size.turns):
                await _say(scene, turn)
        folder = scene.world.data_dir
        fresh, empty = await _looked(scene, size.turns), _sizes(folder)
        kept = await _filled(folder, size)
        full, sizes = await _looked(scene, size.turns + SAID), _sizes(folder)
    return _outcome(size, fresh, full, kept, empty, sizes)


async def _say(scene: Stage, number: int) -> float:
    """Seconds from a message to its whole answer."""
    began = time.monotonic()
    await scene.say_at_once(scene.people, lambda person: f"{TEXT} {label(person.id, number)}")
    if not await scene.until_shown(LONG.answer, number + 1, 30.0):
        raise AssertionError(f"message {number} was not answered")
    return time.monotonic() - began


async def _looked(scene: Stage, said: int) -> dict[str, float]:
    """Measurements by name, in milliseconds; memory in MB. said: number of answers already shown."""
    found: dict[str, list[float]] = {}
    for number in range(STARTS):
        found.setdefault("first_poll", []).append(await start(scene) * 1000)
        if number < STARTS - 1:
            await scene.world.stop()
    for number in range(SAID):
        found.setdefault("whole_answer", []).append(await _say(scene, said + number) * 1000)
        await scene.until_quiet()
        began = time.monotonic()
        await read_status(scene.world.data_dir)
        found.setdefault("machine_status", []).append((time.monotonic() - began) * 1000)
    rss = memory(scene.pid).rss
    await scene.world.stop()
    store = await Store.open(f"sqlite:///{scene.world.data_dir / 'antler.db'}", clock=SystemClock())
    row = await store.read(lambda tx: conversations.load(tx, "telegram:50001"))
    assert row is not None
    for name, query in _queries(row):
        for _ in range(ASKED):
            began = time.perf_counter()
            await store.read(query)
            found.setdefault(name, []).append((time.perf_counter() - began) * 1000)
    await store.close()
    return {name: percentile(values, 50) for name, values in found.items()} | {"rss": rss}


def _queries(row: ConversationRow) -> Iterator[tuple[str, Callable[[Connection], Any]]]:
    person, key, now = row.owner, row.key, SystemClock().now()
    day = now - timedelta(days=1)
    yield "chat_status", lambda tx: (usage.thread_totals(tx, row.thread_id), inbox.oldest_new(tx))
    yield "chat_usage", lambda tx: (usage.spent(tx, conversation=key), usage.spent(tx, conversation=key, since=day))
    yield "chat_usage_of_all", lambda tx: (usage.spent(tx), usage.spent(tx, since=day))
    yield "chat_threads", lambda tx: conversations.threads_of(tx, row, 20)
    yield "last_run", lambda tx: runs.last_worked(tx, key, row.thread_id)
    yield "undelivered", outbox.undelivered
    yield "uploads_of_the_day", lambda tx: runs.with_files(tx, day)
    yield "page_threads", lambda tx: overview.threads_of(tx, person, 50)
    yield "page_all_threads", lambda tx: overview.threads_of(tx, None, 50)
    yield "page_counts", lambda tx: overview.count_others(tx, person)
    yield "page_chats", lambda tx: shown.listed(tx, "web", person, 50, None)
    yield "page_timings", lambda tx: overview.timings(tx, now - timedelta(hours=1))
    yield "page_usage_30_days", lambda tx: overview.spent_by(tx, "model", now - KEPT, now)
    yield "search_found", lambda tx: search.threads_with(tx, person, ("three",), 20)
    yield "search_in_vain", lambda tx: search.threads_with(tx, person, ("zebra",), 20)
    yield "search_all_in_vain", lambda tx: search.threads_with(tx, None, ("zebra",), 20)


# The year.


async def _filled(folder: Path, size: Size) -> Kept:
    today = int(time.time()) * MICROSECONDS
    store = await TimedStore.open(f"sqlite:///{folder / 'antler.db'}", clock=SystemClock())
    assert isinstance(store, TimedStore)
    kept, clock = Kept(), At()
    days = Days(ZoneInfo("UTC"), clock)
    with closing(_opened(folder / "antler.db")) as database, closing(_opened(folder / "checkpoints.db")) as history:
        sample = Sample.of(database)
        for day in range(size.days):
            end = today - (size.days - 1 - day) * DAY
            await asyncio.to_thread(_one_day, database, history, sample, size, day, end)
            clock.moment = datetime.fromtimestamp(end / MICROSECONDS, UTC)
            store.longest, began = 0.0, time.perf_counter()
            await upkeep.remove_old_rows(store, clock.now(), KEPT)
            await upkeep.sum_up_usage(store, days, KEPT)
            if day >= size.days - 5:
                kept.seconds.append(time.perf_counter() - began)
                kept.held = max(kept.held, store.longest)
    await store.close()
    return kept


def _one_day(
    database: sqlite3.Connection, history: sqlite3.Connection, sample: Sample, size: Size, day: int, end: int
) -> None:
    """Add the messages of the day that ends then, and the threads that begin on it."""
    added: dict[str, list[list[Any]]] = {table: [] for table in sample.columns}
    passing = day >= size.days - LAST_DAYS
    for place in range(size.messages):
        number = day * size.messages + place
        person, nth = number % size.people, number // size.people
        thread, fresh = f"thread {person} {nth // size.turns}", nth % size.turns == 0
        new = {name: _hex(f"{name} {number}") for name in ("run", "call", "sent")}
        new |= {"thread": _hex(thread), "person": str(FIRST_PERSON + person), "key": f"u:{number}"}
        at = end - DAY + place * DAY // size.messages
        for table, found in sample.copy(new, 1_000_000 + number, at, passing=passing).items():
            if fresh or table not in ("threads", "conversations"):
                added[table] += found
        if fresh and (person + nth // size.turns) % CHECKPOINTED == 0:
            _copy_thread(history, sample.ids["thread"], new["thread"])
    for table in ("threads", *(name for name in added if name != "threads")):
        sample.add(database, table, added[table])
    database.commit()
    history.commit()


def _copy_thread(history: sqlite3.Connection, old: str, new: str) -> None:
    for table in ("checkpoints", "writes"):
        columns = [row[1] for row in history.execute(f"PRAGMA table_info({table})")]
        rest = ", ".join(columns[1:])
        query = f"INSERT INTO {table} ({columns[0]}, {rest}) SELECT ?, {rest} FROM {table} WHERE {columns[0]} = ?"
        history.execute(query, (new, old))


def _opened(file: Path) -> sqlite3.Connection:
    database = sqlite3.connect(file, check_same_thread=False)
    database.execute("PRAGMA synchronous=OFF")  # only while it is filled, not while it is measured
    return database


def _row(database: sqlite3.Connection, query: str) -> dict[str, Any]:
    found = database.execute(query)
    return dict(zip([column[0] for column in found.description], found.fetchone(), strict=True))


def _hex(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


# Results.


def _sizes(folder: Path) -> dict[str, float]:
    """Megabytes of each file, and within it of each table with its indexes and of free pages."""
    sizes: dict[str, float] = {}
    for name in ("antler.db", "checkpoints.db"):
        with closing(sqlite3.connect(folder / name)) as database:
            query = "SELECT page_count * page_size, freelist_count * page_size"
            query += " FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
            ((sizes[name], sizes[f"{name} free"]),) = database.execute(query)
            query = "SELECT tbl_name, sum(pgsize) FROM dbstat('main', 1) JOIN sqlite_master USING (name)"
            for table, used in database.execute(f"{query} GROUP BY tbl_name"):
                sizes[f"{name} {table}"] = used
    return {name: used / MEGABYTE for name, used in sizes.items()}


def _outcome(
    size: Size,
    fresh: dict[str, float],
    full: dict[str, float],
    kept: Kept,
    empty: dict[str, float],
    sizes: dict[str, float],
) -> Outcome:
    written = size.days * size.messages
    lasting = sizes["antler.db usage"] + sizes["antler.db threads"]
    history = (sizes["checkpoints.db"] - empty["checkpoints.db"]) * CHECKPOINTED
    window = min(size.days, KEPT.days) * size.messages
    passing = sum(sizes[f"antler.db {table}"] for table in ("runs", "run_events"))
    week = min(size.days, 7) * size.messages
    short = sum(sizes[f"antler.db {table}"] for table in ("inbox", "inbox_keys", "outbox"))
    figures = [
        Figure("messages", written, "messages"),
        Figure("antler_db", sizes["antler.db"], "MB"),
        Figure("antler_db_free", sizes["antler.db free"], "MB"),
        Figure("checkpoints_db", history, "MB"),
        Figure("bytes_per_message_for_30_days", passing / window * MEGABYTE, "bytes"),
        Figure("bytes_per_message_for_7_days", short / week * MEGABYTE, "bytes"),
        Figure("bytes_per_message_for_good", lasting / written * MEGABYTE, "bytes"),
        Figure("bytes_per_message_of_history", history / written * MEGABYTE, "bytes"),
        Figure("upkeep_of_a_day", percentile(kept.seconds, 50), "s"),
        Figure("upkeep_longest_write", kept.held * 1000, "ms"),
    ]
    for name in full:
        unit = "MB" if name == "rss" else "ms"
        held = Target(FLAT) if name in ("first_poll", "whole_answer", "machine_status") else None
        figures += [Figure(f"{name}_empty", fresh[name], unit), Figure(f"{name}_full", full[name], unit)]
        figures += [Figure(f"{name}_ratio", full[name] / fresh[name], "x", held)] if held else []
    details = {
        "size": size.__dict__,
        "tables_mb": {name: round(value, 2) for name, value in sizes.items() if value > 1},
    }
    return Outcome(figures, details)
