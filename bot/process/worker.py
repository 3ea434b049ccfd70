"""`antler worker`: a process that executes the runs ordered by gateways, with models, tools and sandboxes."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import socket
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING
from urllib.parse import quote

import psycopg

from bot.clock import SystemClock
from bot.control import logs
from bot.control.lock import SHARED, DataDirInUse, DataDirLock, DataDirUnusable
from bot.files.sandboxes import Sandboxes
from bot.http.listener import HttpUnavailable, listening
from bot.operations.health import HealthService
from bot.operations.reload import Adoption, Reloader
from bot.operations.workers import Facts, Presence, ages, troubles
from bot.process import gc_tuning, terminal
from bot.process.app import belongings, report
from bot.process.equipment import Equipment, Outside
from bot.process.gateway import CONFIG_ERROR, FAILURE, OK, SANDBOX_SECONDS
from bot.process.http import serve as serve_http
from bot.process.loop import run
from bot.redaction import Redactor
from bot.store import Store, worker_runs
from bot.store.errors import StoreError, StoreUnavailable
from bot.store.retrying import RetryingStore
from bot.store.sql import libpq_url
from bot.tasks import Tasks
from bot.workers.dispatch import MISSING, DeadWorkers
from bot.workers.jobs import Jobs, StoreSteering
from channels.supervision import within
from harness.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fastapi import APIRouter
    from prometheus_client.metrics_core import Metric
    from sqlalchemy import Connection

    from bot.settings import Settings
    from bot.settings.http import HttpSettings
    from bot.settings.load import SettingsSource
    from bot.workers.queue import Queue
    from sandbox.files.skills import SkillsOf

log = logging.getLogger(__name__)
WORKER_LOCK = "worker-{}.lock"
LAST_SECONDS = 2.0
"""Seconds after the grace period until a hanging process is ended by force."""
AGAIN_SECONDS = 2.0
PROBES_SECONDS = 0.2
"""Seconds for a request that is in progress when the process ends."""


def serve(settings: Settings, source: SettingsSource, name: str | None) -> int:
    """Work until a signal; returns the exit code. source: of the settings, for reloads. name: distinguishes workers of
    one machine; None: the machine's name."""
    os.umask(0o077)
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold every secret
    redact = Redactor(settings.secrets())
    logs.configure(settings.log.level, settings.log.format, redact)
    logging.getLogger("procrastinate").setLevel(logging.WARNING)
    if not settings.workers.enabled:
        return logs.complain("workers.enabled is not set, so no gateway sends work here", CONFIG_ERROR)
    try:
        from bot.workers.queue import Queue
    except ImportError as error:
        return logs.complain(MISSING.format(error.name), CONFIG_ERROR)
    queue = Queue(libpq_url(settings.checkpoints), settings.limits.concurrent_runs, SystemClock())
    name = name or socket.gethostname()
    try:
        # Two workers of one name would share sandboxes: the second one's start ends what runs in those of the first.
        with DataDirLock(settings.data_dir, WORKER_LOCK.format(quote(name, safe=""))):
            return run(_serve(settings, source, redact, queue, name))
    except HttpUnavailable as error:
        return logs.complain(error, FAILURE)
    except DataDirInUse as error:
        who = f"process {error.pid}" if error.pid else "another process"
        return logs.complain(f"{who} is the worker {name!r} of this data_dir: use another --name", CONFIG_ERROR)
    except DataDirUnusable as error:
        return logs.complain(error, CONFIG_ERROR)
    except StoreError as error:
        return logs.complain(redact(str(error)), FAILURE)


async def _serve(settings: Settings, source: SettingsSource, redact: Redactor, queue: Queue, name: str) -> int:
    clock, before, last = SystemClock(), belongings(), terminal.LastResort()
    stopped = asyncio.Event()

    def stop() -> None:
        terminal.end_after(settings.shutdown_grace_seconds + LAST_SECONDS, last)
        stopped.set()

    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it is handled, which includes earlier edits
    terminal.on_stop(stop, last, hangs_up=False)
    probes = Probes(settings)
    try:
        store = await _join(settings, clock, queue, stopped)
        if store is None:
            return OK
        try:
            worker = Worker(settings, source, store, redact, queue, name, last, stopped)
            probes.ready, probes.figures = worker.is_ready, worker.figures
            return await worker.run()
        finally:
            await store.close()
    finally:
        await probes.close()
        await report(before, settings.data_dir)


async def _no_accounts(settings: Settings) -> dict[str, str]:
    """A worker has no accounts."""
    return {}


class Probes:
    """Health and metrics of this process, served from its start on if workers.listen names an address.

    ready, figures: the worker's, once there is one. Raises HttpUnavailable.
    """

    def __init__(self, settings: Settings) -> None:
        self.ready: Callable[[], bool] = lambda: False
        self.figures: Callable[[], Iterable[Metric]] = tuple
        self._tasks = Tasks("probes")
        if (listen := settings.workers.listen) is not None:
            http = settings.http.of_worker(listen)
            address = listening(http, "workers.listen")
            self._tasks.spawn("probes", serve_http(http, address, partial(self._routers, http), PROBES_SECONDS))

    def _routers(self, http: HttpSettings) -> list[APIRouter]:
        from bot.http.health import health_router
        from bot.http.metrics import Collected, metrics_router

        async def figures() -> Collected:
            return Collected(self.figures())

        return [health_router(lambda: self.ready()), metrics_router(figures, http)]

    async def close(self) -> None:
        """Stop answering."""
        await self._tasks.cancel()


async def _join(settings: Settings, clock: SystemClock, queue: Queue, stopped: asyncio.Event) -> Store | None:
    """Wait until a gateway has prepared the database and return the store; None if the process is to stop before."""

    def check(tx: Connection) -> None:
        worker_runs.check_worker(tx, queue.registration())

    while not stopped.is_set():
        try:
            await _prepared(settings)
            return await Store.join(
                settings.database_url, clock=clock, check=check, stands=queue.stands, check_run=queue.check_run
            )
        except (StoreUnavailable, psycopg.Error) as error:
            log.warning("waiting for the database: %s", error)
            await within(AGAIN_SECONDS, stopped.wait())
    return None


async def _prepared(settings: Settings) -> None:
    from bot.workers import queue

    await queue.prepare(libpq_url(settings.checkpoints))


class Worker:
    """One worker. stopped: set when it is to stop."""

    def __init__(
        self,
        settings: Settings,
        source: SettingsSource,
        store: Store,
        redact: Redactor,
        queue: Queue,
        name: str,
        last: terminal.LastResort,
        stopped: asyncio.Event,
    ) -> None:
        self._settings = settings
        self._redact = redact
        self._queue = queue
        self._last = last
        self._stopped = stopped
        self._tasks = Tasks("worker")
        self._opened = store
        self._unshared = not (settings.data_dir / SHARED).exists()
        self._store = patient = RetryingStore(store, store.clock)

        def sandboxes(settings: Settings, skills: SkillsOf) -> Sandboxes:
            return Sandboxes(settings.sandbox, settings.data_dir, settings.network_route, skills=skills, name=name)

        self._has = has = Equipment(
            settings,
            patient,
            redact,
            self._tasks,
            steering=lambda: StoreSteering(patient),
            due=lambda: self._told(worker_runs.SCHEDULES),
            fence=queue.fence,
            outside=Outside(sandboxes=sandboxes),
        )
        meter, owners = has.spending.meter, has.owners
        self.jobs = Jobs(patient, has.agent.harness, meter, owners, queue.registration, queue.draft, self._fenced)
        self._health = HealthService(
            connections=dict,
            sending=tuple,
            models=has.models,
            store=patient,
            folder=settings.data_dir,
            clock=store.clock,
        )
        self._adoption = Adoption(
            settings=settings,
            know=redact.know,
            agent=has.agent,
            agents=has.agents,
            spending=has.spending,
            hold=self._hold,
            follow=_no_accounts,
        )
        self._reloader = Reloader(source, lambda: self._adoption.settings, self._adoption.adopt, store.clock)
        self._presence = Presence(name, self._facts, self._reloader, patient, self._tasks, queue.registration)

    def _hold(self, settings: Settings) -> None:
        """Apply new settings to the parts from their next use on."""
        self._has.adopt(settings)
        self._queue.slots.number = settings.limits.concurrent_runs
        logs.follow(settings.log.level, settings.log.format, self._redact)

    def _facts(self) -> Facts:
        return Facts(
            running=self.jobs.running,
            slots=self._queue.slots.number,
            models=ages(self._has.models.own, self._store.clock),
            servers=self._has.agent.servers.facts,
            troubles=(*troubles(self._health), *self._lacks()),
            config=self._reloader.last.pending,
        )

    def is_ready(self) -> bool:
        """Whether the worker accepts runs."""
        taken = self._queue.registration() is not None and not self._stopped.is_set()
        return taken and self._has.agent.is_built and self._health.store_works

    def figures(self) -> Iterable[Metric]:
        """Metrics for Prometheus."""
        from bot.http.metrics import AtWork

        return AtWork(
            version=version("antler"),
            health=self._health,
            sandbox=self._has.sandboxes.facts,
            servers=self._has.agent.servers.facts,
            running=self.jobs.running,
            models=self._has.models,
            totals=self._has.spending.meter.totals,
        ).collect()

    async def run(self) -> int:
        """Serve until a signal; returns the exit code."""
        for lack in self._lacks():
            log.warning("%s", lack)
        has = self._has
        error = await has.agent.build()
        try:
            if error is not None:
                log.error("%s; antler stops", error)
                return CONFIG_ERROR if isinstance(error, SetupError) else FAILURE
            gc_tuning.settle()
            self._tasks.spawn("memory to the system", gc_tuning.give_back(self._opened.clock))
            return await self._work()
        finally:
            terminal.end_after(self._adoption.settings.shutdown_grace_seconds + LAST_SECONDS, self._last)
            await self._tasks.cancel()
            await has.agent.close()
            await has.knowledge.close()
            if has.tracing is not None:
                await asyncio.to_thread(has.tracing.close)
            await has.sandboxes.shutdown(SANDBOX_SECONDS)

    async def _work(self) -> int:
        queue, jobs = self._queue, self.jobs
        self._tasks.spawn("dead workers", DeadWorkers(self._store).serve())
        self._tasks.spawn("fence", self._watch_fence())
        self._tasks.spawn("config", self._reloader.serve())
        working = asyncio.create_task(queue.work(jobs.work, self._presence), name="jobs")
        stopped = asyncio.create_task(self._stopped.wait(), name="stop")
        log.info("ready to execute %d run(s) at once", self._settings.limits.concurrent_runs)
        await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if working.done():
            error = working.exception()
            bug = None if isinstance(error, StoreUnavailable) else error
            log.error("no jobs can be taken (%s); antler stops", error, exc_info=bug)
            return FAILURE
        queue.stop()
        jobs.leave()
        await working
        return OK

    def _told(self, word: str) -> None:
        self._tasks.spawn(f"word: {word}", self._store.write(partial(worker_runs.notify, payload=word)))

    async def _watch_fence(self) -> None:
        await self._opened.lease_lost()
        self._fenced()

    def _fenced(self) -> None:
        """End the process immediately, before procrastinate or a tool does anything more in this worker's name."""
        self._last.end("this worker was taken for dead, and others continue its runs")

    def _lacks(self) -> Iterator[str]:
        """What other workers may have, so that some answers fail here."""
        if self._unshared:
            yield (
                f"no gateway has ever run on {self._settings.data_dir}: uploaded files are not found here, and files "
                "made here are not delivered; share the gateway's files with this worker (docs/scaling.md)"
            )
        sandbox = self._has.sandboxes.facts
        if sandbox.state in ("failed", "files"):
            yield f"sandbox {sandbox}"
