"""Checks of this machine: Python and packages, the data folder, its disk and database, the clock."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import platform
import shutil
import sqlite3
import stat
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from bot.access.store import LET_IN
from bot.control.lock import holder
from bot.control.server import SOCKET
from bot.doctor.findings import Finding, Severity, error, note, ok, warning
from bot.redaction import Redactor
from bot.store import access, schema, sql
from bot.store.errors import StoreError, StoreNewer, UnfitDatabase
from bot.store.tables import metadata
from channels.registry import OWN
from harness.config import EXTRAS, extra_of, install_command

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from sqlalchemy import Connection

    from bot.doctor.findings import Examined
    from bot.settings import Settings

MEGABYTE = 1024 * 1024
FULL, SCARCE = 200 * MEGABYTE, 2048 * MEGABYTE
"""Free bytes below which messages are at risk, and below which space should be freed."""
LOOK_SECONDS = 6.0
"""Seconds spent on reading through a database file."""
_SQLITE_STEPS = 100_000
"""Steps of SQLite's virtual machine between two checks of the clock."""
_OPEN = 0o077
"""Permissions of users other than the owner."""
ZONE_LINK = Path("/etc/localtime")
RIGHTS = text("""
    SELECT pg_is_in_recovery() AS standby, has_schema_privilege(current_schema(), 'CREATE') AS creates,
        min(relname) FILTER (WHERE NOT pg_has_role(relowner, 'USAGE')) AS foreign_table,
        min(relname) FILTER (WHERE CASE relkind WHEN 'S' THEN NOT has_sequence_privilege(oid, 'USAGE') ELSE EXISTS (
            SELECT FROM unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) AS own WHERE NOT has_table_privilege(oid, own)
        ) END) AS closed_table
    FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'S') AND relname = ANY(:ours)
""")
"""What the role is allowed on a PostgreSQL. creates, foreign_table: for the first start and for each upgrade."""


async def versions(examined: Examined) -> list[Finding]:
    """Python, and every package that Antler needs, compared with Antler's metadata."""
    return await asyncio.to_thread(installed, _extras(examined.settings))


def missing_packages(settings: Settings) -> list[Finding]:
    """Packages that Antler or the config needs, and that are missing or outdated."""
    return [*wrong_packages(importlib.metadata.requires("antler") or [], _extras(settings))]


def _extras(settings: Settings) -> set[str]:
    vendors = {EXTRAS.get(model.use.partition(":")[0], "") for model in settings.models}
    used = {"acp": settings.acp_agents, "scale": settings.workers.enabled, "tracing": settings.tracing.is_on}
    return vendors | {extra for extra, is_used in used.items() if is_used}


def installed(extras: Collection[str] = ()) -> list[Finding]:
    """The same as `versions`, without settings. extras: those that the config needs; an extra of the package is named
    after the section, or the vendor of models, that needs it."""
    about = importlib.metadata.metadata("antler")
    python, wanted = platform.python_version(), about["Requires-Python"] or ""
    if SpecifierSet(wanted).contains(python, prereleases=True):
        found = [ok("python", python)]
    else:
        found = [error("python", f"is {python}, but Antler needs {wanted}", f"install Antler with Python {wanted}")]
    wrong = [*wrong_packages(importlib.metadata.requires("antler") or [], extras)]
    return found + (wrong or [ok("packages", "all are installed, in compatible versions")])


def wrong_packages(requirements: list[str], extras: Collection[str] = ()) -> Iterator[Finding]:
    """Missing or outdated packages of these requirements, including those of the named extras."""
    for requirement in map(Requirement, requirements):
        marker = requirement.marker
        needing = [extra for extra in ("", *extras) if marker is None or marker.evaluate({"extra": extra})]
        if not needing:
            continue
        lacks = "is not installed" if not needing[0] else f"is not installed (the extra antler[{needing[0]}])"
        package = extra_of(needing[0]) if needing[0] else f"'{requirement.name}{requirement.specifier}'"
        install = f"run: {install_command(package)}"
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            yield error(requirement.name, lacks, install)
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            yield error(requirement.name, f"is {version}, but Antler needs {requirement.specifier}", install)


async def data_folder(examined: Examined) -> list[Finding]:
    """The folder, its owner, who else may read it, and what a dead process left."""
    return await asyncio.to_thread(list, _data_folder(examined))


def _data_folder(examined: Examined) -> Iterator[Finding]:
    folder = examined.settings.data_dir
    if not folder.is_dir():
        missing = note("data_dir", f"{folder} does not exist yet", "the first start creates it, and so does --fix")
        if examined.fix:
            folder.mkdir(mode=0o700, parents=True)
            missing = replace(missing, fixed=f"created {folder}")
        yield missing
        return
    owner = folder.stat().st_uid
    if owner != os.geteuid():
        yield error(
            "data_dir",
            f"{folder} belongs to user {owner}, but this is user {os.geteuid()}",
            f"run antler as that user, or: chown -R {os.geteuid()} {folder}",
        )
        return
    exposed = [*_exposed(folder, examined.fix)]
    yield from exposed
    if not exposed:
        yield ok("data_dir", f"{folder}, accessible only to its owner")
    yield from _left_behind(examined)


def _exposed(folder: Path, fix: bool) -> Iterator[Finding]:
    """A folder open to others; only then do its files matter, which anyone who knows their names could open."""
    mode = stat.S_IMODE(folder.stat().st_mode)
    if not mode & _OPEN:
        return
    yield _closed(folder, 0o700, fix)
    for file in sorted(folder.iterdir()):
        if file.is_file() and not file.is_symlink() and stat.S_IMODE(file.stat().st_mode) & _OPEN:
            yield _closed(file, 0o600, fix)


def _closed(path: Path, mode: int, fix: bool) -> Finding:
    was = stat.S_IMODE(path.stat().st_mode)
    found = warning(
        "data_dir", f"{path} is open to other users of this machine (mode {was:o})", f"run: chmod {mode:o} {path}"
    )
    if fix:
        path.chmod(mode)
        found = replace(found, fixed=f"mode {mode:o}")
    return found


def _left_behind(examined: Examined) -> Iterator[Finding]:
    if examined.gateway is not None:
        return
    folder, socket = examined.settings.data_dir, examined.settings.data_dir / SOCKET
    pid = holder(folder)
    if pid is not None:
        who = f"process {pid}" if pid else "a process"
        yield error(
            "data_dir",
            f"{who} holds {folder} and does not answer",
            "wait a minute if it has just started; else see its log, or stop it" + (f": kill {pid}" if pid else ""),
        )
    elif socket.exists():
        found = note(SOCKET, "is left over from a dead process", f"the next start replaces it; or: rm {socket}")
        if examined.fix:
            socket.unlink(missing_ok=True)
            found = replace(found, fixed="removed")
        yield found


async def disk(examined: Examined) -> list[Finding]:
    """Free space where the data is."""
    folder = examined.settings.data_dir
    existing = next(path for path in (folder, *folder.parents) if path.is_dir())
    free = shutil.disk_usage(existing).free
    files = os.statvfs(existing)
    if files.f_files and not files.f_favail:
        return [error("disk", f"no file can be created in {existing}: no inodes are left", "delete old files there")]
    return [room(existing, free)]


def room(folder: Path, free: int) -> Finding:
    """How much of a disk is free, in bytes, and what that means."""
    says = f"{free / 1e9:.1f} GB are free in {folder}"
    if free < FULL:
        return error("disk", f"{says}: messages wait until space is freed", "delete or move files that are not needed")
    if free < SCARCE:
        return warning("disk", says, "free space before it is full; uploads.max_thread_mb limits what threads store")
    return ok("disk", says)


async def clock(examined: Examined) -> list[Finding]:
    """The time, as far as it can be judged without a network, and the time zone."""
    found = [time_of(datetime.now(UTC), datetime.fromtimestamp(os.stat(__file__).st_mtime, UTC))]
    settings = examined.settings
    if "timezone" in settings.model_fields_set:
        return [*found, ok("timezone", settings.timezone)]
    zone = zone_of_machine()
    if zone in ("", "UTC", "Etc/UTC"):
        zone = "Europe/Berlin, or that of your users"
    says = "is UTC by default: reminders, days of usage and the agent's clock follow it"
    return [*found, note("timezone", says, f"set timezone: {zone}")]


def time_of(now: datetime, installed: datetime) -> Finding:
    """The clock's time, compared with the time at which Antler was installed."""
    if now < installed:
        says = f"is at {now:%Y-%m-%d %H:%M} UTC, before Antler was installed: TLS and reminders fail"
        return error("clock", says, "set the time and keep it synchronized: timedatectl set-ntp true")
    return ok("clock", f"{now:%Y-%m-%d %H:%M} UTC")


def zone_of_machine() -> str:
    """The IANA name of this machine's time zone, "" when it is unknown."""
    target = os.path.realpath(ZONE_LINK)
    return target.partition("/zoneinfo/")[2]


async def database(examined: Examined) -> list[Finding]:
    """Whether the database can be read, is intact, is of a version known to this program, and lets a process lead."""
    found = await asyncio.to_thread(list, _database(examined))
    if examined.settings.database.url is None or any(finding.severity is Severity.ERROR for finding in found):
        return found
    return [*found, *await _pool(examined)]


async def _pool(examined: Examined) -> list[Finding]:
    """A pooler in front of PostgreSQL with which the gateway would not start."""
    settings, key = examined.settings, "database.url"
    url = sql.parse(settings.database_url)
    if url.get_backend_name() != "postgresql":
        return []
    from bot.store.leadership import check_pool  # imports psycopg, which SQLite does without

    try:
        await check_pool(url)
    except UnfitDatabase as failure:
        return [error(key, f"{failure.says}, so the gateway does not start", failure.remedy)]
    except StoreError as failure:
        return [error(key, Redactor(settings.secrets())(str(failure)), f"check {key}, and how many sessions it allows")]
    return []


def _database(examined: Examined) -> Iterator[Finding]:
    settings = examined.settings
    files = [settings.data_dir / "antler.db", Path(settings.checkpoints)] if settings.database.url is None else []
    if files and not files[0].exists():
        yield ok("database", "none yet: the first start creates it")
        return
    broken = [finding for file in files if file.exists() and (finding := whole(file)) is not None]
    yield from broken
    if broken:
        return
    key = "database.url" if settings.database.url is not None else "database"
    clean = Redactor(settings.secrets())
    try:
        url = sql.parse(settings.database_url)
        engine = sql.reader_engine(url)
        try:
            with engine.connect() as tx, tx.begin():
                yield from _standing(tx, examined, key)
        finally:
            engine.dispose()
    except StoreNewer as failure:
        yield error(key, str(failure), "run that version, or restore the copy of the file that its first start made")
    except UnfitDatabase as failure:
        yield error(key, failure.says, failure.remedy)
    except StoreError as failure:
        yield error(key, clean(str(failure)), "see docs/operating.md, Data, backups, upgrades")
    except DBAPIError as failure:
        place = url.render_as_string(hide_password=True)
        reason = clean(" ".join(str(failure.orig).split()))
        yield error(key, f"{place} cannot be used: {reason}", f"see {key}, and whether the server runs and lets it in")


def _standing(tx: Connection, examined: Examined, key: str) -> Iterator[Finding]:
    kind = "SQLite" if tx.dialect.name == "sqlite" else "PostgreSQL"
    revision = schema.known_revision(tx)
    upgrades = revision != schema.STEPS.revisions[-1]
    if kind == "PostgreSQL" and (reason := _not_allowed(tx, upgrades=upgrades)):
        yield error(key, f"{kind}: {reason}", "use the primary server, and a role that owns the schema and its tables")
        return
    if revision is None:
        yield ok(key, f"{kind}, empty: the first start creates the tables")
        return
    if upgrades:
        yield note(key, f"{kind}, revision {revision}: the next start upgrades it to {schema.STEPS.revisions[-1]}")
    else:
        yield ok(key, f"{kind}, revision {revision}")
    yield from _nobody(tx, examined)


def _not_allowed(tx: Connection, *, upgrades: bool) -> str:
    """What this database, or this role in it, does not allow a gateway; "" if nothing."""
    ours = [*metadata.tables, *(f"{table}_id_seq" for table in metadata.tables)]
    allowed = tx.execute(RIGHTS, {"ours": ours}).one()
    if allowed.standby:
        return "the server is a standby, which accepts no writes"
    if allowed.closed_table:
        return f"the role may not read and write {allowed.closed_table}"
    if upgrades and not allowed.creates:
        return "the role may not create tables in the first schema of its search_path, or there is none"
    return f"the role does not own the table {allowed.foreign_table}" if upgrades and allowed.foreign_table else ""


def _nobody(tx: Connection, examined: Examined) -> Iterator[Finding]:
    """Accounts that do not answer anyone yet."""
    let_in = {row.account for row in access.everything(tx) if row.state in LET_IN}
    for account, channel in examined.settings.channels.items():
        rules = examined.settings.access_for(account)
        listed = (*rules.allow, *rules.admins, *rules.groups.allow)
        if channel.type not in {"console", *OWN} and not rules.is_public and not listed and account not in let_in:
            says = "no one has access yet"
            yield note(
                f"channels.{account}", says, "run antler pair --claim, and send the code that it prints to the bot"
            )


def whole(file: Path) -> Finding | None:
    """What is wrong with an SQLite file, None when nothing was found within LOOK_SECONDS."""
    ends = time.monotonic() + LOOK_SECONDS
    restore = f"stop antler, and restore a copy of {file.name}"
    try:
        with sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=1.0) as db:
            db.set_progress_handler(lambda: time.monotonic() > ends, _SQLITE_STEPS)
            row: Any = db.execute("PRAGMA quick_check(1)").fetchone()
        db.close()
    except sqlite3.OperationalError as failure:
        if "interrupted" in str(failure):
            return None
        return error("database", f"{file} cannot be read: {failure}", f"check its owner and mode: ls -l {file}")
    except sqlite3.DatabaseError as failure:
        return error("database", f"{file} is damaged: {failure}", restore)
    if row is not None and row[0] != "ok":
        return error("database", f"{file} is damaged: {' '.join(str(row[0]).split())}", restore)
    return None


def _lead(lead: Mapping[str, Any]) -> Finding:
    """Which process leads, where several may use the database."""
    what, leader = f"antler {lead['role']}", lead["leader"] or "none"
    if lead["state"] != "leads":
        return note(what, f"{lead['state']}; leader: {leader}")
    return ok(what, f"leads as {leader}; standing by: {', '.join(lead['standing_by']) or 'none'}")


def _worker(worker: Mapping[str, Any]) -> Finding:
    """The state of one of the workers that the gateway knows."""
    silent = [] if worker["alive"] else [f"no sign of life for {worker['silence']:.0f} s"]
    wrong = [*silent, *worker["troubles"], *filter(None, [worker["config"]])]
    if wrong:
        return warning(f"worker {worker['name']}", "; ".join(wrong), f"see its log, at {worker['process']}")
    says = f"{worker['version']} at {worker['process']}, {worker['running']} running"
    return ok(f"worker {worker['name']}", says)


async def gateway(examined: Examined) -> list[Finding]:
    """The state of the gateway running here, as `antler status` reports it."""
    status = examined.gateway
    if status is None:
        return [note("antler run", "no gateway is running on this data folder")]
    found = [ok("antler run", f"version {status['version']}, {status['running']} running")]
    if (lead := status.get("lead")) is not None:
        found.append(_lead(lead))
    found += map(_worker, status.get("workers", ()))
    for connection in status["connections"]:
        if connection["state"] != "connected":
            says = f"{connection['state']} {connection['detail']}".strip()
            found.append(warning(connection["account"], says, "antler doctor --online asks the platform why"))
    for condition in status.get("conditions", ()):
        if not condition["healthy"] and condition["part"] != "receiving":
            what = f"{condition['part']} {condition['name']}".strip()
            says = f"{condition['problem'].replace('_', ' ')} {condition['detail']}".strip()
            found.append(Finding(Severity.WARNING, what, says, "see the log"))
    if told := status.get("config"):
        found.append(warning("config", str(told), "correct the file, or restart antler"))
    return found
