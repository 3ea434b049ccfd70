"""Gateway: the phases of one process: start, serve, drain, close. What there is to start, wiring.py puts together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.access import pairing
from bot.control.server import ControlServer
from bot.operations import upkeep
from bot.operations.sending import SendTool
from bot.process import gc_tuning, terminal
from bot.process.systemd import Supervisor
from bot.process.wiring import Wiring
from channels.base import ConnectionState
from channels.console.channel import ConsoleChannel
from channels.errors import TakenOver

if TYPE_CHECKING:
    from bot.clock import SystemClock
    from bot.redaction import Redactor
    from bot.settings import Settings
    from bot.settings.load import SettingsSource
    from bot.store import Store
    from bot.store.rows import RunRow
    from bot.texts.catalogue import Texts

log = logging.getLogger(__name__)

OK, FAILURE, TAKEN_OVER, CONFIG_ERROR = 0, 1, 77, 78
"""Exit codes. 77: another program has taken over the last account that worked; starting again would take it back, and
the two would throw each other out endlessly. 78 is EX_CONFIG of sysexits.h: restarting without a change does not
help."""

CLOSING_SECONDS = 1.5
"""Of the grace, kept for closing connections and the store."""
SANDBOX_SECONDS = 1.0
"""What the sandboxes have at least for their end, grace or not."""
LAST_SECONDS = 2.0
"""After the grace, until what hangs is ended by force."""
WARM_UP_AFTER = 1.0
"""Seconds that the import of the agent waits for the first account to connect."""


class Gateway:
    """source: where the settings came from, to be read again; None: they hold as they are."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        clock: SystemClock,
        redact: Redactor,
        source: SettingsSource | None = None,
    ) -> None:
        self._settings = settings
        self._store = store
        self._clock = clock
        self._stop = asyncio.Event()
        self._code = OK
        self._connected = asyncio.Event()
        self._terminal: asyncio.Task[None] | None = None
        self._supervisor = Supervisor.of(os.environ)

        self._parts = Wiring(settings, store, clock, redact, source=source, on_dead_letter=self._dead_letter)
        self._tasks = self._parts.tasks

    async def run(self) -> int:
        """Serve until a signal or the end of the terminal's input; returns the exit code."""
        terminal.on_stop(self._stop.set)
        try:
            await self._start()
            self._tasks.spawn("supervisor", self._supervisor.serve(self._in_a_line))
            await self._stop.wait()
        finally:
            await self._shut_down()
        return self._code

    def _fail(self, reason: str, code: int = FAILURE) -> None:
        log.error("%s; antler stops", reason)
        self._code = code
        self._stop.set()

    # Start: what is left from the last process first, then the platforms, then the heavy imports.

    async def _start(self) -> None:
        parts = self._parts
        await parts.open()
        pairing.show(parts.editor.book, parts.claims, self._settings.log.format)
        self._attach_terminal()
        self._tasks.spawn("control", self._control())
        await parts.recover()
        for account in self._settings.channels:
            self._tasks.spawn(f"channel {account}", self._receive(account))
        self._tasks.spawn("schedules", parts.timer.serve())
        self._tasks.spawn("agent", self._warm_up())
        if parts.reloader is not None:
            parts.reloader.told = self._supervisor.reloading
            self._tasks.spawn("config", parts.reloader.serve())
        self._tasks.spawn("pairing", parts.access_service.tidy())
        keep_runs = timedelta(days=self._settings.data.keep_days)
        work = upkeep.prune(self._store, self._clock, keep_runs, parts.presented, parts.retention.look)
        self._tasks.spawn("prune", work)
        self._tasks.spawn("forgetting", parts.forgetting.serve())
        self._tasks.spawn("memory", parts.memory.service.serve())
        self._tasks.spawn("memory tidy", parts.memory.tidy())
        self._tasks.spawn("outages", parts.outages.serve())
        self._tasks.spawn("admins", parts.outages.know_admins())
        self._tasks.spawn("fence", self._watch_fence())

    @property
    def _consoles(self) -> list[ConsoleChannel]:
        return [channel for channel in self._parts.connections.channels.values() if isinstance(channel, ConsoleChannel)]

    def _attach_terminal(self) -> None:
        """This process's own terminal. Where it is the only account, its end of input is the end of the process."""
        only = len(self._consoles) == len(self._parts.connections.channels)
        if self._consoles and (only or terminal.is_interactive()):
            self._terminal = terminal.attach_own(self._consoles[0], owner=only)

    async def _receive(self, account: str) -> None:
        connections, again = self._parts.connections, True
        while again:
            failed = await connections.receive(account, lambda: self._said_hello(account))
            if failed is None:
                log.info("%s has ended", account)
                await self._idle()
                self._stop.set()
                return
            if connections.all_stopped:
                taken_over = isinstance(failed, TakenOver)
                self._fail("no working account is left", TAKEN_OVER if taken_over else FAILURE)
                return
            self._parts.outages.look()
            again = await connections.pause(account, failed)

    def _said_hello(self, account: str) -> None:
        self._connected.set()
        self._parts.delivery.rearm(account)
        self._parts.outages.connected(account)

    async def _warm_up(self) -> None:
        """Import and build the agent while channels run; runs that arrive earlier wait for it."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._connected.wait(), WARM_UP_AFTER)
        why = await self._parts.agent.build()
        if why is None:
            gc_tuning.settle()
        else:
            self._fail(why)

    # While it serves.

    async def _control(self) -> None:
        parts = self._parts
        take_over = terminal.take_over(self._consoles[0], self._idle) if self._consoles else None
        operations = {
            "access": parts.access_tool.do,
            "forget": parts.forgetter.do,
            "memory": parts.memory.tool.do,
            "send": SendTool(self._settings, self._store, parts.delivery, parts.presented).do,
        }
        if parts.reloader is not None:
            operations["reload"] = parts.reloader.operation
        async with ControlServer(self._settings.data_dir, parts.status.machine, take_over, operations):
            await asyncio.Event().wait()

    def _in_a_line(self) -> str:
        states = [connection.state for connection in self._parts.connections.health.values()]
        connected, at_work = states.count(ConnectionState.CONNECTED), len(self._parts.runs.active)
        return f"{connected} of {len(states)} accounts connected, {at_work} answers at work"

    async def _watch_fence(self) -> None:
        await upkeep.until_fenced(self._store, self._clock)
        self._fail("another process has taken over the database")

    def _dead_letter(self, row: RunRow) -> None:
        log.error("dead letter: run %s in %s brought the process down three times", row.run_id, row.conversation)
        self._tasks.spawn("dead letter", self._tell_admins(row))

    async def _tell_admins(self, row: RunRow) -> None:
        def text(texts: Texts) -> str:
            return texts.gave_up_admin.format(conversation=row.conversation, run=row.run_id)

        await self._parts.admins.tell(row.address.account, f"dead:{row.run_id}", text)

    # Stop.

    async def _idle(self) -> None:
        """Everything that was accepted is answered."""
        await self._parts.bus.handled()
        await self._parts.conversation_tasks.drain()
        await self._parts.delivery.drained()

    async def _shut_down(self) -> None:
        """Runs pause and go on at the next start; what is final is still delivered, within the grace."""
        self._supervisor.stopping()
        parts = self._parts
        grace = self._settings.shutdown_grace_seconds
        terminal.end_after(grace + LAST_SECONDS)
        began = self._clock.monotonic()
        parts.runs.suspend()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._parts.conversation_tasks.drain(), grace / 2)
        await self._tasks.cancel()
        left = grace - CLOSING_SECONDS - (self._clock.monotonic() - began)
        await parts.delivery.close(max(0.1, left))
        await self._parts.conversation_tasks.cancel()
        await parts.hearing.close()
        await parts.connections.close()
        if self._terminal is not None:
            await self._terminal
        await parts.agent.close()
        left = grace - (self._clock.monotonic() - began)
        await parts.sandboxes.shutdown(max(SANDBOX_SECONDS, left))
