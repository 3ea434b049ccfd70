"""Counting and deleting what a hostile program left: deep, wide, closed, linked, moving."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox.files.beneath import Folder
from sandbox.files.trees import remove_tree, usage_of

if TYPE_CHECKING:
    from collections.abc import Iterator

MANY = 1_000_000
LONG_NAME = "d" * 200
DEPTH = 5000


@contextmanager
def few_descriptors(more: int) -> Iterator[None]:
    """A process that may open only so many files more."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + more, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def dig(top: Path, depth: int) -> None:
    """Folders within folders, deeper than any path can say, with a file, a FIFO and a link in each tenth."""
    here = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    for level in range(depth):
        os.mkdir(LONG_NAME, dir_fd=here)
        below = os.open(LONG_NAME, os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = below
        if level % 10 == 0:
            os.mkfifo("fifo", dir_fd=here)
            os.symlink("/", "link", dir_fd=here)
            os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


@pytest.fixture
def quick() -> Iterator[Path]:
    """A folder in memory where there is one: deleting folders takes a disk milliseconds each."""
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as made:
        yield Path(made)


def test_a_tree_deeper_than_any_path_is_counted_and_deleted(quick: Path) -> None:
    (quick / "tree").mkdir()
    dig(quick / "tree", DEPTH)
    with few_descriptors(8), Folder.at(quick) as parent:
        with parent.folder("tree") as tree:
            usage = usage_of(tree, most_inodes=MANY)
        assert (usage.inodes, usage.complete) == (DEPTH + 3 * DEPTH // 10, True)
        remove_tree(parent, "tree")
        remove_tree(parent, "tree")
    assert os.listdir(quick) == []


def test_everything_that_can_stand_in_a_folder_is_removed_and_nothing_else(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    tree = tmp_path / "tree"
    (tree / "full" / "er").mkdir(parents=True)
    (tree / "full" / "er" / "file").write_text("x")
    (tree / "empty").mkdir()
    os.symlink(outside, tree / "full" / "link to a folder")
    os.symlink(outside / "kept", tree / "link to a file")
    os.link(outside / "kept", tree / "hard link")
    os.mkfifo(tree / "fifo")
    (tree / "名前\n").write_text("x")
    os.close(os.open(os.fsencode(tree) + b"/\xff\xfe", os.O_CREAT | os.O_WRONLY))
    with socket.socket(socket.AF_UNIX) as made, chdir(tree):  # a socket's path is short
        made.bind("socket")
    with Folder.at(tmp_path) as parent:
        remove_tree(parent, "tree")
    assert os.listdir(tmp_path) == ["outside"]
    assert (outside / "kept").read_text() == "kept"


def test_a_link_in_the_place_of_a_tree_is_removed_itself(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").write_text("kept")
    os.symlink("outside", tmp_path / "tree")
    with Folder.at(tmp_path) as parent:
        remove_tree(parent, "tree")
    assert os.listdir(tmp_path) == ["outside"]
    assert os.listdir(tmp_path / "outside") == ["kept"]


def test_a_wide_tree(quick: Path) -> None:
    for number in range(300):
        (quick / "tree" / f"{number}" / "below").mkdir(parents=True)
    with few_descriptors(8), Folder.at(quick) as parent:
        with parent.folder("tree") as tree:
            assert usage_of(tree, most_inodes=MANY).inodes == 600
            some = usage_of(tree, most_inodes=100)
            assert not some.complete
            assert 100 < some.inodes <= 110
        remove_tree(parent, "tree")
    assert os.listdir(quick) == []


def test_holes_cost_nothing_and_hard_links_are_counted_once(tmp_path: Path) -> None:
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 1 << 40)
    (tmp_path / "data").write_bytes(b"x" * 1_000_000)
    os.link(tmp_path / "data", tmp_path / "again")
    os.symlink("/", tmp_path / "link")
    with Folder.at(tmp_path) as top:
        usage = usage_of(top, most_inodes=MANY)
    assert 1_000_000 <= usage.bytes < 1_100_000
    assert usage.inodes == 3


def without_rights(work: str, *arguments: str) -> int:
    """What Python code ends with that runs as a user without rights: permissions mean nothing to root."""
    user = {"user": 60_999, "group": 60_999, "extra_groups": ()} if os.geteuid() == 0 else {}
    command = [sys.executable, "-c", work, *arguments]
    return subprocess.run(command, timeout=60, check=False, cwd=Path(__file__).parents[3], **user).returncode  # type: ignore[call-overload, no-any-return]


CLOSED = """
import os, sys
sys.path.insert(0, os.getcwd())
from sandbox.files.beneath import Folder
from sandbox.files.trees import remove_tree, usage_of
top = os.open(sys.argv[1], os.O_RDONLY)
os.makedirs(sys.argv[1] + "/tree/closed/deep/er")
open(sys.argv[1] + "/tree/closed/deep/er/file", "w").close()
open(sys.argv[1] + "/tree/closed/file", "w").close()
for path, mode in (("closed/deep/er", 0), ("closed/deep", 0o555), ("closed", 0), ("", 0o500)):
    os.chmod(sys.argv[1] + "/tree/" + path, mode)
with Folder(top) as parent:
    with parent.folder("tree") as tree:
        assert usage_of(tree, most_inodes=1000).inodes == 5
    for path, mode in (("closed/deep/er", 0), ("closed/deep", 0o555), ("closed", 0), ("", 0)):
        os.chmod(sys.argv[1] + "/tree/" + path, mode)
    remove_tree(parent, "tree")
assert os.listdir(top := sys.argv[1]) == []
"""


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that every user of this machine can reach."""
    with tempfile.TemporaryDirectory() as made:
        os.chmod(made, 0o777)
        yield Path(made)


def test_folders_closed_to_their_own_owner_are_counted_and_deleted(public: Path) -> None:
    if without_rights("import sandbox.files.trees") != 0:
        pytest.skip("a user without rights cannot read this checkout")
    assert without_rights(CLOSED, str(public)) == 0
    assert os.listdir(public) == []


def test_a_count_ends_while_folders_are_moved_under_it(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "x" / "y" / "z").mkdir(parents=True)
    ended = threading.Event()

    def move() -> None:
        while not ended.is_set():
            os.rename(tmp_path / "a" / "x", tmp_path / "b" / "moved")
            os.rename(tmp_path / "b" / "moved", tmp_path / "a" / "x")

    moving = threading.Thread(target=move)
    moving.start()
    try:
        with Folder.at(tmp_path) as top:
            for _ in range(300):
                usage = usage_of(top, most_inodes=MANY)
                assert usage.inodes <= 16
                assert usage.complete is False or usage.inodes >= 4
    finally:
        ended.set()
        moving.join()
