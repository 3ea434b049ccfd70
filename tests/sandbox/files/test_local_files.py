"""Files of folders of this machine: what only they have, and the bounds of searches."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from sandbox.base import Entries, FileInfo, FileText, Hits, Problem, ProblemCode, SandboxError, SandboxUnavailable
from sandbox.files.beneath import TEMPORARY, Folder, Refused, probe, translated
from sandbox.files.local import THREADS, FileThreads, PathLocks
from sandbox.files.searching import Bounds
from tests.sandbox.grounds import local_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sandbox.files.local import LocalFiles


@pytest.fixture
def files(tmp_path: Path) -> Iterator[LocalFiles]:
    with local_files(tmp_path) as made:
        yield made


@pytest.fixture
def workspace(tmp_path: Path, files: LocalFiles) -> Path:
    return tmp_path / "workspace"


def test_this_kernel_has_what_is_needed() -> None:
    probe()


def test_without_openat2_there_is_a_clear_error() -> None:
    def missing(folder: int, path: str, flags: int, resolve: int) -> int:
        raise OSError(errno.ENOSYS, "")

    with pytest.raises(SandboxUnavailable, match="openat2") as caught:
        probe(missing)
    assert "5.6" in caught.value.hint


async def test_what_a_command_changed_is_noticed(files: LocalFiles, workspace: Path) -> None:
    written = await files.write_file("a.sh", "echo 1\n")
    assert isinstance(written, FileInfo)
    (workspace / "a.sh").write_text("echo 2\n")
    for answer in (
        await files.write_file("a.sh", "x", expected=written.version),
        await files.update_file("a.sh", "echo", "x", expected=written.version),
    ):
        assert isinstance(answer, Problem)
        assert answer.code is ProblemCode.STALE
    assert (workspace / "a.sh").read_text() == "echo 2\n"


async def test_permissions_outlive_a_change_but_not_the_dangerous_ones(files: LocalFiles, workspace: Path) -> None:
    await files.write_file("a.sh", "echo 1\n")
    (workspace / "a.sh").chmod(0o6755)
    await files.update_file("a.sh", "1", "2")
    assert (workspace / "a.sh").stat().st_mode & 0o7777 == 0o755


async def test_an_open_reader_keeps_the_old_content(files: LocalFiles, workspace: Path) -> None:
    await files.write_file("a", "old")
    with (workspace / "a").open() as reader:
        await files.write_file("a", "new")
        await files.write_file("a", "er", append=True)
        assert reader.read() == "old"
    assert (workspace / "a").read_text() == "newer"
    assert os.listdir(workspace) == ["a"]


async def test_a_failed_write_leaves_nothing(files: LocalFiles, workspace: Path) -> None:
    (workspace / "full").mkdir()
    (workspace / "full" / "x").touch()
    for path in ("full", "full/x/y", "n" * 256):
        assert isinstance(await files.write_file(path, "x"), Problem)
    assert sorted(os.listdir(workspace)) == ["full"]
    assert os.listdir(workspace / "full") == ["x"]


async def test_files_that_are_being_written_are_not_listed(files: LocalFiles, workspace: Path) -> None:
    (workspace / f"{TEMPORARY}0123").write_text("needle")
    (workspace / "a").write_text("needle")
    listed, globbed = await files.list_dir("."), await files.glob("**")
    assert isinstance(listed, Entries)
    assert isinstance(globbed, Entries)
    assert [entry.path[-2:] for entry in listed.entries + globbed.entries] == ["/a", "/a"]


async def test_hostile_names_are_listed_harmlessly_and_can_be_searched(files: LocalFiles, workspace: Path) -> None:
    os.close(os.open(os.fsencode(workspace) + b"/caf\xe9\n\x1b[31m", os.O_CREAT | os.O_WRONLY))
    (workspace / "gpj.\u202etxt").write_text("needle")
    listed = await files.list_dir(".")
    assert isinstance(listed, Entries)
    names = [entry.path.rpartition("/")[2] for entry in listed.entries]
    assert names == ["caf\\xe9\\u000a\\u001b[31m", "gpj.\\u202etxt"]
    hits = await files.grep("needle", glob="*txt")
    assert isinstance(hits, Hits)
    assert [hit.path for hit in hits.hits] == [listed.entries[1].path]


# Bounds


async def test_a_search_stops_at_its_bounds_and_says_so(tmp_path: Path) -> None:
    with local_files(tmp_path, bounds=lambda: Bounds(entries=50)) as files:
        for number in range(100):
            (tmp_path / "workspace" / f"{number:03}").write_text("needle")
        found = await files.glob("**", most=1000)
        assert isinstance(found, Entries)
        assert (len(found.entries), found.more) == (50, True)
    with local_files(tmp_path, bounds=lambda: Bounds(bytes=60)) as files:
        hits = await files.grep("needle", most=1000)
        assert isinstance(hits, Hits)
        assert (len(hits.hits), hits.more) == (10, True)


async def test_a_search_that_found_nothing_in_its_time_says_that(tmp_path: Path) -> None:
    with local_files(tmp_path, bounds=lambda: Bounds(seconds=-1)) as files:
        for answer in (await files.grep("x"), await files.glob("*"), await files.list_dir(".")):
            assert isinstance(answer, Problem)
            assert answer.code is ProblemCode.TIMED_OUT


async def test_trees_too_deep_to_search_are_left_out_and_that_is_said(files: LocalFiles, workspace: Path) -> None:
    here = workspace
    for _ in range(70):
        here = here / "d"
    here.mkdir(parents=True)
    (here / "deep").write_text("needle")
    for answer in (await files.grep("needle"), await files.glob("**/deep"), await files.list_dir(".", depth=100)):
        assert isinstance(answer, (Hits, Entries))
        assert answer.more
    direct = await files.grep("needle", "/".join("d" * 70))
    assert isinstance(direct, Hits)
    assert len(direct.hits) == 1


@pytest.mark.timeout(60)
async def test_the_worst_pattern_is_bounded_in_time(files: LocalFiles, workspace: Path) -> None:
    """One that needs RE2's slow way: its automaton is larger than the memory it may have."""
    text = "".join("xy"[number * 7919 % 13 % 2] for number in range(100_000))
    (workspace / "a").write_text((text[:5000] + "\n") * 500)
    begun = time.process_time()
    assert isinstance(await files.grep("(?:x.{400}){2}z|y.{700}q"), Hits | Problem)
    assert time.process_time() - begun < 30


async def test_a_cancelled_search_ends_soon(tmp_path: Path) -> None:
    started = threading.Event()

    class Watched(Bounds):
        def go_on(self) -> bool:
            started.set()
            return super().go_on()

    with local_files(tmp_path, bounds=lambda: Watched(entries=10**9, bytes=10**12, seconds=10**6)) as files:
        for number in range(200):
            (tmp_path / "workspace" / f"{number}").write_bytes(b"x" * 1_000_000)
        searching = asyncio.create_task(files.grep("(x+x+)+y"))
        await asyncio.to_thread(started.wait, 30)
        searching.cancel()
        begun = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await searching
        assert time.monotonic() - begun < 10


# What they stand on


async def test_a_thread_is_waited_for_however_often_its_caller_is_cancelled() -> None:
    threads, started, go_on, ended = FileThreads(), threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        go_on.wait(30)
        ended.set()

    running = asyncio.create_task(threads.run(work))
    await asyncio.to_thread(started.wait, 30)
    for _ in range(3):
        running.cancel()
        await asyncio.sleep(0)
    assert not running.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended.is_set()
    threads.close()
    with pytest.raises(SandboxError):
        await threads.run(work)


async def test_work_that_has_not_begun_is_not_waited_for() -> None:
    threads, go_on = FileThreads(), threading.Event()
    done: list[int] = []
    busy = [asyncio.create_task(threads.run(go_on.wait, 30)) for _ in range(THREADS)]
    late = asyncio.create_task(threads.run(done.append, 1))
    await asyncio.sleep(0)
    late.cancel()
    with pytest.raises(asyncio.CancelledError):
        await late
    assert not go_on.is_set()
    go_on.set()
    await asyncio.gather(*busy)
    threads.close()
    assert done == []


async def test_locks_are_of_one_path_and_are_forgotten() -> None:
    locks, order = PathLocks(), []

    async def hold(path: str, name: str, until: asyncio.Event) -> None:
        async with locks.hold(path):
            order.append(name)
            await until.wait()

    gate, open_gate = asyncio.Event(), asyncio.Event()
    open_gate.set()
    first = asyncio.create_task(hold("/a", "first", gate))
    second = asyncio.create_task(hold("/a", "second", open_gate))
    await asyncio.sleep(0)
    await hold("/b", "other", open_gate)
    assert order == ["first", "other"]
    assert len(locks) == 1
    gate.set()
    await asyncio.gather(first, second)
    assert order[-1] == "second"
    assert len(locks) == 0


@contextmanager
def no_descriptors() -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


async def test_trouble_of_the_machine_is_no_problem_of_the_agent(files: LocalFiles, workspace: Path) -> None:
    (workspace / "a").write_text("x")
    assert isinstance(await files.read_file("a"), FileText)
    with no_descriptors(), pytest.raises(SandboxError, match="open files"):
        await files.read_file("a")
    assert isinstance(translated(OSError(errno.EIO, "")), SandboxError)
    assert isinstance(translated(OSError(errno.ENOSPC, "")), Refused)


async def test_an_exclusive_file_is_made_once(workspace: Path) -> None:
    with Folder.at(workspace) as top:
        top.put("a", lambda fd: None, fresh=True)
        with pytest.raises(FileExistsError):
            top.put("a", lambda fd: None, fresh=True)
    assert os.listdir(workspace) == ["a"]
