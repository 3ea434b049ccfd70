"""How findings are told and mended, and the judgements that no config can bring about."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bot.clock import SystemClock
from bot.control.server import SOCKET
from bot.doctor import machine, online
from bot.doctor.doctor import Subject, check, examine
from bot.doctor.findings import (
    EXIT_ERRORS,
    EXIT_WARNINGS,
    Diagnosis,
    Examined,
    Group,
    Severity,
    error,
    note,
    ok,
    warning,
)
from bot.redaction import Redactor
from bot.settings import Settings
from bot.settings.load import SettingsSource
from bot.store import Store
from bot.store.errors import NotUtf8, StoreUnavailable
from bot.store.schema import STEPS
from tests.bot.cli.test_command_line import antler
from tests.bot.settings_files import write
from tests.parts import missing
from tests.sandbox.remote.served import TOKEN, served
from tests.simulators.pgbouncer import pgbouncer

if TYPE_CHECKING:
    from bot.doctor.findings import Finding
    from tests.simulators.postgres import PostgresServer

QUIET = "channels: {console: {}}\ntimezone: Europe/Berlin\nsandbox: {use: 'off'}\n"
GB = 10**9


def told(*findings: Finding, online: bool = False) -> Diagnosis:
    return Diagnosis(antler="1.0", online=online, groups=[Group("Data", findings)])


def test_the_worst_finding_decides_on_the_exit_code() -> None:
    assert told(ok("disk", "fine")).exit_code == 0
    assert told(ok("disk", "fine"), note("clock", "UTC")).exit_code == 0
    assert told(note("clock", "UTC"), warning("disk", "little", "make room")).exit_code == EXIT_WARNINGS
    assert told(error("disk", "full", "make room"), warning("x", "y", "z")).exit_code == EXIT_ERRORS


def test_lines_are_signed_and_wrapped_and_carry_their_remedy() -> None:
    text = told(ok("disk", "fine"), error("database", "is damaged " * 12, "put back a copy")).to_text("utf-8")
    assert "\n  ✓ disk: fine\n" in text
    assert "\n  ✗ database: is damaged" in text
    assert "\n      -> put back a copy\n" in text
    assert all(len(line) <= 100 for line in text.splitlines()[:-1])
    assert text.endswith("`antler doctor --online` also does that.")
    assert "--online" not in told(ok("disk", "fine"), online=True).to_text("utf-8")


def test_a_terminal_without_the_signs_gets_plain_ones() -> None:
    told(ok("disk", "fine"), error("x", "y", "z")).to_text("ascii").encode("ascii")
    assert "  + disk: fine" in told(ok("disk", "fine")).to_text("latin-1")


def test_json_has_every_field_of_every_finding() -> None:
    answer = json.loads(told(warning("disk", "little", "make room"), online=True).to_json())
    assert answer == {
        "version": 1,
        "antler": "1.0",
        "online": True,
        "findings": [
            {
                "group": "Data",
                "severity": "warning",
                "what": "disk",
                "says": "little",
                "remedy": "make room",
                "fixed": "",
            }
        ],
    }


def test_what_others_wrote_steers_no_terminal_and_tells_no_secret() -> None:
    finding = error("models[0]", "they said: \x1b[2J\n  sk-0123456789", "set a key")
    assert finding.cleaned(Redactor(["sk-0123456789"])).says == "they said: ?[2J [redacted]"


async def test_what_is_safe_is_mended_and_no_longer_counts(tmp_path: Path) -> None:
    file = write(tmp_path, QUIET)
    source = SettingsSource(file)
    data = tmp_path / "data"
    diagnosis, code = await examine(source, fix=True, ask=False)
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert "fixed: created" in diagnosis.to_text("utf-8")
    data.chmod(0o755)
    (data / "antler.db").touch(0o644)
    (data / SOCKET).touch(0o600)
    diagnosis, code = await examine(source, fix=True, ask=False)
    assert code == 0
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert stat.S_IMODE((data / "antler.db").stat().st_mode) == 0o600
    assert not (data / SOCKET).exists()
    assert diagnosis.to_text("utf-8").count("-> fixed: ") == 3
    diagnosis, code = await examine(source, fix=True, ask=False)
    assert "fixed" not in diagnosis.to_text("utf-8")


async def test_without_fix_nothing_is_touched(tmp_path: Path) -> None:
    _, code = await examine(SettingsSource(write(tmp_path, QUIET)), fix=False, ask=False)
    assert code == 0
    assert os.listdir(tmp_path) == ["config.yaml"]


async def test_a_check_that_fails_or_hangs_is_a_finding_among_the_others(tmp_path: Path) -> None:
    async def fails(_: Examined) -> list[Finding]:
        raise LookupError("no such thing")

    async def hangs(_: Examined) -> list[Finding]:
        await asyncio.Event().wait()
        raise AssertionError

    examined = Examined(settings=Settings.default(tmp_path), file=None, gateway=None, served=False, fix=False)
    (failed,) = await check(Subject("Disk", fails), examined)
    assert failed.says == "could not be checked: LookupError: no such thing"
    (late,) = await check(Subject("Disk", hangs, 0.01), examined)
    assert late.says.startswith("did not finish within")


async def test_a_database_of_either_kind_is_told_with_its_revision(store: Store, url: str, tmp_path: Path) -> None:
    given = {} if url.startswith("sqlite:") else {"database": {"url": url.replace("postgresql+psycopg", "postgresql")}}
    settings = Settings.model_validate({"channels": {"console": {}}, "data_dir": tmp_path, **given})
    examined = Examined(settings=settings, file=None, gateway=None, served=False, fix=False)
    (found,) = await machine.database(examined)
    kind = "PostgreSQL" if given else "SQLite"
    assert (found.severity, found.says) == (Severity.OK, f"{kind}, revision {STEPS.revisions[-1]}")


@pytest.mark.postgres
@pytest.mark.parametrize(("mode", "severity"), [("session", Severity.OK), ("transaction", Severity.ERROR)])
async def test_a_pooler_that_keeps_no_sessions_is_found_before_a_gateway_starts(
    postgres: PostgresServer, tmp_path: Path, mode: str, severity: Severity
) -> None:
    with pgbouncer(postgres.database(), mode) as pooled:
        given = {"database": {"url": pooled.replace("postgresql+psycopg", "postgresql")}, "data_dir": tmp_path}
        settings = Settings.model_validate({"channels": {"console": {}}, **given})
        examined = Examined(settings=settings, file=None, gateway=None, served=False, fix=False)
        *_, last = await machine.database(examined)
    assert last.severity is severity
    assert ("pool_mode = session" in last.remedy) == (mode == "transaction")


@pytest.mark.postgres
async def test_missing_rights_in_a_database_are_found_and_told(postgres: PostgresServer, tmp_path: Path) -> None:
    """Since PostgreSQL 15 only a database's owner may create tables in it; a restored one may be of another owner."""
    owner = postgres.database()
    given = {"database": {"url": owner.replace("postgresql+psycopg", "postgresql").replace("antler@", "stranger@")}}
    settings = Settings.model_validate({"channels": {"console": {}}, "data_dir": tmp_path, **given})
    examined = Examined(settings=settings, file=None, gateway=None, served=False, fix=False)
    with postgres.connect("postgres") as connection:
        connection.execute("CREATE ROLE stranger LOGIN")

    async def told(says: str) -> None:
        (found, *_) = await machine.database(examined)
        assert (found.severity, found.what) == (Severity.ERROR, "database.url")
        assert says in found.says
        with pytest.raises(StoreUnavailable, match="permission denied"):
            await Store.open(settings.database_url, clock=SystemClock())

    async def done(statement: str) -> None:
        store = await Store.open(owner, clock=SystemClock())
        await store.write(lambda tx: tx.exec_driver_sql(statement))
        await store.close()

    await told("may not create tables")
    await done("GRANT CREATE ON SCHEMA public TO stranger")
    await told("permission denied for table alembic_version")
    await done("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO stranger")
    (found, *_) = await machine.database(examined)
    assert (found.severity, "and write approval_grants_id_seq" in found.says) == (Severity.ERROR, True)
    await done("GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO stranger")
    (found, *_) = await machine.database(examined)
    assert found.severity is Severity.OK, "only an upgrade has to own them"
    await (await Store.open(settings.database_url, clock=SystemClock())).close()
    await done(f"UPDATE alembic_version SET version_num = '{STEPS.revisions[-2]}'")
    (found, *_) = await machine.database(examined)
    assert (found.severity, "does not own" in found.says) == (Severity.ERROR, True)


@pytest.mark.postgres
async def test_a_database_that_cannot_keep_all_texts_is_found_and_refused(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    """As one is whose server was made on a machine without a locale."""
    url = postgres.database(encoding="SQL_ASCII")
    given = {"database": {"url": url.replace("postgresql+psycopg", "postgresql")}, "data_dir": tmp_path}
    settings = Settings.model_validate({"channels": {"console": {}}, **given})
    (found,) = await machine.database(Examined(settings=settings, file=None, gateway=None, served=False, fix=False))
    assert (found.severity, found.what) == (Severity.ERROR, "database.url")
    assert "encoding is SQL_ASCII" in found.says
    assert "ENCODING 'UTF8'" in found.remedy
    with pytest.raises(NotUtf8, match="SQL_ASCII"):
        await Store.open(url, clock=SystemClock())
    with pytest.raises(NotUtf8):
        await Store.join(url, clock=SystemClock(), check=lambda tx: None)


def test_room_on_the_disk() -> None:
    room = [machine.room(Path("/data"), free).severity for free in (GB // 10, GB, 100 * GB)]
    assert room == [Severity.ERROR, Severity.WARNING, Severity.OK]


def test_a_clock_before_the_installation_is_wrong() -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    assert machine.time_of(now, now - timedelta(days=1)).severity is Severity.OK
    assert machine.time_of(datetime(1970, 1, 1, tzinfo=UTC), now).severity is Severity.ERROR


def test_clocks_that_differ() -> None:
    judged = [online.difference(seconds, "example.org") for seconds in (2.0, -90.0, 4000.0)]
    assert [finding.severity for finding in judged] == [Severity.OK, Severity.WARNING, Severity.ERROR]
    assert judged[1].says == "is 90 s behind that of example.org"


def test_packages_that_are_missing_or_too_old() -> None:
    wanted = ["pydantic>=1", "pydantic>=999", "no-such-package>=1", "other-system; sys_platform == 'win32'"]
    wanted.append("an-extra; extra == 'voice'")
    old, absent = machine.wrong_packages(wanted)
    assert (old.what, old.says.partition(" but ")[2]) == ("pydantic", "Antler needs >=999")
    assert (absent.what, absent.says) == ("no-such-package", "is not installed")
    assert "pip install 'no-such-package>=1'" in absent.remedy
    assert [finding.what for finding in machine.wrong_packages(wanted, {"voice", "channels"})][2:] == ["an-extra"]


async def test_commands_are_tried_in_the_real_sandbox(tmp_path: Path) -> None:
    if shutil.which("bwrap", path="/usr/bin:/bin") is None:
        missing("bubblewrap is not installed")
    file = write(tmp_path, "channels: {console: {}}\ntimezone: Europe/Berlin\n")
    diagnosis, _ = await examine(SettingsSource(file), fix=False, ask=False)
    (group,) = [group for group in diagnosis.groups if group.title == "Sandbox"]
    says = "commands run isolated; network: none, 1024 MB, 48 processes"
    assert group.findings[0] == ok("sandbox bubblewrap", says)
    assert os.listdir(tmp_path) == ["config.yaml"]


async def test_a_sandbox_server_that_is_away_is_a_warning_beside_others(tmp_path: Path) -> None:
    async with served(tmp_path / "server") as service:
        urls = [f"http://{service.address}", "http://127.0.0.1:1"]
        remote = f"sandbox: {{use: remote, remote: {{url: {urls}, token: {TOKEN}}}}}\n"
        (tmp_path / "antler").mkdir()
        file = write(tmp_path / "antler", "channels: {console: {}}\ntimezone: Europe/Berlin\n" + remote)
        diagnosis, _ = await examine(SettingsSource(file), fix=False, ask=False)
    (group,) = [group for group in diagnosis.groups if group.title == "Sandbox"]
    works, away, *others = group.findings
    assert works.severity is Severity.OK
    assert (away.severity, away.what) == (Severity.WARNING, "sandbox remote")
    assert away.says.startswith(f"the sandbox server {urls[1]} cannot be reached")
    assert away.remedy == "check sandbox.remote.url and that the server runs"
    assert not any(urls[1] in finding.says for finding in others)


@pytest.mark.slow
def test_the_command_prints_and_exits_by_severity(tmp_path: Path) -> None:
    write(tmp_path, QUIET + "mcp_servers: {files: {command: no-such-program}}\n")
    done = antler("doctor", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (EXIT_ERRORS, "")
    assert "✗ mcp_servers.files.command: the program no-such-program" in done.stdout
    write(tmp_path, "channls: {}\n")
    done = antler("doctor", "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (78, "")
    assert "did you mean channels?" in [finding["remedy"] for finding in json.loads(done.stdout)["findings"]]
