"""Documents of many people: whose turn it is, for how long, and what is told of one that was not converted."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from bot.files.conversion import Converter
from bot.files.sandboxes import Sandboxes
from bot.store.identity import thread_folder
from harness.context import InputFile
from harness.files.documents import EMPTY, PROTECTED, without_folders
from sandbox.config import SandboxSettings
from sandbox.policy import STAMP

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

ANN, BOB, EVE = "telegram:1", "telegram:2", "slack:U3"
MARKITDOWN = """#!/bin/sh
# python3 -m markitdown DOCUMENT -o TEXT, before which a PDF is searched for tables
[ "$1" = -c ] && exit 4
case "$3" in
    *hang*) exec sleep 600 ;;
    *slow*) sleep 2 ;;
    *scan*) echo "a warning" >&2; exit 0 ;;
    *broken*) echo "File is not a zip file" >&2; exit 1 ;;
    *locked*) echo " - PdfConverter threw PDFPasswordIncorrect with message: " >&2; exit 1 ;;
esac
echo "# The text" > "$5"
"""
bubblewrap = pytest.mark.skipif(
    shutil.which("bwrap", path="/usr/bin:/bin") is None and not os.environ.get("CI"), reason="bubblewrap is missing"
)


@asynccontextmanager
async def sandboxes(folder: Path) -> AsyncIterator[Sandboxes]:
    """Commands find a markitdown that the document's name tells how long to work."""
    runtime = folder / "runtime"
    (runtime / "bin").mkdir(parents=True)
    (runtime / STAMP).write_text("built")
    (runtime / "bin" / "python3").write_text(MARKITDOWN)
    (runtime / "bin" / "python3").chmod(0o755)
    settings = SandboxSettings.model_validate({"use": "bubblewrap", "runtime": str(runtime)})
    made = Sandboxes(settings, folder / "data")
    await made.start()
    try:
        yield made
    finally:
        await made.shutdown(10)


async def document(
    folder: Path, of: Sandboxes, thread: str, name: str, content: bytes = b"%PDF", suffix: str = ".pdf"
) -> tuple[str, InputFile]:
    thread_id = thread * 32
    async with of.borrow(thread_id):
        """The folders are there, and belong to who commands run as."""
    path = thread_folder(folder / "data", thread_id) / "uploads" / f"{name}{suffix}"
    path.write_bytes(content)
    sha256 = hashlib.sha256(content).hexdigest()
    return thread_id, InputFile(path=path, name=path.name, mime_type="application/pdf", size=4, sha256=sha256)


@bubblewrap
async def test_the_text_is_known_by_its_hash_unless_the_document_was_changed_before(tmp_path: Path) -> None:
    async with sandboxes(tmp_path) as of:
        convert = Converter(of, wanted=True)
        thread_id, file = await document(tmp_path, of, "a", "good")
        came = await convert(thread_id, file, ANN)
        assert came.text_sha256 == hashlib.sha256(b"# The text\n").hexdigest()
        async with of.borrow(thread_id) as sandbox:
            await sandbox.write_file(f"/mnt/user-data/uploads/{file.path.name}", "Made up.")
        changed = await convert(thread_id, file, ANN)
        assert (changed.text_path, changed.text_sha256) == (came.text_path, "")


@bubblewrap
async def test_a_text_that_is_not_in_utf_8_has_a_copy_that_is(tmp_path: Path) -> None:
    said = "Datum;Größe;Stück\n1.2.2026;mäßig;5\n"
    async with sandboxes(tmp_path) as of:
        convert = Converter(of, wanted=True)
        for number, encoding in enumerate(("cp1252", "utf-16")):
            file = await document(tmp_path, of, str(number), "list", said.encode(encoding), ".csv")
            came = await convert(*file, ANN)
            assert came.text_path is not None
            assert came.text_path.read_text() == said
            assert came.text_sha256 == hashlib.sha256(said.encode()).hexdigest()
        for content in (said.encode(), said.encode("utf-8-sig"), b"a\0b"):
            thread_id, same = await document(tmp_path, of, "c", "list", content, ".csv")
            assert await convert(thread_id, same, ANN) == same
        thread_id, gone = await document(tmp_path, of, "d", "list", said.encode("cp1252"), ".csv")
        gone.path.unlink()
        assert await convert(thread_id, gone, ANN) == gone


@bubblewrap
async def test_documents_that_hang_hold_up_neither_another_person_nor_another_account(tmp_path: Path) -> None:
    async with sandboxes(tmp_path) as of:
        convert = Converter(of, wanted=True)
        bad = await document(tmp_path, of, "a", "hang")
        good = [(*(await document(tmp_path, of, str(number), "good")), who) for number, who in enumerate((BOB, EVE))]
        hanging = [asyncio.create_task(convert(*bad, ANN)) for _ in range(5)]
        await asyncio.sleep(0)
        async with asyncio.timeout(15):
            for each in good:
                assert (await convert(*each)).text_path is not None
        assert not any(task.done() for task in hanging)
        for task in hanging:
            task.cancel()
        await asyncio.wait(hanging)


@bubblewrap
async def test_the_time_of_a_document_counts_from_its_turn(tmp_path: Path) -> None:
    async with sandboxes(tmp_path) as of:
        convert = Converter(of, wanted=True, seconds=5)
        slow = await document(tmp_path, of, "a", "slow")
        found = await asyncio.gather(*(convert(*slow, ANN) for _ in range(3)))
        assert [each.note for each in found] == [""] * 3
        hanging = await convert(*(await document(tmp_path, of, "b", "hang")), ANN)
        assert hanging.note == "its text could not be extracted: it took longer than 5 seconds"


@bubblewrap
@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("locked", b"%PDF", PROTECTED),
        ("broken", b"\xd0\xcf\x11\xe0" + "\0EncryptedPackage\0".encode("utf-16-le"), PROTECTED),
        ("broken", b"%PDF", "File is not a zip file"),
        ("broken", b"", EMPTY),
        ("scan", b"%PDF", EMPTY),
    ],
)
async def test_a_document_with_a_password_or_without_text_is_told_from_a_damaged_one(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    async with sandboxes(tmp_path) as of:
        found = await Converter(of, wanted=True)(*(await document(tmp_path, of, "a", name, content)), ANN)
        assert found.note == f"its text could not be extracted: {reason}"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("/srv/antler/.sandbox-venv/bin/python3: No module named markitdown", "python3: No module named markitdown"),
        ("No such file: '/var/lib/antler/threads/x/a.docx'", "No such file: 'a.docx'"),
        (
            "/mnt/user-data/uploads/a.docx: File is not a zip file",
            "/mnt/user-data/uploads/a.docx: File is not a zip file",
        ),
        ("neither input/output nor 3 / 4", "neither input/output nor 3 / 4"),
    ],
)
def test_only_paths_of_the_sandbox_are_told_whole(said: str, told: str) -> None:
    assert without_folders(said) == told
