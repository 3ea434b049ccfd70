"""The process of `antler worker`: one of a name, and an end to its stop."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from bot.clock import SystemClock
from bot.control.lock import DataDirLock
from bot.store import Store
from bot.store.sql import libpq_url
from bot.workers import queue
from tests.simulators.process import REPO_ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.simulators.postgres import PostgresServer


async def prepared(url: str) -> None:
    """What a gateway does to a database."""
    await (await Store.open(url, clock=SystemClock())).close()


def registered(postgres: PostgresServer, url: str) -> bool:
    """Whether a worker takes jobs."""
    with postgres.connect(url.partition("@/")[2].partition("?")[0]) as connection:
        if connection.execute("SELECT to_regclass('procrastinate_workers')").fetchone() == (None,):
            return False
        return connection.execute("SELECT count(*) FROM procrastinate_workers").fetchone() == (1,)


def command(folder: Path, url: str) -> list[str]:
    config = folder / "config.yaml"
    config.write_text(
        f"data_dir: {folder / 'data'}\ndatabase: {{url: '{url}'}}\nworkers: {{enabled: true}}\n"
        "channels: {console: {}}\nmodels: [{name: demo, use: demo}]\nshutdown_grace_seconds: 1\n"
    )
    return [sys.executable, "-m", "bot", "worker", "--config", str(config), "--name", "a/b"]


def test_a_second_worker_of_a_name_is_refused(tmp_path: Path) -> None:
    with DataDirLock(tmp_path / "data", "worker-a%2Fb.lock"):
        done = subprocess.run(
            command(tmp_path, "postgresql:///never"),
            cwd=REPO_ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 78, done.stderr
    assert "is the worker 'a/b' of this data_dir: use another --name" in done.stderr


@pytest.mark.postgres
def test_a_stop_ends_without_a_server(tmp_path: Path, postgres: PostgresServer) -> None:
    url = postgres.database()
    asyncio.run(prepared(url))
    log = tmp_path / "log"
    with (
        log.open("wb") as output,
        subprocess.Popen(command(tmp_path, url.replace("+psycopg", "")), cwd=REPO_ROOT, stderr=output) as worker,
    ):
        try:
            ends = time.monotonic() + 60
            while not registered(postgres, url):
                assert worker.poll() is None, log.read_text()
                assert time.monotonic() < ends, log.read_text()
            postgres.stop()
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(15) == 1
            assert "no gateway has ever run" in log.read_text()
        finally:
            worker.kill()
            postgres.start()
    assert "still stopping after 3 s" in log.read_text()
    assert "Traceback" not in log.read_text()


@pytest.mark.postgres
def test_a_missing_right_is_named_without_a_traceback(tmp_path: Path, postgres: PostgresServer) -> None:
    url = postgres.database()
    asyncio.run(prepared(url))
    asyncio.run(queue.prepare(libpq_url(url)))
    with postgres.connect(url.partition("@/")[2].partition("?")[0]) as connection:
        connection.execute("CREATE ROLE poor LOGIN")
        connection.execute("GRANT CREATE ON SCHEMA public TO poor")
        connection.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO poor")
        connection.execute("REVOKE ALL ON procrastinate_workers FROM poor")
    refused = url.replace("+psycopg", "").replace("://antler@", "://poor@")
    done = subprocess.run(
        command(tmp_path, refused), cwd=REPO_ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "no jobs can be taken (permission denied for table procrastinate_workers); antler stops" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_address_that_is_taken_ends_the_start_and_names_the_key(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run(
            command(tmp_path, "postgresql:///never"),
            cwd=REPO_ROOT,
            env=os.environ | {"ANTLER__WORKERS__LISTEN": address},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1, done.stderr
    assert f"antler: workers.listen: cannot listen on {address} (address already in use)" in done.stderr
