"""Files that people send: counted, safely named, inside their folder, and nothing left of what was refused."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import stat
import sys
import threading
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.files.uploads import AT_ONCE, AT_ONCE_IN_ALL, Refused, UploadLimits, Uploads, display_name
from bot.store import runs
from bot.store.identity import NAME_BYTES
from bot.store.inbox import ADD_EVENTS
from channels.base import ChannelPorts, NamedSink, Route
from channels.errors import AttachmentFailed, ChannelError, NotAllowed, Rejected, Temporary
from channels.message import Attachment
from harness.context import InputFile, RunInput
from sandbox.files.beneath import Owner
from tests.bot.store.samples import message, run_row
from tests.clock import VirtualClock
from tests.memory_channel import MemoryChannel
from tests.tables import table

if TYPE_CHECKING:
    from pathlib import Path

    from bot.store import Store
    from channels.base import Sink

LIMITS = UploadLimits(file=1_000_000, thread=2_500_000, message=1_800_000, person=4_000_000)


class Wire(MemoryChannel):
    """Streams `chunks`, after raising each of `errors` once."""

    def __init__(self, *chunks: bytes, errors: tuple[ChannelError, ...] = ()) -> None:
        ports = ChannelPorts(publish=_nothing, clock=VirtualClock(), route=lambda _: Route())
        super().__init__("memory", ports)
        self.chunks, self.errors, self.fetched = chunks, list(errors), 0

    async def fetch(self, attachment: Attachment, sink: Sink) -> None:
        self.fetched += 1
        for number, chunk in enumerate(self.chunks):
            if self.errors and number == len(self.chunks) - 1:
                raise self.errors.pop(0)
            await sink.write(chunk)


async def _nothing(events: Any) -> None:
    return None


class Patient(VirtualClock):
    """Does not wait."""

    async def sleep(self, seconds: float) -> None:
        self._now += seconds


def attachment(name: str | None = "a.bin", size: int | None = None) -> Attachment:
    return Attachment(ref="r", kind="file", name=name, size=size)


def uploads() -> Uploads:
    return Uploads(LIMITS, Patient())


async def fetched(wire: Wire, attachment: Attachment, folder: Path) -> InputFile | Refused:
    """The only file of its message."""
    files = uploads()
    return await files.fetch(wire, attachment, folder, files.allowance("telegram:1"))


def left(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir()) if folder.exists() else []


async def test_a_file_arrives_whole_and_private(tmp_path: Path) -> None:
    folder = tmp_path / "user-data" / "uploads"
    taken = await fetched(Wire(b"ab", b"", b"cd"), attachment("report.pdf", 4), folder)
    assert isinstance(taken, InputFile)
    assert (taken.name, taken.size, taken.mime_type) == ("report.pdf", 4, "application/pdf")
    assert taken.path.read_bytes() == b"abcd"
    assert taken.sha256 == hashlib.sha256(b"abcd").hexdigest()
    assert taken.path.parent == folder
    assert stat.S_IMODE(taken.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("head", "declared", "name", "told", "mime_type"),
    [
        (b"\x89PNG\r\n\x1a\n", None, None, "image.png", "image/png"),  # Feishu declares nothing of a picture
        (b"\x89PNG\r\n\x1a\n", "image/jpeg", None, "image.png", "image/png"),  # WeCom: the same of every picture
        (b"\xff\xd8\xff\xe0", "image/jpeg", "garden.jpg", "garden.jpg", "image/jpeg"),
        (b"II*\x00", "image/tiff", "garden.tiff", "garden.tiff", "image/tiff"),
        (b"no picture", None, None, "image", "application/octet-stream"),
    ],
)
async def test_a_picture_is_told_by_its_content(
    tmp_path: Path, head: bytes, declared: str | None, name: str | None, told: str, mime_type: str
) -> None:
    picture = Attachment(ref="r", kind="image", name=name, mime_type=declared)
    taken = await fetched(Wire(head[:3], head[3:], bytes(100)), picture, tmp_path)
    assert isinstance(taken, InputFile)
    assert (taken.name, taken.mime_type) == (told, mime_type)
    assert left(tmp_path) == [taken.path.name]
    assert taken.path.name.endswith(f"-{told}")


@pytest.mark.parametrize("declared", [None, 0, 1000])
async def test_a_lie_about_the_size_stops_at_the_cap(tmp_path: Path, declared: int | None) -> None:
    wire = Wire(*[bytes(600_000)] * 10_000)
    refused = await fetched(wire, attachment("5gb.iso", declared), tmp_path)
    assert refused == Refused("5gb.iso", "too_large", 1.0)
    assert left(tmp_path) == []


async def test_what_says_that_it_is_too_large_is_not_even_fetched(tmp_path: Path) -> None:
    wire = Wire(b"x")
    assert await fetched(wire, attachment(size=1_000_001), tmp_path / "u") == Refused("a.bin", "too_large", 1.0)
    assert wire.fetched == 0
    assert left(tmp_path) == []


async def test_the_quota_counts_what_is_there(tmp_path: Path) -> None:
    for _ in range(2):
        assert isinstance(await fetched(Wire(bytes(1_000_000)), attachment(), tmp_path), InputFile)
    for declared in (None, 600_000):
        refused = await fetched(Wire(bytes(600_000)), attachment(size=declared), tmp_path)
        assert refused == Refused("a.bin", "quota", 2.5)
    assert len(left(tmp_path)) == 2
    assert isinstance(await fetched(Wire(bytes(400_000)), attachment(), tmp_path), InputFile)


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (AttachmentFailed("over its own limit", "too_large"), "too_large_there"),
        (AttachmentFailed("expired", "gone"), "gone"),
        (NotAllowed("no scope", "add files:read"), "not_allowed"),
        (ChannelError("anything"), "failed"),
        (OSError(errno.ENOSPC, "No space left on device"), "no_room"),
    ],
)
async def test_each_failure_is_named_and_leaves_nothing(tmp_path: Path, error: ChannelError, problem: Any) -> None:
    wire = Wire(b"half", b"rest", errors=(error,))
    assert await fetched(wire, attachment(), tmp_path) == Refused("a.bin", problem)
    assert wire.fetched == 1
    assert left(tmp_path) == []


async def test_a_name_that_only_the_download_revealed_is_in_its_refusal(tmp_path: Path) -> None:
    class Revealing(Wire):
        async def fetch(self, attachment: Attachment, sink: Sink) -> None:
            assert isinstance(sink, NamedSink)
            sink.called("report.pdf")
            await super().fetch(attachment, sink)

    for error in (AttachmentFailed("no valid padding", "gone"), Rejected("no")):
        refused = await fetched(Revealing(b"ab", errors=(error,)), attachment(None), tmp_path / "uploads")
        assert isinstance(refused, Refused)
        assert refused.name == "report.pdf"


async def test_the_right_to_fetch_files_is_named_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = uploads()
    for number in range(3):
        wire = Wire(b"half", errors=(NotAllowed("no scope", "add files:read"),))
        await files.fetch(wire, attachment(), tmp_path / f"{number}", files.allowance("telegram:1"))
    assert caplog.text.count("add files:read") == 1


async def test_the_files_of_one_message_are_counted_together(tmp_path: Path) -> None:
    files = uploads()
    allowance = files.allowance("telegram:1")
    assert isinstance(await files.fetch(Wire(bytes(1_000_000)), attachment(), tmp_path, allowance), InputFile)
    for declared in (None, 900_000):
        refused = await files.fetch(Wire(bytes(900_000)), attachment(size=declared), tmp_path, allowance)
        assert refused == Refused("a.bin", "message_quota", 1.8)
    assert isinstance(await files.fetch(Wire(bytes(800_000)), attachment(), tmp_path, allowance), InputFile)
    assert len(left(tmp_path)) == 2


async def test_what_a_person_sends_within_a_day_is_counted_over_all_threads(tmp_path: Path) -> None:
    clock = Patient()
    files = Uploads(LIMITS, clock)

    async def sent(person: str, number: int, size: int = 1_000_000) -> InputFile | Refused:
        return await files.fetch(Wire(bytes(size)), attachment(), tmp_path / f"{number}", files.allowance(person))

    for number in range(4):
        assert isinstance(await sent("telegram:1", number), InputFile)
    assert await sent("telegram:1", 5, 1) == Refused("a.bin", "person_quota", 4.0)
    assert isinstance(await sent("telegram:2", 6), InputFile)
    await clock.sleep(23 * 3600)
    assert await sent("telegram:1", 7, 1) == Refused("a.bin", "person_quota", 4.0)
    await clock.sleep(3600)
    assert isinstance(await sent("telegram:1", 8), InputFile)


async def test_what_came_before_the_process_began_counts(store: Store, tmp_path: Path) -> None:
    """From the runs of the last day: a file that was answered twice once, older ones and other persons' not."""
    clock = Patient()
    now = clock.now()
    one, other, old = (InputFile(path=tmp_path / name, name="a", mime_type="t/x", size=2_000_000) for name in "123")
    for number, (sent, at) in enumerate(
        [((one,), now), ((), now), ((one, other), now - timedelta(hours=20)), ((old,), now - timedelta(hours=25))]
    ):
        (event,) = await store.add(ADD_EVENTS, [message(f"u:{number}")])
        assert event is not None
        run_input = RunInput(message_id="m1", text='"files":[]', files=sent)
        run = replace(run_row(event.id), speaker="telegram:1", input=run_input, created_at=at)
        await store.write(partial(runs.open, row=run))
    files = Uploads(LIMITS, clock)
    await files.recall(store)
    wire = Wire(b"x")
    assert await files.fetch(wire, attachment(), tmp_path, files.allowance("telegram:1")) == Refused(
        "a.bin", "person_quota", 4.0
    )
    assert isinstance(await files.fetch(wire, attachment(), tmp_path, files.allowance("telegram:2")), InputFile)
    await clock.sleep(4 * 3600)
    assert isinstance(await files.fetch(wire, attachment(), tmp_path, files.allowance("telegram:1")), InputFile)


async def test_what_was_refused_in_mid_stream_counts_for_nothing(tmp_path: Path) -> None:
    files = uploads()
    for _ in range(5):
        allowance = files.allowance("telegram:1")
        wire = Wire(bytes(900_000), b"x", errors=(AttachmentFailed("expired", "gone"),))
        assert await files.fetch(wire, attachment(), tmp_path, allowance) == Refused("a.bin", "gone")
        assert allowance.message == LIMITS.message


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody")
async def test_a_file_belongs_to_who_commands_run_as_from_the_first_byte(tmp_path: Path) -> None:
    owners: list[int] = []

    class Watched(Wire):
        async def fetch(self, attachment: Attachment, sink: Sink) -> None:
            owners.extend(entry.stat().st_uid for entry in os.scandir(tmp_path))
            await super().fetch(attachment, sink)

    files = Uploads(LIMITS, Patient(), Owner(60_700, 60_701))
    taken = await files.fetch(Watched(b"x"), attachment(), tmp_path, files.allowance("telegram:1"))
    assert isinstance(taken, InputFile)
    assert owners == [60_700]
    assert (taken.path.stat().st_uid, taken.path.stat().st_gid) == (60_700, 60_701)


async def test_a_broken_transfer_begins_anew_and_is_counted_anew(tmp_path: Path) -> None:
    wire = Wire(bytes(400_000), b"end", errors=(Temporary("reset"), Temporary("reset")))
    taken = await fetched(wire, attachment(), tmp_path)
    assert isinstance(taken, InputFile)
    assert taken.size == taken.path.stat().st_size == 400_003
    assert taken.sha256 == hashlib.sha256(taken.path.read_bytes()).hexdigest(), "of the last try alone"
    wire = Wire(b"x", b"y", errors=(Temporary("reset"),) * 3)
    assert await fetched(wire, attachment(), tmp_path) == Refused("a.bin", "failed")
    assert len(left(tmp_path)) == 1


async def test_a_link_in_the_folders_place_leads_nowhere(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "uploads").symlink_to(elsewhere)
    assert await fetched(Wire(b"x"), attachment(), tmp_path / "uploads") == Refused("a.bin", "failed")
    assert left(elsewhere) == []


async def test_a_link_among_the_files_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(2_000_000))
    folder = tmp_path / "uploads"
    folder.mkdir()
    (folder / "link").symlink_to(secret)
    assert isinstance(await fetched(Wire(bytes(900_000)), attachment(), folder), InputFile)
    assert secret.stat().st_size == 2_000_000


async def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "uploads").write_text("")
    assert await fetched(Wire(b"x"), attachment(), tmp_path / "uploads") == Refused("a.bin", "failed")


async def test_a_cancelled_transfer_leaves_nothing(tmp_path: Path) -> None:
    started = asyncio.Event()

    class Slow(Wire):
        async def fetch(self, attachment: Attachment, sink: Sink) -> None:
            await sink.write(b"half")
            started.set()
            await asyncio.Future()

    fetching = asyncio.create_task(fetched(Slow(), attachment(), tmp_path))
    await asyncio.wait_for(started.wait(), 5)
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    assert left(tmp_path) == []


async def test_a_transfer_cancelled_again_and_again_waits_for_its_thread(tmp_path: Path) -> None:
    """Else a file that is just being opened would stay, and its descriptor with it."""
    opening, go = threading.Event(), threading.Event()

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and not go.is_set() and "-a.bin" in str(arguments[0]):
            opening.set()
            go.wait(30)

    sys.addaudithook(audit)
    fetching = asyncio.create_task(fetched(Wire(b"x"), attachment(), tmp_path))
    assert await asyncio.to_thread(opening.wait, 30)
    for _ in range(3):
        fetching.cancel()
        await asyncio.sleep(0)
    done, _ = await asyncio.wait({fetching}, timeout=0.3)
    assert not done
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    assert left(tmp_path) == []


async def test_writing_does_not_block_the_loop(tmp_path: Path) -> None:
    """The disk is worked on in threads: the loop's own thread opens, writes and removes nothing."""
    seen: list[tuple[str, str]] = []
    watching = True

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if (
            watching
            and event in ("open", "os.remove", "os.mkdir")
            and (f"{tmp_path}" in f"{arguments}" or "-a.bin" in f"{arguments}")
        ):
            seen.append((event, threading.current_thread().name))

    sys.addaudithook(audit)
    await fetched(Wire(b"x"), attachment(), tmp_path / "u")
    await fetched(Wire(b"x", b"y", errors=(ChannelError("x"),)), attachment(), tmp_path / "u")
    watching = False
    assert {event for event, _ in seen} == {"open", "os.remove", "os.mkdir"}
    assert all(thread != threading.main_thread().name for _, thread in seen)


@table(
    ("declared", "shown"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("..\\..\\windows\\system.ini", "system.ini"),
        ("/etc/shadow", "shadow"),
        ("a/b/", "file"),
        ("x\0.png", "x"),
        (".bashrc", "bashrc"),
        ("-rf", "rf"),
        ("--help.txt", "help.txt"),
        ("con.txt", "con.txt"),
        ("..", "file"),
        ("", "file"),
        (None, "file"),
        ("invoice\u202efdp.exe", "invoice_fdp.exe"),
        ("a\nb.txt", "a_b.txt"),
        ("$(rm -rf ~).sh", "(rm -rf _).sh"),
        ("`*[x](y)`.md", "x_(y)_.md"),
        ("报告 最终版.docx", "报告 最终版.docx"),
        ("\ud800.txt", "file.txt"),
        ("📊❤\ufe0f.xlsx", "file.xlsx"),
        ("Re\u0301union Gro\u0308ße.pdf", "Réunion Größe.pdf"),
        ("カ\u3099イト\u3099.pdf", "ガイド.pdf"),
        ("रिपोर्ट.pdf", "रिपोर्ट.pdf"),
        ("คู่มือ.docx", "คู่มือ.docx"),
    ],
)
def test_a_declared_name_is_made_harmless(declared: str | None, shown: str) -> None:
    assert display_name(attachment(declared)) == shown


@given(st.text(max_size=400) | st.text(alphabet="😀漢a./\\-", min_size=200, max_size=600))
def test_any_name_fits_and_stays_in_its_folder(declared: str) -> None:
    name = display_name(attachment(declared))
    assert 1 <= len(name.encode()) <= NAME_BYTES
    assert not {"/", "\\", "\0", "\n"} & set(name)
    assert name[0] not in ".- "
    assert name == display_name(attachment(name))


def test_a_long_name_keeps_its_ending() -> None:
    assert display_name(attachment("漢" * 255 + ".tar.gz")).endswith("漢.gz")
    assert len(display_name(attachment("漢" * 255 + ".png")).encode()) <= NAME_BYTES


class Hanging(Wire):
    """A platform whose file server answers to `good` and hangs for everything else until the gate opens."""

    def __init__(self, account: str) -> None:
        super().__init__(b"whole")
        self.account = account
        self.gate, self.full = asyncio.Event(), asyncio.Event()
        self.hanging = self.most = 0

    async def fetch(self, attachment: Attachment, sink: Sink) -> None:
        if attachment.name != "good":
            self.hanging += 1
            self.most = max(self.most, self.hanging)
            if self.hanging == AT_ONCE:
                self.full.set()
            await self.gate.wait()
            self.hanging -= 1
        await super().fetch(attachment, sink)


async def test_downloads_that_hang_hold_up_neither_another_person_nor_another_account(tmp_path: Path) -> None:
    files, telegram, slack = uploads(), Hanging("telegram"), Hanging("slack")

    async def fetch(wire: Hanging, person: str, name: str) -> InputFile | Refused:
        return await files.fetch(wire, attachment(name), tmp_path, files.allowance(f"{wire.account}:{person}"))

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        tasks = [group.create_task(fetch(telegram, "ann", "bad")) for _ in range(3 * AT_ONCE)]
        assert isinstance(await fetch(telegram, "bob", "good"), InputFile)
        tasks += [group.create_task(fetch(telegram, str(who), "bad")) for who in range(3 * AT_ONCE_IN_ALL)]
        assert isinstance(await fetch(slack, "eve", "good"), InputFile), "of a platform with nothing but hanging files"
        await telegram.full.wait()
        telegram.gate.set()
    assert telegram.most == AT_ONCE
    assert all(isinstance(task.result(), InputFile) for task in tasks)
