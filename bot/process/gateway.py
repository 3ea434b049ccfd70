"""Gateway: the phases of one process: start, serve, drain, close. wiring.py assembles the parts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from bot.access import pairing
from bot.access.signin_tool import SignInTool
from bot.control import actions
from bot.control.server import ControlServer
from bot.http.listener import HttpUnavailable
from bot.inbound.accounts import Serving
from bot.knowledge.tool import KnowledgeTool
from bot.operations import upkeep
from bot.operations.sending import SendTool
from bot.operations.why import why_page
from bot.process import gc_tuning, terminal
from bot.process.http import HttpService, http_parts
from bot.process.systemd import Supervisor
from bot.process.wiring import Wiring
from bot.store import space
from bot.store.identity import OWN_ACCOUNTS, users_folder
from bot.store.retrying import every
from channels.base import ConnectionState
from channels.console.channel import ConsoleChannel
from channels.supervision import within
from harness.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fastapi import FastAPI

    from bot.access.signin import SignIns
    from bot.clock import SystemClock
    from bot.control.server import TakeOver
    from bot.http.auth import Gatekeeper
    from bot.redaction import Redactor
    from bot.settings import Settings
    from bot.settings.http import HttpSettings
    from bot.settings.load import SettingsSource
    from bot.store import Store
    from bot.store.rows import RunRow
    from bot.texts.catalogue import Texts

log = logging.getLogger(__name__)

OK, FAILURE, TAKEN_OVER, CONFIG_ERROR = 0, 1, 77, 78
"""Exit codes. 77: another program has taken over the last working account; a restart would take it back, and the two
would disconnect each other endlessly. 78 is EX_CONFIG of sysexits.h: restarting without a change does not help."""

RUN, GATEWAY = "run", "gateway"
"""The command that started the process: `gateway` stands by while another process leads."""
CLOSING_SECONDS = 1.5
"""Seconds of the grace period reserved for closing connections and the store."""
SANDBOX_SECONDS = 1.0
"""Minimum number of seconds the sandboxes get to shut down, whatever is left of the grace period."""
LAST_SECONDS = 2.0
"""Seconds after the grace period until a hanging process is ended by force."""
LEAD_SECONDS = 0.5
"""Seconds between two checks whether a lost lead is back."""
WARM_UP_AFTER = 1.0
"""Seconds for which the import of the agent waits for the first account to connect."""


class Unusable(Exception):
    """The gateway cannot serve; the text says why."""


class Gateway:
    """The gateway of a process. source: where the settings came from, for reloads; None: they are fixed. embedded: part
    of another program, which owns signals, terminal, systemd and the garbage collector. role: RUN or GATEWAY."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        clock: SystemClock,
        redact: Redactor,
        source: SettingsSource | None = None,
        *,
        embedded: bool = False,
        role: str = RUN,
    ) -> None:
        self._settings = settings
        self._embedded = embedded
        self._store = store
        self._clock = clock
        self._stop = asyncio.Event()
        self._code = OK
        self.failure = ""
        """Why the gateway stopped by itself; "" if it did not."""
        self._connected = asyncio.Event()
        self._terminal: asyncio.Task[None] | None = None
        self._warming: asyncio.Task[None] | None = None
        self._serving = False
        self._last = terminal.LastResort()
        self._supervisor = Supervisor.of({} if embedded else os.environ)

        self._parts = Wiring(settings, store, clock, redact, source=source, on_dead_letter=self._dead_letter)
        self._parts.status.role = role
        self._tasks = self._parts.tasks
        self._http = HttpService(self._parts, self._is_ready)

    async def run(self) -> int:
        """Serve until a signal or the end of the terminal's input; returns the exit code."""
        # If the config can be reloaded, SIGHUP requests that.
        terminal.on_stop(self._stop.set, self._last, hangs_up=self._parts.reloader is None)
        try:
            await self._start()
            self._tasks.spawn("supervisor", self._supervisor.serve(self._in_a_line))
            await self._stop.wait()
        finally:
            await self._shut_down()
        return self._code

    @contextlib.asynccontextmanager
    async def serving(self, http: HttpSettings) -> AsyncIterator[tuple[FastAPI, SignIns]]:
        """Serve within the block, for an embedding program. Yields the application that a listener with these settings
        would serve, and its sign-ins. Raises Unusable if the gateway cannot start."""
        try:
            await self._start()
            if self._warming is not None:
                await asyncio.shield(self._warming)
            if self.failure:
                raise Unusable(self.failure)
            from bot.http.auth import Gatekeeper  # imports FastAPI
            from bot.http.parts import routers
            from bot.http.server import make_app

            gatekeeper = Gatekeeper(self._parts.signins, http, self._clock)
            made = routers(http_parts(self._parts, gatekeeper, self._is_ready))
            gatekeeper.begin(self._tasks)
            self._tasks.spawn("requests", self._end_streams(gatekeeper))
            yield make_app(http, made, gatekeeper, self._parts.uploads.limits.message), self._parts.signins
        finally:
            self._stop.set()
            await self._shut_down()

    async def _end_streams(self, gatekeeper: Gatekeeper) -> None:
        try:
            await self._stop.wait()
        finally:
            gatekeeper.closing.set()

    def stop(self) -> None:
        """Make `run` return."""
        self._stop.set()

    def _fail(self, reason: str, code: int = FAILURE) -> None:
        log.error("%s; antler stops", reason)
        self._code, self.failure = code, reason
        self._stop.set()

    # Start: leftovers of the last process first, then the platforms, then the heavy imports.

    async def _start(self) -> None:
        parts = self._parts
        await parts.open()
        try:
            self._http.take(self._settings.http)
        except HttpUnavailable as error:
            return self._fail(str(error))
        parts.adoption.listen = self._http.replace
        if terminal.is_interactive() and (link := parts.signins.link()) is not None:
            print(f"Page: {link}", file=sys.stderr)  # never into the log: the link signs its holder in
        self._attach_terminal()
        self._tasks.spawn("control", self._control())
        self._tasks.spawn("http opening", self._open_http())
        if parts.staff is not None:
            parts.staff.begin(self._tasks)
        await parts.recover()
        parts.accounts.serve(Serving(self._said_hello, self._source_ended, self._none_left))
        self._tasks.spawn("schedules", parts.timer.serve())
        self._warming = self._tasks.spawn("agent", self._warm_up())
        if parts.reloader is not None:
            parts.reloader.told = self._supervisor.reloading
            self._tasks.spawn("config", parts.reloader.serve())
        self._tasks.spawn("pairing", parts.access_service.tidy())
        self._tasks.spawn("sessions", parts.signins.tidy())

        def keep_runs() -> timedelta:
            return timedelta(days=parts.settings.data.keep_days)

        further = (
            parts.retention.look,
            partial(upkeep.clear_uploads, users_folder(self._settings.data_dir), self._clock),
            lambda: upkeep.sum_up_usage(self._store, parts.spending.days, keep_runs()),
            partial(space.give_back, self._settings.database_files, self._clock),
        )
        work = upkeep.prune(self._store, self._clock, keep_runs, parts.presented, *further)
        self._tasks.spawn("prune", work)
        self._tasks.spawn("forgetting", parts.forgetting.serve())
        self._tasks.spawn("memory", parts.memory.service.serve())
        self._tasks.spawn("memory tidy", parts.memory.tidy())
        self._tasks.spawn("knowledge", parts.knowledge.serve())
        self._tasks.spawn("outages", parts.outages.serve())
        self._tasks.spawn("admins", parts.outages.know_admins())
        self._tasks.spawn("lead", self._watch_lead())
        self._serving = True

    def _is_ready(self) -> bool:
        """Whether messages are answered: at least one account is connected, the agent is built, the store works."""
        found = self._parts.health.connections()
        # The gateway's own accounts are always connected: they count only if there are no others.
        told = [each for each in found if each.account not in OWN_ACCOUNTS] or found
        arrives = any(each.state is ConnectionState.CONNECTED for each in told)
        works = self._parts.agent.is_built and self._parts.health.store_works and self._store.lease_valid()
        return self._serving and arrives and works

    @property
    def _consoles(self) -> list[ConsoleChannel]:
        return [channel for channel in self._parts.connections.channels.values() if isinstance(channel, ConsoleChannel)]

    def _attach_terminal(self) -> None:
        """Attach this process's own terminal. If it is the only account, the process ends with its input."""
        only = self._parts.connections.channels.keys() - OWN_ACCOUNTS == {each.account for each in self._consoles}
        if self._consoles and (only or terminal.is_interactive()):
            self._terminal = terminal.attach_own(self._consoles[0], self._idle, self._settings.data_dir, owner=only)

    async def _source_ended(self) -> None:
        await self._idle()
        self._stop.set()

    def _said_hello(self, account: str) -> None:
        parts = self._parts
        self._connected.set()
        pairing.show(parts.editor.book, parts.claims, account, parts.settings.log.format, parts.connections.chat_link)
        parts.menus.publish_soon(account)

    def _none_left(self, taken_over: bool) -> None:
        # After a lost lead the next leader disconnected this process, which has to stand by again.
        ended = TAKEN_OVER if taken_over and self._store.lease_valid() else FAILURE
        self._fail("no working account is left", ended)

    async def _open_http(self) -> None:
        """Serve HTTP when the first account is connected, or soon: recovery from the last process may take long, and
        health checks are to be answered even then."""
        await within(WARM_UP_AFTER, self._connected.wait())
        self._http.open()

    async def _warm_up(self) -> None:
        """Import and build the agent while channels run; runs that arrive earlier wait for it."""
        await within(WARM_UP_AFTER, self._connected.wait())
        parts = self._parts
        error = await parts.agent.build()
        if error is not None:
            return self._fail(str(error), CONFIG_ERROR if isinstance(error, SetupError) else FAILURE)
        condense = partial(upkeep.condense, self._store, self._clock, parts.agent.harness, parts.manager)
        self._tasks.spawn("condensing", every(upkeep.INTERVAL_SECONDS, self._clock, "condensing", condense))
        if not self._embedded:
            gc_tuning.settle()
            self._tasks.spawn("memory to the system", gc_tuning.give_back(self._clock))

    # While it serves.

    async def _control(self) -> None:
        parts = self._parts

        def take_over() -> TakeOver | None:
            return terminal.take_over(self._consoles[0], self._idle) if self._consoles else None

        operations = {
            "access": parts.access_tool.do,
            "action": actions.operation,
            "forget": parts.forgetter.do,
            "knowledge": KnowledgeTool(parts.knowledge).do,
            "memory": parts.memory.tool.do,
            "signin": SignInTool(parts.signins).do,
            "send": lambda request: SendTool(parts.settings, self._store, parts.delivery, parts.presented).do(request),
            "why": lambda request: why_page(parts.settings, self._store).do(request),
        }
        if parts.reloader is not None:
            operations["reload"] = parts.reloader.operation
        async with ControlServer(self._settings.data_dir, parts.status.machine, take_over, operations):
            await asyncio.Event().wait()

    def _in_a_line(self) -> str:
        states = [connection.state for connection in self._parts.connections.health.values()]
        connected, at_work = states.count(ConnectionState.CONNECTED), len(self._parts.runs.active)
        return f"{connected} of {len(states)} accounts connected, {at_work} runs active"

    async def _watch_lead(self) -> None:
        """Pause the accounts while the lead is lost: another process may start to act for them at any moment."""
        while True:
            await self._store.lease_lost()
            began = self._clock.monotonic()
            await self._parts.accounts.pause()
            if not self._store.fenced:
                log.warning("receiving is paused while this process does not lead")
            while not self._store.lease_valid():
                if self._store.fenced:
                    return self._fail("another process has taken over the database")
                await self._clock.sleep(LEAD_SECONDS)
            log.info("receiving again, after %.0f s", self._clock.monotonic() - began)
            self._parts.accounts.resume()

    def _dead_letter(self, row: RunRow) -> None:
        log.error("dead letter: run %s in %s brought the process down three times", row.run_id, row.conversation)
        self._tasks.spawn("dead letter", self._tell_admins(row))

    async def _tell_admins(self, row: RunRow) -> None:
        def text(texts: Texts) -> str:
            return texts.gave_up_admin.format(conversation=row.conversation, run=row.run_id)

        await self._parts.admins.tell(row.address.account, f"dead:{row.run_id}", text)

    # Stop.

    async def _idle(self, conversation: str = "") -> None:
        """Wait until everything accepted is answered or waits for a person's decision. conversation: wait for this one
        only."""
        await self._parts.bus.handled()
        await self._parts.manager.rest(conversation)
        await self._parts.delivery.drained(conversation.partition(":")[0])

    async def _shut_down(self) -> None:
        """Shut down: runs pause and continue at the next start; finals are still delivered, within the grace period."""
        self._supervisor.stopping()
        parts = self._parts
        grace = parts.settings.shutdown_grace_seconds
        if not self._embedded:
            terminal.end_after(grace + LAST_SECONDS, self._last)
        self._serving = False
        began = self._clock.monotonic()
        parts.runs.suspend()
        await within(grace / 2, self._parts.conversation_tasks.drain())
        await self._tasks.cancel()
        left = grace - CLOSING_SECONDS - (self._clock.monotonic() - began)
        await parts.delivery.close(max(0.1, left))
        await self._parts.conversation_tasks.cancel()
        if parts.staff is not None:
            await parts.staff.close()
        await parts.hearing.close()
        await parts.speaking.close()
        await parts.connections.close()
        if self._terminal is not None:
            await self._terminal
        await parts.agent.close()
        await parts.knowledge.close()
        await self._http.close()
        if parts.tracing is not None:
            await asyncio.to_thread(parts.tracing.close)
        left = grace - (self._clock.monotonic() - began)
        await parts.sandboxes.shutdown(max(SANDBOX_SECONDS, left))
