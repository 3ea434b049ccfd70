"""The threads' folders: who owns them, what they take, how they go."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox.base import (
    OUTPUTS,
    SKILLS,
    UPLOADS,
    WORKSPACE,
    Entries,
    FileInfo,
    FileText,
    Problem,
    ProblemCode,
    SandboxUnavailable,
)
from sandbox.config import MountSettings, SandboxLimits, SandboxSettings
from sandbox.files.beneath import Owner, acting_as
from sandbox.files.trees import Usage
from sandbox.files.workspace import Workspaces

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can take another user's rights")
LIMITS = SandboxLimits(file_mb=4, disk_mb=8, inodes=200, free_disk_mb=0)
UID = SandboxSettings().uid
ROOT = Path(__file__).resolve().parents[3]
WATCHED = """
import asyncio, sys
from pathlib import Path
from sandbox.config import SandboxSettings
from sandbox.files.workspace import Workspaces

imported = []

def watch(event, args):
    if event == "import":
        (users,) = [line for line in open("/proc/thread-self/status") if line.startswith("Uid:")]
        if users.split()[4] != "0":
            imported.append(args[0])

async def main():
    workspaces = Workspaces(lambda thread: Path(sys.argv[1], thread, "user-data"), SandboxSettings())
    files = await workspaces.open("t")
    sys.addaudithook(watch)
    await files.write_file("picture", bytes(9))
    print(getattr(await files.read_file("picture"), "code", "read"))
    await files.write_file("text", "some")
    await files.update_file("text", "some", "more")
    print((await files.glob("*")).more, (await files.grep("more")).hits[0].line)
    workspaces.close()

asyncio.run(main())
print(imported)
"""


@pytest.fixture
async def made(tmp_path: Path) -> AsyncIterator[Callable[..., Workspaces]]:
    all_made = []

    def make(**more: object) -> Workspaces:
        settings = SandboxSettings(**{"limits": LIMITS, **more})  # type: ignore[arg-type]
        skills = {"public": tmp_path / "skills" / "public", "mine": tmp_path / "skills" / "mine"}
        all_made.append(
            Workspaces(
                lambda thread: tmp_path / "threads" / thread / "user-data", settings, skills=lambda thread: skills
            )
        )
        return all_made[-1]

    yield make
    for workspaces in all_made:
        workspaces.close()
        workspaces.close()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_folders_are_made_once_for_nobody_else(made: Callable[..., Workspaces], tmp_path: Path) -> None:
    workspaces = made()
    assert await workspaces.start() == ()
    for _ in range(2):
        await workspaces.open("t")
    user_data = tmp_path / "threads" / "t" / "user-data"
    assert mode(user_data) == 0o700
    for name in ("workspace", "uploads", "outputs"):
        assert mode(user_data / name) == 0o700


@as_root
async def test_of_root_nothing_is_left_in_them(made: Callable[..., Workspaces], tmp_path: Path) -> None:
    workspaces = made()
    files = await workspaces.open("t")
    user_data = tmp_path / "threads" / "t" / "user-data"
    await files.write_file("src/a.py", "x")
    await files.write_file("src/a.py", "y", append=True)
    for path in ("workspace", "uploads", "workspace/src", "workspace/src/a.py"):
        assert (user_data / path).stat().st_uid == UID
    assert user_data.stat().st_uid == 0
    (user_data / "workspace" / "roots.txt").write_text("root's")
    (user_data / "workspace" / "roots.txt").chmod(0o600)
    for answer in (await files.read_file("roots.txt"), await files.update_file("roots.txt", "root", "x")):
        assert isinstance(answer, Problem)
        assert answer.code is ProblemCode.DENIED
    assert os.geteuid() == 0
    (tmp_path / "still root").mkdir()
    assert (tmp_path / "still root").stat().st_uid == 0


@as_root
async def test_what_the_gateway_put_into_uploads_before_becomes_the_threads(
    made: Callable[..., Workspaces], tmp_path: Path
) -> None:
    uploads = tmp_path / "threads" / "t" / "user-data" / "uploads"
    uploads.mkdir(parents=True, mode=0o700)
    (uploads / "report.pdf").write_text("x")
    (tmp_path / "secret").write_text("s")
    os.link(tmp_path / "secret", uploads / "trap")
    os.symlink(tmp_path / "secret", uploads / "link")
    workspaces = made()
    files = await workspaces.open("t")
    assert (uploads / "report.pdf").stat().st_uid == UID
    (uploads / "later").write_text("a command may have put it there")
    await workspaces.open("t")
    assert (uploads / "later").stat().st_uid == 0
    assert (tmp_path / "secret").stat().st_uid == 0
    assert isinstance(await files.read_file(f"{UPLOADS}/report.pdf"), FileText)


@as_root
def test_rights_are_taken_for_a_while_and_for_one_thread(tmp_path: Path) -> None:
    (tmp_path / "roots").write_text("x")
    (tmp_path / "roots").chmod(0o600)
    groups = os.getgroups()
    with acting_as(Owner(UID, UID)), pytest.raises(PermissionError):
        (tmp_path / "roots").read_text()
    with pytest.raises(ZeroDivisionError), acting_as(Owner(UID, UID)):
        raise ZeroDivisionError
    assert (tmp_path / "roots").read_text() == "x"
    assert os.getgroups() == groups


async def test_a_taken_user_is_told(made: Callable[..., Workspaces]) -> None:
    (said,) = await made(uid=65_534).start() if os.geteuid() == 0 else ("commands share the user nobody",)
    assert "nobody" in said


async def test_what_a_thread_takes(made: Callable[..., Workspaces], tmp_path: Path) -> None:
    workspaces = made()
    assert await workspaces.usage("t") == Usage()
    files = await workspaces.open("t")
    assert (await workspaces.usage("t")).inodes == 0
    await files.write_file("a/b/c", b"x" * 1_000_000)
    await files.write_file(f"{OUTPUTS}/d", b"x")
    usage = await workspaces.usage("t")
    assert (usage.inodes, usage.complete) == (4, True)
    assert 1_000_000 <= usage.bytes < 1_100_000


async def test_what_commands_wrote_counts_and_deleting_makes_room(
    made: Callable[..., Workspaces], tmp_path: Path
) -> None:
    workspaces = made()
    files = await workspaces.open("t")
    big = tmp_path / "threads" / "t" / "user-data" / "workspace" / "big"
    big.write_bytes(b"x" * (8 << 20))
    answer = await files.write_file("a", "x")
    assert isinstance(answer, Problem)
    assert (answer.code, "8 MB" in answer.detail) == (ProblemCode.FULL, True)
    big.unlink()
    assert isinstance(await files.write_file("a", "x"), FileInfo)


async def test_the_disks_floor(made: Callable[..., Workspaces]) -> None:
    files = await made(limits=SandboxLimits(free_disk_mb=1 << 24)).open("t")
    answer = await files.write_file("a", "x")
    assert isinstance(answer, Problem)
    assert (answer.code, answer.detail) == (ProblemCode.FULL, "the machine's disk is almost full")


async def test_a_deleted_thread_is_gone(made: Callable[..., Workspaces], tmp_path: Path) -> None:
    workspaces = made()
    await workspaces.delete("t")
    for thread in ("t", "u"):
        await (await workspaces.open(thread)).write_file("a/b", "x")
    os.symlink(tmp_path, tmp_path / "threads" / "t" / "user-data" / "workspace" / "link")
    await workspaces.delete("t")
    await workspaces.delete("t")
    assert os.listdir(tmp_path / "threads") == ["u"]
    assert isinstance(await (await workspaces.open("t")).write_file("a", "x"), FileInfo)


async def test_mounts_are_seen_as_they_are_set(made: Callable[..., Workspaces], tmp_path: Path) -> None:
    for name in ("docs", "shared"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(name)
        os.chmod(tmp_path / name, 0o777)
    (tmp_path / "skills" / "public" / "x").mkdir(parents=True)
    mounts = (
        MountSettings(path="/mnt/docs", host=tmp_path / "docs"),
        MountSettings(path="/mnt/shared", host=tmp_path / "shared", read_only=False),
    )
    workspaces = made(mounts=mounts)
    await workspaces.start()
    files = await workspaces.open("t")
    assert isinstance(await files.read_file("/mnt/docs/a.txt"), FileText)
    answer = await files.write_file("/mnt/docs/a.txt", "x")
    assert isinstance(answer, Problem)
    assert answer.code is ProblemCode.READ_ONLY
    assert isinstance(await files.write_file("/mnt/shared/new/b.txt", "x"), FileInfo)
    assert (await workspaces.usage("t")).inodes == 0
    listed = await files.list_dir("/mnt", depth=1)
    assert isinstance(listed, Entries)
    assert [entry.path for entry in listed.entries] == [
        "/mnt/docs",
        "/mnt/docs/a.txt",
        "/mnt/shared",
        "/mnt/shared/a.txt",
        "/mnt/shared/new",
        f"{SKILLS}/public",
        f"{SKILLS}/public/x",
        OUTPUTS,
        UPLOADS,
        WORKSPACE,
    ]
    assert files.layout.mask(f"{tmp_path}/docs/a.txt") == "/mnt/docs/a.txt"
    assert str(tmp_path) not in files.layout.mask(f"{tmp_path}/threads/t/user-data/outputs and {tmp_path}/threads/t")


async def test_a_place_of_skills_comes_and_goes_while_the_files_are_open(
    made: Callable[..., Workspaces], tmp_path: Path
) -> None:
    files = await made().open("t")
    mine = tmp_path / "skills" / "mine"
    mine.mkdir(parents=True)
    (mine / "SKILL.md").write_text("# Mine")
    assert isinstance(await files.read_file(f"{SKILLS}/mine/SKILL.md"), FileText)
    assert files.layout.mask(f"{mine}/SKILL.md") == f"{SKILLS}/mine/SKILL.md"
    mine.rename(tmp_path / "elsewhere")
    answer = await files.read_file(f"{SKILLS}/mine/SKILL.md")
    assert isinstance(answer, Problem)
    assert answer.code is ProblemCode.OUTSIDE
    mine.symlink_to(tmp_path / "elsewhere")  # as an operator may have it
    assert isinstance(await files.read_file(f"{SKILLS}/mine/SKILL.md"), FileText)


async def test_a_mount_that_is_not_there_stops_the_start(made: Callable[..., Workspaces], tmp_path: Path) -> None:
    workspaces = made(mounts=(MountSettings(path="/mnt/docs", host=tmp_path / "nothing"),))
    with pytest.raises(SandboxUnavailable, match="/mnt/docs: no such file"):
        await workspaces.start()


@as_root
def test_nothing_is_imported_with_the_rights_of_another_user(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines() == ["binary", "False 1", "[]"]
