"""Long results of tools are kept for a while only, and whatever else a command puts beside them is left alone."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from sandbox.base import RESULTS, FileInfo
from sandbox.config import SandboxLimits, SandboxSettings
from sandbox.files.workspace import MOST_BYTES, OLDEST_SECONDS, Workspaces

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sandbox.files.local import LocalFiles

NOW = time.time()
OLD = NOW - OLDEST_SECONDS - 60


@pytest.fixture
def workspaces(tmp_path: Path) -> Iterator[Workspaces]:
    settings = SandboxSettings(limits=SandboxLimits(free_disk_mb=0))
    made = Workspaces(lambda thread: tmp_path / thread / "user-data", settings)
    yield made
    made.close()


@pytest.fixture
async def files(workspaces: Workspaces) -> LocalFiles:
    return await workspaces.open("t")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "t" / "user-data" / "outputs" / ".tool-results"


async def kept(files: LocalFiles, folder: Path, name: str, *, size: int = 1, at: float = NOW) -> None:
    """A result as the tools write it, of that size and time."""
    assert isinstance(await files.write_file(f"{RESULTS}/{name}", "x"), FileInfo)
    os.truncate(folder / name, size)
    os.utime(folder / name, (at, at))


async def test_old_ones_go_when_the_thread_is_used_again(
    workspaces: Workspaces, files: LocalFiles, folder: Path
) -> None:
    await kept(files, folder, "old.txt", at=OLD)
    await kept(files, folder, "new.txt")
    await workspaces.open("other")
    assert sorted(os.listdir(folder)) == ["new.txt", "old.txt"]
    await workspaces.open("t")
    assert os.listdir(folder) == ["new.txt"]


async def test_of_too_many_the_oldest_go(workspaces: Workspaces, files: LocalFiles, folder: Path) -> None:
    for age in range(6):
        await kept(files, folder, f"{age}.txt", size=MOST_BYTES // 4, at=NOW - age)
    await workspaces.open("t")
    assert sorted(os.listdir(folder)) == ["0.txt", "1.txt", "2.txt", "3.txt"]


async def test_nothing_else_is_touched(workspaces: Workspaces, files: LocalFiles, folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("not the sandbox's")
    await kept(files, folder, "picture.png", at=OLD)
    await kept(files, folder, "below.txt/old.txt", at=OLD)
    (folder / "link.txt").symlink_to(outside)
    for path in (folder / "below.txt", folder / "link.txt", outside):
        os.utime(path, (OLD, OLD), follow_symlinks=False)
    await workspaces.open("t")
    assert sorted(os.listdir(folder)) == ["below.txt", "link.txt", "picture.png"]
    assert os.listdir(folder / "below.txt") == ["old.txt"]
    assert outside.read_text() == "not the sandbox's"


async def test_a_link_in_the_folders_place_leads_nowhere(
    workspaces: Workspaces, files: LocalFiles, folder: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "old.txt").write_text("not the sandbox's")
    os.utime(elsewhere / "old.txt", (OLD, OLD))
    os.symlink(elsewhere, folder)
    await workspaces.open("t")
    assert os.listdir(elsewhere) == ["old.txt"]


async def test_a_folder_that_a_command_has_closed_keeps_nobody_waiting(
    workspaces: Workspaces, files: LocalFiles, folder: Path
) -> None:
    await kept(files, folder, "old.txt", at=OLD)
    os.chmod(folder, 0o500)
    await workspaces.open("t")
    assert os.listdir(folder) == ["old.txt"]
