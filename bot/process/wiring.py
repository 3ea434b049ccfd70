"""All parts of one process, put together: what knows what. Made by gateway.py, which starts and ends them."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING

from bot.access.admission import Background, FloodGate
from bot.access.parts import make_access
from bot.agents.profiles import AgentChoices
from bot.commands import make_commands
from bot.conversations.ports import ConversationPorts
from bot.delivery import Delivery
from bot.delivery.presented import Presented
from bot.delivery.respond import Responder
from bot.files.conversion import Converter
from bot.files.owners import ThreadOwners
from bot.files.sandboxes import Sandboxes
from bot.files.uploads import MEGABYTE, UploadLimits, Uploads
from bot.forgetting.service import make_forgetting
from bot.forgetting.tool import ForgettingTool
from bot.inbound.bus import MessageBus
from bot.inbound.connections import Connections
from bot.inbound.manager import ChannelManager
from bot.memory.service import MemoryParts
from bot.operations.health import HealthService
from bot.operations.outages import Outages
from bot.operations.reload import Adoption, Reloader
from bot.operations.status import StatusPage
from bot.process.agent import Agent
from bot.process.logs import NAME as AUDIT_LOG
from bot.process.logs import AuditFile
from bot.runs.active import ActiveRuns, RunLimits
from bot.runs.approval_store import StoreApprovals
from bot.runs.manager import RunManager
from bot.runs.titles import Titles
from bot.schedule.book import ScheduleBook, scheduling
from bot.schedule.timer import Timer
from bot.skills.folders import editing_of
from bot.skills.service import SkillService
from bot.store.retrying import PatientStore
from bot.store.run_events import StoreEffectLog, StoreRunLedger
from bot.texts import language_of, texts_for
from bot.usage.report import make_spending
from bot.voice.listener import make_hearing
from harness.agents.parts import ExtraSettings, Parts
from harness.files.spool import Spool, SpoolSettings
from harness.guardrails.rules import load_guardrails
from harness.mcp.pool import McpPool
from harness.models.health import ModelHealth

if TYPE_CHECKING:
    from collections.abc import Callable

    from bot.clock import SystemClock
    from bot.redaction import Redactor
    from bot.settings import Settings
    from bot.settings.load import SettingsSource
    from bot.store import Store
    from bot.store.rows import RunRow
    from bot.tasks import Tasks
    from bot.texts.catalogue import Texts


class Wiring:
    """tasks, conversation_tasks: in which all of it works. source: where the settings came from, to be read again;
    None: they hold as they are. on_dead_letter: of a run that was given up. on_moved: of an account's chat, by its old
    and its new id."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        clock: SystemClock,
        redact: Redactor,
        tasks: Tasks,
        conversation_tasks: Tasks,
        *,
        source: SettingsSource | None,
        on_dead_letter: Callable[[RunRow], None],
        on_moved: Callable[[str, str, str], None],
    ) -> None:
        self._settings = settings
        self._redact = redact
        self._store = store
        self._clock = clock
        self._tasks = tasks
        self._conversation_tasks = conversation_tasks
        self._on_dead_letter = on_dead_letter

        patient, models = PatientStore(store, clock), ModelHealth(clock.monotonic)
        self.owners = ThreadOwners()
        self.agents = AgentChoices.of(settings)
        self.skills = SkillService.of(settings, self.agents, self.owners.of, lambda: self.sandboxes.has_files)
        self.sandboxes = Sandboxes(
            settings.sandbox, settings.data_dir, settings.network_route, skills=self.skills.folders
        )
        audit = AuditFile(settings.data_dir / AUDIT_LOG, redact)
        spool = settings.data_dir / "spool"
        self.spending = spending = make_spending(patient, clock, settings.budgets, settings.prices, settings.zone)
        self.schedules = ScheduleBook(patient, settings.schedules, lambda: self.timer.wake())
        self.memory = MemoryParts(
            *(settings, patient, clock, spending, self._tasks), lambda: self.agent.harness(), self.agents
        )
        self._active = ActiveRuns()
        self.agent = Agent(
            settings,
            self.sandboxes,
            self._mcp_servers(settings),
            lambda settings: self._agent_parts(settings, patient, models, audit, Spool(SpoolSettings(folder=spool))),
            self.agents.definitions,
        )
        self.connections = Connections(settings, patient, clock, self._tasks)
        self.delivery = Delivery(
            store, clock, redact, lease_valid=store.lease_valid, on_moved=on_moved, texts=self._texts
        )
        responder = Responder(patient, self.delivery, self._conversation_tasks)
        self.access = make_access(settings, self.connections, patient, self.delivery, responder, clock)
        self.health = HealthService(
            connections=lambda: self.connections.health,
            sending=self.delivery.snapshot,
            models=models,
            store=store,
            folder=settings.data_dir,
            clock=clock,
        )
        self.outages = Outages(self.health, self.access.admins, self._tasks, clock, settings.data_dir)
        self.presented = Presented(spool, self._tasks, self.connections.capabilities)
        self.hearing = make_hearing(settings, self.sandboxes, clock)
        self.runs = self._make_runs(patient)
        self.status = StatusPage(
            version=version("antler"),
            store=patient,
            runs=self.runs,
            health=self.health,
            clock=clock,
            waiting=lambda: self.manager.waiting,
            sandbox=lambda: self.sandboxes.facts,
            servers=lambda: self.agent.servers.facts,
            config=lambda: self.reloader.last if self.reloader is not None else None,
            unreadable=lambda: self.bus.unreadable,
        )
        self.forgetting, self.retention = make_forgetting(
            store=patient,
            clock=clock,
            tasks=self._tasks,
            responder=responder,
            harness=self.agent.harness,
            files=self.sandboxes.forget,
            presented=self.presented,
            memories=self.memory.book,
            data_dir=settings.data_dir,
            in_order=lambda key, do: self.manager.in_order(key, do),
            background=lambda person: self.manager.forget_background(person),
            keep_threads_days=settings.data.keep_threads_days,
        )
        self.forgetter = ForgettingTool(patient, self.forgetting, settings.channels, settings.names_group)
        self.uploads = Uploads(_upload_limits(settings), clock, self.sandboxes.owner)
        self.manager = self._make_manager(patient, responder)
        self.bus = MessageBus(store, self.manager.gate.before_inbox, self.manager.gate.learn)
        self.timer = Timer(patient, self.bus.originate, clock, settings.channels)
        self.adoption = Adoption(
            settings=settings,
            know=redact.know,
            servers=self._mcp_servers,
            connections=self.connections,
            agents=self.agents,
            skills=self.skills,
            agent=self.agent,
            spending=spending,
            runs=self.runs,
            flood=self.flood,
            titles=self.titles,
            review_access=self.manager.review_access,
        )
        self.reloader: Reloader | None = None
        if source is not None:
            self.reloader = Reloader(source, lambda: self.adoption.settings, self.adoption.adopt, clock, self._retry)

    def _retry(self) -> None:
        """Try at once, in both directions, what platforms have refused."""
        self.connections.retry()
        for account in self.connections.channels:
            self.delivery.rearm(account)

    def _texts(self, account: str, text: str) -> Texts:
        """The sentences of a chat in which `text` is said."""
        policy = self.connections.policies.get(account)
        return texts_for(language_of("auto" if policy is None else policy.locale, None, text))

    def _mcp_servers(self, settings: Settings) -> McpPool:
        return McpPool(
            settings.mcp_servers,
            folder=settings.data_dir,
            route=settings.network_route,
            clock=self._clock,
            learn=self._redact.add,
        )

    def _agent_parts(
        self, settings: Settings, store: PatientStore, models: ModelHealth, audit: AuditFile, spool: Spool
    ) -> Parts:
        """What agents are made of by these settings, which may be newer than the ones of the start."""
        budgets, skills = self.spending.budgets, self.skills.source()
        return Parts(
            models=settings.models,
            summarization=settings.summarization,
            llm=settings.llm,
            loop=settings.loop,
            model_call_limit=settings.limits.model_calls,
            tool_search=settings.tool_search,
            subagents=settings.subagents,
            extras=ExtraSettings(
                web=settings.web, tools=settings.tools, groups=settings.tool_groups, route=settings.network_route
            ),
            effects=StoreEffectLog(store),
            ledger=StoreRunLedger(store, self.spending.meter),
            clock=self._clock,
            route=settings.model_route,
            budget=None if budgets.none else budgets,
            guarding=load_guardrails(settings.guardrails, StoreApprovals(store)),
            audit=audit,
            spool=spool,
            scheduling=scheduling(self._settings, self.schedules),
            skills=replace(skills, editing=editing_of(settings)),
            remembering=self.memory.remembering,
            steering=self._active,
            health=models,
        )

    def _make_runs(self, store: PatientStore) -> RunManager:
        settings, clock, harness = self._settings, self._clock, self.agent.harness
        spending = self.spending
        self.titles = Titles(
            settings.title, store, harness, clock, self._tasks, prices=spending.prices, budgets=spending.budgets
        )
        return RunManager(
            store=store,
            delivery=self.delivery,
            active=self._active,
            harness=harness,
            clock=clock,
            limits=RunLimits.of(settings.limits),
            presented=self.presented,
            meter=self.spending.meter,
            budgets=self.spending.budgets,
            hearing=self.hearing,
            on_dead_letter=self._on_dead_letter,
            owners=self.owners,
            on_end=self.memory.after,
            on_answer=self.titles.answered,
        )

    def _make_manager(self, store: PatientStore, responder: Responder) -> ChannelManager:
        settings, clock, desk = self._settings, self._clock, self.access.desk
        limits = settings.limits
        self.flood = FloodGate(clock, limits.messages_per_minute, limits.message_burst)
        ports = ConversationPorts(
            store=store,
            runs=self.runs,
            responder=responder,
            delivery=self.delivery,
            uploads=self.uploads,
            with_text=Converter(self.sandboxes, wanted=settings.uploads.convert),
            background=Background(),
            clock=clock,
            tasks=self._conversation_tasks,
            data_dir=settings.data_dir,
            limits=lambda: self.adoption.settings.limits,
            channel=self.connections.channels.get,
            agents=self.agents,
            owners=self.owners,
            timezone=settings.timezone,
            skills=self.skills,
        )
        return ChannelManager(
            ports=ports,
            commands=make_commands(
                *(responder, self.status, clock, desk, self.schedules),
                store=store,
                runs=self.runs,
                spending=self.spending,
                pictures=self.presented,
                agents=self.agents,
                skills=self.skills,
                forgetting=lambda: self.forgetting,
                memory=self.memory.book,
            ),
            desk=desk,
            door=self.access.door,
            flood=self.flood,
            store=self._store,
            moved=self.memory.book.chat_moved,
        )


def _upload_limits(settings: Settings) -> UploadLimits:
    uploads = settings.uploads
    return UploadLimits(
        file=int(uploads.max_file_mb * MEGABYTE),
        thread=int(uploads.max_thread_mb * MEGABYTE),
        message=int(uploads.max_message_mb * MEGABYTE),
        person=int(uploads.max_person_mb_per_day * MEGABYTE),
    )
