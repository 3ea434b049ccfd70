"""Gateway: all parts of one process put together, and its phases: start, serve, drain, close."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from datetime import timedelta
from importlib.metadata import version
from typing import TYPE_CHECKING

from bot import heap, signals, terminal, upkeep
from bot.access import claim_notice
from bot.access.parts import make_access
from bot.admission import Background, FloodGate
from bot.adoption import Adoption
from bot.agent import Agent
from bot.audit import NAME as AUDIT_LOG
from bot.audit import AuditFile
from bot.bus import MessageBus
from bot.commands import make_commands
from bot.connections import Connections, reason
from bot.control import ControlServer
from bot.conversations.ports import ConversationPorts
from bot.conversion import Converter
from bot.delivery import Delivery
from bot.forgetting.make import make_forgetting
from bot.forgetting.tool import ForgettingTool
from bot.manager import ChannelManager
from bot.memory.make import MemoryParts
from bot.owners import ThreadOwners
from bot.patience import PatientStore
from bot.quotas import UploadLimits
from bot.reload import Reloader
from bot.respond import Responder
from bot.runs.active import RunLimits
from bot.runs.manager import RunManager
from bot.runs.presented import Presented
from bot.runs.steering import RunSteering
from bot.sandboxes import Sandboxes
from bot.schedule.book import ScheduleBook, scheduling
from bot.schedule.timer import Timer
from bot.skills import SkillDesk
from bot.souls import AgentChoices
from bot.spending import make_spending
from bot.status import StatusPage
from bot.store import access
from bot.tasks import Tasks
from bot.titles import Titles
from bot.uploads import MEGABYTE, Uploads
from bot.voice.make import make_hearing
from channels.console.channel import ConsoleChannel
from harness.mcp.pool import McpPool

if TYPE_CHECKING:
    from bot.clock import SystemClock
    from bot.redaction import Redactor
    from bot.settings import Settings
    from bot.settings.source import SettingsSource
    from bot.store import Store
    from bot.store.rows import RunRow
    from bot.texts.catalogue import Texts

log = logging.getLogger(__name__)

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
        self._redact = redact
        self._store = store
        self._clock = clock
        self._tasks = Tasks("gateway")
        self._conversation_tasks = Tasks("conversation")
        self._stop = asyncio.Event()
        self._failed = False
        self._connected = asyncio.Event()
        self._terminal: asyncio.Task[None] | None = None

        patient = PatientStore(store, clock)
        self._owners = ThreadOwners()
        self._agents = AgentChoices.of(settings)
        self._skills = SkillDesk.of(settings, self._agents, self._owners.of, lambda: self._sandboxes.has_files)
        self._sandboxes = Sandboxes(
            settings.sandbox, settings.data_dir, settings.network_route, skills=self._skills.folders
        )
        audit = AuditFile(settings.data_dir / AUDIT_LOG, redact)
        spool = settings.data_dir / "spool"
        self._spending = spending = make_spending(patient, clock, settings.budgets, settings.prices, settings.zone)
        self._schedules = ScheduleBook(patient, settings.schedules, lambda: self._timer.wake())
        self._memory = MemoryParts(
            *(settings, patient, clock, spending, self._tasks), lambda: self._agent.harness(), self._agents
        )
        self._agent = Agent(
            settings=settings,
            store=patient,
            clock=clock,
            sandboxes=self._sandboxes,
            audit=audit,
            spool=spool,
            servers=self._mcp_servers(settings),
            meter=spending.meter,
            budgets=spending.budgets,
            scheduling=scheduling(settings, self._schedules),
            skills=self._skills.source(),
            remembering=self._memory.remembering,
            steering=RunSteering(lambda run_id: self._runs.active.get(run_id)),
            definitions=self._agents.definitions,
        )
        self._connections = Connections(settings, patient, clock, self._tasks)
        self._delivery = Delivery(store, clock, redact, lease_valid=store.lease_valid, on_moved=self._chat_moved)
        responder = Responder(patient, self._delivery, clock, self._conversation_tasks)
        self._access = make_access(settings, self._connections, patient, self._delivery, responder, clock)
        self._presented = Presented(spool, self._tasks, self._connections.capabilities)
        self._hearing = make_hearing(settings, self._sandboxes, clock)
        self._runs = self._make_runs(patient)
        self._status = StatusPage(
            version=version("antler"),
            store=patient,
            runs=self._runs,
            health=lambda: self._connections.health,
            clock=clock,
            waiting=lambda: self._manager.waiting,
            sandbox=lambda: self._sandboxes.facts,
            servers=lambda: self._agent.servers.facts,
            config=lambda: self._reloader.last if self._reloader is not None else None,
        )
        self._forgetting, self._retention = make_forgetting(
            store=patient,
            clock=clock,
            tasks=self._tasks,
            responder=responder,
            harness=self._agent.harness,
            files=self._sandboxes.forget,
            presented=self._presented,
            memories=self._memory.book,
            data_dir=settings.data_dir,
            in_order=lambda key, do: self._manager.in_order(key, do),
            background=lambda person: self._manager.forget_background(person),
            keep_threads_days=settings.data.keep_threads_days,
        )
        self._forgetter = ForgettingTool(patient, self._forgetting, settings.channels, settings.names_group)
        self._uploads = Uploads(_upload_limits(settings), clock, self._sandboxes.owner)
        self._manager = self._make_manager(patient, responder)
        self._bus = MessageBus(store, self._manager.gate.passes_by, self._manager.gate.learn)
        self._timer = Timer(patient, self._bus.originate, clock, settings.channels)
        self._adoption = Adoption(
            settings=settings,
            know=redact.know,
            servers=self._mcp_servers,
            connections=self._connections,
            agents=self._agents,
            skills=self._skills,
            agent=self._agent,
            spending=spending,
            runs=self._runs,
            flood=self._flood,
            titles=self._titles,
        )
        self._reloader: Reloader | None = None
        if source is not None:
            self._reloader = Reloader(source, lambda: self._adoption.settings, self._adoption.adopt, clock)

    def _mcp_servers(self, settings: Settings) -> McpPool:
        return McpPool(
            settings.mcp_servers,
            folder=settings.data_dir,
            route=settings.network_route,
            clock=self._clock,
            learn=self._redact.add,
        )

    def _make_runs(self, store: PatientStore) -> RunManager:
        settings, clock, harness = self._settings, self._clock, self._agent.harness
        spending = self._spending
        self._titles = Titles(
            settings.title, store, harness, clock, self._tasks, prices=spending.prices, budgets=spending.budgets
        )
        return RunManager(
            store=store,
            delivery=self._delivery,
            harness=harness,
            clock=clock,
            limits=RunLimits.of(settings.limits),
            presented=self._presented,
            meter=self._spending.meter,
            budgets=self._spending.budgets,
            hearing=self._hearing,
            on_dead_letter=self._dead_letter,
            owners=self._owners,
            on_end=self._memory.after,
            on_answer=self._titles.answered,
        )

    def _make_manager(self, store: PatientStore, responder: Responder) -> ChannelManager:
        settings, clock, desk = self._settings, self._clock, self._access.desk
        limits = settings.limits
        self._flood = FloodGate(clock, limits.messages_per_minute, limits.message_burst)
        ports = ConversationPorts(
            store=store,
            runs=self._runs,
            responder=responder,
            delivery=self._delivery,
            uploads=self._uploads,
            with_text=Converter(self._sandboxes, wanted=settings.uploads.convert),
            background=Background(),
            clock=clock,
            tasks=self._conversation_tasks,
            data_dir=settings.data_dir,
            limits=lambda: self._adoption.settings.limits,
            channel=self._connections.channels.get,
            agents=self._agents,
            owners=self._owners,
            timezone=settings.timezone,
            skills=self._skills,
        )
        return ChannelManager(
            ports=ports,
            commands=make_commands(
                *(responder, self._status, clock, desk, self._schedules),
                store=store,
                runs=self._runs,
                spending=self._spending,
                pictures=self._presented,
                agents=self._agents,
                skills=self._skills,
                forgetting=lambda: self._forgetting,
                memory=self._memory.book,
            ),
            desk=desk,
            door=self._access.door,
            flood=self._flood,
            store=self._store,
            moved=self._memory.book.chat_moved,
        )

    async def run(self) -> bool:
        """Serve until a signal or the end of the terminal's input; False when something fatal ended it."""
        signals.on_stop(self._stop.set)
        try:
            await self._start()
            await self._stop.wait()
        finally:
            await self._shut_down()
        return not self._failed

    def _fail(self, reason: str) -> None:
        log.error("%s; antler stops", reason)
        self._failed = True
        self._stop.set()

    # Start: what is left from the last process first, then the platforms, then the heavy imports.

    async def _start(self) -> None:
        self._connections.open(self._bus.publish, self._access.book.policy)
        self._access.book.load(await self._store.read(access.everything))
        claim_notice.show(self._access.book, self._access.claims, self._settings.log.format)
        for channel in self._connections.channels.values():
            self._delivery.register(channel)
        self._attach_terminal()
        await self._delivery.start()
        await self._uploads.recall(self._store)
        self._tasks.spawn("manager", self._manager.serve(self._bus))
        self._tasks.spawn("control", self._control())
        await self._manager.recover()
        await self._forgetting.resume()
        await self._bus.replay()
        for account in self._settings.channels:
            self._tasks.spawn(f"channel {account}", self._receive(account))
        self._tasks.spawn("schedules", self._timer.serve())
        self._tasks.spawn("agent", self._warm_up())
        if self._reloader is not None:
            self._tasks.spawn("config", self._reloader.serve())
        self._tasks.spawn("door", self._access.door.tidy())
        keep_runs = timedelta(days=self._settings.data.keep_days)
        work = upkeep.prune(self._store, self._clock, keep_runs, self._presented, self._retention.look)
        self._tasks.spawn("prune", work)
        self._tasks.spawn("forgetting", self._forgetting.serve())
        self._tasks.spawn("memory", self._memory.service.serve())
        self._tasks.spawn("memory tidy", self._memory.tidy())
        self._tasks.spawn("fence", self._watch_fence())

    @property
    def _consoles(self) -> list[ConsoleChannel]:
        return [channel for channel in self._connections.channels.values() if isinstance(channel, ConsoleChannel)]

    def _attach_terminal(self) -> None:
        """This process's own terminal. Where it is the only account, its end of input is the end of the process."""
        only = len(self._consoles) == len(self._connections.channels)
        if self._consoles and (only or terminal.is_interactive()):
            self._terminal = terminal.attach_own(self._consoles[0], owner=only)

    async def _receive(self, account: str) -> None:
        failed = await self._connections.receive(account, lambda: self._said_hello(account))
        if failed is None:
            log.info("%s has ended", account)
            await self._idle()
            self._stop.set()
        elif self._connections.all_stopped:
            self._fail("no account is left that could work")
        else:
            await self._access.outages.stopped(account, reason(failed))

    def _said_hello(self, account: str) -> None:
        self._connected.set()
        self._tasks.spawn("outages", self._access.outages.connected(account))

    async def _warm_up(self) -> None:
        """Import and build the agent beside the running channels; runs that arrive earlier wait for it."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._connected.wait(), WARM_UP_AFTER)
        why = await self._agent.build()
        if why is None:
            heap.settle()
        else:
            self._fail(why)

    # While it serves.

    async def _control(self) -> None:
        take_over = terminal.take_over(self._consoles[0], self._idle) if self._consoles else None
        operations = {"access": self._access.tool.do, "forget": self._forgetter.do, "memory": self._memory.tool.do}
        if self._reloader is not None:
            operations["reload"] = self._reloader.operation
        async with ControlServer(self._settings.data_dir, self._status.machine, take_over, operations):
            await asyncio.Event().wait()

    async def _watch_fence(self) -> None:
        await upkeep.until_fenced(self._store, self._clock)
        self._fail("another process has taken over the database")

    def _chat_moved(self, account: str, old_chat: str, new_chat: str) -> None:
        self._tasks.spawn("migrate", self._manager.migrate(account, old_chat, new_chat))

    def _dead_letter(self, row: RunRow) -> None:
        log.error("dead letter: run %s in %s made no progress in three starts", row.run_id, row.conversation)
        self._tasks.spawn("dead letter", self._tell_admins(row))

    async def _tell_admins(self, row: RunRow) -> None:
        def text(texts: Texts) -> str:
            return texts.gave_up_admin.format(conversation=row.conversation, run=row.run_id)

        await self._access.admins.tell(row.address.account, f"dead:{row.run_id}", text)

    # Stop.

    async def _idle(self) -> None:
        """Everything that was accepted is answered."""
        await self._bus.handled()
        await self._conversation_tasks.drain()
        await self._delivery.drained()

    async def _shut_down(self) -> None:
        """Runs pause and go on at the next start; what is final is still delivered, within the grace."""
        grace = self._settings.shutdown_grace_seconds
        signals.end_after(grace + LAST_SECONDS)
        began = self._clock.monotonic()
        self._runs.suspend()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._conversation_tasks.drain(), grace / 2)
        await self._tasks.cancel()
        left = grace - CLOSING_SECONDS - (self._clock.monotonic() - began)
        await self._delivery.close(max(0.1, left))
        await self._conversation_tasks.cancel()
        await self._hearing.close()
        await self._connections.close()
        if self._terminal is not None:
            await self._terminal
        await self._agent.close()
        left = grace - (self._clock.monotonic() - began)
        await self._sandboxes.shutdown(max(SANDBOX_SECONDS, left))


def _upload_limits(settings: Settings) -> UploadLimits:
    uploads = settings.uploads
    return UploadLimits(
        file=int(uploads.max_file_mb * MEGABYTE),
        thread=int(uploads.max_thread_mb * MEGABYTE),
        message=int(uploads.max_message_mb * MEGABYTE),
        person=int(uploads.max_person_mb_per_day * MEGABYTE),
    )
