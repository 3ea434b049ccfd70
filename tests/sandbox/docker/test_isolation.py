"""What commands in a container are, see and may take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox.base import Ending, FileInfo, Isolation
from sandbox.docker.plan import OWN_TASKS
from sandbox.policy import STAMP
from tests.sandbox.docker.running import LONG, output

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox.base import Sandbox
    from tests.sandbox.docker.conftest import Gateway

LIMITS = {"limits": {"memory_mb": 128, "processes": 20, "tmp_mb": 8, "file_mb": 4, "disk_mb": 16, "free_disk_mb": 1}}


@pytest.fixture
async def sandbox(gateway: Gateway) -> Sandbox:
    provider = await gateway.start(LIMITS | {"environment": {"GREETING": "hello"}})
    return await provider.acquire("thread")


async def test_the_report_says_what_is_not_enforced(gateway: Gateway, sandbox: Sandbox) -> None:
    report = gateway.report
    assert report is not None
    assert (report.provider, report.isolation, report.bash) == ("docker", Isolation.FULL, True)
    assert any("disk use" in each for each in report.shortfalls)


async def test_commands_are_nobody(sandbox: Sandbox) -> None:
    assert await output(sandbox, "id -u; id -g; hostname 2>/dev/null || uname -n") == "60700\n60700\nsandbox\n"
    status = await output(sandbox, "grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status")
    assert status.split() == [
        *("CapEff:", "0000000000000000", "CapBnd:", "0000000000000000"),
        *("NoNewPrivs:", "1", "Seccomp:", "2"),
    ]


async def test_only_the_threads_folders_and_tmp_can_be_written(sandbox: Sandbox) -> None:
    writable = "for d in / /usr /etc /var /dev /run /mnt /mnt/user-data; do touch $d/x && echo $d; done 2>/dev/null"
    assert await output(sandbox, writable) == ""
    theirs = "cd /mnt/user-data; for d in workspace uploads outputs /tmp /dev/shm; do touch $d/x && echo $d; done"
    assert (await output(sandbox, theirs)).split() == ["workspace", "uploads", "outputs", "/tmp", "/dev/shm"]


async def test_there_is_no_network(sandbox: Sandbox) -> None:
    assert await output(sandbox, "ls /sys/class/net; cat /proc/net/route | tail -n +2") == "lo\n"


async def test_the_environment_is_the_declared_one(sandbox: Sandbox) -> None:
    names = await output(sandbox, "env | cut -d= -f1 | sort")
    known = {"DEBIAN_FRONTEND", "GIT_PAGER", "GIT_TERMINAL_PROMPT", "GREETING", "HOME", "HOSTNAME", "LANG", "LOGNAME"}
    known |= {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PAGER", "PATH", "PWD", "TERM", "USER", "XDG_CACHE_HOME"}
    assert set(names.split()) - {"_", "SHLVL", "OLDPWD"} == known
    assert await output(sandbox, "echo $GREETING") == "hello\n"


async def test_memory_is_bounded_and_its_end_is_recognised(sandbox: Sandbox) -> None:
    result = await sandbox.execute_command("python3 -c 'bytearray(400 << 20)'", timeout=LONG)
    assert (result.ending, result.exit_code) == (Ending.OUT_OF_MEMORY, 137)
    after = await sandbox.execute_command("echo fine; exit 3", timeout=LONG)
    assert (after.ending, after.exit_code, after.output) == (Ending.EXITED, 3, "fine\n")


async def test_no_process_that_a_command_could_take_over_has_wider_limits(sandbox: Sandbox) -> None:
    """The wrappers are the commands' user's too, and where the kernel lets a user write into its own processes (yama's
    ptrace_scope 0) one can be had."""
    found = await output(sandbox, "for p in /proc/[0-9]*; do [ -O $p ] && grep -h 'Max file size' $p/limits; done")
    assert len(found.splitlines()) >= 3
    assert {tuple(each.split()[3:5]) for each in found.splitlines()} == {(str(4 << 20), str(4 << 20))}


FORK = """
import os, signal
count = 0
try:
    while True:
        if os.fork() == 0:
            signal.pause()
        count += 1
except BlockingIOError:
    print(count)
"""


async def test_processes_are_bounded(sandbox: Sandbox) -> None:
    assert isinstance(await sandbox.write_file("fork.py", FORK), FileInfo)
    assert 15 <= int(await output(sandbox, "python3 fork.py")) <= 20 + OWN_TASKS
    assert await output(sandbox, "echo fine") == "fine\n"


async def test_a_fork_bomb_ends_with_its_time(sandbox: Sandbox) -> None:
    result = await sandbox.execute_command("b() { b | b & }; b; sleep 50", timeout=1.0)
    assert result.ending is Ending.TIMED_OUT
    assert await output(sandbox, "echo fine") == "fine\n"


async def test_files_are_bounded(sandbox: Sandbox) -> None:
    grow = "head -c 40M /dev/zero >{0} 2>/dev/null; stat -c %s {0}"
    assert (await output(sandbox, grow.format("a"))).splitlines()[-1] == str(4 << 20)
    assert (await output(sandbox, grow.format("/dev/shm/a"))).splitlines()[-1] == str(2 << 20)
    fill = "for i in 1 2 3; do head -c 4M /dev/zero >/tmp/$i; done 2>/dev/null; cat /tmp/[123] | wc -c"
    assert await output(sandbox, fill) == f"{8 << 20}\n"


async def test_the_disk_share_is_watched(sandbox: Sandbox) -> None:
    fill = "for i in $(seq 8); do head -c 4M /dev/zero >f$i; done; sleep 50"
    result = await sandbox.execute_command(fill, timeout=LONG)
    assert (result.ending, result.exit_code) == (Ending.OUT_OF_SPACE, None)
    full = await sandbox.execute_command("echo more >more", timeout=LONG)
    assert full.ending is Ending.OUT_OF_SPACE
    assert (await sandbox.execute_command("rm f*", timeout=LONG)).exit_code == 0
    assert (await sandbox.execute_command("echo more >more", timeout=LONG)).exit_code == 0


async def test_mounts_are_there_and_read_only_ones_stay_so(gateway: Gateway, tmp_path: Path) -> None:
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "file").write_text("shown\n")
    provider = await gateway.start({"mounts": [{"path": "/mnt/shown", "host": str(tmp_path / "shown")}]})
    sandbox = await provider.acquire("thread")
    result = await sandbox.execute_command("cat /mnt/shown/file; touch /mnt/shown/x", timeout=LONG)
    assert result.exit_code == 1
    assert result.output.startswith("shown\n")
    assert "Read-only" in result.output


async def test_its_first_process_says_nothing_about_the_host(sandbox: Sandbox) -> None:
    told = await output(sandbox, "cat /proc/1/environ; tr '\\0' ' ' </proc/1/cmdline")
    assert "/bin/sleep" in told
    assert "antler" not in told.replace("antler-sandbox", "")


async def test_the_runtime_comes_first_where_it_fits_the_image(gateway: Gateway, tmp_path: Path) -> None:
    gateway.runtime = tmp_path / "runtime"
    programs = gateway.runtime / "bin"
    programs.mkdir(parents=True)
    (gateway.runtime / STAMP).touch()
    (programs / "python3").symlink_to("/usr/bin/python3")
    (programs / "tool").write_text("#!/bin/sh\necho from the runtime\n")
    (programs / "tool").chmod(0o755)
    provider = await gateway.start()
    assert gateway.report is not None
    assert any("/opt/antler" in each for each in gateway.report.shortfalls)
    sandbox = await provider.acquire("thread")
    assert await output(sandbox, "command -v tool || echo $PATH") == "/usr/local/bin:/usr/bin:/bin\n"
    version = (await output(sandbox, "python3 -c 'import sys; print(*sys.version_info[:2], sep=\".\")'")).strip()
    (gateway.runtime / "lib" / f"python{version}").mkdir(parents=True)
    provider = await gateway.start()
    assert not any("/opt/antler" in each for each in gateway.report.shortfalls)
    sandbox = await provider.acquire("another")
    assert await output(sandbox, "tool; touch /opt/antler/x 2>/dev/null || echo kept") == "from the runtime\nkept\n"


async def test_packages_of_the_images_own_are_enough(gateway: Gateway, tmp_path: Path) -> None:
    gateway.runtime = tmp_path / "runtime"
    (gateway.runtime / "bin").mkdir(parents=True)
    (gateway.runtime / STAMP).touch()
    for name in ("pandas", "markitdown"):
        (tmp_path / "packages" / name).mkdir(parents=True)
    mounts = [{"path": "/mnt/packages", "host": str(tmp_path / "packages")}]
    await gateway.start({"mounts": mounts, "environment": {"PYTHONPATH": "/mnt/packages"}})
    assert gateway.report is not None
    assert not any("/opt/antler" in each for each in gateway.report.shortfalls)
