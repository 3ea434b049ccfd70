"""What a command finds in a sandbox, and that ordinary work gets done there."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from sandbox.files.paths import Bind
from sandbox.local.landlock import translated
from sandbox.policy import STAMP
from tests.sandbox.modes import LANDLOCK, Driver, Mode

if TYPE_CHECKING:
    from pathlib import Path

LONG = 90.0
WORKSPACE = "/mnt/user-data/workspace"


def printed(driver: Driver, *commands: str) -> list[str]:
    results = driver.run(*((command, LONG) for command in commands))["results"]
    return [result["output"].strip() for result in results]


def test_the_folders_of_the_thread(driver: Driver) -> None:
    driver.files = {"here": "from the gateway\n"}
    read, listed, written = printed(
        driver,
        f"cat here; pwd; cat {WORKSPACE}/here",
        "ls /mnt/user-data | grep -v tmp",
        "echo made > /mnt/user-data/outputs/out; echo more >> here; cat here /mnt/user-data/outputs/out",
    )
    assert read.splitlines() == ["from the gateway", WORKSPACE, "from the gateway"]
    assert listed.split()[-3:] == ["outputs", "uploads", "workspace"]
    assert written.splitlines() == ["from the gateway", "more", "made"]
    assert (driver.workspace / "here").read_text() == "from the gateway\nmore\n"
    assert (driver.workspace.parent / "outputs" / "out").read_text() == "made\n"


def test_environment(driver: Driver, mode: Mode) -> None:
    driver.settings = {"environment": {"DECLARED": "a value", "LANG": "C"}}
    (found,) = printed(driver, "env | sort")
    env = dict(line.split("=", 1) for line in found.splitlines())
    assert (env["DECLARED"], env["LANG"], env["HOME"]) == ("a value", "C", WORKSPACE)
    extra = set(env) - {"DECLARED", "LANG", "HOME", "PATH", "TERM", "USER", "LOGNAME", "PWD", "SHLVL", "_", "TMPDIR"}
    quiet = {"PAGER", "GIT_PAGER", "GIT_TERMINAL_PROMPT", "DEBIAN_FRONTEND"}
    assert extra == quiet | {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "XDG_CACHE_HOME"}


SEEN = """
import json, os, pathlib, tempfile
cache = pathlib.Path(os.environ["XDG_CACHE_HOME"])
(cache / "made").mkdir(parents=True)
print(json.dumps({
    "threads": [os.environ[name] for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")],
    "temporary": cache.parent == pathlib.Path(tempfile.gettempdir()),
}))
"""


@pytest.mark.parametrize(
    ("cpus", "declared", "threads"),
    [
        pytest.param(3.5, {}, ["3", "3"], id="as-many-as-the-limits-allow"),
        pytest.param(0.5, {}, ["1", "1"], id="at-least-one"),
        pytest.param(3.5, {"OMP_NUM_THREADS": "2"}, ["2", "3"], id="the-operators-own-win"),
    ],
)
def test_libraries_of_numbers_find_their_share_of_threads_and_a_cache(
    driver: Driver, cpus: float, declared: dict[str, str], threads: list[str]
) -> None:
    driver.settings = {"environment": declared, "limits": {"cpus": cpus}}
    driver.files = {"seen.py": SEEN}
    (found,) = printed(driver, "python3 seen.py")
    assert json.loads(found) == {"threads": threads, "temporary": True}


def test_the_runtime_comes_first_in_the_path(driver: Driver, open_folder: Path) -> None:
    program = open_folder / "runtime" / "bin" / "python3"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho the runtime\n")
    program.chmod(0o755)
    (open_folder / "runtime" / STAMP).touch()
    driver.runtime = str(open_folder / "runtime")
    assert printed(driver, "python3; (: >$(dirname $(which python3))/x) 2>/dev/null || echo read-only") == [
        "the runtime\nread-only"
    ]


def test_mounts_are_as_writable_as_they_say(driver: Driver, open_folder: Path) -> None:
    for name in ("open", "closed"):
        (open_folder / name).mkdir()
        (open_folder / name).chmod(0o777)
        (open_folder / name / "file").write_text(f"{name}\n")
    driver.settings = {
        "mounts": [
            {"path": "/mnt/open", "host": str(open_folder / "open"), "read_only": False},
            {"path": "/mnt/closed", "host": str(open_folder / "closed")},
        ]
    }
    assert printed(
        driver, "cat /mnt/open/file /mnt/closed/file; echo x > /mnt/open/new; echo x > /mnt/closed/new || echo refused"
    )[0].splitlines()[::3] == ["open", "refused"]
    assert (open_folder / "open" / "new").read_text() == "x\n"
    assert not (open_folder / "closed" / "new").exists()


def test_ordinary_work(driver: Driver) -> None:
    found = printed(
        driver,
        'python3 -c "import asyncio; print(asyncio.run(asyncio.sleep(0, 5)))"',
        "python3 -c \"import sqlite3; print(sqlite3.connect('d.db').execute('select 7').fetchone())\"",
        "diff <(echo same) <(echo same) && echo same",
        "echo kept > f && tar cf a.tar f && rm f && tar xf a.tar && cat f",
        "mktemp > name && echo x > $(cat name) && echo temporary",
        "seq 5 | sort -r | head -n 1",
    )
    assert found == ["5", "(7,)", "same", "kept", "temporary", "5"]


def test_git(driver: Driver) -> None:
    if shutil.which("git", path="/usr/bin:/bin") is None:
        pytest.skip("there is no git here")
    commit = "git init -q r && cd r && touch a && git add a && git -c user.name=a -c user.email=a@b commit -qm done"
    assert printed(driver, f"{commit} && git log --format=%s", "umask; stat -c %a r/a") == ["done", "0022\n644"]


def test_files_are_copied_with_their_permissions_as_far_as_there_are_any(driver: Driver) -> None:
    copied = "mkdir a && echo x > a/f && cp -a a b && cp -p a/f g && install -m 755 a/f h && cat b/f g h"
    assert printed(driver, copied) == ["x\nx\nx"]


def test_a_sandbox_names_itself_and_nobody_of_the_host(driver: Driver, mode: Mode) -> None:
    if mode is LANDLOCK:
        pytest.skip("it shares the host's name")
    assert printed(driver, "hostname 2>/dev/null || cat /proc/sys/kernel/hostname", "whoami", "ls /home /root") == [
        "sandbox",
        "sandbox",
        "ls: cannot access '/home': No such file or directory\nls: cannot access '/root': No such file or directory",
    ]


def test_the_table_of_mounts_does_not_tell_where_the_threads_are(open_folder: Path, driver: Driver) -> None:
    (table,) = printed(driver, "cat /proc/self/mountinfo; echo $PWD")
    assert "/mnt/user-data/workspace" in table
    assert str(open_folder) not in table
    assert "threads" not in table


def test_landlock_translates_paths_where_they_stand_alone(tmp_path: Path) -> None:
    binds = (
        Bind(source=tmp_path / "w", target="/mnt/user-data/workspace", read_only=False),
        Bind(source=tmp_path / "t", target="/tmp", read_only=False),
    )
    command = "cat /mnt/user-data/workspace/a /mnt/user-data/workspaces /tmp/x '/tmp' /var/tmp ./tmp --out=/tmp/y"
    assert translated(command, binds) == (
        f"cat {tmp_path}/w/a {tmp_path}/workspaces {tmp_path}/t/x '{tmp_path}/t' /var/tmp ./tmp --out={tmp_path}/t/y"
    )


def test_processes_of_python(driver: Driver, mode: Mode) -> None:
    if mode is LANDLOCK:
        pytest.skip("it has no shared memory")
    assert printed(driver, 'python3 -c "import multiprocessing as m; print(m.Pool(2).map(abs, [1, -2]))"') == ["[1, 2]"]


def test_permissions_outside_stay_under_landlock(open_folder: Path, driver: Driver, mode: Mode) -> None:
    if mode is not LANDLOCK:
        pytest.skip("elsewhere there is no outside")
    outside = open_folder / "outside"
    outside.write_text("")
    outside.chmod(0o600)
    os.chown(outside, mode.user, mode.user)
    printed(driver, f"chmod 777 {outside}")
    assert outside.stat().st_mode & 0o777 == 0o600
