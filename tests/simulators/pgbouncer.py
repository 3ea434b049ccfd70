"""A real PgBouncer in front of a test's PostgreSQL server: its program, a Unix socket in its own folder, no TCP."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from sqlalchemy.engine import make_url

from tests.parts import missing
from tests.simulators.postgres import SYSTEM_USER

if TYPE_CHECKING:
    from collections.abc import Iterator

STARTED_SECONDS = 10.0
PORT = 6432


@contextmanager
def pgbouncer(database: str, pool_mode: str) -> Iterator[str]:
    """The URL of that database through a pooler. If the program is missing: skips, or fails in CI."""
    program = shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")
    if program is None:
        missing("no pgbouncer (apt-get install pgbouncer)")
    url = make_url(database)
    folder = Path(tempfile.mkdtemp(prefix="antler-pgb-"))
    try:
        # No authentication: the socket is in this test's own folder.
        (folder / "ini").write_text(
            f"[databases]\n{url.database} = host={url.query['host']} dbname={url.database} user={url.username}\n"
            f"[pgbouncer]\nunix_socket_dir = {folder}\nlisten_port = {PORT}\nauth_type = any\npool_mode = {pool_mode}\n"
            f"admin_users = {url.username}\ndefault_pool_size = 12\nlogfile = {folder}/log\n"
        )
        command = [program, str(folder / "ini")]
        if os.geteuid() == 0:  # PgBouncer refuses to run as root
            folder.chmod(0o755)
            shutil.chown(folder, SYSTEM_USER)
            command = ["runuser", "-u", SYSTEM_USER, "--", *command]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                deadline = time.monotonic() + STARTED_SECONDS
                while not (folder / f".s.PGSQL.{PORT}").exists():
                    assert process.poll() is None, (folder / "log").read_text()
                    assert time.monotonic() < deadline
                    time.sleep(0.02)
                yield url.set(query={"host": str(folder), "port": str(PORT)}).render_as_string(hide_password=False)
            finally:
                process.terminate()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def set_pool_mode(pooled: str, pool_mode: str) -> None:
    """Change the mode of the pooler behind that URL; open sessions are not ended."""
    url = make_url(pooled)
    config = Path(str(url.query["host"])) / "ini"
    config.write_text(re.sub("(?m)^pool_mode = .*", f"pool_mode = {pool_mode}", config.read_text()))
    console = {"host": str(config.parent), "port": PORT, "dbname": "pgbouncer", "user": url.username}
    with psycopg.connect(**console, autocommit=True) as operator:  # type: ignore[arg-type]
        operator.execute("RELOAD")
