"""The gateway's core, wired as in the process, with a real store, an in-memory platform and a virtual clock."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import select

from bot.access.admission import AccessRules, AccountPolicy
from bot.agents.profiles import AgentChoices, ModelChoice
from bot.files.sandboxes import Sandboxes, SandboxFacts
from bot.files.uploads import MEGABYTE, UploadLimits
from bot.process.equipment import Outside
from bot.process.wiring import Wiring
from bot.redaction import Redactor
from bot.runs.active import RunLimits
from bot.settings import Settings
from bot.settings.busy_policies import QUEUED, TurnRules
from bot.settings.sections import ScheduleSettings
from bot.skills.service import SkillService
from bot.store.errors import StoreUnavailable
from bot.store.identity import thread_folder
from bot.store.rows import InboxState
from bot.store.tables import inbox
from bot.voice.speech_to_text import NoSpeechToText
from channels.capabilities import Rate
from channels.message import Address, Attachment, ButtonPressed, Message, MessageEdited, Quote, Sender
from harness.memory.config import MemorySettings
from sandbox.base import SandboxError
from sandbox.config import SandboxSettings
from tests.bot.scripted_harness import ScriptedHarness
from tests.clock import VirtualClock
from tests.delivery_world import Tripwire, WatchedStore
from tests.harness.memory.in_memory import InMemoryStore
from tests.memory_channel import FULL, MemoryChannel, MemoryMode
from tests.stores import lay

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from sqlalchemy import Connection

    from bot.process.agent import MakeHarness
    from bot.store.identity import GroupScope
    from bot.store.rows import RunRow
    from bot.store.sql import Bulk
    from bot.voice.speech_to_text import SpeechToText
    from channels.base import ChannelPorts
    from channels.message import InboundEvent
    from harness.agents.parts import Parts
    from harness.config import PriceSettings
    from harness.context import InputFile
    from harness.ports import Harness

SECRET = "sk-0123456789abcdef"
MODELS = [ModelChoice("main", "gpt"), ModelChoice("other", "o")]
UNHURRIED = Rate(per_second=1e6, per_chat_per_second=1e6, per_group_per_minute=1e6)
T = TypeVar("T")
UPLOADS = UploadLimits(file=1000, thread=3000, message=3000, person=1_000_000)
ANN, BOB, EVE = "1", "2", "666"


class FlakyStore(WatchedStore):
    """A store that a full disk makes unavailable for a while (down), or that dies with its process (gone)."""

    down = False
    gone = False

    async def write(self, unit: Callable[[Connection], Any], *, within: float = 0.0) -> Any:
        await self._refuse()
        return await super().write(unit, within=within)

    async def add(self, bulk: Bulk[Any, Any], rows: Sequence[Any], *, within: float = 0.0) -> list[Any]:
        await self._refuse()
        return await super().add(bulk, rows, within=within)

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


class WatchedThreads(ThreadPoolExecutor):
    """The loop's threads. They count as busy until their caller has the result, so that the virtual clock waits."""

    at_work = 0

    def submit(self, fn: Callable[..., T], /, *arguments: Any, **more: Any) -> Future[T]:
        working, loop = super().submit(fn, *arguments, **more), asyncio.get_running_loop()
        given: Future[T] = Future()
        self.at_work += 1
        working.add_done_callback(lambda _: loop.call_soon_threadsafe(self._hand_over, working, given))
        return given

    def _hand_over(self, working: Future[T], given: Future[T]) -> None:
        """Pass the result on, in the loop: a thread that reports its own end could be delayed before the result."""
        if given.set_running_or_notify_cancel():
            if (error := working.exception()) is not None:
                given.set_exception(error)
            else:
                given.set_result(working.result())
        asyncio.get_running_loop().call_soon(self._done)  # after the callbacks of `given`

    def _done(self) -> None:
        self.at_work -= 1


class ThreadFiles(Sandboxes):
    """Sandboxes that are never started, but delete the files of threads. trouble: why that is not possible."""

    facts = SandboxFacts(provider="memory", state="full", shortfalls=("it is only a test",))

    def __init__(self, folder: Path) -> None:
        super().__init__(SandboxSettings(use="off"), folder)
        self.folder = folder
        self.trouble = ""
        self.forgotten: list[str] = []

    async def forget(self, thread_id: str) -> None:
        if self.trouble:
            raise SandboxError(self.trouble)
        self.forgotten.append(thread_id)
        # In the loop's threads, which the clock waits for, unlike the threads of real sandboxes.
        await asyncio.to_thread(shutil.rmtree, thread_folder(self.folder, thread_id).parent, ignore_errors=True)


class GatedChannel(MemoryChannel):
    """A channel with gates. downloads: attachments wait for it; presses: answers to pressed buttons do."""

    downloads: asyncio.Event | None = None
    presses: asyncio.Event | None = None

    async def fetch(self, attachment: Attachment, sink: Any) -> None:
        if self.downloads is not None:
            await self.downloads.wait()
        await super().fetch(attachment, sink)

    async def acknowledge(self, press: ButtonPressed, text: str = "") -> None:
        if self.presses is not None:
            await self.presses.wait()
        await super().acknowledge(press, text)


@dataclass
class Core:
    """One gateway; `channels` and `harness` are the outside world and survive a crash. configured: the policy of all
    accounts. warm_up: seconds from a start until the agent exists."""

    folder: Path
    configured: AccountPolicy
    clock: VirtualClock = field(default_factory=VirtualClock)
    harness: ScriptedHarness = field(default_factory=ScriptedHarness)
    limits: RunLimits = field(default_factory=lambda: RunLimits(100, 1800))
    queue_limit: int = 20
    upload_limits: UploadLimits = UPLOADS
    accounts: tuple[str, ...] = ("memory",)
    mode: MemoryMode = FULL
    rate: Rate = UNHURRIED
    queue_total: int = 2000
    channel_type: type[GatedChannel] = GatedChannel
    tripwire: Tripwire = field(default_factory=Tripwire)
    channels: dict[str, GatedChannel] = field(default_factory=dict)
    dead: list[RunRow] = field(default_factory=list)
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    agents: AgentChoices = field(default_factory=AgentChoices)
    skills: SkillService = field(default_factory=SkillService)
    hearing: SpeechToText = field(default_factory=NoSpeechToText)
    budgets: Mapping[str, Any] = field(default_factory=dict)
    prices: Mapping[str, PriceSettings] = field(default_factory=dict)
    timezone: str = "UTC"
    schedule_limits: ScheduleSettings = field(
        default_factory=lambda: ScheduleSettings(max_per_person=3, max_per_chat=5)
    )
    kept: InMemoryStore = field(default_factory=InMemoryStore)
    memory_settings: MemorySettings = field(default_factory=lambda: MemorySettings(enabled=False))
    warm_up: float = 0.0
    threads: WatchedThreads = field(default_factory=WatchedThreads)
    parts: Wiring = field(init=False)
    store: FlakyStore = field(init=False)

    def __post_init__(self) -> None:
        self.files_of_threads = ThreadFiles(self.folder)

    @property
    def policy(self) -> AccountPolicy:
        return self.configured

    @policy.setter
    def policy(self, policy: AccountPolicy) -> None:
        self.configured = policy
        self.parts.connections.policies.update(dict.fromkeys(self.accounts, policy))

    @property
    def settings(self) -> Settings:
        """The settings as an operator would write them."""
        uploads = self.upload_limits
        return Settings.model_validate(
            {
                "data_dir": self.folder,
                "agents_dir": self.folder / "agents",
                "timezone": self.timezone,
                "channels": {account: {"type": "console"} for account in self.accounts},
                "limits": {
                    "concurrent_runs": self.limits.concurrent,
                    "run_seconds": self.limits.seconds,
                    "queued_per_conversation": self.queue_limit,
                    "queued_total": self.queue_total,
                },
                "uploads": {
                    "max_file_mb": uploads.file / MEGABYTE,
                    "max_message_mb": uploads.message / MEGABYTE,
                    "max_thread_mb": uploads.thread / MEGABYTE,
                    "max_person_mb_per_day": uploads.person / MEGABYTE,
                    "convert": False,
                },
                "budgets": self.budgets,
                "sandbox": {"use": "off"},
                "schedules": self.schedule_limits,
                "title": {"enabled": False},
                "memory": self.memory_settings,
            }
        )

    async def start(self) -> None:
        """Start the process's own parts, with a simulated outside world."""
        asyncio.get_running_loop().set_default_executor(self.threads)
        settings = self.settings
        lay(settings.database_url)
        store = await FlakyStore.open(settings.database_url, clock=self.clock)
        assert isinstance(store, FlakyStore)
        self.store, store.tripwire = store, self.tripwire
        outside = Outside(
            channel=lambda platform: self._channel,
            harness=self._load_harness,
            sandboxes=lambda settings, skills: self.files_of_threads,
            skills=lambda *_: self.skills,
            hearing=lambda *_: self.hearing,
            memories=lambda *_: self.kept,
        )
        self.parts = parts = Wiring(
            settings,
            store,
            self.clock,
            Redactor([SECRET]),
            source=None,
            on_dead_letter=self.dead.append,
            outside=outside,
        )
        parts.agents.definitions, parts.agents.models = self.agents.definitions, MODELS
        parts.spending.adopt(settings.budgets, self.prices, settings.zone)
        self._name_parts()
        self.clock.busy = self._at_work
        await parts.open()
        self.policy = self.configured
        for account in self.accounts:
            self.tasks.spawn(f"channel {account}", parts.connections.receive(account, lambda: None))
        self.tasks.spawn("agent", parts.agent.build())
        await parts.recover()
        self.tasks.spawn("schedules", self.timer.serve())
        self.tasks.spawn("forgetting", self.forgetting.serve())
        if self.memory_settings.enabled:
            self.tasks.spawn("memory", self.learning.serve())

    def _name_parts(self) -> None:
        parts = self.parts
        self.tasks, self.actors = parts.tasks, parts.conversation_tasks
        self.bus, self.manager, self.runs, self.delivery = parts.bus, parts.manager, parts.runs, parts.delivery
        self.editor, self.access_service, self.claims = parts.editor, parts.access_service, parts.claims
        self.memory, self.learning = parts.memory.book, parts.memory.service
        self.forgetting, self.retention = parts.forgetting, parts.retention
        self.schedules, self.timer = parts.schedules, parts.timer
        self.health, self.outages, self.status, self.models = parts.health, parts.outages, parts.status, parts.models
        self.spending, self.pictures = parts.spending, parts.presented

    def _channel(self, account: str, adapter: object, ports: ChannelPorts) -> GatedChannel:
        """The account's channel, connected to the current gateway."""
        if account not in self.channels:
            lasting = replace(ports, publish=lambda events: self.bus.publish(events))
            self.channels[account] = self.channel_type(account, lasting, self.mode, self.rate)
        return self.channels[account]

    async def _load_harness(self) -> MakeHarness:
        await self.clock.sleep(self.warm_up)
        return self._make_harness

    async def _make_harness(self, parts: Parts, checkpoints: str, former: Harness | None) -> Harness:
        self.harness.steering = parts.steering
        return self.harness

    def _at_work(self) -> bool:
        """Whether threads are busy; once the process is halted at a tripwire, their results no longer matter."""
        return not self.tripwire.tripped.is_set() and (self.store.at_work > 0 or self.threads.at_work > 0)

    async def stop(self, grace: float = 10) -> None:
        """Stop as planned, within the grace period, whatever hangs."""
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
        """End the process at this moment; nothing that it still does has any effect."""
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

    # Events from outside.

    @property
    def channel(self) -> GatedChannel:
        return self.channels["memory"]

    async def receive(self, *events: InboundEvent) -> None:
        await self.channels[events[0].account].receive(*events)
        await self.clock.settle()

    async def say(self, text: str, person: str = ANN, chat: str | None = None, **more: Any) -> Message:
        """Let a person write, in a DM or in the group `chat`."""
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
        sent_at: datetime | None = None,
    ) -> Message:
        number = next(self.numbers) if number is None else number
        return Message(
            account=account,
            dedupe_keys=(f"u:{number}",) if keys is None else keys,
            sent_at=sent_at or self.clock.now(),
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

    # Observations.

    def texts(self, chat: str = ANN) -> list[str]:
        return self.channel.texts(chat)

    async def reasons(self) -> list[str]:
        """The reason for settling each event that no run answers, oldest first."""
        settled = select(inbox.c.reason).where(inbox.c.state == InboxState.DONE, inbox.c.run_id.is_(None))
        found: list[str] = await self.store.read(lambda tx: list(tx.scalars(settled.order_by(inbox.c.id))))
        return found

    async def answered(self) -> None:
        """Wait until every accepted message is answered."""
        await self.clock.until(self._all_answered())

    async def _all_answered(self) -> None:
        await self.bus.handled()
        await self.actors.drain()
        await self.delivery.drained()

    def files(self, index: int) -> tuple[InputFile, ...]:
        return self.harness.starts[index].run_input.files


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
    turns: TurnRules = QUEUED,
    group_scope: GroupScope = "chat",
    group_context: bool = True,
    **more: Any,
) -> AsyncIterator[Core]:
    """A started gateway. more: fields of `Core`."""
    policy = AccountPolicy(rules, turns, group_scope, group_context)
    made = Core(folder, policy, limits=RunLimits(concurrent, seconds), **more)
    await made.start()
    try:
        yield made
    finally:
        await made.crash()
