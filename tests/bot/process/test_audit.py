"""The audit log: one line for each event, private, without secrets, set aside when it is large, never half a line."""

from __future__ import annotations

import asyncio
import json
import os
import resource
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from bot.control.logs import AuditFile
from bot.redaction import Redactor
from harness.ports import AuditEntry

if TYPE_CHECKING:
    from pathlib import Path

SECRET = 'sk-0123"456789abcdef'
ASKED = AuditEntry(
    at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    event="asked",
    speaker="telegram:1",
    conversation="telegram:1",
    thread_id="t",
    run_id="r",
    call_id="c",
    command="ls\n-l",
    verdict="pass",
)


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


async def test_each_entry_is_a_line_of_a_private_file(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditFile(path, Redactor([SECRET]))
    await log.append(ASKED)
    await log.append(replace(ASKED, event="ended", ending="exited", exit_code=0, seconds=0.5))
    asked, ended = lines(path)
    assert asked["at"] == "2026-01-02T03:04:05.000+00:00"
    assert asked["command"] == "ls\n-l"
    assert "exit_code" not in asked
    assert (ended["ending"], ended["exit_code"], ended["seconds"]) == ("exited", 0, 0.5)
    assert path.stat().st_mode & 0o777 == 0o600


async def test_no_secret_and_no_strange_character_spoils_a_line(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditFile(path, Redactor([SECRET]))
    await log.append(replace(ASKED, command=f"curl -H '{SECRET}' \ud800"))
    (line,) = lines(path)
    assert "[redacted]" in str(line["command"])
    assert SECRET[-8:] not in path.read_text()


async def test_a_large_file_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditFile(path, Redactor([]), most_bytes=1000, set_aside=2)
    for number in range(30):
        await log.append(replace(ASKED, call_id=f"{number}"))
    assert sorted(entry.name for entry in os.scandir(tmp_path)) == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"]
    kept = [line["call_id"] for name in (".2", ".1", "") for line in lines(tmp_path / f"audit.jsonl{name}")]
    assert kept == [f"{number}" for number in range(30 - len(kept), 30)]


async def test_many_at_once_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditFile(path, Redactor([]))
    await asyncio.gather(*(log.append(replace(ASKED, call_id=f"{number}")) for number in range(50)))
    assert {line["call_id"] for line in lines(path)} == {f"{number}" for number in range(50)}


async def test_what_cannot_be_written_is_told_and_leaves_no_half_line(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditFile(path, Redactor([]))
    await log.append(ASKED)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10, hard))
    try:
        with pytest.raises(OSError, match="large"):
            await log.append(ASKED)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    await log.append(replace(ASKED, call_id="later"))
    assert [line["call_id"] for line in lines(path)] == ["c", "later"]


async def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("precious")
    (tmp_path / "audit.jsonl").symlink_to(elsewhere)
    with pytest.raises(OSError, match="symbolic"):
        await AuditFile(tmp_path / "audit.jsonl", Redactor([])).append(ASKED)
    assert elsewhere.read_text() == "precious"


def test_processes_that_share_the_file_lose_no_line(tmp_path: Path) -> None:
    """Each sets it aside when it is full, at the same time as others."""
    commands, written = (
        300,
        [AuditFile(tmp_path / "audit.jsonl", str, most_bytes=2_000, set_aside=500) for _ in range(4)],
    )

    def write(number: int) -> None:
        for command in range(commands):
            written[number]._write(f"{number} {command} {'x' * 80}\n".encode())

    with ThreadPoolExecutor(len(written)) as threads:
        assert list(threads.map(write, range(len(written)))) == [None] * len(written)
    kept = [line for file in tmp_path.glob("audit.jsonl*") for line in file.read_text().splitlines()]
    assert len(kept) == len(set(kept)) == len(written) * commands
