"""The filter of system calls for containers (sandbox/docker/checks.py) says what that of bubblewrap says."""

from __future__ import annotations

import errno
import json
import platform
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.base import FileInfo
from sandbox.docker.checks import ORDINARY, profile
from sandbox.kernel.seccomp import ALLOW, COMMON, INTERNET_ONLY, MACHINES, fail, program
from tests.sandbox.kernel.test_seccomp import verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.sandbox.docker.conftest import Gateway

LONG = 60.0
DENIED = fail(1)
PROFILE: dict[str, Any] = json.loads(profile())
RULES = (*COMMON, *INTERNET_ONLY)
NAMED = sorted({name for rule in RULES for name in rule.calls.split()})
CODE = {machine: program(COMMON, INTERNET_ONLY, machine=machine) for machine in MACHINES}
CONDITIONAL = sorted({name for rule in RULES if rule.when for name in rule.calls.split()})

NEAR = st.sampled_from(
    [0, 1, 2, 5, 10, 16, 38, 40, 0o644, 0o2755, 0o4755, 0x5401, 0x5412, 0x541C, 0x7E020080, 0xFFFFFFFF]
)
ARGUMENT = st.builds(
    lambda low, high: low | high << 32,
    NEAR | st.integers(0x5400, 0x54FF) | st.integers(0, 2**32 - 1),
    st.integers(0, 3),
)


def said(name: str, arguments: tuple[int, ...]) -> int:
    """What the profile says of a call, as seccomp_rule_add(3) has it: entries for one call are alternatives."""
    found = set()
    for entry in PROFILE["syscalls"]:
        if name in entry["names"] and all(_passes(each, arguments) for each in entry.get("args", [])):
            found.add(ALLOW if entry["action"] == "SCMP_ACT_ALLOW" else fail(entry["errnoRet"]))
    assert len(found) <= 1, name
    return found.pop() if found else DENIED


def _passes(condition: dict[str, Any], arguments: tuple[int, ...]) -> bool:
    assert condition["op"] == "SCMP_CMP_MASKED_EQ"
    return bool(arguments[condition["index"]] & condition["value"] == condition["valueTwo"])


def assert_same(machine: str, names: Iterable[str], arguments: tuple[int, ...]) -> None:
    audit, numbers = MACHINES[machine].audit, MACHINES[machine].numbers
    for name in names:
        if name in numbers:
            assert said(name, arguments) == verdict(CODE[machine], audit, numbers[name], arguments), name


@pytest.mark.parametrize("machine", MACHINES)
def test_every_rule_holds_as_it_does_elsewhere(machine: str) -> None:
    assert len(CONDITIONAL) > 7
    assert_same(machine, NAMED, (0, 0, 0, 0))


@pytest.mark.parametrize("machine", MACHINES)
@given(arguments=st.tuples(ARGUMENT, ARGUMENT, ARGUMENT, ARGUMENT))
def test_every_condition_holds_as_it_does_elsewhere(machine: str, arguments: tuple[int, int, int, int]) -> None:
    assert_same(machine, CONDITIONAL, arguments)


def test_what_nobody_has_heard_of_is_refused() -> None:
    assert PROFILE["defaultAction"] == "SCMP_ACT_ERRNO"
    assert said("a_call_of_next_year", (0, 0, 0, 0)) == DENIED
    assert said("mbind", (0, 0, 0, 0)) == DENIED


def test_no_other_architecture_is_let_in() -> None:
    assert PROFILE.keys() == {"defaultAction", "syscalls"}


def test_what_is_ordinary_is_named_once_and_by_no_rule() -> None:
    names = ORDINARY.split()
    assert len(names) == len(set(names))
    assert not set(names) & set(NAMED)


def test_an_entry_has_one_condition_on_each_argument() -> None:
    """runc takes several on one argument for alternatives."""
    looked_at = [[each["index"] for each in entry.get("args", [])] for entry in PROFILE["syscalls"]]
    assert all(len(indices) == len(set(indices)) for indices in looked_at)
    assert [] not in [indices for indices, entry in zip(looked_at, PROFILE["syscalls"], strict=True) if "args" in entry]


PROGRAMS = """
import asyncio, concurrent.futures, mmap, multiprocessing, os, pty, select, shutil, signal, socket, subprocess, tempfile

with concurrent.futures.ThreadPoolExecutor(4) as threads:
    assert list(threads.map(abs, (-1, -2))) == [1, 2]
with multiprocessing.get_context("fork").Pool(2) as workers:
    assert workers.map(abs, (-1, -2)) == [1, 2]
assert subprocess.run(["echo", "hi"], capture_output=True).stdout == b"hi\\n"
assert asyncio.run(asyncio.to_thread(abs, -3)) == 3
with tempfile.TemporaryDirectory() as folder:
    made = os.path.join(folder, "made")
    with open(made, "w") as file:
        file.truncate(4096)
        os.chmod(made, 0o755)
    shutil.copy2(made, made + "2")
    os.rename(made + "2", made + "3")
    os.symlink(made, made + "4")
    with open(made, "r+b") as file, mmap.mmap(file.fileno(), 4096) as memory:
        memory[0] = 1
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    socket.socket(socket.AF_INET, kind).close()
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname()).sendall(b"x")
assert server.accept()[0].recv(1) == b"x"
select.epoll().close()
signal.setitimer(signal.ITIMER_REAL, 60)
os.getrandom(8)
os.memfd_create("x")
assert os.waitstatus_to_exitcode(pty.spawn(["true"])) == 0
print("all")
"""


async def test_ordinary_programs_work(gateway: Gateway) -> None:
    sandbox = await (await gateway.start()).acquire("thread")
    assert isinstance(await sandbox.write_file("programs.py", PROGRAMS), FileInfo)
    result = await sandbox.execute_command("python3 programs.py", timeout=LONG)
    assert result.output.splitlines()[-1:] == ["all"], result.output


ERRORS = {"unshare": errno.EPERM, "io_setup": errno.EPERM, "clone3": errno.ENOSYS, "openat2": errno.ENOSYS}
"""Of calls that would do nothing, or fail with another error, were they let through with zeros."""
ASK = """
import ctypes, json
libc = ctypes.CDLL(None, use_errno=True)
print(json.dumps({name: (libc.syscall(number, 0, 0, 0, 0), ctypes.get_errno())[1] for name, number in NUMBERS.items()}))
"""


async def test_the_kernel_answers_as_the_profile_says(gateway: Gateway) -> None:
    sandbox = await (await gateway.start()).acquire("thread")
    numbers = {name: MACHINES[platform.machine()].numbers[name] for name in ERRORS}
    assert isinstance(await sandbox.write_file("ask.py", f"NUMBERS = {numbers}\n{ASK}"), FileInfo)
    result = await sandbox.execute_command("python3 ask.py", timeout=LONG)
    assert json.loads(result.output) == ERRORS
