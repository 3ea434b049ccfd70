"""Copying what a hostile program left: links stay links, nothing strange is opened, and there is an end to it."""

from __future__ import annotations

import os
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.base import SandboxError
from sandbox.config import SandboxSettings
from sandbox.files import copying, workspace
from sandbox.files.beneath import Folder
from sandbox.files.copying import DEEPEST, Copying, TooMuch, copy_tree
from sandbox.files.workspace import Workspaces

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def copied(
    source: Path, target: Path, *, most: int = 1 << 20, inodes: int = 1000, free: Callable[[], int] | None = None
) -> Copying:
    target.mkdir()
    done = Copying(most, inodes, Event(), free)
    with Folder.at(source) as top, Folder.at(target) as into:
        copy_tree(top, into, done)
    return done


def test_files_folders_and_links_are_copied_as_they_are(tmp_path: Path) -> None:
    source = tmp_path / "a"
    (source / "deep" / "er").mkdir(parents=True)
    (source / "deep" / "er" / "run.sh").write_text("#!/bin/sh")
    (source / "deep" / "er" / "run.sh").chmod(0o755)
    (source / "away").symlink_to("/etc")
    (source / "up").symlink_to("../../secret")
    assert copied(source, tmp_path / "b").complete
    there = tmp_path / "b" / "deep" / "er" / "run.sh"
    assert (there.read_text(), there.stat().st_mode & 0o777) == ("#!/bin/sh", 0o755)
    assert os.readlink(tmp_path / "b" / "away") == "/etc"
    assert os.readlink(tmp_path / "b" / "up") == "../../secret"
    there.write_text("changed")
    assert (source / "deep" / "er" / "run.sh").read_text() == "#!/bin/sh", "they are files of their own"


def test_what_is_strange_is_left_out_and_told(tmp_path: Path) -> None:
    source = tmp_path / "a"
    source.mkdir()
    (source / "plain").write_text("x")
    os.mkfifo(source / "pipe")
    (source / "one").write_text("y")
    os.link(source / "one", source / "two")
    assert not copied(source, tmp_path / "b").complete
    assert sorted(os.listdir(tmp_path / "b")) == ["plain"]
    deep = tmp_path / "c"
    here = deep
    for _ in range(DEEPEST + 2):
        here = here / "d"
    here.mkdir(parents=True)
    assert not copied(deep, tmp_path / "e").complete


@pytest.mark.parametrize("bounds", [{"most": 99}, {"inodes": 2}])
def test_too_much_is_not_copied(tmp_path: Path, bounds: dict[str, Any]) -> None:
    source = tmp_path / "a"
    source.mkdir()
    for name in "abc":
        (source / name).write_bytes(b"x" * 50)
    with pytest.raises(TooMuch):
        copied(source, tmp_path / "b", **bounds)


def test_holes_stay_holes_and_cost_nothing(tmp_path: Path) -> None:
    source = tmp_path / "a"
    source.mkdir()
    with open(source / "sparse", "wb") as file:
        file.seek(64 << 20)
        file.write(b"middle")
        file.truncate(1 << 40)
    (source / "empty").touch()
    os.truncate(source / "empty", 1 << 30)
    assert copied(source, tmp_path / "b").complete
    there = tmp_path / "b" / "sparse"
    assert (there.stat().st_size, (tmp_path / "b" / "empty").stat().st_size) == (1 << 40, 1 << 30)
    assert there.stat().st_blocks * 512 < 1 << 20
    with open(there, "rb") as file:
        file.seek((64 << 20) - 1)
        assert file.read(8) == b"\0middle\0"


def test_the_disk_is_looked_at_while_it_fills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "CHUNK", 10)
    monkeypatch.setattr(copying, "LOOK_EVERY", 30)
    source = tmp_path / "a"
    source.mkdir()
    for name in "abc":
        (source / name).write_bytes(b"x" * 50)
    looked: list[int] = []

    def free() -> int:
        looked.append(sum(each.stat().st_size for each in (tmp_path / "b").iterdir()))
        return 1000 if len(looked) < 3 else 5  # somebody else writes too

    with pytest.raises(TooMuch):
        copied(source, tmp_path / "b", free=free)
    assert looked == [0, 20, 50]


async def test_a_thread_gets_a_copy_of_anothers_files_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspaces = Workspaces(lambda thread_id: tmp_path / thread_id / "user-data", SandboxSettings(use="off"))
    try:
        assert await workspaces.copy("nothing", "new")
        own = tmp_path / "old" / "user-data" / "workspace"
        own.mkdir(parents=True)
        (own / "notes.txt").write_text("kept")
        assert await workspaces.copy("old", "branch")
        assert (tmp_path / "branch" / "user-data" / "workspace" / "notes.txt").read_text() == "kept"
        monkeypatch.setattr(workspace, "COPIED_BYTES", 2)
        assert not await workspaces.copy("old", "other")
        assert not (tmp_path / "other" / "user-data").exists(), "nothing stays of what was begun"
        with pytest.raises((SandboxError, OSError)):
            await workspaces.copy("old", "branch")  # it has files already
        assert (tmp_path / "branch" / "user-data" / "workspace" / "notes.txt").read_text() == "kept"
    finally:
        workspaces.close()
