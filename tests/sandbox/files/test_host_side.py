"""What a hostile program leaves in its folders for the gateway to stumble over. Looked at is the host's state.

The first tests show that a plain open() would fall for every one of these, so that the refusals mean something.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox.base import Entries, FileInfo, FileText, Hits, Problem, ProblemCode
from sandbox.files import beneath
from sandbox.files.beneath import Folder, Refused
from tests.sandbox.grounds import local_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sandbox.files.local import LocalFiles

SECRET = "the canary sings"
RACES = 10_000
RENAME_EXCHANGE = 2
"""Of renameat2(2): both names always exist."""
SECONDS = 45.0
"""How long a race goes on at most."""


@dataclass(frozen=True)
class Host:
    """A machine with something to protect beside the sandbox's folders."""

    outside: Path
    workspace: Path
    files: LocalFiles

    def state(self) -> dict[str, tuple[bytes, int, int]]:
        """Everything outside, to the last time stamp."""
        found = {}
        for folder, _, names in os.walk(self.outside):
            for path in (Path(folder), *(Path(folder, name) for name in names)):
                status = path.stat()
                content = b"" if path.is_dir() else path.read_bytes()
                found[str(path)] = (content, status.st_mtime_ns, status.st_mode)
        return found


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    outside = tmp_path / "outside"
    (outside / "folder").mkdir(parents=True)
    (outside / "secret.txt").write_text(SECRET)
    (outside / "folder" / "secret.txt").write_text(SECRET)
    with local_files(tmp_path / "thread") as files:
        workspace = tmp_path / "thread" / "workspace"
        (workspace / "inner").mkdir()
        (workspace / "inner" / "own.txt").write_text("own")
        yield Host(outside, workspace, files)


def _link(target: str) -> Callable[[Host], str]:
    def make(host: Host) -> str:
        os.symlink(target.format(outside=host.outside), host.workspace / "trap")
        return "trap"

    return make


def _linked_folder(host: Host) -> str:
    os.symlink(host.outside, host.workspace / "trap")
    return "trap/secret.txt"


def _link_on_the_way(host: Host) -> str:
    os.symlink("inner", host.workspace / "trap")
    return "trap/own.txt"


def _fifo(host: Host) -> str:
    os.mkfifo(host.workspace / "trap")
    return "trap"


def _socket(host: Host) -> str:
    here = os.open(host.workspace, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{here}/trap")
    os.close(here)
    return "trap"


def _hard_link(host: Host) -> str:
    os.link(host.outside / "secret.txt", host.workspace / "trap")
    return "trap"


def _plain(path: str) -> Callable[[Host], str]:
    return lambda host: path.format(outside=host.outside)


ATTEMPTS: dict[str, tuple[Callable[[Host], str], set[ProblemCode]]] = {
    "absolute link": (_link("{outside}/secret.txt"), {ProblemCode.LINK}),
    "relative link": (_link("../../outside/secret.txt"), {ProblemCode.LINK}),
    "linked folder": (_linked_folder, {ProblemCode.LINK, ProblemCode.NOT_DIRECTORY}),
    "dots": (_plain("../../outside/secret.txt"), {ProblemCode.OUTSIDE}),
    "absolute path": (_plain("{outside}/secret.txt"), {ProblemCode.OUTSIDE}),
    "fifo": (_fifo, {ProblemCode.NOT_A_FILE}),
    "socket": (_socket, {ProblemCode.NOT_A_FILE}),
    "link to /proc": (_link("/proc/self/environ"), {ProblemCode.LINK}),
    "hard link": (_hard_link, {ProblemCode.NOT_A_FILE}),
    "loop": (_link("trap"), {ProblemCode.LINK}),
    "link within": (_link("inner/own.txt"), {ProblemCode.LINK}),
    "link on the way": (_link_on_the_way, {ProblemCode.LINK, ProblemCode.NOT_DIRECTORY}),
    "dots after a folder": (_plain("inner/../../../outside/secret.txt"), {ProblemCode.OUTSIDE}),
    "dot at the end": (_plain("inner/own.txt/."), {ProblemCode.NOT_DIRECTORY}),
    "device of another name": (_link("/dev/zero"), {ProblemCode.LINK}),
}
PLAIN_OPEN_FALLS_FOR = ("absolute link", "relative link", "linked folder", "hard link", "link to /proc", "dots")


@pytest.mark.parametrize("name", PLAIN_OPEN_FALLS_FOR)
def test_these_attempts_have_teeth(host: Host, name: str) -> None:
    path = ATTEMPTS[name][0](host)
    assert (host.workspace / path).read_bytes()


@pytest.mark.parametrize("name", ATTEMPTS)
@pytest.mark.timeout(30)
async def test_no_file_operation_leaves_the_folders(host: Host, name: str) -> None:
    make, codes = ATTEMPTS[name]
    path = make(host)
    before = host.state()
    got = bytearray()

    async def take(chunk: bytes) -> None:
        got.extend(chunk)

    answers = [
        await host.files.read_file(path),
        await host.files.fetch(path, take, max_bytes=1 << 20),
        await host.files.write_file(path, "overwritten"),
        await host.files.write_file(path, "appended", append=True),
        await host.files.update_file(path, "canary", "dog"),
    ]
    for answer in answers:
        assert isinstance(answer, Problem)
        assert answer.code in codes
        assert str(host.outside) not in answer.detail
    assert not got
    assert host.state() == before


@pytest.mark.parametrize("name", ATTEMPTS)
@pytest.mark.timeout(30)
async def test_no_search_leaves_the_folders(host: Host, name: str) -> None:
    path = ATTEMPTS[name][0](host)
    before = host.state()
    for top in (path, path.rpartition("/")[0] or "."):
        hits = await host.files.grep("canary|PATH", top)
        assert not isinstance(hits, Hits) or hits.hits == ()
        for found in (await host.files.list_dir(top, depth=9), await host.files.glob("**", top)):
            assert not isinstance(found, Entries) or not any("secret" in entry.path for entry in found.entries)
    assert host.state() == before


async def test_links_are_shown_as_what_they_are(host: Host) -> None:
    os.symlink("/etc", host.workspace / "trap")
    os.mkfifo(host.workspace / "pipe")
    listed = await host.files.list_dir(".", depth=5)
    assert isinstance(listed, Entries)
    kinds = {entry.path.rpartition("/")[2]: entry.kind for entry in listed.entries}
    assert kinds == {"trap": "link", "pipe": "other", "inner": "dir", "own.txt": "file"}


async def test_a_root_that_became_a_link_is_no_root(host: Host) -> None:
    outputs = host.workspace.parent / "outputs"
    outputs.rmdir()
    os.symlink(host.outside, outputs)
    before = host.state()
    for path in ("/mnt/user-data/outputs/secret.txt", "/mnt/user-data/outputs/new.txt"):
        with pytest.raises(Exception, match="cannot be opened") as caught:
            await host.files.write_file(path, "x")
        assert str(host.outside) not in str(caught.value)
    assert host.state() == before


@dataclass
class Swapping:
    """Another thread that goes on exchanging what stands at two names."""

    one: Path
    other: Path
    rounds: int = 0
    _ended: bool = False

    def __enter__(self) -> Swapping:
        self._thread = threading.Thread(target=self._swap, name="swapping")
        self._thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._ended = True
        self._thread.join()

    def _swap(self) -> None:
        with Folder.at(self.one.parent) as folder:
            while not self._ended:
                beneath.renameat2(folder.fd, self.one.name, self.other.name, RENAME_EXCHANGE)
                self.rounds += 1


@pytest.mark.timeout(3 * SECONDS)
def test_a_file_swapped_for_a_link_while_it_is_opened(host: Host) -> None:
    (host.workspace / "a").write_text("own")
    os.symlink(host.outside / "secret.txt", host.workspace / "b")
    opened = refused = 0
    deadline = time.monotonic() + SECONDS
    with Swapping(host.workspace / "a", host.workspace / "b") as swapping, Folder.at(host.workspace) as top:
        for _ in range(RACES):
            try:
                fd, _ = top.file("a")
            except (Refused, OSError):
                refused += 1
            else:
                opened += 1
                assert os.read(fd, 100) == b"own"
                os.close(fd)
            if time.monotonic() > deadline:
                break
    assert opened
    assert refused
    assert swapping.rounds


@pytest.mark.timeout(3 * SECONDS)
async def test_a_folder_swapped_for_a_link_while_files_are_written(host: Host) -> None:
    (host.workspace / "a").mkdir()
    os.symlink(host.outside, host.workspace / "b")
    before = host.state()
    written = refused = 0
    deadline = time.monotonic() + SECONDS
    with Swapping(host.workspace / "a", host.workspace / "b"):
        while time.monotonic() < deadline and (written < 50 or refused < 50) and written + refused < RACES:
            answer = await host.files.write_file("a/secret.txt", "overwritten")
            written += isinstance(answer, FileInfo)
            refused += isinstance(answer, Problem)
            found = await host.files.read_file("a/secret.txt")
            assert not isinstance(found, FileText) or found.text == "overwritten"
    assert written
    assert refused
    assert host.state() == before


@pytest.mark.timeout(30)
async def test_sparse_and_growing_files_cost_no_more_than_their_caps(host: Host) -> None:
    (host.workspace / "sparse").write_text("text\n")
    os.truncate(host.workspace / "sparse", 1 << 40)
    answers = [
        await host.files.read_file("sparse"),
        await host.files.write_file("sparse", "more", append=True),
        await host.files.update_file("sparse", "text", "x"),
    ]
    assert [isinstance(answer, Problem) and answer.code for answer in answers] == [ProblemCode.TOO_LARGE] * 3
    hits = await host.files.grep("t")
    assert isinstance(hits, Hits)
    growing = host.workspace / "growing"
    growing.write_bytes(b"x" * 100)
    got = bytearray()

    async def take(chunk: bytes) -> None:
        got.extend(chunk)
        growing.write_bytes(chunk * 10)

    assert isinstance(await host.files.fetch("growing", take, max_bytes=1000), FileInfo)
    assert len(got) == 100


async def test_a_cancelled_caller_waits_for_its_thread(host: Host) -> None:
    """What is cancelled half way leaves no temporary file and no open descriptor."""
    before = len(os.listdir("/proc/self/fd"))

    async def drop(chunk: bytes) -> None:
        pass

    for _ in range(20):
        writing = asyncio.create_task(host.files.write_file("a", b"x" * 500_000))
        reading = asyncio.create_task(host.files.fetch("inner/own.txt", drop, max_bytes=100))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        writing.cancel()
        reading.cancel()
        await asyncio.wait({writing, reading})
    assert set(os.listdir(host.workspace)) <= {"a", "inner"}
    assert len(os.listdir("/proc/self/fd")) <= before
