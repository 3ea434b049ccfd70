"""The processes of the cluster mode: two gateways and three workers with one PostgreSQL and two platforms. Each is
restarted when it ends, as a supervisor would do, and has its own network path to the database."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy.engine import make_url

from tests.flow.cluster import READY
from tests.flow.gateway import merged
from tests.torture.disturbed import CALLS_FILE
from tests.torture.world import END_SECONDS, START_SECONDS, Life, StillAlive, TortureWorld

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.simulators.postgres import PostgresServer
    from tests.simulators.relay import Relay
    from tests.torture.on_wecom import OnWecom

GATEWAYS, WORKERS = ("g1", "g2"), ("w1", "w2", "w3")
STANDS_BY = "standing by: "
REPLACED = "this worker was taken for dead"
POLL = "getUpdates"
AGAIN_SECONDS = 0.5
"""Delay before an ended process is restarted."""
LOOK_SECONDS = 0.1


@dataclass
class Node(TortureWorld):
    """One process of the cluster. network: between it and the database. harms: times of its disturbances; outages:
    begin and end of each period without the database; troubled: number of current disturbances."""

    cluster: ClusterWorld = field(kw_only=True)
    name: str = field(kw_only=True)
    network: Relay = field(kw_only=True)
    harms: list[float] = field(default_factory=list)
    outages: list[tuple[float, float]] = field(default_factory=list)
    troubled: int = 0
    _written: int = 0
    """Bytes of the log that earlier processes wrote."""

    @property
    def is_gateway(self) -> bool:
        return self.name in GATEWAYS

    @property
    def data_dir(self) -> Path:
        """Shared by the workers. Gateways share no files with them here, because none are sent."""
        return self.folder / "data" if self.is_gateway else self.cluster.data_dir

    @property
    def arguments(self) -> tuple[str, ...]:
        return ("gateway",) if self.is_gateway else ("worker", "--name", self.name)

    def config(self) -> dict[str, Any]:
        server = make_url(self.cluster.database).set(host="127.0.0.1", port=self.network.port, query={})
        url = server.set(drivername="postgresql").render_as_string(hide_password=False)
        own = {"data_dir": str(self.data_dir), "database": {"url": url}, "workers": {"enabled": True}}
        return merged(self.cluster.config(), own)

    @property
    def variables(self) -> dict[str, str]:
        return super().variables | self.cluster.secrets | {"MODEL_KEY": f"key-of-{self.name}"}

    async def _launch(self, environment: dict[str, str]) -> asyncio.subprocess.Process:
        log = self.folder / "log.txt"
        self._written = log.stat().st_size if log.exists() else 0
        return await super()._launch(environment)

    @property
    def said(self) -> str:
        """The log of the newest process."""
        with (self.folder / "log.txt").open("rb") as log:
            log.seek(self._written)
            return log.read().decode(errors="replace")

    @property
    def is_ready(self) -> bool:
        """Whether it leads, is on standby, or takes jobs."""
        if not self.alive:
            return False
        if not self.is_gateway:
            return READY in self.said
        return STANDS_BY in self.said or any(pid == self.life.pid for pid, _ in self.cluster.polls_made())

    @property
    def found_itself_replaced(self) -> bool:
        """Whether the newest process, a disturbed worker, ended because others had its runs; that may coincide with a
        planned stop."""
        return self.life.harmed and REPLACED in self.said

    def harm(self) -> float:
        """Record that it is disturbed now, which may end it; return the time."""
        self.harms.append(time.monotonic())
        self.life.harmed = True
        return self.harms[-1]


@dataclass
class ClusterWorld(TortureWorld):
    """All processes as one. ended: called for each process that ended unexpectedly."""

    wecom: OnWecom = field(kw_only=True)
    database: str = ""
    nodes: dict[str, Node] = field(default_factory=dict)
    ended: Callable[[Node, Life], None] = lambda node, life: None
    _keepers: list[asyncio.Task[None]] = field(default_factory=list)
    _over: bool = True
    _read: int = 0
    _polls: list[tuple[int, float]] = field(default_factory=list)

    def config(self) -> dict[str, Any]:
        bot = self.wecom.simulator
        account = {"bot_id": bot.bot_id, "secret": "$WECOM_SECRET", "bot_name": bot.name, "url": bot.url}
        return merged(super().config(), {"channels": {"wecom": account}})

    @property
    def secrets(self) -> dict[str, str]:
        """The secrets that the config refers to, other than Telegram's."""
        return {"WECOM_SECRET": self.wecom.simulator.secret}

    @contextlib.asynccontextmanager
    async def on(self, server: PostgresServer, relay: Callable[[Path], Relay], lease: int) -> AsyncIterator[None]:
        """Prepare the processes, without starting them, and a database for the block. lease: seconds; 0: unchanged."""
        self.database = server.database()
        async with contextlib.AsyncExitStack() as stack:
            for name in (*GATEWAYS, *WORKERS):
                folder = self.folder / name
                folder.mkdir()
                network = await stack.enter_async_context(relay(server.socket))
                self.nodes[name] = Node(
                    *(self.telegram, self.model, folder),
                    control_folder=self.control,
                    lease=lease,
                    quiet=self.quiet,
                    woken=self.woken,
                    cluster=self,
                    name=name,
                    network=network,
                )
            try:
                yield
            finally:
                await self.bury()

    @property
    def gateways(self) -> list[Node]:
        return [self.nodes[name] for name in GATEWAYS]

    @property
    def workers(self) -> list[Node]:
        return [self.nodes[name] for name in WORKERS]

    def polls_made(self) -> list[tuple[int, float]]:
        """(process, time) of each poll of Telegram for updates."""
        file = self.control / CALLS_FILE
        if file.exists():
            with file.open() as calls:
                calls.seek(self._read)
                while (line := calls.readline()).endswith("\n"):
                    self._read += len(line)
                    pid, at, method = line.split()
                    if method == POLL:
                        self._polls.append((int(pid), float(at)))
        return self._polls

    def leader(self) -> Node | None:
        """The gateway that polled last, if it is still running."""
        made = self.polls_made()
        return next((node for node in self.gateways if node.alive and made and made[-1][0] == node.life.pid), None)

    @property
    def alive(self) -> bool:
        """Whether the processes are kept running."""
        return not self._over

    @property
    def life(self) -> Life:
        return (self.leader() or self.gateways[0]).life

    async def launch(self, crash_at: str = "") -> Life:
        """Start all processes, and restart each that ends."""
        self._over = False
        for node in self.nodes.values():
            await node.launch()
            self._keepers.append(asyncio.create_task(self._keep(node), name=f"keep {node.name}"))
        return self.life

    async def _keep(self, node: Node) -> None:
        while True:
            life = node.life
            assert node.process is not None
            await node.process.wait()
            await node.over()
            if self._over:
                return
            self.ended(node, life)
            await asyncio.sleep(AGAIN_SECONDS)
            await node.launch()

    async def polls(self, seconds: float = START_SECONDS) -> bool:
        """Wait until one gateway leads, the other is on standby, and all workers take jobs."""
        deadline = time.monotonic() + seconds
        while not (self.leader() and all(node.is_ready for node in self.nodes.values())):
            if time.monotonic() > deadline:
                late = [node.name for node in self.nodes.values() if not node.is_ready]
                raise StillAlive(f"not at work after {seconds:g} s: {late or 'no gateway receives'}")
            await asyncio.sleep(LOOK_SECONDS)
        return True

    async def retire(self) -> Life:
        """Stop all as planned; return the life with the worst ending."""
        self._over = True
        self.lives = self.leaderships()
        for node in self.nodes.values():
            if node.alive:
                await node.retire()
        await self._dismiss()
        lives = [node.life for node in self.nodes.values() if not node.found_itself_replaced]
        return next((life for life in lives if life.ending not in ("stop", "kill")), lives[0])

    def leaderships(self) -> list[Life]:
        """The period of each leader, for the judge: from its first poll until the disturbance after which another one
        led. It counts as replaced at its end, unless the end was planned."""
        first: dict[int, float] = {}
        for pid, at in self.polls_made():
            first.setdefault(pid, at)
        nodes = {life.pid: (node, life) for node in self.gateways for life in node.lives}
        led = [(at, *nodes[pid]) for pid, at in sorted(first.items(), key=lambda item: item[1])]
        lives = []
        for number, (began, node, life) in enumerate(led):
            following = led[number + 1][0] if number + 1 < len(led) else None
            harms = [at for at in node.harms if began <= at and (following is None or at <= following)]
            ended = life.ended
            if following is not None and not life.ending.startswith("crash"):
                ended = min([*harms[-1:], life.ended or following, following])
            planned = life.leaving is not None and life.ending == "stop"
            lives.append(
                Life(
                    life.pid,
                    began,
                    ended,
                    life.ending,
                    leaving=life.leaving,
                    disturbed=True,  # how long a takeover takes is measured elsewhere
                    replaced=following is not None and not planned,
                    outages=node.outages,
                )
            )
        return lives

    async def _dismiss(self) -> None:
        await asyncio.wait(self._keepers, timeout=END_SECONDS) if self._keepers else None
        for task in self._keepers:
            task.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        self._keepers.clear()

    async def bury(self) -> None:
        self._over = True
        for node in self.nodes.values():
            await node.bury()
        await self._dismiss()
