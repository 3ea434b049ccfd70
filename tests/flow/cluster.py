"""A gateway and its workers: separate processes that share a PostgreSQL and a data folder."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.flow.forking import Template

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType
    from typing import LiteralString

    from tests.flow.gateway import Process, World
    from tests.simulators.postgres import PostgresServer

READY = "ready to execute"
READY_SECONDS = 60.0
STOP_SECONDS = 30.0


@dataclass
class WorkerProcess:
    """One `antler worker`."""

    name: str
    log_file: Path
    process: Process | None = None

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    async def ended(self, timeout: float = STOP_SECONDS) -> int:
        """Wait for its end; return the exit code."""
        assert self.process is not None
        try:
            async with asyncio.timeout(timeout):
                return await self.process.wait()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
            raise

    async def kill(self) -> None:
        """Kill it (kill -9)."""
        self.send(signal.SIGKILL)
        await self.ended()

    async def wait_for_log(self, text: str, timeout: float = READY_SECONDS) -> None:
        """Wait until it has logged a text; fail if it ends before that."""
        assert self.process is not None
        async with asyncio.timeout(timeout):
            while text not in self.log:
                assert self.process.returncode is None, f"worker {self.name} ended:\n{self.log}"
                await asyncio.sleep(0.1)


@dataclass
class Cluster:
    """A world with workers. When entered, it starts the gateway and `count` workers. environment: of the workers,
    merged over the gateway's."""

    world: World
    postgres: PostgresServer
    count: int = 2
    environment: dict[str, str] = field(default_factory=dict)
    workers: dict[str, WorkerProcess] = field(default_factory=dict)
    database: str = ""

    def __post_init__(self) -> None:
        self.database = self.postgres.database()
        url = self.database.replace("+psycopg", "")
        self.world.settings = {**self.world.settings, "database": {"url": url}, "workers": {"enabled": True}}

    async def start_worker(
        self, name: str, config: Path | None = None, program: str = "bot", **environment: str
    ) -> WorkerProcess:
        """Start another worker; return once it takes jobs. config: its own, if not the gateway's. program: see
        World."""
        worker = self.workers[name] = WorkerProcess(name, self.world.folder / f"worker-{name}.txt")
        with worker.log_file.open("ab") as output:
            worker.process = await Template.shared().start(
                ("worker", "--config", str(config or self.world.config_file), "--name", name),
                self.world.variables | self.environment | environment,
                program,
                output.fileno(),
            )
        await worker.wait_for_log(READY)
        return worker

    async def until_told(self, holds: Callable[[str], bool], timeout: float = 40.0) -> str:
        """Wait until this holds for the output of `antler status`, and return it."""
        told = ""
        try:
            async with asyncio.timeout(timeout):
                while True:
                    _, told = await self.world.command("status")
                    if holds(told):
                        return told
                    await asyncio.sleep(0.5)
        except TimeoutError:
            raise AssertionError(told) from None

    @property
    def name(self) -> str:
        """Name of the database."""
        return self.database.partition("@/")[2].partition("?")[0]

    def rows(self, query: LiteralString) -> list[tuple[object, ...]]:
        """The rows of a query of the database."""
        with self.postgres.connect(self.name) as connection:
            return connection.execute(query).fetchall()

    async def at_work(self) -> WorkerProcess:
        """Wait for a worker to take the only open order, and return it."""
        async with asyncio.timeout(READY_SECONDS):
            while True:
                found = self.rows("SELECT run_id FROM worker_runs WHERE state = 'open' AND worker IS NOT NULL")
                for worker in self.workers.values():
                    if found and f"run {found[0][0]} is running here" in worker.log:
                        return worker
                await asyncio.sleep(0.1)

    async def __aenter__(self) -> Cluster:
        await self.world.start()
        try:
            await asyncio.gather(*(self.start_worker(f"w{number}") for number in range(1, self.count + 1)))
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        codes = {}
        for name, worker in self.workers.items():
            if worker.process is not None and worker.process.returncode is None:
                worker.send(signal.SIGCONT)
                worker.send(signal.SIGTERM)
                codes[name] = await worker.ended()
        await self.world.__aexit__(kind, error, traceback)
        for worker in self.workers.values():
            if kind is not None or codes.get(worker.name):
                print(f"--- {worker.name} log ---\n{worker.log}")
        assert not any(codes.values()), codes
