"""Accounts start, fail and stop without each other: broken ones told about, all of them in /status."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from bot.access.admins import Admins
from bot.access.store import AccessStore
from bot.delivery import Delivery
from bot.inbound.accounts import Accounts as Receiving
from bot.inbound.accounts import Serving
from bot.inbound.bus import MessageBus
from bot.inbound.connections import FIRST_RETRY, NEWEST_CHATS, Connections
from bot.operations.health import HealthService
from bot.operations.outages import Outages
from bot.redaction import Redactor
from bot.store import access, conversations, inbox
from bot.store.retrying import RetryingStore
from bot.tasks import Tasks
from channels.base import ConnectionState
from channels.errors import Fatal, TakenOver
from channels.message import Address, Message, Sender
from harness.models.health import ModelHealth
from tests.bot.settings_files import TOKEN, settings_of
from tests.clock import VirtualClock
from tests.delivery_world import WatchedStore, open_store
from tests.memory_channel import MemoryChannel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from channels.base import Channel, ChannelPorts, Hello

CONFIG = f"""
    channels:
      first: {{type: telegram, token: "{TOKEN}", access: {{admins: ["1"], allow: ["2"]}}}}
      second: {{type: telegram, token: "2{TOKEN}", access: {{admins: ["1"]}}}}
      terminal: {{type: console}}
    access: {{groups: {{allow: ["first:-1"]}}}}
    """


class PlayedChannel(MemoryChannel):
    """Says hello when `opened` is set, then fails if it is told to."""

    def __init__(self, account: str, ports: ChannelPorts) -> None:
        super().__init__(account, ports)
        self.ports = ports
        self.began = asyncio.Event()
        self.opened = asyncio.Event()
        self.opened.set()
        self.ended: Exception | None = None
        self.failing = asyncio.Event()
        self.tries = 0

    async def run(self, hello: Hello) -> None:
        self.began.set()
        self.tries += 1
        await self.opened.wait()
        if self.ended is not None:
            raise self.ended
        running = asyncio.ensure_future(super().run(hello))
        failing = asyncio.ensure_future(self.failing.wait())
        try:
            await asyncio.wait({running, failing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            running.cancel()
            failing.cancel()
        if self.ended is not None:
            raise self.ended


@dataclass
class Accounts:
    """What the gateway does with its accounts, without the rest of it."""

    connections: Connections
    book: AccessStore
    store: WatchedStore
    clock: VirtualClock
    delivery: Delivery
    new_outages: Callable[[], Outages]
    outages: Outages
    tasks: Tasks
    folder: Path
    config: str
    ended: dict[str, Fatal | None] = field(default_factory=dict)

    def channel(self, account: str) -> PlayedChannel:
        found = self.connections.channels[account]
        assert isinstance(found, PlayedChannel)
        return found

    async def start(self) -> None:
        await self.connections.open(_nobody_listens, self.book.policy)
        self.book.load(await self.store.read(access.everything))
        for channel in self.connections.channels.values():
            self.delivery.register(channel)

    async def receive(self) -> None:
        for account in self.connections.health:
            self.tasks.spawn(account, self._receive(account))
        await self.clock.settle()

    async def _receive(self, account: str) -> None:
        def hello() -> None:
            self.outages.connected(account)

        again = True
        while again:
            failed = self.ended[account] = await self.connections.receive(account, hello)
            self.outages.look()
            again = failed is not None and await self.connections.pause(account)

    async def alive(self, seconds: float) -> None:
        """Time passes, in which the connections that stand give signs of life."""
        until = self.clock.monotonic() + seconds
        while self.clock.monotonic() < until:
            await self.clock.advance(min(60.0, until - self.clock.monotonic()))
            for channel in self.connections.channels.values():
                channel.health.last_sign = self.clock.monotonic()
        self.outages.look()
        await self.clock.until(self.delivery.drained())

    async def meets(self, account: str, person: str) -> None:
        """A person has talked to the bot in private."""
        key = f"{account}:{person}"
        await self.store.write(lambda tx: conversations.ensure(tx, key, account, key, self.clock.now()))

    def told(self, account: str, chat: str = "1") -> list[str]:
        return self.channel(account).texts(chat)


@asynccontextmanager
async def accounts(
    folder: Path,
    config: str = CONFIG,
    broken: dict[str, Exception] | None = None,
) -> AsyncIterator[Accounts]:
    clock, tasks = VirtualClock(), Tasks("gateway")
    store = await open_store(f"sqlite:///{folder}/antler.db", clock)
    patient, delivery = RetryingStore(store, clock), Delivery(store, clock, Redactor([TOKEN]))

    def load(platform: str) -> Callable[[str, Any, ChannelPorts], Channel]:
        if broken and platform in broken:
            raise broken[platform]
        return lambda account, settings, ports: PlayedChannel(account, ports)

    connections = Connections(settings_of(folder, config), patient, clock, tasks, load=load)
    book = AccessStore(connections.policies)
    health = HealthService(
        connections=lambda: connections.health,
        sending=delivery.snapshot,
        models=ModelHealth(),
        store=patient,
        folder=folder,
        clock=clock,
    )

    def new_outages() -> Outages:
        """As a process that has just started has them."""
        return Outages(health, Admins(book, patient, delivery), tasks, clock, folder)

    made = Accounts(connections, book, store, clock, delivery, new_outages, new_outages(), tasks, folder, config)
    await made.start()
    try:
        yield made
    finally:
        await tasks.cancel()
        await clock.until(delivery.close(0))
        await store.close()


async def _nobody_listens(events: Any) -> None:
    return None


# What stops.


async def test_an_adapter_that_cannot_be_loaded_stops_only_its_own_accounts(tmp_path: Path) -> None:
    missing = ModuleNotFoundError("No module named 'lark_oapi'")
    async with accounts(tmp_path, broken={"telegram": missing}) as made:
        await made.receive()
        health = made.connections.health
        assert list(health) == ["first", "second", "terminal"]
        for account in ("first", "second"):
            assert health[account].state is ConnectionState.STOPPED
            assert health[account].detail.startswith("No module named 'lark_oapi'; ")
            assert "reinstall antler" in health[account].detail
        assert health["terminal"].state is ConnectionState.CONNECTED
        assert not made.connections.all_stopped


@pytest.mark.parametrize("bug", [ValueError("token 12345"), AttributeError("no attribute")])
async def test_of_a_bug_in_an_adapter_only_its_kind_is_told(tmp_path: Path, bug: Exception) -> None:
    async with accounts(tmp_path, broken={"telegram": bug, "console": ImportError("x")}) as made:
        await made.receive()
        assert made.connections.health["first"].detail.startswith(f"{type(bug).__name__}; its adapter")
        assert made.connections.all_stopped


async def test_the_pages_own_accounts_do_not_count(tmp_path: Path) -> None:
    config = f"""
    channels: {{first: {{type: telegram, token: "{TOKEN}"}}}}
    http: {{listen: "127.0.0.1:8642"}}
    """
    async with accounts(tmp_path, config) as made:
        await made.receive()
        assert made.connections.health.keys() >= {"web", "api"}
        assert not made.connections.all_stopped
        made.channel("first").ended = TakenOver("by another program", "stop it")
        made.channel("first").failing.set()
        await made.clock.settle()
        assert made.connections.all_stopped


async def test_admins_are_told_through_an_account_that_works(tmp_path: Path) -> None:
    async with accounts(tmp_path) as made:
        await made.meets("second", "1")
        await made.meets("first", "1")
        made.channel("first").ended = Fatal("the token was refused", "set channels.first.token")
        await made.receive()
        await made.clock.until(made.delivery.drained())
        (told,) = made.told("second")
        assert told.startswith("⚠️ The account `first` has stopped:")
        assert "the token was refused; set channels.first.token" in told.replace("\\", "")
        assert made.told("first") == []
        assert made.connections.health["second"].state is ConnectionState.CONNECTED


async def test_one_that_stops_later_is_told_as_well_and_once(tmp_path: Path) -> None:
    async with accounts(tmp_path) as made:
        await made.meets("second", "1")
        await made.receive()
        made.channel("first").ended = Fatal("revoked", "set another")
        made.channel("first").failing.set()
        await made.clock.until(made.delivery.drained())
        made.outages.connected("terminal")
        made.outages.connected("second")
        await made.clock.until(made.delivery.drained())
        assert len(made.told("second")) == 1


async def test_who_cannot_be_told_yet_is_told_when_another_account_connects(tmp_path: Path) -> None:
    async with accounts(tmp_path) as made:
        await made.meets("second", "1")
        made.channel("second").opened.clear()
        made.channel("first").ended = Fatal("revoked", "set another")
        await made.receive()
        assert made.ended["first"] is not None
        made.channel("second").opened.set()
        await made.clock.settle()
        await made.clock.until(made.delivery.drained())
        assert len(made.told("second")) == 1


async def test_one_that_was_refused_is_tried_again_ever_more_rarely_and_it_is_told_when_it_works(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with accounts(tmp_path) as made:
        await made.meets("second", "1")
        await made.receive()
        first = made.channel("first")
        first.ended = Fatal("token_revoked", "install the app again")
        first.failing.set()
        await made.clock.until(made.delivery.drained())
        (told,) = made.told("second")
        assert "retried every few minutes, or at once by antler reload" in told
        tried = first.tries
        await made.alive(60)
        assert first.tries == tried + 1
        await made.alive(15 * 60)
        assert tried + 3 <= first.tries <= tried + 6
        before = first.tries
        await made.alive(24 * 3600)
        assert 96 <= first.tries - before <= 24 * 6
        assert caplog.text.count("first is stopped") == 1
        assert len(made.told("second")) == 1
        first.ended = None
        first.failing.clear()
        await made.alive(15 * 60)
        assert first.health.state is ConnectionState.CONNECTED
        assert [text[:48] for text in made.told("second")[1:] + made.told("first")] == [
            "✅ The account `first` is connected again, after "
        ]


async def test_what_was_refused_is_tried_at_once_when_it_is_asked_for(tmp_path: Path) -> None:
    async with accounts(tmp_path) as made:
        first = made.channel("first")
        first.ended = Fatal("token_revoked", "install the app again")
        await made.receive()
        assert (first.tries, first.health.state) == (1, ConnectionState.STOPPED)
        first.ended = None
        made.connections.retry()
        await made.clock.settle()
        assert (first.tries, first.health.state) == (2, ConnectionState.CONNECTED)


async def test_one_that_was_taken_over_stays_away(tmp_path: Path) -> None:
    async with accounts(tmp_path) as made:
        first = made.channel("first")
        first.ended = TakenOver("kicked", "stop the other program")
        await made.receive()
        made.connections.retry()
        await made.alive(3600)
        assert (first.tries, first.health.state) == (1, ConnectionState.STOPPED)
        assert "tried again" not in first.health.detail


async def test_one_that_is_tried_again_and_has_no_network_is_the_same_news(tmp_path: Path) -> None:
    async with accounts(tmp_path) as made:
        await made.meets("second", "1")
        made.channel("first").ended = Fatal("token_revoked", "install the app again")
        await made.receive()
        made.channel("first").health.state = ConnectionState.RETRYING
        made.channel("first").health.detail = "no route"
        await made.alive(30)
        made.outages.look()
        await made.clock.until(made.delivery.drained())
        assert len(made.told("second")) == 1


async def test_where_no_other_account_works_it_is_only_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with accounts(tmp_path) as made:
        await made.meets("second", "1")
        for account in ("first", "second"):
            made.channel(account).ended = Fatal("revoked", "set another")
        await made.receive()
        await made.clock.settle()
        assert made.told("second") == []
        assert "first is stopped: revoked; set another" in caplog.text


async def test_a_supervisor_that_starts_over_and_over_makes_no_noise(tmp_path: Path) -> None:
    async with accounts(tmp_path) as made:
        await made.meets("second", "1")
        made.channel("first").ended = Fatal("revoked", "set another")
        await made.receive()
        for later, told in ((0, 1), (60, 1), (86_400, 2)):
            await made.alive(later)
            made.outages = made.new_outages()
            made.outages.connected("second")
            await made.clock.settle()
            await made.clock.until(made.delivery.drained())
            assert len(made.told("second")) == told


async def test_none_is_left_only_where_no_account_is_tried_again(tmp_path: Path) -> None:
    left: list[bool] = []
    async with accounts(tmp_path, broken={"console": ImportError("x")}) as made:
        first, second = made.channel("first"), made.channel("second")
        first.ended, second.ended = Fatal("revoked", "set another"), TakenOver("kicked", "stop the other program")
        await serving(made, left)
        assert left == []
        first.ended = TakenOver("kicked", "stop the other program")
        await made.clock.advance(FIRST_RETRY)
        await made.clock.settle()
        assert left == [True]


# While another process may lead.


async def serving(made: Accounts, left: list[bool]) -> Receiving:
    """All accounts receive. left: gets what is told when none works any more."""

    async def ended() -> None:
        raise AssertionError("no source of messages ends here")

    settings, bus = settings_of(made.folder, made.config), MessageBus(made.store, lambda event: None)
    receiving = Receiving(settings, made.connections, made.delivery, made.outages, bus, made.tasks)
    receiving.serve(Serving(connected=lambda account: None, ended=ended, none_left=left.append))
    await made.clock.settle()
    return receiving


@pytest.mark.parametrize("which", ["cannot be loaded", "refused"])
async def test_one_that_fails_at_once_finds_others_that_have_not_connected_again_yet(
    tmp_path: Path, which: str
) -> None:
    left: list[bool] = []
    async with accounts(tmp_path, broken={"console": ImportError("x")}) as made:
        if which == "refused":
            made.channel("first").ended = Fatal("token_revoked", "install the app again")
        receiving = await serving(made, left)
        await receiving.pause()
        made.channel("second").opened.clear()
        receiving.resume()
        await made.clock.settle()
        assert left == []
        states = [made.connections.health["second"].state]
        assert made.channel("first").tries == 2
        made.channel("second").opened.set()
        await made.clock.settle()
        states.append(made.connections.health["second"].state)
        assert states == [ConnectionState.CONNECTING, ConnectionState.CONNECTED]


async def test_a_pause_lets_go_of_what_received_and_brings_back_nothing_else(tmp_path: Path) -> None:
    left: list[bool] = []
    async with accounts(tmp_path) as made:
        first, second = made.channel("first"), made.channel("second")
        first.ended = TakenOver("kicked", "stop the other program")
        receiving = await serving(made, left)
        await receiving.pause()
        assert (first.times_let_go, second.times_let_go) == (0, 1)
        receiving.resume()
        await made.clock.settle()
        assert (first.tries, first.health.state) == (1, ConnectionState.STOPPED)
        assert "kicked" in first.health.detail
        assert (second.tries, second.health.state) == (2, ConnectionState.CONNECTED)
        assert left == []


async def test_accounts_that_change_in_a_pause_receive_after_it(tmp_path: Path) -> None:
    changed = CONFIG.replace('token: "2', 'token: "3').replace("terminal: {type: console}", "")
    async with accounts(tmp_path) as made:
        receiving = await serving(made, [])
        former = made.channel("second")
        await receiving.pause()
        settings = settings_of(tmp_path, changed)
        made.connections.adopt(settings)
        assert await receiving.follow(settings) == {}
        second = made.channel("second")
        assert (second is former, second.tries, list(made.connections.channels)) == (False, 0, ["first", "second"])
        receiving.resume()
        await made.clock.settle()
        assert (second.tries, second.health.state) == (1, ConnectionState.CONNECTED)


# What was stored last of each chat.


def message(made: Accounts, number: int, chat: str, person: str = "1", **more: Any) -> Message:
    kind = "dm" if chat == person else "group"
    now = made.clock.now()
    return Message(
        account="first",
        dedupe_keys=(f"u:{number}",),
        sent_at=now,
        received_at=now,
        address=Address(account="first", chat=chat, topic=more.get("topic"), kind=kind),  # type: ignore[arg-type]
        platform_message_id=f"p{number}",
        sender=Sender(id=person, display_name="Ann"),
        text="hello",
        mention=True,
    )


async def test_adapters_learn_what_was_stored_last_of_each_chat_that_is_let_in(tmp_path: Path) -> None:
    async with accounts(tmp_path) as made:
        await made.store.add(inbox.ADD_EVENTS, [message(made, 1, "2", "2"), message(made, 2, "-1")])
        await made.clock.advance(timedelta(days=8).total_seconds())
        newest = made.channel("first").ports.newest
        assert await newest() == []
        chats = [("2", "2"), ("1", "1"), ("stranger", "stranger"), ("-1", "1"), ("closed", "1"), ("2", "2")]
        events = [message(made, number, chat, person) for number, (chat, person) in enumerate(chats, 10)]
        events += [message(made, 20, "-1", topic="t1"), message(made, 21, "-1", topic="t2")]
        await made.store.add(inbox.ADD_EVENTS, events)
        found = await newest()
        assert [(one.chat, one.topic, one.kind, one.message_id) for one in found] == [
            ("-1", "t2", "group", "p21"),
            ("-1", "t1", "group", "p20"),
            ("2", None, "dm", "p15"),
            ("-1", None, "group", "p13"),
            ("1", None, "dm", "p11"),
        ]
        assert found[0].sent_at == made.clock.now()
        assert await made.channel("second").ports.newest() == []


async def test_it_is_bounded_and_asks_who_is_let_in_now(tmp_path: Path) -> None:
    async with accounts(tmp_path) as made:
        events = [message(made, number, "-1", topic=f"t{number}") for number in range(NEWEST_CHATS + 50)]
        await made.store.add(inbox.ADD_EVENTS, [*events, message(made, 1000, "2", "2")])
        found = await made.channel("first").ports.newest()
        assert len(found) == NEWEST_CHATS
        assert found[0].chat == "2"
        blocked = access.AccessRow(
            account="first",
            kind="group",
            subject="first:other",
            state=access.AccessState.ALLOWED,
            created_at=made.clock.now(),
        )
        await made.store.add(inbox.ADD_EVENTS, [message(made, 1001, "other")])
        assert (await made.channel("first").ports.newest())[0].chat == "2"
        made.book.adopt(blocked)
        assert (await made.channel("first").ports.newest())[0].chat == "other"
