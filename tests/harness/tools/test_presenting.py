"""Files for the person: copied when they are presented, told to the reader of the run, and known after a crash."""

from __future__ import annotations

import io
import json
import stat
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from harness.events import RUN_EVENT, FileReady, Finished
from harness.files.spool import Spool, SpoolSettings, mime_type_of
from sandbox.base import OUTPUTS, WORKSPACE
from tests.harness.support import (
    Bench,
    Script,
    answers,
    calls,
    collect,
    context,
    finished,
    in_memory,
    results,
    said,
    stopped_after,
)
from tests.tables import table

if TYPE_CHECKING:
    from pathlib import Path

    from tests.simulators.sandbox.provider import MemoryProvider

REPORT = f"{OUTPUTS}/report.txt"


@pytest.fixture
def provider(bench: Bench) -> MemoryProvider:
    return in_memory(bench)


def spooled(bench: Bench, end: Finished) -> dict[str, bytes]:
    assert bench.spool is not None
    return {file.name: (bench.spool.folder / file.spooled).read_bytes() for file in end.files}


async def test_a_file_is_sent_as_it_was(bench: Bench, script: Script, provider: MemoryProvider) -> None:
    script.steps = [
        calls(("bash", {"command": f"echo first > {REPORT}"}), ids=["a"]),
        calls(("present_files", {"paths": [REPORT]}), ids=["b"]),
        calls(("bash", {"command": f"echo changed > {REPORT}"}), ids=["c"]),
        "done",
    ]
    async with bench.open() as harness:
        events = await collect(harness, context("r1"), said("go"))
    end = finished(events)
    assert spooled(bench, end) == {"report.txt": b"first\n"}
    (told,) = [event for event in events if isinstance(event, FileReady)]
    assert (told.call_id, told.file) == ("b", end.files[0])
    assert (told.file.path, told.file.mime_type, told.file.size, told.file.kind) == (REPORT, "text/plain", 6, "file")
    for event in (told, end):
        assert RUN_EVENT.validate_python(json.loads(RUN_EVENT.dump_json(event))) == event
    assert str(bench.file.parent) not in RUN_EVENT.dump_json(told).decode()


async def test_a_file_presented_again_is_sent_once_in_its_newest_state(
    bench: Bench, script: Script, provider: MemoryProvider
) -> None:
    drive = provider.drive("thread-1")
    for name in ("a", "b"):
        drive.put(f"{OUTPUTS}/{name}.txt", name.encode())
    script.steps = [
        calls(("present_files", {"paths": [f"{OUTPUTS}/a.txt", f"{OUTPUTS}/b.txt"]}), ids=["a"]),
        calls(("bash", {"command": f"echo new > {OUTPUTS}/a.txt"}), ids=["b"]),
        calls(("present_files", {"paths": [f"{OUTPUTS}/./a.txt"]}), ids=["c"]),
        "done",
    ]
    async with bench.open() as harness:
        end = finished(await collect(harness, context("r1"), said("go")))
    assert list(spooled(bench, end).items()) == [("a.txt", b"new\n"), ("b.txt", b"b")]
    assert bench.spool is not None
    assert len([each for each in (bench.spool.folder / "r1").iterdir() if not each.suffix]) == 2


async def test_only_outputs_and_only_so_many_and_so_large(
    bench: Bench, script: Script, provider: MemoryProvider, tmp_path: Path
) -> None:
    drive = provider.drive("thread-1")
    for number in range(3):
        drive.put(f"{OUTPUTS}/{number}.txt", b"x" * 10)
    drive.put(f"{OUTPUTS}/big.txt", b"x" * 101)
    drive.put(f"{WORKSPACE}/w.txt", b"x")
    bench.spool = SpoolSettings(folder=tmp_path / "s", most_bytes=100, most_bytes_of_run=105, most_files=2)
    paths = [
        REPORT,
        f"{WORKSPACE}/w.txt",
        f"{OUTPUTS}/../workspace/w.txt",
        f"{OUTPUTS}/big.txt",
        OUTPUTS,
        "/etc/passwd",
    ]
    told = await answers(
        bench,
        script,
        calls(("present_files", {"paths": paths}), ids=["a"]),
        calls(("present_files", {"paths": [f"{OUTPUTS}/{number}.txt" for number in range(3)]}), ids=["b"]),
        calls(("present_files", {"paths": []}), ids=["c"]),
    )
    lines = told[0].splitlines()
    for line, words in zip(
        lines,
        ("does not exist", "only files below", "only files below", "too large", "only files below", "only files below"),
        strict=True,
    ):
        assert words in line
    assert (
        told[1].splitlines()[2] == f"{OUTPUTS}/2.txt is not presented: a turn presents at most 2 files; put more "
        "into an archive."
    )
    assert "between 1 and" in told[2]
    assert [message.status for message in results(script)] == ["error", "success", "error"]
    assert len(list((tmp_path / "s" / "r1").glob("*.json"))) == 2


async def test_the_copies_are_private(bench: Bench, script: Script, provider: MemoryProvider) -> None:
    provider.drive("thread-1").put(REPORT, b"x")
    await answers(bench, script, calls(("present_files", {"paths": [REPORT]})))
    assert bench.spool is not None
    run = bench.spool.folder / "r1"
    assert {stat.S_IMODE(each.stat().st_mode) for each in (run, bench.spool.folder)} == {0o700}
    assert {stat.S_IMODE(each.stat().st_mode) for each in run.iterdir()} == {0o600}


async def test_a_run_that_goes_on_after_a_crash_still_knows_its_files(
    bench: Bench, script: Script, provider: MemoryProvider
) -> None:
    provider.drive("thread-1").put(REPORT, b"x")

    async with bench.open() as harness:
        await stopped_after(harness, script, calls(("present_files", {"paths": [REPORT]})))
    provider.drive("thread-1").put(REPORT, b"changed")
    script.steps = ["here it is"]
    async with bench.open() as harness:
        events = await collect(harness, context("r1"), said("go"), attempt=2, next_seq=20)
        end = finished(events)
        assert spooled(bench, end) == {"report.txt": b"x"}
        assert not [event for event in events if isinstance(event, FileReady)]
        again = finished(await collect(harness, context("r1"), said("go"), attempt=3, next_seq=30))
        assert again.files == end.files
        other = finished(await collect(harness, context("r2"), said("next")))
        assert other.files == ()


async def test_a_full_disk_is_told(bench: Bench, script: Script, provider: MemoryProvider, tmp_path: Path) -> None:
    provider.drive("thread-1").put(REPORT, b"x")
    (tmp_path / "file").write_text("no folder")
    bench.spool = SpoolSettings(folder=tmp_path / "file" / "spool")
    (told,) = await answers(bench, script, calls(("present_files", {"paths": [REPORT]})))
    assert "cannot be stored (not a directory); an operator has to fix it" in told
    assert str(tmp_path) not in told


async def test_a_run_cannot_name_a_folder_elsewhere(tmp_path: Path) -> None:
    for run_id in ("../x", "", "a/b", "."):
        with pytest.raises(ValueError, match="cannot name a folder"):
            await Spool(SpoolSettings(folder=tmp_path)).files(run_id)


async def test_without_a_spool_there_is_no_tool(bench: Bench, script: Script, provider: MemoryProvider) -> None:
    bench.spool = None
    (told,) = await answers(bench, script, calls(("present_files", {"paths": [REPORT]})))
    assert "not a valid tool" in told
    assert "- send files: put what people need into your answer." in str(script.requests[0][0].content)


def picture(kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (2, 2)).save(buffer, kind)
    return buffer.getvalue()


@table(
    ("name", "content", "mime_type"),
    [
        ("a.png", picture("PNG"), "image/png"),
        ("a.txt", picture("JPEG"), "image/jpeg"),
        ("a.webp", picture("WEBP"), "image/webp"),
        ("a.gif", picture("GIF"), "image/gif"),
        ("a.png", b"<html><script>", "application/octet-stream"),
        ("a.svg", b"<svg onload=x>", "image/svg+xml"),
        ("a.pdf", b"%PDF-1.7", "application/pdf"),
        ("a", b"", "application/octet-stream"),
    ],
)
def test_what_a_file_is(name: str, content: bytes, mime_type: str) -> None:
    assert mime_type_of(name, content[:16]) == mime_type
