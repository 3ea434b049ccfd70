"""All parts of one process, and how they are connected. The gateway starts and stops them."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING

from bot.access.admins import AdminMenus, Admins
from bot.access.admission import Background, FloodGate
from bot.access.editor import AccessEditor
from bot.access.pairing import Claims
from bot.access.service import AccessService
from bot.access.signin import SignIns
from bot.access.store import AccessStore
from bot.access.tool import AccessTool
from bot.commands import make_commands
from bot.control import logs
from bot.control.logs import recent_errors
from bot.conversations.branching import Branching
from bot.conversations.services import ConversationPorts
from bot.delivery import Delivery
from bot.delivery.presented import Presented
from bot.delivery.respond import Responder
from bot.files.conversion import Converter
from bot.files.uploads import UploadLimits, Uploads
from bot.forgetting.service import make_forgetting
from bot.forgetting.tool import ForgettingTool
from bot.inbound.accounts import Accounts
from bot.inbound.bus import MessageBus
from bot.inbound.connections import Connections
from bot.inbound.manager import ChannelManager
from bot.operations.health import HealthService
from bot.operations.outages import Outages
from bot.operations.reload import Adoption, Reloader
from bot.operations.status import Asked, StatusPage
from bot.operations.why import why_page
from bot.process.agent import abilities
from bot.process.equipment import OUTSIDE, Equipment, Outside
from bot.runs.active import Hooks, RunLimits
from bot.runs.endings import NO_AFTERMATH, Aftermath
from bot.runs.manager import RunManager
from bot.runs.research import unavailable
from bot.runs.speaking import SpokenAnswers
from bot.runs.titles import Titles
from bot.schedule.timer import Timer
from bot.store import access, personal, worker_runs
from bot.store.forgetting import DeletionKind
from bot.store.retrying import RetryingStore
from bot.store.writer import CHECK_EPOCH
from bot.tasks import Tasks
from bot.texts import language_of, texts_for
from bot.usage.budgets import NOBODY, Scope
from bot.voice.speech_to_text import CurrentSpeechToText

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from bot.conversations.actor import Conversation
    from bot.operations.health import Condition
    from bot.process.tracing import OtlpTracing
    from bot.redaction import Redactor
    from bot.runs.endings import Ending
    from bot.settings import Settings
    from bot.settings.load import SettingsSource
    from bot.store import Store
    from bot.store.forgetting import DeletionRow
    from bot.store.rows import RunRow
    from bot.texts.catalogue import Texts
    from bot.workers.dispatch import Staff
    from channels.base import Clock


async def _read_again(actor: Conversation) -> None:
    actor.forget_row()


MOST_FOLLOWED = 100_000
"""Maximum number of workers' runs that a gateway follows at once."""


class Wiring:
    """Every part of one gateway.

    tasks, conversation_tasks: run all the work.
    source: where the settings came from, for reloads; None: they are fixed.
    on_dead_letter: called for a run that was abandoned.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        clock: Clock,
        redact: Redactor,
        *,
        source: SettingsSource | None,
        on_dead_letter: Callable[[RunRow], None],
        outside: Outside = OUTSIDE,
    ) -> None:
        self._settings = settings
        self.redact = redact
        self._log = settings.log
        self._store = store
        self._clock = clock
        self.tasks, self.conversation_tasks = Tasks("gateway"), Tasks("conversation")
        self._on_dead_letter = on_dead_letter
        self.staff: Staff | None = None
        patient = self.patient = RetryingStore(store, clock)
        self._make_agent(patient, outside)
        self.connections = Connections(settings, patient, clock, self.tasks, load=outside.channel)
        self.delivery = Delivery(
            store,
            clock,
            redact,
            lease_valid=store.lease_valid,
            on_moved=self._chat_moved,
            texts=self._texts,
            on_shown=self._shown,
        )
        responder = Responder(patient, self.delivery, self.conversation_tasks)
        self._make_access(patient, responder)
        self._make_health()
        self.presented = Presented(self._spool, self.tasks, self.connections.capabilities)
        self.hearing = CurrentSpeechToText(settings, lambda now: outside.hearing(now, self.sandboxes, clock))
        self.speaking = SpokenAnswers(settings, self.presented, self.spending, clock, self.tasks, redact)
        self.runs = self._make_runs(patient)
        self.status = self._make_status(patient)
        self.why = why_page(settings, patient)
        self._make_forgetting(patient, responder)
        self.uploads = Uploads(UploadLimits.of(settings.uploads), clock, self.sandboxes.owner)
        self.converter = Converter(self.sandboxes, wanted=settings.uploads.convert)
        self.manager = self._make_manager(patient, responder)
        in_order = self.manager.in_order
        self.branching = Branching(patient, self.agent.harness, self.sandboxes, self._spool, in_order)
        self.bus = MessageBus(store, self.manager.gate.before_inbox, self.manager.gate.learn)
        self.timer = Timer(patient, self.bus.originate, clock, lambda: self.settings.channels)
        self.accounts = Accounts(settings, self.connections, self.delivery, self.outages, self.bus, self.tasks)
        self.adoption = self._make_adoption()
        self.reloader = None if source is None else self._make_reloader(source)

    @property
    def settings(self) -> Settings:
        return self.adoption.settings

    async def open(self) -> None:
        """Build the channels, none of which connects yet, load the access rules, and take over undelivered messages."""
        await self.connections.open(self.bus.publish, self.editor.book.policy)
        self.editor.book.load(await self._store.read(access.everything))
        await self.signins.load()
        self.editor.book.on_admins = self.menus.publish_soon
        for channel in self.connections.channels.values():
            self.delivery.register(channel)
        # Before the control socket opens: what its operations send must not be taken for an earlier process's messages.
        await self.delivery.start()
        await self.uploads.recall(self._store)

    async def recover(self) -> None:
        """Resume the work that an earlier process left, in the order of its dependencies."""
        self.tasks.spawn("manager", self.manager.serve(self.bus))
        if self.staff is None:
            await self._store.write(worker_runs.discard_all)
        await self.branching.resume()
        await self.manager.recover()
        await self.forgetting.resume()
        await self.bus.replay()

    def _chat_moved(self, account: str, old_chat: str, new_chat: str) -> None:
        self.tasks.spawn("migrate", self.manager.migrate(account, old_chat, new_chat))

    def _retry(self) -> None:
        """Retry immediately, in both directions, what platforms have refused."""
        self.connections.retry()
        for account in self.connections.channels:
            self.delivery.rearm(account)

    def _shown(self, reply_key: str, account: str, seconds: float) -> None:
        if self.tracing is not None:
            self.tracing.shown(reply_key, account, seconds)

    def _traced(self, row: RunRow, ending: Ending, text: str) -> Aftermath:
        tracing = self.tracing
        return NO_AFTERMATH if tracing is None else Aftermath(committed=lambda: tracing.ended(row, ending))

    def _texts(self, account: str, text: str) -> Texts:
        """The texts in the language of a chat in which `text` was written."""
        policy = self.connections.policies.get(account)
        return texts_for(language_of("auto" if policy is None else policy.locale, None, text))

    # The steps of the construction, in their order.

    def _make_agent(self, store: RetryingStore, outside: Outside) -> None:
        """Make the agent and its equipment; workers work on its runs if they are enabled."""
        settings, elsewhere = self._settings, self._settings.workers.enabled
        if elsewhere:
            from bot.workers.dispatch import Staff  # imports psycopg, which SQLite does not need

            self.staff = Staff(
                settings,
                store,
                steering=lambda: self.runs.active,
                leaving=lambda: self.runs.suspending,
                due=lambda: self.timer.wake(),
                learn=self.redact.add,
            )
            outside = replace(outside, harness=self.staff.load(outside.harness))
        self.equipment = has = Equipment(
            settings,
            store,
            self.redact,
            self.tasks,
            steering=lambda: self.runs.active,
            due=lambda: self.timer.wake(),
            has_servers=not elsewhere,
            leads=self._store.lease_valid,
            fence=lambda _: (CHECK_EPOCH, (self._store.epoch,)),
            outside=outside,
        )
        has.spending.meter.elsewhere = elsewhere
        if self.staff is not None:
            has.models.elsewhere = self.staff.workers.models
        self.models, self.owners, self.agents, self._spool = has.models, has.owners, has.agents, has.spool
        self.skills, self.sandboxes = has.skills, has.sandboxes
        self.spending, self.schedules = has.spending, has.schedules
        self.memory, self.knowledge, self.agent = has.memory, has.knowledge, has.agent

    @property
    def tracing(self) -> OtlpTracing | None:
        """The tracing; None if it is disabled, and before there is an agent."""
        return self.equipment.tracing

    def _make_access(self, store: RetryingStore, responder: Responder) -> None:
        clock = self._clock
        book = AccessStore(self.connections.policies)  # empty, so admits nobody, until it is loaded
        self.claims, self.admins = Claims(clock), Admins(book, store, self.delivery)
        self.editor = AccessEditor(
            book, self.delivery, clock, can_edit=self.connections.can_edit, names_group=self._names_group
        )
        self.access_service = AccessService(
            editor=self.editor, store=store, responder=responder, admins=self.admins, claims=self.claims, clock=clock
        )
        self.signins = SignIns(store, book, lambda: self.settings.http)
        self.access_tool = AccessTool(self.editor, store, clock, self.claims, self.connections.chat_link)
        self.menus = AdminMenus(self.admins, self.connections.channels, self.tasks, self.signins.has_page)

    def _make_health(self) -> None:
        self.health = HealthService(
            connections=lambda: self.connections.health,
            sending=self.delivery.snapshot,
            models=self.models,
            store=self.patient,
            folder=self._settings.data_dir,
            clock=self._clock,
            more=self._of_workers,
        )
        self.outages = Outages(self.health, self.admins, self.tasks, self._clock, self._settings.data_dir)

    def _of_workers(self, now: float) -> Iterable[Condition]:
        return () if self.staff is None else self.staff.workers.conditions(now)

    def _make_runs(self, store: RetryingStore) -> RunManager:
        settings, clock, harness = self._settings, self._clock, self.agent.harness
        spending = self.spending
        self.titles = Titles(
            settings.title,
            store,
            harness,
            clock,
            self.tasks,
            prices=spending.prices,
            budgets=spending.budgets,
            totals=spending.meter.totals,
        )
        staff = self.staff
        return RunManager(
            store=store,
            delivery=self.delivery,
            harness=harness,
            limits=self._run_limits(settings),
            presented=self.presented,
            spending=spending,
            hearing=self.hearing,
            speaking=self.speaking,
            owners=self.owners,
            hooks=Hooks(
                on_start=None if staff is None else staff.order,
                on_end=(self.memory.after, self.titles.after, self._traced, *(() if staff is None else (staff.after,))),
                on_dead_letter=self._on_dead_letter,
            ),
        )

    def _run_limits(self, settings: Settings) -> RunLimits:
        """The limits of runs. With workers, each of them limits its own number of concurrent runs."""
        limits = RunLimits.of(settings.limits)
        return limits if self.staff is None else replace(limits, concurrent=MOST_FOLLOWED)

    def _make_status(self, store: RetryingStore) -> StatusPage:
        staff = self.staff
        return StatusPage(
            version=version("antler"),
            store=store,
            runs=self.runs,
            health=self.health,
            asked=Asked(
                waiting=lambda: self.manager.waiting,
                sandbox=lambda: self.sandboxes.facts,
                servers=lambda: self.agent.servers.facts if staff is None else staff.workers.servers(),
                workers=lambda: () if staff is None else staff.workers.seen,
                config=lambda: self.reloader.last if self.reloader is not None else None,
                unreadable=lambda: self.bus.unreadable,
                pairings=lambda: len(self.editor.book.pending(self._clock.now())),
                budgets=lambda: self.spending.budgets.purses(NOBODY, (Scope.GATEWAY,)),
                errors=recent_errors,
                read_by_admins=lambda: self.settings.http.listen is not None and self.settings.http.admins_read_threads,
                has_page=self.signins.has_page,
            ),
        )

    def _make_forgetting(self, store: RetryingStore, responder: Responder) -> None:
        settings = self._settings
        self.forgetting, self.retention = make_forgetting(
            settings,
            store=store,
            tasks=self.tasks,
            responder=responder,
            harness=self.agent.harness,
            files=self.sandboxes.forget,
            presented=self.presented,
            memories=self.memory.book,
            in_order=lambda *asked: self.manager.in_order(*asked),
            background=lambda person: self.manager.forget_background(person),
            erased=self._erased,
        )
        self.forgetter = ForgettingTool(store, self.forgetting, self.connections.policies, self._names_group)

    async def _erased(self, row: DeletionRow) -> None:
        """After an erasure in the store, clear what the page shows, and sign a forgotten person out of it."""
        from channels.http.channel import HttpChannel  # loaded only if there is a page

        if (key := await self._store.write(lambda tx: personal.clear_chat(tx, row))) is not None:
            self.manager.in_order(key, _read_again)
        for channel in self.connections.channels.values():
            if isinstance(channel, HttpChannel):
                if row.kind is not DeletionKind.THREAD or row.address is None:
                    channel.clear()
                elif channel.account == row.account:
                    channel.clear(row.address.chat)
        if row.kind is DeletionKind.PERSON:
            await self.signins.sign_out_everywhere(row.subject)

    def _make_manager(self, store: RetryingStore, responder: Responder) -> ChannelManager:
        settings, clock, editor = self._settings, self._clock, self.editor
        ports = ConversationPorts(
            store=store,
            runs=self.runs,
            responder=responder,
            delivery=self.delivery,
            uploads=self.uploads,
            with_text=self.converter,
            background=Background(),
            tasks=self.conversation_tasks,
            data_dir=settings.data_dir,
            limits=lambda: self.settings.limits,
            channel=self.connections.channels.get,
            agents=self.agents,
            owners=self.owners,
            timezone=lambda: self.settings.timezone,
            research=lambda: unavailable(self.settings),
            report_style=lambda: self.settings.research.style,
            skills=self.skills,
            knowledge=self.knowledge,
            speaking=self.speaking,
        )
        return ChannelManager(
            ports=ports,
            commands=make_commands(
                ports,
                status=self.status,
                editor=editor,
                schedules=self.schedules,
                spending=self.spending,
                pictures=self.presented,
                forgetting=lambda: self.forgetting,
                memory=self.memory.book,
                abilities=lambda: abilities(self.settings, self.sandboxes),
                why=self.why,
                signins=self.signins,
            ),
            editor=editor,
            access_service=self.access_service,
            flood=FloodGate(clock, settings.limits.messages_per_minute, settings.limits.message_burst),
            store=self._store,
            moved=self.memory.book.chat_moved,
        )

    def _names_group(self, account: str, native_id: str) -> bool | None:
        """See Settings; None for an account that is no longer configured."""
        return self.settings.names_group(account, native_id) if account in self.settings.channels else None

    def _make_adoption(self) -> Adoption:
        return Adoption(
            settings=self._settings,
            know=self.redact.know,
            agent=self.agent,
            agents=self.agents,
            spending=self.spending,
            hold=self._hold,
            follow=self._follow,
        )

    def _make_reloader(self, source: SettingsSource) -> Reloader:
        others = None if self.staff is None else self.staff.workers.reload
        return Reloader(source, lambda: self.settings, self.adoption.adopt, self._clock, self._retry, others)

    async def _follow(self, settings: Settings) -> Mapping[str, str]:
        await self.hearing.adopt(settings)
        return await self.accounts.follow(settings)

    def _hold(self, settings: Settings) -> None:
        """Apply new settings to the parts from their next use on."""
        self.connections.adopt(settings)
        self.equipment.adopt(settings)
        self.menus.adopt()
        self.manager.review_access()
        self.manager.flood.allow(settings.limits.messages_per_minute, settings.limits.message_burst)
        self.titles.settings = settings.title
        self.runs.limit(self._run_limits(settings))
        self.uploads.limits = UploadLimits.of(settings.uploads)
        self.converter.wanted = settings.uploads.convert
        self.speaking.adopt(settings)
        self.retention.days = settings.data.keep_threads_days
        self.timer.wake()
        if settings.log != self._log:
            self._log = settings.log
            logs.adopt(settings.log, settings.data_dir, self.redact)
