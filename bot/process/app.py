"""What the command line starts: the process around the gateway, with its lock, its log and its exit code."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import sys
from typing import TYPE_CHECKING

from bot.clock import SystemClock
from bot.control.lock import DataDirInUse, DataDirLock
from bot.control.server import NO_CONSOLE, NotRunning
from bot.process import leak_report, logs, terminal
from bot.process.gateway import CONFIG_ERROR, FAILURE, OK, Gateway
from bot.redaction import Redactor
from bot.settings import ChannelSettings
from bot.store import Store
from bot.store.errors import StoreBusy, StoreError

if TYPE_CHECKING:
    from bot.settings import Settings
    from bot.settings.source import SettingsSource

log = logging.getLogger(__name__)

NO_CONFIG = (
    "antler: there is no config.yaml, so this is the terminal with the built-in demo model.\n"
    "For a real model and chats: cp config.yaml.example config.yaml, edit it, and start again."
)

TAKE_OVER_SECONDS = 35.0
"""A little longer than the store's lease."""
TAKE_OVER_RETRY_SECONDS = 2.0


def serve(settings: Settings, source: SettingsSource, *, watched: bool = True) -> int:
    """`antler run`: serve until a signal, or until the terminal's input ends; returns the exit code.

    watched: what is written to the config holds at once.
    """
    config_path = source.path
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold every secret
    redact = Redactor(settings.secrets())
    # Between the lines of a conversation only what needs attention is shown.
    level = "warning" if _only_terminal(settings) and settings.log.level == "info" else settings.log.level
    logs.configure(level, settings.log.format, redact)
    if config_path is not None and settings.models[0].use == "demo":
        log.warning("no model is configured, so the built-in demo model answers; see `models` in config.yaml.example")
    try:
        with DataDirLock(settings.data_dir):
            if config_path is None:
                print(NO_CONFIG, file=sys.stderr)
            return asyncio.run(_serve(settings, redact, source if watched and config_path is not None else None))
    except DataDirInUse as error:
        print(f"antler: {error}", file=sys.stderr)
        return CONFIG_ERROR
    except StoreError as error:
        print(f"antler: {redact(str(error))}", file=sys.stderr)
        return FAILURE


def console(settings: Settings, source: SettingsSource) -> int:
    """`antler console`: a terminal on the running gateway, else on one of its own with the same data and models."""
    try:
        asyncio.run(terminal.talk(settings.data_dir))
    except KeyboardInterrupt:  # between the end of the input and the last answer
        return OK
    except NotRunning as error:
        if str(error) == NO_CONSOLE:
            print(f"antler: {error}", file=sys.stderr)
            return FAILURE
    else:
        return OK
    own = {"console": ChannelSettings.model_validate({"type": "console", "adapter": {}})}
    return serve(settings.model_copy(update={"channels": own}), source, watched=False)


async def _serve(settings: Settings, redact: Redactor, source: SettingsSource | None) -> int:
    clock, before = SystemClock(), leak_report.belongings()
    if source is not None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the gateway hears it; what was edited meanwhile it sees
    try:
        store = await _open_store(settings, clock)
    except StoreBusy as error:
        print(f"antler: {error}", file=sys.stderr)
        return CONFIG_ERROR
    try:
        return await Gateway(settings, store, clock, redact, source).run()
    finally:
        await store.close()
        await leak_report.report(before, settings.data_dir)


async def _open_store(settings: Settings, clock: SystemClock) -> Store:
    """A killed process keeps PostgreSQL's lease for a while, so a busy store is asked again until it ran out."""
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
    """Whether the terminal is the only account: then its end of input is the end of the process."""
    return {channel.type for channel in settings.channels.values()} == {"console"}
