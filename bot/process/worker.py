"""`antler worker`: a process that works on the runs which gateways order, with models, tools and sandboxes."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

import psycopg

from bot.clock import SystemClock
from bot.control import logs
from bot.control.lock import FILE as GATEWAY_LOCK
from bot.control.lock import DataDirInUse, DataDirLock
from bot.files.sandboxes import Sandboxes
from bot.process import gc_tuning, terminal
from bot.process.agent import load_harness
from bot.process.app import belongings, report
from bot.process.equipment import Equipment, Outside
from bot.process.gateway import CONFIG_ERROR, FAILURE, OK, SANDBOX_SECONDS
from bot.redaction import Redactor
from bot.store import Store, worker_runs
from bot.store.errors import StoreError, StoreUnavailable
from bot.store.retrying import RetryingStore
from bot.store.sql import libpq_url
from bot.store.worker_runs import CHECK_WORKER
from bot.tasks import Tasks
from bot.workers.dispatch import MISSING, DeadWorkers
from bot.workers.jobs import Jobs, StoreSteering

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from bot.process.agent import MakeHarness
    from bot.settings import Settings
    from bot.workers.queue import Queue
    from harness.agents.parts import Parts
    from harness.ports import Harness
    from sandbox.files.skills import SkillsOf

log = logging.getLogger(__name__)
WORKER_LOCK = "worker-{}.lock"
LAST_SECONDS = 2.0
"""After the grace, until what hangs is ended by force."""
AGAIN_SECONDS = 2.0


def serve(settings: Settings, name: str | None) -> int:
    """Work until a signal; returns the exit code. name: tells apart workers of one machine, else the machine's."""
    os.umask(0o077)
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold every secret
    redact = Redactor(settings.secrets())
    logs.configure(settings.log.level, settings.log.format, redact)
    logging.getLogger("procrastinate").setLevel(logging.WARNING)
    if not settings.workers.enabled:
        print("antler: workers.enabled is not set, so that no gateway orders work here", file=sys.stderr)
        return CONFIG_ERROR
    try:
        from bot.workers.queue import Queue
    except ImportError as error:
        print(f"antler: {MISSING.format(error.name)}", file=sys.stderr)
        return CONFIG_ERROR
    queue = Queue(libpq_url(settings.checkpoints), settings.limits.concurrent_runs)
    name = name or socket.gethostname()
    try:
        # Two of one name would share their sandboxes: the start of the second ends what runs in those of the first.
        with DataDirLock(settings.data_dir, WORKER_LOCK.format(quote(name, safe=""))):
            return asyncio.run(_serve(settings, redact, queue, name))
    except DataDirInUse as error:
        who = f"process {error.pid}" if error.pid else "another process"
        print(f"antler: {who} is the worker {name!r} of this data_dir: give this one another --name", file=sys.stderr)
        return CONFIG_ERROR
    except StoreError as error:
        print(f"antler: {redact(str(error))}", file=sys.stderr)
        return FAILURE


async def _serve(settings: Settings, redact: Redactor, queue: Queue, name: str) -> int:
    clock, before, last = SystemClock(), belongings(), terminal.LastResort()
    stopped = asyncio.Event()

    def stop() -> None:
        terminal.end_after(settings.shutdown_grace_seconds + LAST_SECONDS, last)
        stopped.set()

    terminal.on_stop(stop, last, hangs_up=True)
    store = await _join(settings, clock, queue, stopped)
    if store is None:
        return OK
    try:
        return await Worker(settings, store, redact, queue, name, last, stopped).run()
    finally:
        await store.close()
        await report(before, settings.data_dir)


async def _join(settings: Settings, clock: SystemClock, queue: Queue, stopped: asyncio.Event) -> Store | None:
    """The store, once a gateway has prepared the database; None when the process is to stop before that."""

    def check(tx: Connection) -> None:
        worker_runs.check_worker(tx, queue.registration())

    while not stopped.is_set():
        try:
            await _prepared(settings)
            return await Store.join(settings.database_url, clock=clock, check=check)
        except (StoreUnavailable, psycopg.Error) as error:
            log.warning("waiting for the database: %s", error)
            with suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), AGAIN_SECONDS)
    return None


async def _prepared(settings: Settings) -> None:
    from bot.workers import queue

    await queue.prepare(libpq_url(settings.checkpoints))


class Worker:
    """One worker. stopped: set when it is to stop."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        redact: Redactor,
        queue: Queue,
        name: str,
        last: terminal.LastResort,
        stopped: asyncio.Event,
    ) -> None:
        self._settings = settings
        self._queue = queue
        self._last = last
        self._stopped = stopped
        self._tasks = Tasks("worker")
        self._opened = store
        self._store = patient = RetryingStore(store, store.clock)

        def sandboxes(settings: Settings, skills: SkillsOf) -> Sandboxes:
            return Sandboxes(settings.sandbox, settings.data_dir, settings.network_route, skills=skills, name=name)

        self._has = Equipment(
            settings,
            patient,
            redact,
            self._tasks,
            steering=lambda: StoreSteering(patient),
            due=lambda: self._told(worker_runs.SCHEDULES),
            outside=Outside(harness=self._load, sandboxes=sandboxes),
        )

    async def run(self) -> int:
        """Serve until a signal; returns the exit code."""
        self._say_what_is_missing()
        has = self._has
        why = await has.agent.build()
        try:
            if why is not None:
                log.error("%s; antler stops", why)
                return FAILURE
            gc_tuning.settle()
            return await self._work(await has.agent.harness())
        finally:
            terminal.end_after(self._settings.shutdown_grace_seconds + LAST_SECONDS, self._last)
            await self._tasks.cancel()
            await has.agent.close()
            await has.knowledge.close()
            if has.tracing is not None:
                await asyncio.to_thread(has.tracing.close)
            await has.sandboxes.shutdown(SANDBOX_SECONDS)

    async def _work(self, harness: Harness) -> int:
        queue, has = self._queue, self._has
        jobs = Jobs(self._store, harness, has.spending.meter, has.owners, queue.registration, self._fenced)
        self._tasks.spawn("dead workers", DeadWorkers(self._store).serve())
        self._tasks.spawn("fence", self._watch_fence())
        working = asyncio.create_task(queue.work(jobs.work), name="jobs")
        stopped = asyncio.create_task(self._stopped.wait(), name="stop")
        log.info("ready to work on %d run(s) at once", self._settings.limits.concurrent_runs)
        await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if working.done():
            log.error("no jobs can be taken; antler stops", exc_info=working.exception())
            return FAILURE
        queue.stop()
        jobs.leave()
        await working
        return OK

    async def _load(self) -> MakeHarness:
        """What makes agents whose checkpoints are fenced."""
        await load_harness()
        from harness.run.runner import HarnessRunner, make_harness
        from harness.threads.postgres_saver import Fence

        fence = Fence(CHECK_WORKER, lambda: (self._queue.registration(),))

        async def made(parts: Parts, database: str, former: Harness | None) -> Harness:
            before = former if isinstance(former, HarnessRunner) else None
            return await make_harness(parts, database, before, fence)

        return made

    def _told(self, word: str) -> None:
        self._tasks.spawn(f"word: {word}", self._store.write(partial(worker_runs.notify, payload=word)))

    async def _watch_fence(self) -> None:
        await self._opened.lease_lost()
        self._fenced()

    def _fenced(self) -> None:
        """End at once, before procrastinate or a tool does anything more in this worker's name."""
        self._last.end("this worker was taken for dead, and others go on with its runs")

    def _say_what_is_missing(self) -> None:
        settings = self._settings
        if not (settings.data_dir / GATEWAY_LOCK).exists():
            log.warning(
                "no gateway ever ran on %s: files that people send are not found here, and those made here are not "
                "delivered; share the gateway's data_dir with this worker",
                settings.data_dir,
            )
