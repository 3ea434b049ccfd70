"""A standby gateway: ready to lead, connected only to the database, and answering health checks."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import time
from contextlib import AsyncExitStack, suppress
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from bot.control.server import ControlServer
from bot.http.listener import listening
from bot.process import gc_tuning, terminal
from bot.process.http import serve
from bot.process.systemd import Supervisor
from bot.store import sql
from bot.store.errors import StoreBusy, StoreUnavailable
from channels.registry import channel_class

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fastapi import APIRouter

    from bot.settings import Settings
    from bot.store.leadership import Lead

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
"""Seconds between two attempts to reach an unreachable database."""
PATIENCE_SECONDS = 30.0
"""Timeout in seconds of one attempt, for a database that may have stopped answering."""
CLOSING_SECONDS = 0.1
"""Seconds for a health check that is in progress when this process begins to lead."""
NOT_HERE = ("access", "action", "console", "forget", "knowledge", "memory", "reload", "send", "signin", "why")
"""Operations of the control socket that only the leader can do."""


class Standby:
    """A process that waits for the lead. settings: those it will lead with, already checked."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._began = time.monotonic()
        self._stop = asyncio.Event()
        self._next: Callable[[], None] = lambda: None
        self._leader = ""
        self._trouble = ""
        self._told = False

    def hand_on(self, stop: Callable[[], None]) -> None:
        """Pass requests to stop on to the successor, including one that arrived before this call."""
        self._next = stop
        if self._stop.is_set():
            stop()

    def _told_to_stop(self) -> None:
        self._stop.set()
        self._next()

    async def wait(self) -> Lead | None:
        """Wait for the lead and return it; None if this process was asked to stop before. Raises UnfitDatabase,
        HttpUnavailable."""
        address = listening(self._settings.http) if self._settings.http.listen is not None else None
        terminal.on_stop(self._told_to_stop, terminal.LastResort(), hangs_up=False)
        waiting = asyncio.create_task(self._wait(), name="lead")
        stopping = asyncio.create_task(self._stop.wait(), name="stop")
        async with AsyncExitStack() as stack:
            for task in (waiting, stopping):
                stack.push_async_callback(_ended, task)
            await stack.enter_async_context(ControlServer(self._settings.data_dir, self._status, operations=self._no()))
            stack.push_async_callback(_ended, asyncio.create_task(self._tell_systemd(), name="systemd"))
            if address is not None:
                answering = serve(self._settings.http, address, _health, CLOSING_SECONDS)
                stack.push_async_callback(_ended, asyncio.create_task(answering, name="health"))
            await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                log.info("told to stop while standing by")
                return None
            return waiting.result()

    async def _wait(self) -> Lead:
        # Slow imports happen while another process leads or, if none does, while this one begins to.
        loading = asyncio.create_task(self._load(), name="loading")
        try:
            while True:
                if (lead := await self._seek()) is not None:
                    log.info("this process leads")
                    return lead
                await asyncio.sleep(RETRY_SECONDS)
        finally:
            await _ended(loading)

    async def _seek(self) -> Lead | None:
        """Wait for the lead and return it; None when the database becomes unreachable."""
        from bot.store.leadership import Lead

        lead: Lead | None = None
        try:
            lead = await Lead.connect(sql.parse(self._settings.database_url))
            while not await _attempted(lead):
                self._tell(lead.leader, "")
                await lead.pause()
        except StoreUnavailable as error:
            self._tell(self._leader, str(error))
            if lead is not None:
                await lead.close()
            return None
        except BaseException:
            if lead is not None:
                await lead.close()
            raise
        return lead

    def _tell(self, leader: str, trouble: str) -> None:
        if trouble and trouble != self._trouble:
            log.warning("standing by, but the database cannot be reached: %s", trouble)
        elif not trouble and (self._trouble or leader != self._leader or not self._told):
            log.info("standing by: %s leads", leader or "no process yet")
        self._leader, self._trouble, self._told = leader, trouble, True

    async def _load(self) -> None:
        """Import what a leader needs. Failures are ignored here: the leader reports them itself."""
        wanted = {channel.type for channel in self._settings.channels.values()}
        await asyncio.to_thread(_import, wanted)
        gc_tuning.settle()

    # Status.

    async def _status(self) -> dict[str, Any]:
        """The data that `antler status` shows."""
        return {
            "version": version("antler"),
            "uptime": round(time.monotonic() - self._began, 1),
            "running": 0,
            "waiting": 0,
            "connections": [],
            "healthy": not self._trouble,
            "errors": [self._trouble] if self._trouble else [],
            "lead": {"role": "gateway", "state": "stands by", "leader": self._leader, "standing_by": []},
        }

    def _no(self) -> dict[str, Any]:
        async def refuse(_request: Mapping[str, Any]) -> dict[str, Any]:
            leader = self._leader or "another process"
            return {"ok": False, "done": False, "text": f"this gateway stands by: run the command where {leader} runs"}

        return dict.fromkeys(NOT_HERE, refuse)

    async def _tell_systemd(self) -> None:
        # From a copy, since the leader needs the variables, too.
        await Supervisor.of(dict(os.environ)).serve(lambda: f"standing by: {self._leader or 'no process'} leads")


def _health() -> list[APIRouter]:
    """The routes /healthz and /readyz."""
    from bot.http.health import health_router

    return [health_router(lambda: False, "standby")]


async def _attempted(lead: Lead) -> bool:
    """Try to get the lead. Raises StoreUnavailable, also if the database does not answer."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await lead.attempt()
    except StoreBusy as error:
        lead.leader = error.owner
        return False
    except TimeoutError as error:
        raise StoreUnavailable(f"the database did not answer within {PATIENCE_SECONDS:.0f} s") from error


def _import(platforms: set[str]) -> None:
    for platform in platforms:
        with suppress(Exception):  # a third-party SDK may raise anything
            channel_class(platform)
    importlib.import_module("harness.run.runner")


async def _ended(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait({task})
