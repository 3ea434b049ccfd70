"""Scenario `workers`: one gateway, several workers and a PostgreSQL, with a slow model. Measures the cost of a message
in each of them, and their writes for it."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import psutil

from tests.bench.chats import ROUND_SECONDS, warm_up
from tests.bench.figures import Figure, Outcome, spread
from tests.bench.gauge import cpu_seconds
from tests.bench.stage import LIFTED, Question, stage
from tests.bench.timeline import calls, label, requests, timings
from tests.flow.cluster import Cluster
from tests.flow.gateway import merged
from tests.simulators.postgres import PostgresServer

if TYPE_CHECKING:
    from tests.bench.stage import Stage
    from tests.bench.timeline import Timing
    from tests.simulators.telegram.seen import Person

WORDS = " ".join(["one two three four five six seven eight nine ten"] * 3)


@dataclass(frozen=True)
class Pace:
    """The question that everyone asks, and the model's seconds for its answer of 30 tokens."""

    question: Question
    seconds: float


PACE, SLOW_PACE = Pace(Question("!tokens 30 100", WORDS), 3.0), Pace(Question("!tokens 30 400", WORDS), 12.0)
MANY = 5
"""Number of workers from which the pace is slow: otherwise they would need more than two cores."""
AT_ONCE = 4
"""`limits.concurrent_runs` of each worker: small, so that the model's time and not the two cores is the limit."""
OFFERED = 0.8
"""Messages sent, as a share of the workers' capacity if only the model took time."""
# Durable, as in a real installation, unlike the tests' own servers.
SERVER = (
    "-c fsync=on -c full_page_writes=on -c max_connections=300 -c shared_buffers=128MB "
    "-c shared_preload_libraries=pg_stat_statements"
)
SETTINGS: dict[str, Any] = merged(
    LIFTED,
    {"limits": {"concurrent_runs": AT_ONCE}, "channels": {"telegram": {"rate": {"per_chat_per_second": 1}}}},
)
COUNTERS = """
    SELECT (SELECT sum(calls) FROM pg_stat_statements WHERE dbid = database.oid AND query NOT LIKE '%pg_stat_%'),
           (SELECT xact_commit FROM pg_stat_database WHERE datid = database.oid),
           pg_current_wal_lsn() - '0/0'
    FROM pg_database AS database WHERE datname = current_database()
"""
STATEMENTS = """
    SELECT calls, query FROM pg_stat_statements JOIN pg_database ON pg_database.oid = dbid
    WHERE datname = current_database() AND query NOT LIKE '%pg_stat_%' ORDER BY calls DESC LIMIT 60
"""
FLUSHED_SECONDS = 1.5
"""Time after which a session has reported its work to the server's statistics."""


@dataclass(frozen=True)
class Spent:
    """CPU seconds of the processes, and the server's counts."""

    gateway: float
    workers: float
    database: float
    simulators: float
    statements: int
    commits: int
    wal: int

    def since(self, before: Spent) -> Spent:
        return Spent(*(getattr(self, each.name) - getattr(before, each.name) for each in fields(self)))


async def workers(counts: tuple[int, ...], seconds: float) -> Outcome:
    """Measure clusters. counts: of workers, in turn, each with its own database. seconds: duration of the talk."""
    outcome = Outcome()
    with PostgresServer(options=SERVER) as server:
        for count in counts:
            # More chats than concurrent answers, so that none waits for its own previous answer.
            async with stage(count * AT_ONCE * 2, SETTINGS) as scene:
                cluster = Cluster(scene.world, server, count)
                with server.connect(cluster.name) as connection:
                    connection.execute("CREATE EXTENSION pg_stat_statements")
                async with cluster:
                    await _measure(scene, cluster, seconds, outcome)
    return outcome


async def _measure(scene: Stage, cluster: Cluster, seconds: float, outcome: Outcome) -> None:
    pace = SLOW_PACE if cluster.count >= MANY else PACE
    name, rate = f"{cluster.count}", OFFERED * cluster.count * AT_ONCE / pace.seconds
    await warm_up(scene)
    idle = await _idle(scene, cluster)
    before, began = _spent(scene, cluster), time.monotonic()
    said = await talk(scene, rate, seconds, pace)
    answered = await scene.until_shown(WORDS, said, ROUND_SECONDS)
    ended = time.monotonic()
    await asyncio.sleep(FLUSHED_SECONDS)
    spent = _spent(scene, cluster).since(before)
    found, problems = await _timings(scene, began)
    outcome.problems += problems if answered else [f"{name}: not all were answered", *problems]
    outcome.figures += [
        Figure(f"{name}/offered", rate, "/s"),
        *_figures(name, found, spent, said, ended - began),
        *idle,
    ]
    outcome.details[name] = {"messages": said, "statements": _statements(cluster)}


async def talk(scene: Stage, rate: float, seconds: float, pace: Pace = PACE) -> int:
    """Let people write at an even pace; return the number of messages."""
    people, count = itertools.cycle(scene.people), round(rate * seconds)
    began = time.monotonic()
    for number in range(count):
        await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
        await scene.say_at_once([next(people)], partial(_question, pace, number))
    return count


def _question(pace: Pace, number: int, person: Person) -> str:
    return f"{pace.question.text} {label(person.id, number)}"


async def _idle(scene: Stage, cluster: Cluster, seconds: float = 10.0) -> list[Figure]:
    """Figures of all processes while nobody writes."""
    await asyncio.sleep(12.0)  # events of the warm-up are pruned
    before = _spent(scene, cluster)
    await asyncio.sleep(seconds)
    spent = _spent(scene, cluster).since(before)
    name = f"{cluster.count}"
    return [
        Figure(f"{name}/idle_statements", spent.statements / seconds, "/s"),
        Figure(f"{name}/idle_commits", spent.commits / seconds, "/s"),
        Figure(f"{name}/idle_database_cpu", spent.database * 1000 / seconds, "ms/s"),
    ]


def _figures(name: str, found: list[Timing], spent: Spent, said: int, seconds: float) -> list[Figure]:
    def cpu(of: str, used: float) -> Figure:
        return Figure(f"{name}/cpu_per_msg_{of}", used * 1000 / said, "ms")

    return [
        Figure(f"{name}/msgs_per_s", len(found) / seconds, "/s"),
        *(replace(figure, name=f"{name}/{figure.name}") for figure in spread("whole", _wholes(found), "s")),
        cpu("gateway", spent.gateway),
        cpu("workers", spent.workers),
        cpu("database", spent.database),
        cpu("simulators", spent.simulators),
        Figure(f"{name}/statements_per_msg", spent.statements / said, ""),
        Figure(f"{name}/commits_per_msg", spent.commits / said, ""),
        Figure(f"{name}/wal_per_msg", spent.wal / 1024 / said, "KiB"),
    ]


def _wholes(found: list[Timing]) -> list[float]:
    return [timing.whole_seconds for timing in found]


def _spent(scene: Stage, cluster: Cluster) -> Spent:
    with cluster.postgres.connect(cluster.name) as connection:
        row = connection.execute(COUNTERS).fetchone()
    assert row is not None
    statements, commits, wal = (int(str(value)) for value in row)
    return Spent(
        gateway=cpu_seconds(scene.pid),
        workers=sum(cpu_seconds(worker.pid) for worker in cluster.workers.values()),
        database=with_children(cluster.postgres.pid),
        simulators=sum(cpu_seconds(pid) for pid in (*scene.simulators, os.getpid())),
        statements=statements,
        commits=commits,
        wal=wal,
    )


def with_children(pid: int) -> float:
    """CPU seconds of a process and all its children, including ended ones."""
    server = psutil.Process(pid)
    own = server.cpu_times()
    return own.user + own.system + own.children_user + own.children_system + sum(map(_alone, server.children()))


def _alone(process: psutil.Process) -> float:
    try:
        return cpu_seconds(process.pid)
    except OSError:
        return 0.0


async def _timings(scene: Stage, began: float) -> tuple[list[Timing], list[str]]:
    updates = [update for update in await scene.telegram.deliveries() if update.queued_at >= began]
    asked = [request for request in await scene.model.completions() if request.started >= began]
    shown = calls(record for record in await scene.telegram.records() if record.arrived >= began)
    # A message sent before the previous answer is complete gets a separate notice.
    answers = {(call.chat_id, call.message_id) for call in shown if call.text == WORDS}
    whole = [call for call in shown if (call.chat_id, call.message_id) in answers]
    return timings(updates, requests(asked), whole, WORDS)


def _statements(cluster: Cluster) -> list[list[object]]:
    with cluster.postgres.connect(cluster.name) as connection:
        return [[calls, str(query)[:300]] for calls, query in connection.execute(STATEMENTS).fetchall()]
