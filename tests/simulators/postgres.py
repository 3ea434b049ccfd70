"""A private PostgreSQL server for tests: Debian's programs, a Unix socket in a temporary folder, no TCP. A server with
pgvector, which Debian 12 lacks, comes from a Python package."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import asynccontextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, LiteralString, Self

import psycopg

from tests.parts import missing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from types import TracebackType

SYSTEM_USER = "postgres"
ROLE = "antler"
# Durability is not what is tested here, and without it the server starts and works several times faster.
SERVER_OPTIONS = (
    "-c listen_addresses='' -c fsync=off -c full_page_writes=off -c max_connections=80 -c shared_buffers=16MB"
)


class PostgresMissing(RuntimeError):
    """The server programs are missing, or root cannot run them as another user."""


class PostgresServer:
    """A dedicated cluster; `database()` makes a new empty database and returns its URL.

    programs: folder of the server's programs; None: Debian's newest. options: of the server, over those of tests.
    """

    def __init__(self, programs: Path | None = None, *, options: str = "") -> None:
        self._options = options
        self._programs = programs or _find_programs()
        self._prefix = _as_unprivileged()
        self._names = (f"test_{number}" for number in count(1))
        self._root = Path()

    def __enter__(self) -> Self:
        # Not pytest's own folder: the server's user cannot enter it, and a socket's path is at most 107 bytes.
        self._root = Path(tempfile.mkdtemp(prefix="antler-pg-"))
        if self._prefix:
            shutil.chown(self._root, SYSTEM_USER)
        try:
            self._run("initdb", "--auth=trust", f"--username={ROLE}", "--no-sync", "--encoding=UTF8", "--locale=C")
            self._run("pg_ctl", "start", "-w", "-t", "30", "-l", f"{self._root}/log", "-o", self._server_options())
        except BaseException:
            shutil.rmtree(self._root, ignore_errors=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self._root, ignore_errors=True)

    def database(self, *, encoding: str = "UTF8") -> str:
        """The URL of a new, empty database."""
        name = next(self._names)
        with self.connect("postgres") as connection:
            connection.execute(f"CREATE DATABASE \"{name}\" ENCODING '{encoding}' TEMPLATE template0".encode())
        return f"postgresql+psycopg://{ROLE}@/{name}?host={self._root}"

    @property
    def socket(self) -> Path:
        """The path of the socket on which it listens."""
        return self._root / ".s.PGSQL.5432"

    @property
    def pid(self) -> int:
        """The server's main process, the parent of all others."""
        return int((self._root / "data/postmaster.pid").read_text().split()[0])

    def connect(self, database: str) -> psycopg.Connection[tuple[object, ...]]:
        """A connection separate from the store's, with autocommit."""
        return psycopg.connect(host=str(self._root), user=ROLE, dbname=database, autocommit=True)

    def stop(self) -> None:
        """Stop at once, as a crash of the server would; `start` brings it back."""
        self._run("pg_ctl", "stop", "-w", "-m", "immediate")

    def start(self) -> None:
        self._run("pg_ctl", "start", "-w", "-t", "30", "-l", f"{self._root}/log", "-o", self._server_options())

    def stand_by(self) -> None:
        """Make the stopped server a standby of another one, which never sends anything."""
        mark = self._root / "data/standby.signal"
        mark.touch()
        if self._prefix:
            shutil.chown(mark, SYSTEM_USER)

    def _server_options(self) -> str:
        return f"{SERVER_OPTIONS} {self._options} -c unix_socket_directories='{self._root}'"

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._prefix, str(self._programs / program), "-D", f"{self._root}/data", *arguments]
        environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"}
        # To a file: the server keeps inherited pipes open, so waiting for their end would wait for the server to end.
        with (self._root / f"{program}.out").open("w+b") as output:
            done = subprocess.run(
                command,
                cwd=self._root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=60,
            )
            output.seek(0)
            if done.returncode != 0:
                raise RuntimeError(f"{program} failed: {output.read().decode(errors='replace')}")


def postgres_server() -> Iterator[PostgresServer]:
    """The body of a session fixture. Without server programs: skips locally, fails in CI."""
    try:
        server = PostgresServer()
    except PostgresMissing as error:
        missing(str(error))
    with server:
        yield server


@asynccontextmanager
async def frozen_in_a_pipeline(url: str, statement: LiteralString, *parameters: object) -> AsyncIterator[None]:
    """A session that goes silent in the middle of its transaction, after that statement. It has to be ended within the
    block; the server's limit on idle transactions does not apply to it."""
    connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
    await connection.execute("SET idle_in_transaction_session_timeout = '200ms'")
    try:
        async with connection.pipeline(), connection.transaction():
            asked = await connection.execute(statement, parameters)
            assert await asked.fetchone() is not None
            yield
    except psycopg.OperationalError:
        pass
    assert connection.closed
    await connection.close()


def pgvector_server() -> Iterator[PostgresServer]:
    """The body of a fixture: a server in whose databases `CREATE EXTENSION vector` works."""
    package = find_spec("pgserver")
    if package is None or package.origin is None:
        missing("no server with pgvector (pip install pgserver)")
    with tempfile.TemporaryDirectory(prefix="antler-pgvector-") as folder:
        # A copy: the server's user may not be able to enter the folder of this checkout.
        Path(folder).chmod(0o755)
        packages = Path(package.origin).parents[1]
        for part in ("pgserver", "pgserver.libs"):  # side by side, since the programs look for their libraries there
            shutil.copytree(packages / part, f"{folder}/{part}")
        with PostgresServer(Path(folder) / "pgserver/pginstall/bin") as server:
            yield server


def _find_programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    if not found:
        raise PostgresMissing("no PostgreSQL server programs below /usr/lib/postgresql (apt-get install postgresql)")
    return found[-1].parent


def _as_unprivileged() -> list[str]:
    """The prefix that runs a command as another user, since PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return []
    runuser = shutil.which("runuser")
    if runuser is None:
        raise PostgresMissing("root needs runuser to start PostgreSQL as another user")
    return [runuser, "-u", SYSTEM_USER, "--"]
