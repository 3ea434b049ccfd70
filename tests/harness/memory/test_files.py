"""Memories in files, and their JSON: nothing is lost, whatever is on the disk."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from harness.memory.model import Memory, from_json, summaries, with_summaries
from harness.memory.store import FileMemoryStore, MemoryStore, MemoryUnavailable
from tests.harness.memory.in_memory import InMemoryStore
from tests.harness.memory.support import ANN, NOW, fact, memory
from tests.tables import table

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = ["../bob", "a/b", "%2e%2e", "x" * 300, "CON", "caf\u00e9", "cafe\u0301", "Ann", "ann", "", "a\0b", "\ud800"]


@pytest.fixture
def files(tmp_path: Path) -> FileMemoryStore:
    return FileMemoryStore(tmp_path / "users")


@pytest.fixture(params=["files", "memory"])
def store(request: pytest.FixtureRequest, files: FileMemoryStore) -> MemoryStore:
    return files if request.param == "files" else InMemoryStore()


async def test_what_is_saved_is_loaded_by_its_owner_alone(store: MemoryStore) -> None:
    assert await store.load(ANN) == Memory()
    await store.save(ANN, memory(fact("Likes tea")))
    await store.save("telegram:2", memory(fact("Likes milk")))
    assert await store.load(ANN) == memory(fact("Likes tea"))
    assert [(each.owner, each.updated_at is not None) for each in await store.owners()] == [
        (ANN, True),
        ("telegram:2", True),
    ]
    assert await store.delete(ANN)
    assert not await store.delete(ANN)
    assert await store.load(ANN) == Memory()
    assert [each.owner for each in await store.owners()] == ["telegram:2"]


async def test_any_id_has_a_folder_of_its_own(store: MemoryStore, tmp_path: Path) -> None:
    for number, owner in enumerate(HOSTILE):
        await store.save(owner, memory(fact(f"number {number}")))
    for number, owner in enumerate(HOSTILE):
        assert (await store.load(owner)).facts[0].content == f"number {number}"
    assert sorted(each.owner for each in await store.owners()) == sorted(HOSTILE)
    assert os.listdir(tmp_path) in ([], ["users"])


async def test_only_this_account_may_read_them(files: FileMemoryStore) -> None:
    os.umask(umask := os.umask(0o022))
    assert umask is not None
    await files.save(ANN, memory(fact("Likes tea")))
    await files.save(ANN, memory(fact("Likes milk")))
    folder = files.folder(ANN)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == dict.fromkeys(
        ("memory.json", "memory.json.last", "memory.owner"), 0o600
    )


BROKEN = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"\xff\xfe",
    b'{"version": 2}',
    b'{"unknown": 1}',
    b'{"facts": [{"id": "f1", "content": "x"}]}',
    b'{"facts": "' + b"x" * 5_000_000 + b'"}',
]


@pytest.mark.parametrize("text", BROKEN, ids=range(len(BROKEN)))
async def test_a_broken_file_is_set_aside_and_the_last_good_one_is_used(
    files: FileMemoryStore, text: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    await files.save(ANN, memory(fact("Likes tea")))
    await files.save(ANN, memory(fact("Likes milk")))
    path = files.folder(ANN) / "memory.json"
    path.write_bytes(text)
    assert await files.load(ANN) == memory(fact("Likes tea"))
    (aside,) = path.parent.glob("memory.json.broken-*")
    assert aside.read_bytes() == text
    assert str(aside) in caplog.text
    assert await files.load(ANN) == memory(fact("Likes tea"))
    assert len(list(path.parent.glob("memory.json.broken-*"))) == 1


async def test_where_both_are_broken_it_starts_empty(files: FileMemoryStore, caplog: pytest.LogCaptureFixture) -> None:
    await files.save(ANN, memory(fact("Likes tea")))
    await files.save(ANN, memory(fact("canary")))
    for name in ("memory.json", "memory.json.last"):
        (files.folder(ANN) / name).write_text('{"facts": ["canary"]}')
    assert await files.load(ANN) == Memory()
    assert "starts empty" in caplog.text
    assert "canary" not in caplog.text


async def test_a_broken_file_is_not_overwritten_by_a_save(files: FileMemoryStore) -> None:
    await files.save(ANN, memory(fact("Likes tea")))
    (files.folder(ANN) / "memory.json").write_text("by hand")
    await files.save(ANN, memory(fact("Likes milk")))
    (aside,) = files.folder(ANN).glob("memory.json.broken-*")
    assert aside.read_text() == "by hand"
    assert await files.load(ANN) == memory(fact("Likes milk"))


async def test_of_what_is_set_aside_the_newest_stay(files: FileMemoryStore) -> None:
    await files.save(ANN, memory(fact("Likes tea")))
    for number in range(9):
        (files.folder(ANN) / "memory.json").write_text(f"broken {number}")
        await files.load(ANN)
    aside = sorted(files.folder(ANN).glob("memory.json.broken-*"))
    assert [path.read_text() for path in aside] == [f"broken {number}" for number in range(4, 9)]
    assert await files.delete(ANN)
    assert not files.folder(ANN).exists()


async def test_other_things_of_the_owner_stay(files: FileMemoryStore) -> None:
    await files.save(ANN, memory(fact("Likes tea")))
    (files.folder(ANN) / "skills").mkdir()
    assert await files.delete(ANN)
    assert [path.name for path in files.folder(ANN).iterdir()] == ["skills"]


async def test_what_the_disk_refuses_is_said(tmp_path: Path) -> None:
    (tmp_path / "users").write_text("no folder")
    files = FileMemoryStore(tmp_path / "users")
    with pytest.raises(MemoryUnavailable):
        await files.save(ANN, Memory())
    with pytest.raises(MemoryUnavailable):
        await files.load(ANN)


def test_the_json_has_the_keys_that_are_promised() -> None:
    known = with_summaries(memory(fact("Likes tea", source_error="Likes coffee")), summaries(Memory()))
    found: dict[str, Any] = json.loads(known.to_json())
    assert list(found) == ["version", "lastUpdated", "user", "history", "facts"]
    assert list(found["user"]) == ["workContext", "personalContext", "topOfMind"]
    assert list(found["history"]) == ["recentMonths", "earlierContext", "longTermBackground"]
    assert set(found["user"]["workContext"]) == {"summary", "updatedAt"}
    (only,) = found["facts"]
    assert {"id", "content", "category", "confidence", "createdAt", "source", "sourceError"} <= set(only)
    assert from_json(known.to_json()) == known


@table(
    "changes",
    [
        {"content": ""},
        {"content": "x" * 501},
        {"confidence": 1.1},
        {"confidence": "NaN"},
        {"category": "secret"},
        {"createdAt": "2026-01-01T00:00:00"},
        {"id": "../x"},
        {"more": 1},
    ],
)
def test_a_fact_that_is_none_is_refused(changes: dict[str, Any]) -> None:
    found: dict[str, Any] = json.loads(memory(fact("Likes tea")).to_json())
    found["facts"][0] |= changes
    with pytest.raises(ValidationError) as refused:
        from_json(json.dumps(found))
    assert "Likes tea" not in str(refused.value)


def test_two_facts_never_have_one_id() -> None:
    with pytest.raises(ValidationError, match="same id"):
        memory(fact("Likes tea"), fact("Likes tea"))


def test_times_are_in_utc() -> None:
    found = json.loads(memory(fact("Likes tea")).to_json())
    found["lastUpdated"] = "2026-03-01T14:00:00+02:00"
    assert from_json(json.dumps(found)).last_updated == NOW == datetime(2026, 3, 1, 12, tzinfo=UTC)
