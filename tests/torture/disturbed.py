"""Runs in the launched process: changes the product's environment (clock, disk, lease, additional tools) and records
what it does.

Everything here works by wrapping; the product has no hooks for it. Files in the control folder switch it at run time.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import os
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.torture.seams import AfterImport

CLOCK_FILE = "clock-offset"
"""Seconds by which the wall clock is wrong; monotonic time is unaffected, as after a correction by NTP."""
READ_ONLY_FILE = "read-only"
"""While it exists, SQLite refuses to write the gateway's database (SQLITE_READONLY)."""
CALLS_FILE = "calls"
"""Gets a line PID MONOTONIC_SECONDS METHOD for each call to the Bot API, before it is made."""
RECORDED_FILE = "recorded"
"""Gets a line ACCOUNT CHAT MESSAGE_ID for each sent message, after the gateway has recorded it."""


def disturb(seams: AfterImport, folder: Path) -> None:
    """Install all wrappers. folder: contains the control files."""
    _set_clock(seams, folder / CLOCK_FILE)
    seams.replace("channels.telegram.api:TelegramApi.call", functools.partial(_noted, folder / CALLS_FILE))
    seams.replace("bot.delivery.journal:Journal.sent", functools.partial(_recorded, folder / RECORDED_FILE))
    seams.replace("harness.run.runner:make_harness", functools.partial(_with_tools, folder))
    event.listen(Engine, "begin", functools.partial(_read_only, folder / READ_ONLY_FILE))


def shorten_lease(seams: AfterImport, seconds: int) -> None:
    """Let PostgreSQL's lease expire sooner, and declare workers dead after the same time, so that a process need not be
    frozen for so long."""

    def shorten(module: Any) -> None:
        module.LEASE_SECONDS, module.RENEW_SECONDS = seconds, max(1, seconds // 3)
        module.LEASE = f"{module.SERVER_NOW} + {seconds * 1_000_000}"

    def stalled(module: Any) -> None:
        module.STALLED_SECONDS = float(seconds)

    def looked_after(module: Any) -> None:
        module.TIDY_SECONDS = max(1.0, seconds / 3)

    seams.change("bot.store.writer", shorten)
    seams.change("bot.store.worker_runs", stalled)
    seams.change("bot.workers.dispatch", looked_after)


def shorten_quiet(seams: AfterImport, seconds: float) -> None:
    """Let runs that were active at two deaths wait for less than the usual minute, which shortens the suite."""

    def shorten(module: Any) -> None:
        module.QUIET_SECONDS = seconds

    seams.change("bot.runs.driving", shorten)


def _set_clock(seams: AfterImport, file: Path) -> None:
    """Set both wall clocks: the product's and the one that libraries read (checkpoint ids begin with the time)."""

    def wrong() -> float:
        try:
            return float(file.read_text())
        except FileNotFoundError:
            return 0.0

    def now(right: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda clock: right(clock) + timedelta(seconds=wrong())

    seams.replace("bot.clock:SystemClock.now", now)
    seams.replace("time:time", lambda right: lambda: right() + wrong())
    seams.replace("time:time_ns", lambda right: lambda: right() + int(wrong() * 1e9))


def _noted(file: Path, call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    async def noted(api: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        with file.open("a") as lines:
            lines.write(f"{os.getpid()} {time.monotonic()} {method}\n")
        return await call(api, method, *args, **kwargs)

    return noted


def _recorded(file: Path, sent: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(sent)
    async def recorded(journal: Any, part: Any) -> None:
        await sent(journal, part)
        # Not earlier: that would delay the rest of the same commit.
        address = (await journal.load(part.reply_key))[0].address
        with file.open("a") as lines:
            lines.write(f"{address.account} {address.chat} {part.message_id}\n")

    return recorded


def recorded(folder: Path) -> frozenset[tuple[str, str, str]]:
    """(account, chat, message id) of each recorded message."""
    file = folder / RECORDED_FILE
    lines = file.read_text().splitlines() if file.exists() else []
    return frozenset((account, chat, message_id) for account, chat, message_id in map(str.split, lines))


def _with_tools(folder: Path, make_harness: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(make_harness)
    async def with_tools(parts: Any, *more: Any) -> Any:
        # Imported late: it loads modules that the product loads only once it receives.
        tools = importlib.import_module("tests.torture.tools").make_tools(folder)
        return await make_harness(dataclasses.replace(parts, tools=(*parts.tools, *tools)), *more)

    return with_tools


def _read_only(file: Path, connection: Connection) -> None:
    # Only the writer: readers' connections never write, and the writer also runs the migrations at startup.
    if connection.dialect.name == "sqlite" and threading.current_thread().name.startswith("store-writer"):
        connection.exec_driver_sql(f"PRAGMA query_only={'ON' if file.exists() else 'OFF'}")
