"""What a hostile command can use up: R1 to R17 of the threat model. After each of them the sandbox still works."""

from __future__ import annotations

import signal
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.sandbox.conftest import private_folder
from tests.sandbox.driver import instance_of
from tests.sandbox.modes import BUBBLEWRAP_ROOT, LANDLOCK, Driver, Mode
from tests.sandbox.processes import has_ended, marked

if TYPE_CHECKING:
    from tests.sandbox.driver import Answer

LONG = 60.0
FINE = ("echo fine", LONG)

SMALL: dict[str, Any] = {
    "limits": {
        "memory_mb": 256,
        "processes": 48,
        "open_files": 64,
        "file_mb": 8,
        "disk_mb": 16,
        "inodes": 1000,
        "tmp_mb": 16,
        "free_disk_mb": 1,
    }
}

FORKS = """
import os, signal
pids = []
try:
    while len(pids) < 500:
        pid = os.fork()
        if pid == 0:
            signal.pause()
        pids.append(pid)
except OSError:
    pass
print(len(pids))
for pid in pids:
    os.kill(pid, signal.SIGKILL)
"""
ALLOCATE = "x = bytearray(2 << 30)"
ALLOCATE_TOGETHER = """
import os
for _ in range(8):
    if os.fork() == 0:
        try:
            x = bytearray(200 << 20)
        except MemoryError:
            pass
        os._exit(0)
killed = sum(os.WIFSIGNALED(os.wait()[1]) for _ in range(8))
raise SystemExit(9 if killed else 0)
"""
DESCRIPTORS = """
held = []
try:
    while len(held) < 5000:
        held.append(open("/dev/null"))
except OSError:
    pass
print(len(held))
"""
RAISE_LIMITS = """
import resource
raised = []
for name in ("NOFILE", "FSIZE", "NPROC", "CORE"):
    number = getattr(resource, "RLIMIT_" + name)
    try:
        resource.setrlimit(number, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        raised.append(name)
    except (ValueError, PermissionError):
        pass
print(raised)
"""
INODES = """
for number in range(100000):
    open(f"f{number}", "w").close()
"""
DEEP = """
import os
for _ in range(1500):
    os.mkdir("d" * 100)
    os.chdir("d" * 100)
print("deep")
"""


def python(code: str) -> str:
    return f"python3 - <<'END'\n{code}\nEND"


def outputs(answer: Answer) -> list[str]:
    return [result["output"].strip() for result in answer["results"]]


@pytest.fixture
def small(driver: Driver) -> Driver:
    driver.settings = SMALL
    return driver


def test_processes_descriptors_and_limits(small: Driver) -> None:
    answer = small.run((python(FORKS), LONG), (python(DESCRIPTORS), LONG), (python(RAISE_LIMITS), LONG), FINE)
    forks, descriptors, raised, fine = outputs(answer)
    assert 5 < int(forks) <= 48
    assert int(descriptors) <= 64
    assert (raised, fine) == ("[]", "fine")


def test_a_fork_bomb_ends_with_its_command(small: Driver) -> None:
    mark = uuid.uuid4().hex
    bomb = f"bomb() {{ bomb {mark} | bomb & }}; bomb; exec -a {mark} sleep 3"
    answer = small.run((bomb, 5.0), FINE)
    assert outputs(answer)[1] == "fine"
    assert marked(mark) == []


def test_memory_of_one_process(small: Driver) -> None:
    answer = small.run((python(ALLOCATE), LONG), FINE)
    result = answer["results"][0]
    assert result["ending"] == "out_of_memory" or "MemoryError" in result["output"]
    assert outputs(answer)[1] == "fine"


def test_memory_of_all_processes_together(open_folder: Path) -> None:
    BUBBLEWRAP_ROOT.require()
    driver = Driver(BUBBLEWRAP_ROOT, private_folder(open_folder / "data", BUBBLEWRAP_ROOT), settings=SMALL)
    answer = driver.run((python(ALLOCATE_TOGETHER), LONG), FINE)
    if any(each.startswith("the memory") for each in answer["report"]["shortfalls"]):
        pytest.skip("no control groups here, which the report says")
    assert (answer["results"][0]["ending"], outputs(answer)[1]) == ("out_of_memory", "fine")


def test_files_in_memory_have_a_size(small: Driver, mode: Mode) -> None:
    if mode is LANDLOCK:
        pytest.skip("it has none")
    fill = "head -c 100M /dev/zero >{0}/x; stat -c %s {0}/x"
    tmp, shm = outputs(small.run((fill.format("/tmp"), LONG), (fill.format("/dev/shm"), LONG)))
    # One file may have 8 MiB; the folders 16 and 4.
    assert int(tmp.split()[-1]) <= 8 << 20
    assert int(shm.split()[-1]) <= 4 << 20


def test_the_size_of_a_file(small: Driver) -> None:
    answer = small.run(("head -c 100M /dev/zero >big", LONG), ("truncate -s 1T sparse", LONG), FINE)
    assert answer["results"][0]["exit_code"] != 0
    assert answer["results"][1]["exit_code"] != 0
    assert (small.workspace / "big").stat().st_size <= 8 << 20
    assert not (small.workspace / "sparse").exists() or (small.workspace / "sparse").stat().st_size <= 8 << 20
    assert outputs(answer)[2] == "fine"


def test_a_full_share_stops_commands_until_there_is_room(small: Driver) -> None:
    fill = "for n in $(seq 200); do head -c 4M /dev/zero >f$n || exit 1; done; sleep 60"
    answer = small.run((fill, LONG), ("echo more >more", LONG), ("rm f*", LONG), ("echo room >more && cat more", LONG))
    filled, more, removed, room = answer["results"]
    assert (filled["ending"], filled["exit_code"]) == ("out_of_space", None)
    assert (more["ending"], removed["exit_code"]) == ("out_of_space", 0)
    assert (room["ending"], room["output"]) == ("exited", "room\n")


def test_a_flood_of_files(small: Driver) -> None:
    answer = small.run(
        (python(INODES + "\nimport time; time.sleep(60)"), LONG), ("find . -name 'f*' -delete", LONG), FINE
    )
    assert answer["results"][0]["ending"] == "out_of_space"
    assert outputs(answer)[2] == "fine"


def test_a_tree_too_deep_for_paths_is_deleted(driver: Driver) -> None:
    driver.delete = True
    answer = driver.run((python(DEEP), LONG), FINE)
    assert outputs(answer) == ["deep", "fine"]
    assert not driver.workspace.exists()


def test_time_and_output(driver: Driver) -> None:
    stubborn = "trap '' TERM INT HUP; while :; do :; done"
    answer = driver.run((stubborn, 1.0), ("yes", 1.0), FINE)
    spin, flood, fine = answer["results"]
    assert (spin["ending"], spin["exit_code"], flood["ending"]) == ("timed_out", None, "timed_out")
    assert spin["seconds"] < 20
    assert len(flood["output"]) <= 1 << 20
    assert flood["omitted"] > 1 << 20
    assert fine["output"] == "fine\n"


def test_no_daemon_is_left(driver: Driver) -> None:
    mark = uuid.uuid4().hex
    daemon = f"(setsid nohup bash -c 'exec -a {mark} sleep 600' {mark} >/dev/null 2>&1 &) ; echo started"
    answer = driver.run((daemon, LONG), (f"{daemon}; sleep 600", 1.0), FINE)
    assert outputs(answer) == ["started", "started", "fine"]
    assert marked(mark) == []


def test_nothing_runs_on_when_the_gateway_is_killed(driver: Driver) -> None:
    mark = uuid.uuid4().hex
    daemon = f"(setsid nohup bash -c 'exec -a {mark} sleep 600' >/dev/null 2>&1 &)"
    process = driver.start((f"{daemon}; bash -c 'exec -a {mark} sleep 600'", 600.0))
    deadline = time.monotonic() + LONG
    while len(running := marked(mark)) < 2:
        assert time.monotonic() < deadline
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert all(has_ended(pid, LONG) for pid in running)
    # What it left behind, control groups, the next one removes.
    assert outputs(driver.run(FINE)) == ["fine"]
    assert list(Path("/sys/fs/cgroup").rglob(f"antler-{instance_of(str(driver.folder))}")) == []


def test_every_ending_has_its_code(driver: Driver) -> None:
    answer = driver.run(("printf 'a\\377b'; exit 3", LONG), ("kill -9 $$", LONG), ("x" * 130_000, LONG), ("a\0b", LONG))
    odd, killed, long, null = answer["results"]
    assert (odd["output"], odd["exit_code"], odd["ending"]) == ("a\N{REPLACEMENT CHARACTER}b", 3, "exited")
    assert killed["exit_code"] == 128 + signal.SIGKILL
    assert (long["exit_code"], null["exit_code"]) == (126, 126)
