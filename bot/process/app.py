"""The process around the gateway, as started from the command line: its lock, exit code, and leak report."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import socket
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bot.clock import SystemClock
from bot.control import logs
from bot.control.lock import DataDirInUse, DataDirLock, DataDirUnusable, mark_shared
from bot.control.server import NO_CONSOLE, NotRunning
from bot.http.listener import HttpUnavailable
from bot.process import terminal
from bot.process.gateway import CONFIG_ERROR, FAILURE, GATEWAY, OK, RUN, Gateway
from bot.process.loop import run
from bot.process.standby import Standby
from bot.redaction import Redactor
from bot.settings import ChannelSettings
from bot.settings.http import HttpSettings
from bot.settings.load import exposed
from bot.settings.sections import LOG_FILE
from bot.store import Store
from bot.store.errors import StoreBusy, StoreError, UnfitDatabase
from bot.store.identity import OWN_ACCOUNTS
from bot.texts import language_of
from channels.console.transcript import locale_of
from harness.models.tour_texts import first_screen

if TYPE_CHECKING:
    from bot.settings import Settings
    from bot.settings.load import SettingsSource


log = logging.getLogger(__name__)
TAKE_OVER_SECONDS = 35.0
"""How long to wait for the store: a little longer than its lease."""
TAKE_OVER_RETRY_SECONDS = 2.0

"""Seconds between two attempts to open a busy store."""

HANDLES = Path("/proc/self/fd")
LONGEST = 20
"""Maximum number of leaks listed in the log line."""
ANYIO_THREAD = "AnyIO worker thread"
"""Name of AnyIO's idle worker threads, which read the files that Starlette sends."""
ENDING_SECONDS = 1.0
"""Seconds that stopped threads get to end, even on a busy machine."""
CLOSING_TURNS = 5
"""Iterations of the loop until the socket of a closed connection is really gone."""


@dataclass(frozen=True, slots=True)
class Belongings:
    """Resources that the process held at one moment. handles: descriptors and their targets; empty without /proc."""

    threads: frozenset[int | None]
    handles: frozenset[tuple[int, str]]


def belongings() -> Belongings:
    """Return the resources that this process holds now; called once, before the gateway is built."""
    return Belongings(frozenset(thread.ident for thread in threading.enumerate()), frozenset(_handles()))


async def report(before: Belongings, data_dir: Path) -> None:
    """Log the resources acquired since `before` that are still held, if any. The last thing that the loop does."""
    loop = asyncio.get_running_loop()
    await loop.shutdown_default_executor()
    gc.collect()  # a failed stream is referenced only by its own traceback, and is closed when it is collected
    for _ in range(CLOSING_TURNS):
        await asyncio.sleep(0)
    found = [*_tasks(), *_generators(loop), *_threads(before), *_open(before, data_dir)]
    if found:
        more = f" and {len(found) - LONGEST} more" if len(found) > LONGEST else ""
        log.error("left behind: %s%s", "; ".join(found[:LONGEST]), more)


def _tasks() -> list[str]:
    return sorted(f"task {task.get_name()}" for task in asyncio.all_tasks() - {asyncio.current_task()})


def _generators(loop: asyncio.AbstractEventLoop) -> list[str]:
    """Asynchronous generators that were started and neither finished nor closed; asyncio's loops keep them in a set."""
    begun = [generator for generator in getattr(loop, "_asyncgens", ()) if generator.ag_frame is not None]
    return sorted(f"generator {generator.__qualname__}" for generator in begun)


def _threads(before: Belongings) -> list[str]:
    """New threads that do not end. Daemon threads end with the process, AnyIO's with the loop's main task."""
    found = [thread for thread in threading.enumerate() if thread.ident not in before.threads and not thread.daemon]
    new, until = [thread for thread in found if thread.name != ANYIO_THREAD], time.monotonic() + ENDING_SECONDS
    for thread in new:
        thread.join(max(0.0, until - time.monotonic()))
    return sorted(f"thread {thread.name}" for thread in new if thread.is_alive())


def _open(before: Belongings, data_dir: Path) -> list[str]:
    """New sockets, and files below the data folder; other things (a device, a cache) are kept open by libraries."""
    new = sorted(set(_handles()) - before.handles)
    sockets = [_described(number) for number, target in new if target.startswith("socket:")]
    folder = f"{data_dir.resolve()}{os.sep}"
    files = [Path(target).name for _, target in new if target.startswith(folder)]
    return [*sockets, *(f"file {name}" for name in files if name != LOG_FILE)]  # the log file is rotated


def _described(number: int) -> str:
    try:
        with socket.socket(fileno=os.dup(number)) as copy:
            peer = copy.getpeername()
    except OSError:
        return "socket"
    return f"connection to {peer[0]}:{peer[1]}" if isinstance(peer, tuple) else f"connection to {peer or 'a pipe'}"


def _handles() -> list[tuple[int, str]]:
    found = []
    with contextlib.suppress(FileNotFoundError):
        for entry in HANDLES.iterdir():
            with contextlib.suppress(OSError):  # the descriptor used to read the folder is already closed
                found.append((int(entry.name), os.readlink(entry)))
    return found


def serve(settings: Settings, source: SettingsSource, *, watched: bool = True, role: str = RUN) -> int:
    """`antler run`: serve until a signal, or until the terminal's input ends; returns the exit code.

    watched: changes to the config take effect at once. role: GATEWAY stands by while another process leads.
    """
    config_path = source.path
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold every secret
    redact = Redactor(settings.secrets())
    at_terminal = terminal.is_interactive() and any(each.type == "console" for each in settings.channels.values())
    # Among the lines of a piped conversation only warnings and errors are shown.
    quiet = _only_terminal(settings) and not at_terminal and settings.log.level == "info"
    logs.configure("warning" if quiet else settings.log.level, settings.log.format, redact)
    if (warning := exposed(config_path)) is not None:
        log.warning("%s", warning)
    try:
        with DataDirLock(settings.data_dir):
            if settings.workers.enabled:
                mark_shared(settings.data_dir)
            if config_path is None:
                print(first_screen(language_of("auto", locale_of(os.environ), "")), file=sys.stderr)
            elif settings.models[0].use == "demo":
                log.warning("no model is configured, so the built-in demo model answers; antler init adds one")
            if settings.log.file or at_terminal:
                _keep_log(settings, redact, at_terminal=at_terminal)
            heard = source if watched and config_path is not None else None
            code = run(_serve(settings, redact, heard, role))
            if code != OK and at_terminal:
                print(f"antler: it stopped; see {settings.data_dir / LOG_FILE}", file=sys.stderr)
            return code
    except (DataDirInUse, DataDirUnusable) as error:
        return logs.complain(error, CONFIG_ERROR)
    except HttpUnavailable as error:
        return logs.complain(error, FAILURE)
    except StoreError as error:
        return logs.complain(redact(str(error)), CONFIG_ERROR if isinstance(error, UnfitDatabase) else FAILURE)


def console(settings: Settings, source: SettingsSource) -> int:
    """`antler console`: a terminal on the running gateway, or else on its own one with the same data and models."""
    try:
        asyncio.run(terminal.talk(settings.data_dir))
    except KeyboardInterrupt:  # between the end of the input and the last answer
        return OK
    except NotRunning as error:
        if str(error) == NO_CONSOLE:
            return logs.complain(error, FAILURE)
    else:
        return OK
    own = {"console": ChannelSettings.model_validate({"type": "console", "adapter": {}})}
    # Without the page: it would add its accounts, and its listener belongs to the gateway.
    return serve(settings.model_copy(update={"channels": own, "http": HttpSettings()}), source, watched=False)


async def _serve(settings: Settings, redact: Redactor, source: SettingsSource | None, role: str) -> int:
    clock, before = SystemClock(), belongings()
    standby = Standby(settings) if role == GATEWAY else None
    if source is not None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the gateway handles it and sees earlier edits
    try:
        if standby is not None:
            lead = await standby.wait()
            if lead is None:
                return OK
            store = await Store.open(settings.database_url, clock=clock, lead=lead)
        else:
            store = await _open_store(settings, clock)
    except StoreBusy as error:
        return logs.complain(error, CONFIG_ERROR)
    try:
        gateway = Gateway(settings, store, clock, redact, source, role=role)
        if standby is not None:
            standby.hand_on(gateway.stop)
        return await gateway.run()
    finally:
        await store.close()
        await report(before, settings.data_dir)


def _keep_log(settings: Settings, redact: Redactor, *, at_terminal: bool) -> None:
    file = settings.data_dir / LOG_FILE
    try:
        logs.keep(settings.data_dir, settings.log.format, redact, alone=at_terminal)
    except OSError as error:
        log.warning("cannot log to %s: %s", file, error.strerror)
        return
    if at_terminal:
        print(f"Log: {file}", file=sys.stderr)


async def _open_store(settings: Settings, clock: SystemClock) -> Store:
    """Open the store. A killed process keeps PostgreSQL's lease for a while, so retry until that has run out."""
    deadline = clock.monotonic() + TAKE_OVER_SECONDS
    while True:
        try:
            return await Store.open(settings.database_url, clock=clock)
        except StoreBusy as error:
            if clock.monotonic() > deadline:
                raise
            log.warning("waiting for the database: %s", error)
            await clock.sleep(TAKE_OVER_RETRY_SECONDS)


def _only_terminal(settings: Settings) -> bool:
    """Whether the terminal is the only account: then the process ends with its input."""
    return {channel.type for channel in settings.channels.values()} - OWN_ACCOUNTS == {"console"}
