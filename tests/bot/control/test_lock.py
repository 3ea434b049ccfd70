"""One process per data folder."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from bot.cli.maintenance import compact
from bot.control.lock import FILE, DataDirInUse, DataDirLock, do_there_or_here
from tests.bot.settings_files import CHANNELS, settings_of

if TYPE_CHECKING:
    from pathlib import Path

HOLD = "import sys; from pathlib import Path; from bot.control.lock import DataDirLock\nwith DataDirLock(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"  # noqa: E501


def test_the_folder_is_made_for_its_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "data"
    with DataDirLock(folder):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / FILE).stat().st_mode) == 0o600


def test_a_second_holder_is_refused_and_told_the_pid_until_the_first_leaves(tmp_path: Path) -> None:
    with DataDirLock(tmp_path):
        with pytest.raises(DataDirInUse, match=f"process {os.getpid()}") as refused, DataDirLock(tmp_path):
            pass
        assert refused.value.pid == os.getpid()
    with DataDirLock(tmp_path):
        pass


def test_another_process_is_named_and_its_kill_frees_the_folder(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(DataDirInUse) as refused, DataDirLock(tmp_path):
            pass
        assert refused.value.pid == other.pid
        other.kill()
        other.wait(10)
        with DataDirLock(tmp_path):
            assert (tmp_path / FILE).read_text() == f"{os.getpid()}\n"


@pytest.mark.parametrize("content", ["", "garbage", "-1", "９\n"])
def test_an_unreadable_pid_is_no_pid(tmp_path: Path, content: str) -> None:
    with DataDirLock(tmp_path):
        (tmp_path / FILE).write_text(content)
        with pytest.raises(DataDirInUse, match="another process"), DataDirLock(tmp_path):
            pass


def test_a_folder_on_a_full_disk_is_held_without_a_pid(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))  # no file may grow
    try:
        with DataDirLock(tmp_path):
            assert (tmp_path / FILE).read_text() == ""
            with pytest.raises(DataDirInUse), DataDirLock(tmp_path):
                pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_process_that_does_not_answer_in_time_is_not_to_be_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def here(*_: object) -> dict[str, object]:
        raise AssertionError("the folder is held")

    settings = settings_of(tmp_path, CHANNELS)
    with DataDirLock(settings.data_dir):
        assert do_there_or_here(settings, "access", {}, here) == 1
    said = f"process {os.getpid()} holds {settings.data_dir} and has not answered; it may still do this, see its log"
    assert said in capsys.readouterr().err


def test_a_lock_of_another_user_is_named_by_what_needs_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def here(*_: object) -> dict[str, object]:
        raise AssertionError("the folder cannot be held")

    settings = settings_of(tmp_path, CHANNELS)
    lock = settings.data_dir / FILE
    lock.mkdir(parents=True)  # root could open any file
    assert do_there_or_here(settings, "access", {}, here) == 1
    assert compact(settings) == 1
    said = f"{lock}: Is a directory; the data folder and all in it must belong to the user that runs antler\n"
    assert capsys.readouterr().err == f"antler: {said}" * 2


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(OSError, match="data"), DataDirLock(tmp_path / "data"):
        pass
