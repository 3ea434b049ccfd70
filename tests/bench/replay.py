"""Scenario `postgres`: the load at which PostgreSQL is the limit. Records the statements of a gateway and its workers
while people talk, and then sends them to the server alone as fast as possible, as several such groups at once."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import re
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import psycopg

from tests.bench.chats import ROUND_SECONDS, warm_up
from tests.bench.figures import Figure, Outcome
from tests.bench.stage import stage
from tests.bench.workers import SERVER, SETTINGS, WORDS, talk, with_children
from tests.flow.cluster import Cluster
from tests.flow.gateway import merged
from tests.simulators.postgres import PostgresServer
from tests.simulators.process import REPO_ROOT

if TYPE_CHECKING:
    from psycopg.abc import Params

LOG = "-c logging_collector=on -c log_destination=csvlog -c log_directory={folder} -c log_rotation_size=0"
TIME, DATABASE, SESSION, MESSAGE, DETAIL = 0, 2, 5, 13, 14
"""Columns of the log (PostgreSQL, 20.8.4)."""
SENT = re.compile(r"(?:statement|execute [^:]*): (.*)", re.DOTALL)
PARAMETER = re.compile(r"\$\d+ = (?:NULL|'((?:[^']|'')*)')")
RATE, CHATS, AT_ONCE = 3.0, 32, 16
"""Messages per second, number of chats, and concurrent answers in each of two workers."""


@dataclass(frozen=True)
class Step:
    """One statement of a session."""

    sql: str
    parameters: tuple[str | None, ...] = ()


async def postgres(groups: tuple[int, ...], seconds: float) -> Outcome:
    """Measure the throughput. groups: number of concurrent groups in each round, each with its own database. seconds:
    of recorded talk."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="antler-statements-") as folder:
        os.chmod(folder, 0o777)  # for the server's user
        with PostgresServer(options=f"{SERVER} {LOG.format(folder=folder)}") as server:
            async with stage(CHATS, merged(SETTINGS, {"limits": {"concurrent_runs": AT_ONCE}})) as scene:
                cluster = Cluster(scene.world, server, 2)
                async with cluster:
                    await warm_up(scene)
                copies = [_copied(server, cluster.name, n) for n in range(sum(groups))]
                with server.connect(cluster.name) as connection:
                    connection.execute(f"ALTER DATABASE {cluster.name} SET log_statement = 'all'".encode())
                async with cluster:
                    began = datetime.now().astimezone()
                    said = await talk(scene, RATE, seconds)
                    if not await scene.until_shown(WORDS, said, ROUND_SECONDS):
                        outcome.problems.append("not all were answered")
                    ended = datetime.now().astimezone()
            taken = taken_down(Path(folder), cluster.name, began, ended)
            outcome.details = {"messages": said, "statements": sum(map(len, taken)), "sessions": len(taken)}
            file = Path(folder) / "statements.json"
            await asyncio.to_thread(file.write_text, json.dumps([[vars(step) for step in steps] for steps in taken]))
            for count in groups:
                await _round(server, file, [copies.pop() for _ in range(count)], said, outcome)
    return outcome


def _copied(server: PostgresServer, name: str, number: int) -> str:
    with server.connect("postgres") as connection:
        connection.execute(f"CREATE DATABASE copy_{number} TEMPLATE {name}".encode())
    return f"host={server.socket.parent} user=antler dbname=copy_{number}"


async def _round(server: PostgresServer, file: Path, places: list[str], said: int, outcome: Outcome) -> None:
    before, began = with_children(server.pid), time.monotonic()
    processes = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.bench.replay", str(file), place),
            cwd=REPO_ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        for place in places
    ]
    told = [json.loads((await process.communicate())[0]) for process in processes]
    used = with_children(server.pid) - before
    # Imports and connecting do not count; all begin and end at about the same time.
    seconds, name = max(each["seconds"] for each in told), f"{len(places)}"
    outcome.figures += [
        Figure(f"{name}/msgs_per_s", said * len(places) / seconds, "/s"),
        Figure(f"{name}/database_cpu_per_msg", used * 1000 / said / len(places), "ms"),
        Figure(f"{name}/database_cores", used / seconds, ""),
        Figure(f"{name}/driver_cores", sum(each["cpu"] for each in told) / seconds, ""),
        Figure(f"{name}/refused_statements", sum(each["refused"] for each in told), ""),
    ]
    outcome.details[name] = {"wall_seconds": time.monotonic() - began}


def taken_down(folder: Path, database: str, since: datetime, until: datetime) -> list[list[Step]]:
    """The statements of each session in that time, preceded by its LISTEN statements."""
    sessions: dict[str, list[Step]] = {}
    for file in folder.glob("*.csv"):
        with file.open(newline="") as lines:
            for row in csv.reader(lines):
                sent = SENT.fullmatch(row[MESSAGE]) if row[DATABASE] == database else None
                at = datetime.fromisoformat(row[TIME].replace(" UTC", "+00:00"))
                if sent is None or at > until or (at < since and not sent[1].startswith("LISTEN")):
                    continue
                given = tuple(
                    None if found[1] is None else found[1].replace("''", "'")
                    for found in PARAMETER.finditer(row[DETAIL])
                )
                sessions.setdefault(row[SESSION], []).append(Step(sent[1], given))
    return list(sessions.values())


# In the driver's process.


async def replay(sessions: list[list[Step]], place: str) -> dict[str, Any]:
    """Send the recorded statements, in the order of each session and as fast as the server accepts them."""
    ready = asyncio.Barrier(len(sessions) + 1)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_session(steps, place, ready)) for steps in sessions]
        await ready.wait()
        began, cpu = time.monotonic(), time.process_time()
    refused = sum(task.result() for task in tasks)
    return {"seconds": time.monotonic() - began, "cpu": time.process_time() - cpu, "refused": refused}


async def _session(steps: list[Step], place: str, ready: asyncio.Barrier) -> int:
    """Send one session; return the number of refused statements."""
    refused = 0
    async with await psycopg.AsyncConnection.connect(place, autocommit=True) as connection:
        cursor = psycopg.AsyncRawCursor(connection)
        await ready.wait()
        for step in steps:
            try:
                await cursor.execute(step.sql.encode(), cast("Params", step.parameters) or None)
            except psycopg.Error:
                refused += 1
                with suppress(psycopg.Error):
                    await connection.rollback()
    return refused


def main() -> None:
    file, place = sys.argv[1:]
    sessions = [[Step(**step) for step in steps] for steps in json.loads(Path(file).read_text())]
    print(json.dumps(asyncio.run(replay([steps for steps in sessions if len(steps) > 1], place))), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
