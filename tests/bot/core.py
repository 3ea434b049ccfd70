"""The gateway's core, wired as the process wires it, on a real store, an in-memory platform and a turned clock."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from sqlalchemy import select

from bot.access.admins import Admins
from bot.access.admission import AccessRules, AccountPolicy, Background, FloodGate
from bot.access.book import AccessBook
from bot.access.desk import AccessDesk
from bot.access.doorkeeper import Doorkeeper
from bot.access.pairing import Claims
from bot.agents.profiles import AgentChoices, ModelChoice
from bot.commands import make_commands
from bot.conversations.ports import ConversationPorts
from bot.delivery import Delivery
from bot.delivery.presented import Presented
from bot.delivery.respond import Responder
from bot.files.sandboxes import SandboxFacts
from bot.files.uploads import UploadLimits, Uploads
from bot.forgetting.service import make_forgetting
from bot.inbound.bus import MessageBus
from bot.inbound.manager import ChannelManager
from bot.memory.book import MemoryBook
from bot.memory.feeding import Feeding
from bot.memory.service import MemoryService
from bot.operations.health import HealthService
from bot.operations.outages import Outages
from bot.operations.status import StatusPage
from bot.redaction import Redactor
from bot.runs.active import RunLimits
from bot.runs.endings import no_aftermath
from bot.runs.manager import RunManager
from bot.schedule.book import ScheduleBook
from bot.schedule.timer import Timer
from bot.settings.sections import BudgetsSettings, LimitSettings, ScheduleSettings
from bot.skills.service import SkillService
from bot.store import access
from bot.store.errors import StoreUnavailable
from bot.store.identity import thread_folder
from bot.store.retrying import PatientStore
from bot.store.rows import InboxState
from bot.store.tables import inbox
from bot.tasks import Tasks
from bot.usage.report import make_spending
from bot.voice.listener import Deaf
from channels.base import ChannelPorts, Route
from channels.capabilities import Rate
from channels.memory import FULL, MemoryChannel, MemoryMode
from channels.message import Address, Attachment, ButtonPressed, Message, MessageEdited, Quote, Sender
from harness.memory.config import MemorySettings
from harness.models.health import ModelHealth
from sandbox.base import SandboxError
from tests.bot.scripted_harness import ScriptedHarness
from tests.clock import VirtualClock
from tests.delivery_world import Tripwire, WatchedStore
from tests.harness.memory.in_memory import InMemoryStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
    from datetime import datetime
    from pathlib import Path

    from sqlalchemy import Connection

    from bot.files.uploads import Allowance
    from bot.runs.endings import Aftermath, Ending
    from bot.store.rows import RunRow
    from bot.store.sql import Bulk
    from bot.voice.listener import Hearing
    from channels.base import BotIdentity, Channel
    from channels.message import InboundEvent, OutboundFile
    from harness.config import PriceSettings
    from harness.context import InputFile

SECRET = "sk-0123456789abcdef"
MODELS = [ModelChoice("main", "gpt"), ModelChoice("other", "o")]
UNHURRIED = Rate(per_second=1e6, per_chat_per_second=1e6, per_group_per_minute=1e6)
UPLOADS = UploadLimits(file=1000, thread=3000, message=3000, person=1_000_000)
SANDBOX = SandboxFacts(provider="memory", state="full", shortfalls=("it is only a test",))
ANN, BOB, EVE = "1", "2", "666"


class FlakyStore(WatchedStore):
    """A store that a full disk makes unavailable for a while (down), or that dies with its process (gone)."""

    down = False
    gone = False

    async def write(self, unit: Callable[[Connection], Any]) -> Any:
        await self._refuse()
        return await super().write(unit)

    async def add(self, bulk: Bulk[Any, Any], rows: Sequence[Any]) -> list[Any]:
        await self._refuse()
        return await super().add(bulk, rows)

    async def read(self, query: Callable[[Connection], Any]) -> Any:
        await self._refuse()
        return await super().read(query)

    async def scrub(self) -> bool:
        await self._refuse()
        self.at_work += 1
        try:
            return await super().scrub()
        finally:
            self.at_work -= 1

    async def _refuse(self) -> None:
        if self.gone:
            await asyncio.Future()
        if self.down:
            raise StoreUnavailable("the disk is full")


class WatchedUploads(Uploads):
    """Says when its threads are at work, so that the virtual clock waits for them."""

    at_work = 0

    def __init__(self, limits: UploadLimits, clock: VirtualClock) -> None:
        super().__init__(limits, self)
        self._real_clock = clock

    def now(self) -> datetime:
        return self._real_clock.now()

    def monotonic(self) -> float:
        return self._real_clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Its own clock: whoever sleeps is not at work."""
        self.at_work -= 1
        try:
            await self._real_clock.sleep(seconds)
        finally:
            self.at_work += 1

    async def fetch(self, channel: Channel, attachment: Attachment, folder: Path, allowance: Allowance) -> Any:
        self.at_work += 1
        try:
            return await super().fetch(channel, attachment, folder, allowance)
        finally:
            self.at_work -= 1


class WatchedPictures(Presented):
    """As WatchedUploads. seen: the platform shows pictures."""

    at_work = 0
    seen = True

    async def clear_left(self, store: Any) -> None:
        self.at_work += 1
        try:
            await super().clear_left(store)
        finally:
            self.at_work -= 1

    async def remove(self, run_ids: Iterable[str]) -> None:
        self.at_work += 1
        try:
            await super().remove(run_ids)
        finally:
            self.at_work -= 1

    def shows_images(self, account: str) -> bool:
        return self.seen and super().shows_images(account)

    @asynccontextmanager
    async def drawn(
        self, reply_key: str, name: str, draw: Callable[[], bytes], *, instead: str
    ) -> AsyncIterator[OutboundFile]:
        async with AsyncExitStack() as stack:
            self.at_work += 1
            try:
                file = await stack.enter_async_context(super().drawn(reply_key, name, draw, instead=instead))
            finally:
                self.at_work -= 1
            yield file

    @asynccontextmanager
    async def written(
        self, reply_key: str, texts: Mapping[str, str], types: Mapping[str, str], *, instead: str
    ) -> AsyncIterator[tuple[OutboundFile, ...]]:
        async with AsyncExitStack() as stack:
            self.at_work += 1
            try:
                files = await stack.enter_async_context(super().written(reply_key, texts, types, instead=instead))
            finally:
                self.at_work -= 1
            yield files


@dataclass
class ThreadFiles:
    """Deletes the files of threads, as the sandboxes do. trouble: why that cannot be done."""

    folder: Path
    trouble: str = ""
    forgotten: list[str] = field(default_factory=list)

    async def forget(self, thread_id: str) -> None:
        if self.trouble:
            raise SandboxError(self.trouble)
        self.forgotten.append(thread_id)
        shutil.rmtree(thread_folder(self.folder, thread_id).parent, ignore_errors=True)

    async def remove(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)


async def as_it_is(thread_id: str, file: InputFile, person: str) -> InputFile:
    """No document is converted here."""
    return file


class GatedChannel(MemoryChannel):
    """downloads: attachments wait for it; presses: so do the answers to pressed buttons."""

    downloads: asyncio.Event | None = None
    presses: asyncio.Event | None = None
    watched: WatchedUploads

    async def fetch(self, attachment: Attachment, sink: Any) -> None:
        if self.downloads is not None:
            self.watched.at_work -= 1
            try:
                await self.downloads.wait()
            finally:
                self.watched.at_work += 1
        await super().fetch(attachment, sink)

    async def acknowledge(self, press: ButtonPressed, text: str = "") -> None:
        if self.presses is not None:
            await self.presses.wait()
        await super().acknowledge(press, text)


class Policies(Mapping[str, AccountPolicy]):
    """The core's policy, for each of its accounts."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def __getitem__(self, account: str) -> AccountPolicy:
        return self._core.policy

    def __iter__(self) -> Iterator[str]:
        return iter(self._core.accounts)

    def __len__(self) -> int:
        return len(self._core.accounts)


@dataclass
class Core:
    """One gateway; `channel` and `harness` are the outside world and outlive a crash. warm_up: seconds from a start
    until there is an agent. disk: what is looked at for room, a link to the data folder."""

    folder: Path
    policy: AccountPolicy
    clock: VirtualClock
    harness: ScriptedHarness
    limits: RunLimits
    queue_limit: int
    upload_limits: UploadLimits
    accounts: tuple[str, ...]
    mode: MemoryMode = FULL
    rate: Rate = UNHURRIED
    queue_total: int = 2000
    channel_type: type[GatedChannel] = GatedChannel
    tripwire: Tripwire = field(default_factory=Tripwire)
    channels: dict[str, GatedChannel] = field(default_factory=dict)
    dead: list[RunRow] = field(default_factory=list)
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    sandbox: SandboxFacts = SANDBOX
    agents: AgentChoices = field(default_factory=AgentChoices)
    skills: SkillService = field(default_factory=SkillService)
    hearing: Hearing = field(default_factory=Deaf)
    budgets: BudgetsSettings = field(default_factory=BudgetsSettings)
    prices: Mapping[str, PriceSettings] = field(default_factory=dict)
    timezone: str = "UTC"
    schedule_limits: ScheduleSettings = field(
        default_factory=lambda: ScheduleSettings(max_per_person=3, max_per_chat=5)
    )
    kept: InMemoryStore = field(default_factory=InMemoryStore)
    memory_settings: MemorySettings = field(default_factory=lambda: MemorySettings(enabled=False))
    keep_threads_days: int | None = None
    warm_up: float = 0.0
    models: ModelHealth = field(init=False)
    store: FlakyStore = field(init=False)

    def __post_init__(self) -> None:
        self.models = ModelHealth(self.clock.monotonic)
        self.files_of_threads = ThreadFiles(self.folder)
        self.disk = self.folder.with_name(f"{self.folder.name}-disk")
        self.disk.unlink(missing_ok=True)
        self.disk.symlink_to(self.folder)

    async def start(self) -> None:
        """What the composition root does at a start."""
        self.agents.models = MODELS
        self.warm_at = self.clock.monotonic() + self.warm_up
        store = await FlakyStore.open(f"sqlite:///{self.folder}/antler.db", clock=self.clock)
        assert isinstance(store, FlakyStore)
        self.store = store
        self.store.tripwire = self.tripwire
        self.tasks, self.actors = Tasks("gateway"), Tasks("conversation")
        patient = PatientStore(self.store, self.clock)
        self.delivery = Delivery(self.store, self.clock, Redactor([SECRET]))
        self.responder = Responder(patient, self.delivery, self.actors)
        self.desk = AccessDesk(AccessBook(Policies(self)), self.delivery, self.clock)
        self.desk.book.load(await self.store.read(access.everything))
        self.claims = Claims(self.clock)
        self.admins = Admins(self.desk.book, patient, self.delivery)
        self.door = Doorkeeper(
            desk=self.desk,
            store=patient,
            responder=self.responder,
            admins=self.admins,
            claims=self.claims,
            clock=self.clock,
        )
        self.pictures = WatchedPictures(
            self.folder / "spool", self.tasks, lambda name: self.channels[name].capabilities
        )
        self.spending = make_spending(patient, self.clock, self.budgets, self.prices, ZoneInfo(self.timezone))
        self.runs = RunManager(
            store=patient,
            delivery=self.delivery,
            harness=self._harness,
            clock=self.clock,
            limits=self.limits,
            presented=self.pictures,
            meter=self.spending.meter,
            budgets=self.spending.budgets,
            hearing=self.hearing,
            on_dead_letter=self.dead.append,
            on_end=self.remember(patient),
        )
        self.harness.steering = self.runs.active
        self.health = HealthService(
            connections=lambda: {account: channel.health for account, channel in self.channels.items()},
            sending=self.delivery.snapshot,
            models=self.models,
            store=self.store,
            folder=self.disk,
            clock=self.clock,
        )
        self.outages = Outages(self.health, self.admins, self.tasks, self.clock, self.folder)
        self.status = StatusPage(
            version="1.2.3",
            store=patient,
            runs=self.runs,
            health=self.health,
            clock=self.clock,
            waiting=lambda: self.manager.waiting,
            sandbox=lambda: self.sandbox,
            unreadable=lambda: self.bus.unreadable,
        )
        self.forgetting, self.retention = make_forgetting(
            store=patient,
            clock=self.clock,
            tasks=self.tasks,
            responder=self.responder,
            harness=self._harness,
            files=self.files_of_threads.forget,
            presented=self.pictures,
            memories=self.memory,
            data_dir=self.folder,
            in_order=lambda key, do: self.manager.in_order(key, do),
            background=lambda person: self.manager.forget_background(person),
            keep_threads_days=self.keep_threads_days,
            remove=self.files_of_threads.remove,
        )
        self.uploads = WatchedUploads(self.upload_limits, self.clock)
        self.schedules = ScheduleBook(patient, self.schedule_limits, lambda: self.timer.wake())
        self.manager = ChannelManager(
            ports=ConversationPorts(
                store=patient,
                runs=self.runs,
                responder=self.responder,
                delivery=self.delivery,
                uploads=self.uploads,
                with_text=as_it_is,
                background=Background(),
                clock=self.clock,
                tasks=self.actors,
                data_dir=self.folder,
                limits=lambda: LimitSettings(queued_per_conversation=self.queue_limit, queued_total=self.queue_total),
                channel=self.channels.get,
                agents=self.agents,
                timezone=self.timezone,
                skills=self.skills,
            ),
            commands=make_commands(
                self.responder,
                self.status,
                self.clock,
                self.desk,
                self.schedules,
                store=patient,
                runs=self.runs,
                spending=self.spending,
                pictures=self.pictures,
                agents=self.agents,
                skills=self.skills,
                forgetting=lambda: self.forgetting,
                memory=self.memory,
            ),
            desk=self.desk,
            door=self.door,
            flood=FloodGate(self.clock),
            store=self.store,
            moved=self.memory.chat_moved,
        )
        self.bus = MessageBus(self.store, self.manager.gate.before_inbox, self.manager.gate.learn)
        self.timer = Timer(patient, self.bus.originate, self.clock, self.accounts)
        self.clock.busy = self._at_work
        for account in self.accounts:
            self._connect(account)
        await self.delivery.start()
        self.tasks.spawn("manager", self.manager.serve(self.bus))
        await self.manager.recover()
        await self.forgetting.resume()
        await self.bus.replay()
        self.tasks.spawn("schedules", self.timer.serve())
        self.tasks.spawn("forgetting", self.forgetting.serve())
        if self.memory_settings.enabled:
            self.tasks.spawn("memory", self.learning.serve())

    def remember(self, store: PatientStore) -> Callable[[RunRow, Ending, str], Aftermath]:
        """The parts of the memory; what a run's end is for them."""
        self.memory = MemoryBook(self.kept, store, self.memory_settings)
        self.learning = MemoryService(
            self.memory,
            store=store,
            harness=self._harness,
            budgets=self.spending.budgets,
            meter=self.spending.meter,
            clock=self.clock,
            tasks=self.tasks,
            quiet=self.memory_settings.debounce_seconds,
        )
        feeding = Feeding(self.memory_settings, self.clock, self.learning.queued)
        return feeding.after if self.memory_settings.enabled else no_aftermath

    def _connect(self, account: str) -> None:
        if account not in self.channels:
            ports = ChannelPorts(
                publish=lambda events: self.bus.publish(events), clock=self.clock, route=lambda _: Route()
            )
            self.channels[account] = self.channel_type(account, ports, self.mode, self.rate)
        self.channels[account].watched = self.uploads
        self.delivery.register(self.channels[account])
        self.tasks.spawn(f"channel {account}", self.channels[account].run(_welcome))

    def _at_work(self) -> bool:
        """Threads are; once the process stands still at a tripwire, nothing will come of them any more."""
        return not self.tripwire.tripped.is_set() and (
            self.store.at_work > 0 or self.uploads.at_work > 0 or self.pictures.at_work > 0
        )

    async def _harness(self) -> ScriptedHarness:
        if (wait := self.warm_at - self.clock.monotonic()) > 0:
            await self.clock.sleep(wait)
        return self.harness

    async def stop(self, grace: float = 10) -> None:
        """A planned stop, which ends within its grace, whatever hangs."""
        self.runs.suspend()
        draining = asyncio.ensure_future(self.actors.drain())
        timer = asyncio.ensure_future(self.clock.sleep(grace / 2))
        await self.clock.until(asyncio.wait({draining, timer}, return_when=asyncio.FIRST_COMPLETED))
        draining.cancel()
        timer.cancel()
        await self.tasks.cancel()
        await self.clock.until(self.delivery.close(grace / 2))
        await self._end()

    async def crash(self) -> None:
        """The process is gone at this moment; nothing that it still does has any effect."""
        self.store.gone = True
        await self.delivery.close(0)
        await self._end()
        for accepting in tuple(self.bus._accepting):
            accepting.cancel()

    async def _end(self) -> None:
        await self.tasks.cancel()
        await self.actors.cancel()
        await self.store.close()

    async def restart(self) -> None:
        await self.crash()
        await self.start()
        await self.clock.settle()

    # What happens outside.

    @property
    def channel(self) -> GatedChannel:
        return self.channels["memory"]

    async def receive(self, *events: InboundEvent) -> None:
        await self.channels[events[0].account].receive(*events)
        await self.clock.settle()

    async def say(self, text: str, person: str = ANN, chat: str | None = None, **more: Any) -> Message:
        """Somebody writes, in a DM or in the group `chat`."""
        message = self.message(text, person, chat, **more)
        await self.receive(message)
        return message

    def message(
        self,
        text: str,
        person: str = ANN,
        chat: str | None = None,
        *,
        account: str = "memory",
        number: int | None = None,
        mention: bool = True,
        bundle: str | None = None,
        attachments: tuple[Attachment, ...] = (),
        reply_to: Quote | None = None,
        topic: str | None = None,
        continues: bool = False,
        kind: Any = "user",
        name: str = "Ann",
        keys: tuple[str, ...] | None = None,
    ) -> Message:
        number = next(self.numbers) if number is None else number
        return Message(
            account=account,
            dedupe_keys=(f"u:{number}",) if keys is None else keys,
            sent_at=self.clock.now(),
            received_at=self.clock.now(),
            address=Address(account=account, chat=chat or person, topic=topic, kind="group" if chat else "dm"),
            platform_message_id=f"p{number}",
            sender=Sender(id=person, display_name=name, kind=kind),
            text=text,
            mention=mention,
            continues=continues,
            attachments=attachments,
            reply_to=reply_to,
            bundle_key=bundle,
        )

    async def edit(self, message: Message, text: str) -> None:
        new = replace(message, text=text, dedupe_keys=(f"e:{next(self.numbers)}",))
        await self.receive(
            MessageEdited(
                account=new.account,
                dedupe_keys=new.dedupe_keys,
                sent_at=new.sent_at,
                received_at=new.received_at,
                message=new,
            )
        )

    async def press(self, message_id: str, data: str, person: str = ANN, chat: str | None = None) -> None:
        now, number = self.clock.now(), next(self.numbers)
        await self.receive(
            ButtonPressed(
                account="memory",
                dedupe_keys=(f"b:{number}",),
                sent_at=now,
                received_at=now,
                address=Address(account="memory", chat=chat or person, kind="group" if chat else "dm"),
                platform_message_id=message_id,
                sender=Sender(id=person, display_name="Ann"),
                data=data,
                callback_id=f"c{number}",
            )
        )

    # What is seen.

    def texts(self, chat: str = ANN) -> list[str]:
        return self.channel.texts(chat)

    async def reasons(self) -> list[str]:
        """Why each event that no run answers was settled, oldest event first."""
        settled = select(inbox.c.reason).where(inbox.c.state == InboxState.DONE, inbox.c.run_id.is_(None))
        found: list[str] = await self.store.read(lambda tx: list(tx.scalars(settled.order_by(inbox.c.id))))
        return found

    async def answered(self) -> None:
        """Everything that was accepted is answered."""
        await self.clock.until(self._all_answered())

    async def _all_answered(self) -> None:
        await self.bus.handled()
        await self.actors.drain()
        await self.delivery.drained()

    def files(self, index: int) -> tuple[InputFile, ...]:
        return self.harness.starts[index].run_input.files


async def _welcome(identity: BotIdentity) -> None:
    return None


RULES = AccessRules(
    allow=frozenset({f"memory:{ANN}", f"memory:{BOB}"}),
    admins=frozenset({f"memory:{ANN}"}),
    groups=frozenset({"memory:g"}),
)


@asynccontextmanager
async def core(
    folder: Path,
    rules: AccessRules = RULES,
    *,
    seconds: float = 1800,
    concurrent: int = 100,
    queue_limit: int = 20,
    queue_total: int = 2000,
    uploads: UploadLimits = UPLOADS,
    accounts: tuple[str, ...] = ("memory",),
    mode: MemoryMode = FULL,
    budgets: Mapping[str, Any] | None = None,
    prices: Mapping[str, PriceSettings] | None = None,
    timezone: str = "UTC",
    hearing: Hearing | None = None,
    agents: AgentChoices | None = None,
    harness: ScriptedHarness | None = None,
    memory: MemorySettings | None = None,
    skills: SkillService | None = None,
    **policy: Any,
) -> AsyncIterator[Core]:
    made = Core(
        folder,
        AccountPolicy(rules, **policy),
        VirtualClock(),
        harness or ScriptedHarness(),
        RunLimits(concurrent, seconds),
        queue_limit,
        uploads,
        accounts,
        mode,
        queue_total=queue_total,
        budgets=BudgetsSettings.model_validate(budgets or {}),
        prices=prices or {},
        timezone=timezone,
        hearing=hearing or Deaf(),
        agents=agents or AgentChoices(),
        skills=skills or SkillService(),
        memory_settings=memory or MemorySettings(enabled=False),
    )
    await made.start()
    try:
        yield made
    finally:
        await made.crash()
