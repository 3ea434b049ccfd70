"""The mode of a cluster: whatever happens to a process, its network or the database, every message is answered once,
and no platform ever has two connections of the cluster."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import psycopg

from bot.store.writer import LEASE_SECONDS
from tests.flow.gateway import merged
from tests.simulators.postgres import PostgresMissing, PostgresServer
from tests.simulators.process import SimulatorProcess
from tests.simulators.relay import Relay
from tests.simulators.wecom import client as wecom_client
from tests.torture.accounts import lifted
from tests.torture.campaign import Campaign
from tests.torture.cluster_world import LOOK_SECONDS, POLL, ClusterWorld
from tests.torture.commands import judge_commands, prepare_commands
from tests.torture.crash import ARMED_FILE
from tests.torture.ledger import Ledger
from tests.torture.machine import NotPossible
from tests.torture.on_telegram import OnTelegram
from tests.torture.on_wecom import OnWecom
from tests.torture.report import Report
from tests.torture.windows import IN_CLUSTER, WINDOWS
from tests.torture.world import SETTINGS, StillAlive

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from tests.simulators.model.client import ModelSimulator
    from tests.simulators.telegram.client import TelegramSimulator
    from tests.torture.campaign import Scale
    from tests.torture.cluster_world import Node
    from tests.torture.world import Life

SAID = {"say": 14, "stream": 18, "slow": 20, "tool": 16, "bash": 16, "long": 4, "status": 4, "stop": 4, "new": 4}
PEOPLE, GROUPS = 3, 1
"""Per platform."""
UNHURRIED = 0.5
"""Average seconds between two messages."""
AGAIN = 0.2
"""Share of disturbances during which a second one starts."""
SHORT = (1.0, 4.0)
"""Seconds of a short network cut, or for which the server is down."""
LEAST_FROZEN = 16.0
"""Half of it is the time after which a worker is declared dead, and reconnecting may take a worker five seconds."""
TAKEN_SECONDS = 90.0
"""Longest time to wait for a takeover."""
OPEN_AT = """
    SELECT run_id, worker FROM worker_runs WHERE state = 'open' AND worker IS NOT NULL AND run_id NOT LIKE 'call:%'
"""


@contextlib.asynccontextmanager
async def clustered(
    telegram: TelegramSimulator,
    model: ModelSimulator,
    folder: Path,
    *,
    seed: int,
    scale: Scale,
    adopt: bool = False,
    mode: str = "cluster",
) -> AsyncIterator[Campaign]:
    """A campaign of a cluster that is not started yet, and WeCom's simulator. Telegram always adopts placeholders: a
    frozen leader cannot retract what it sent."""
    await model.reset()
    with SimulatorProcess(wecom_client.MODULE) as process:
        async with wecom_client.connect(process) as simulator:
            wecom = OnWecom.with_people(simulator, PEOPLE, GROUPS)
            channels = {"wecom": lifted(200, 20)["wecom"], "telegram": {"adopt_placeholders": True}}
            world = ClusterWorld(
                *(await telegram.fresh_bot(), model, folder, merged(SETTINGS, {"channels": channels})), wecom=wecom
            )
            on_telegram = OnTelegram.with_people(world.telegram, PEOPLE, GROUPS, adopts=True)
            report = Report(mode, seed, adopted=True, folder=str(folder))
            async with await Campaign.between(world, [on_telegram, wecom], report, scale) as campaign:
                yield campaign


async def cluster(campaign: Campaign) -> None:
    """Disturb the cluster as often as the scale says, each time until every message is answered. Raises NotPossible."""
    prepare_commands(campaign, SAID)
    try:
        server = PostgresServer()
    except PostgresMissing as error:
        raise NotPossible(str(error)) from error
    world, campaign.patient = campaign.world, True
    assert isinstance(world, ClusterWorld)
    campaign.scale = replace(campaign.scale, frozen=max(campaign.scale.frozen, LEAST_FROZEN))
    lease = int(campaign.scale.frozen / 2) if campaign.scale.frozen < 2 * LEASE_SECONDS else 0
    with server:
        async with world.on(server, Relay, lease):
            campaign.ledger = Ledger(world.database)
            disturbing = Disturbing(campaign, world, server)
            world.ended = disturbing.ended
            await campaign.start()
            ends = time.monotonic() + campaign.scale.seconds
            while sum(campaign.report.disturbances.values()) < campaign.scale.kills and time.monotonic() < ends:
                async with campaign.talking(UNHURRIED):
                    await disturbing.once()
                await world.polls()
                await campaign.settle()
                await disturbing.two_at_once()
                counts = f"{sum(campaign.report.disturbances.values())}/{campaign.scale.kills} disturbances"
                campaign.say(f"{counts}, {len(campaign.load.asked)} messages, {campaign.report.details[-1:]}")
            await campaign.finish()
            await judge_commands(campaign)


@dataclass
class Disturbing:
    """Disturbances of a cluster, and observations made during them. frozen: begin and end of each leader's freeze."""

    campaign: Campaign
    world: ClusterWorld
    server: PostgresServer
    frozen: list[tuple[float, float]] = field(default_factory=list)
    _conflicts: int = 0
    _restarting: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def once(self) -> None:
        """Cause one disturbance, or two concurrently."""
        chance, kinds = self.campaign.chance, list(KINDS)
        await self.campaign.live(0.5)
        chosen = chance.choices(kinds, [weight for weight, _ in KINDS.values()], k=2 if chance.random() < AGAIN else 1)
        async with asyncio.TaskGroup() as group:
            for kind in chosen:
                self.campaign.report.disturbances[kind] = self.campaign.report.disturbances.get(kind, 0) + 1
                group.create_task(self._strike(kind))
                await self.campaign.live()
        await self.campaign.live(0.5)

    async def _strike(self, kind: str) -> None:
        self.campaign.say(kind)
        try:
            await KINDS[kind][1](self)
        except StillAlive as reason:
            self._blame("unsettled", str(reason))

    # Disturbances.

    async def restart_server(self) -> None:
        """Restart PostgreSQL, as after a crash."""
        for node in self.world.gateways:
            away = node.harm()
        async with self._restarting:
            await asyncio.to_thread(self.server.stop)
            await asyncio.sleep(self.campaign.chance.uniform(*SHORT))
            await asyncio.to_thread(self.server.start)
        began = time.monotonic()
        for node in self.world.gateways:
            node.outages.append((away, began))
        while not any(at > began for _, at in self.world.polls_made()):
            if time.monotonic() > began + TAKEN_SECONDS:
                return self._blame("unsettled", f"{TAKEN_SECONDS:g} s after a restart of the server nobody receives")
            await asyncio.sleep(LOOK_SECONDS)
        return self._measured("gateway: restart of PostgreSQL", time.monotonic() - began)

    async def crash(self) -> None:
        """Crash the first process that passes a random window; kill one from outside if none does."""
        window = self.campaign.chance.choice((*WINDOWS, *IN_CLUSTER))
        self.world.arm(f"{window.name}:{self.campaign.chance.randint(1, window.passings)}")
        await self.campaign.live(self.campaign.scale.lively)
        if (self.world.control / ARMED_FILE).exists():
            self.world.disarm()
            await self._kill(self.gateway() if self.campaign.chance.random() < 0.5 else self.worker())

    def gateway(self) -> Node:
        """Return a gateway, mostly the leader."""
        leader = self.world.leader()
        others = [node for node in self.world.gateways if node.alive and node is not leader and not node.troubled]
        if leader is None or (others and self.campaign.chance.random() < 0.15):
            return self.campaign.chance.choice(others or self.world.gateways)
        return leader

    def worker(self) -> Node:
        """Return a worker, a busy one if possible."""
        alive = [node for node in self.world.workers if node.alive and not node.troubled]
        busy = [node for node in alive if self._orders_of(node)]
        return self.campaign.chance.choice(busy or alive or self.world.workers)

    async def kill(self, node: Node) -> None:
        async with self._taken_over(node, "kill -9"):
            await self._kill(node)

    async def _kill(self, node: Node) -> None:
        if node.alive:
            await node.murder()
            self.campaign.report.kills += 1

    async def stop(self, node: Node) -> None:
        """Stop a process as planned."""
        async with self._taken_over(node, "SIGTERM"):
            if not node.alive or node.life.frozen:
                return
            life = await node.retire()
            self.campaign.report.stops += 1
            if life.ending != "stop" and not node.found_itself_replaced:
                self._blame("unexpected_exits", f"a planned stop of {node.name} ended with {life.ending!r}")

    async def freeze(self, node: Node) -> None:
        leads = node is self.world.leader()
        async with self._taken_over(node, "SIGSTOP"):
            began = node.harms[-1]
            node.freeze()
            await asyncio.sleep(self.campaign.scale.frozen)
            if leads:
                self.frozen.append((began, time.monotonic()))
            if self.campaign.chance.random() < 0.25:
                await self._kill(node)
            node.thaw()

    async def cut(self, node: Node, *, silent: bool) -> None:
        long = self.campaign.chance.random() < 0.5
        seconds = self.campaign.scale.frozen if long else self.campaign.chance.uniform(*SHORT)
        what = "silence" if silent else "cut"
        async with self._taken_over(node, what, measured=long or (node.is_gateway and not silent)):
            away = time.monotonic()
            node.network.fall_silent() if silent else node.network.cut()
            await asyncio.sleep(seconds)
            node.network.heal()
            node.outages.append((away, time.monotonic()))

    # Observations.

    @contextlib.asynccontextmanager
    async def _taken_over(self, node: Node, what: str, *, measured: bool = True) -> AsyncIterator[None]:
        """Measure the time from now until another process takes over this one's work, if it has any. measured: False if
        it may keep its work: it is silent only briefly, or a worker that returns in time."""
        leads, orders = node is self.world.leader(), self._orders_of(node)
        at, pid, over = node.harm(), node.life.pid, asyncio.Event()
        node.troubled += 1
        watching = None
        if leads and measured:
            watching = asyncio.create_task(self._polled(what, at, pid, over), name="takeover")
        elif orders and measured:
            watching = asyncio.create_task(self._worked(what, at, orders), name="takeover")
        yield
        over.set()
        node.troubled -= 1
        if watching is not None:
            await watching

    async def _polled(self, what: str, since: float, pid: int, over: asyncio.Event) -> None:
        """Wait until another process receives, or the same one again once its disturbance is over."""
        back = float("inf")
        while time.monotonic() < since + TAKEN_SECONDS:
            back = min(back, time.monotonic()) if over.is_set() else back
            for who, at in self.world.polls_made():
                if at > since and who != pid:
                    return self._measured(f"gateway: {what}", at - since)
                if at > back:
                    return None
            await asyncio.sleep(LOOK_SECONDS)
        return self._blame("unsettled", f"{TAKEN_SECONDS:g} s after {what} of the leader nobody receives")

    async def _worked(self, what: str, since: float, orders: set[tuple[Any, ...]]) -> None:
        """Wait until that worker has none of these orders any more."""
        while time.monotonic() < since + TAKEN_SECONDS:
            if not (orders & self._orders()):
                return self._measured(f"worker: {what}", time.monotonic() - since)
            await asyncio.sleep(LOOK_SECONDS)
        self._blame("unsettled", f"{TAKEN_SECONDS:g} s after {what} of a worker it still has {orders & self._orders()}")

    def _measured(self, what: str, seconds: float) -> None:
        self.campaign.report.takeovers.setdefault(what, []).append(round(seconds, 2))

    def _orders(self) -> set[tuple[Any, ...]]:
        """Runs in progress, each with its worker; none while the server is down."""
        try:
            with psycopg.connect(self.world.database.replace("+psycopg", ""), connect_timeout=2) as connection:
                return set(connection.execute(OPEN_AT).fetchall())
        except psycopg.Error:
            return set()

    def _orders_of(self, node: Node) -> set[tuple[Any, ...]]:
        said = node.said if node.alive and not node.is_gateway else ""
        return {order for order in self._orders() if f"run {order[0]} is running here" in said}

    def ended(self, node: Node, life: Life) -> None:
        """Record that a process ended by itself, or because of a disturbance."""
        if life.ending.startswith("crash "):
            window = life.ending.split()[1].partition(":")[0]
            self.campaign.report.windows[window] = self.campaign.report.windows.get(window, 0) + 1
            self.campaign.report.kills += 1
        elif life.ending.startswith("exit") and not life.harmed:
            self._blame("unexpected_exits", f"{node.name} (process {life.pid}) ended with {life.ending!r}")
        elif life.ending.startswith("exit"):
            self.campaign.say(f"{node.name} ended with {life.ending}")

    async def two_at_once(self) -> None:
        """Report each time that a platform had two connections of the cluster, except those of frozen leaders, which
        stay open because the frozen process cannot close them."""
        polls = await self.world.telegram.records(POLL)
        refused = [poll for poll in polls if poll.status == 409]
        for poll in refused[self._conflicts :]:
            if not any(began >= poll.arrived and (poll.finished or 0.0) <= ended + 1.0 for began, ended in self.frozen):
                self._blame("broken_rules", f"telegram: two polled at once at {poll.finished}")
        kicks = (await self.world.wecom.simulator.status()).kicks
        if kicks > len(self.frozen):
            self._blame("broken_rules", f"wecom: {kicks} connections thrown out by the next one")
        self._conflicts = len(refused)

    def _blame(self, count: str, why: str) -> None:
        self.campaign.report.blame(count, why)
        self.campaign.say(f"{count}: {why}")


KINDS: dict[str, tuple[int, Callable[[Disturbing], Awaitable[None]]]] = {
    "kill a gateway": (14, lambda its: its.kill(its.gateway())),
    "kill a worker": (14, lambda its: its.kill(its.worker())),
    "crash at a window": (16, lambda its: its.crash()),
    "stop a gateway": (8, lambda its: its.stop(its.gateway())),
    "stop a worker": (8, lambda its: its.stop(its.worker())),
    "freeze a gateway": (6, lambda its: its.freeze(its.gateway())),
    "freeze a worker": (6, lambda its: its.freeze(its.worker())),
    "cut a gateway off": (8, lambda its: its.cut(its.gateway(), silent=False)),
    "cut a worker off": (8, lambda its: its.cut(its.worker(), silent=False)),
    "silence around a gateway": (4, lambda its: its.cut(its.gateway(), silent=True)),
    "silence around a worker": (4, lambda its: its.cut(its.worker(), silent=True)),
    "restart PostgreSQL": (8, lambda its: its.restart_server()),
}
"""Kind -> (weight, action)."""
