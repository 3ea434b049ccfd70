"""The call filter, run by an interpreter of its machine on both processors, and for real in the escape tests."""

from __future__ import annotations

import errno
import socket
import struct

import pytest

from sandbox.kernel.seccomp import (
    ALLOW,
    COMMON,
    INTERNET_ONLY,
    KILL,
    MACHINES,
    PRIVATE_MEMORY,
    SHARED_MACHINE,
    Rule,
    UnknownMachine,
    fail,
    program,
)

DENIED = fail(1)
MISSING = fail(38)
NOTHING = fail(0)
WITHOUT = fail(errno.EOPNOTSUPP)
MOST_INSTRUCTIONS = 4096
LOAD, AND, EQUAL, GREATER_EQUAL, BITS, RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06


def verdict(code: bytes, audit: int, number: int, arguments: tuple[int, ...]) -> int:
    """What the kernel would say (Documentation/networking/filter.rst)."""
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<IIQ6Q", number, audit, 0, *(each & (2**64 - 1) for each in padded))
    instructions = list(struct.iter_unpack("<HBBI", code))
    accumulator = at = 0
    while True:
        operation, yes, no, value = instructions[at]
        at += 1
        if operation == RETURN:
            return int(value)
        if operation == LOAD:
            (accumulator,) = struct.unpack_from("<I", data, value)
        elif operation == AND:
            accumulator &= value
        else:
            passed = {
                EQUAL: accumulator == value,
                GREATER_EQUAL: accumulator >= value,
                BITS: bool(accumulator & value),
            }[operation]
            at += yes if passed else no


class Filter:
    def __init__(self, machine: str, *rules: tuple[Rule, ...]) -> None:
        self._machine = MACHINES[machine]
        self.code = program(*rules, machine=machine)

    def has(self, name: str) -> bool:
        return name in self._machine.numbers

    def __call__(self, name: str, *arguments: int) -> int:
        return verdict(self.code, self._machine.audit, self._machine.numbers[name], arguments)

    def raw(self, audit: int, number: int) -> int:
        return verdict(self.code, audit, number, ())


@pytest.fixture(params=["x86_64", "aarch64"])
def machine(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def namespaced(machine: str) -> Filter:
    return Filter(machine, COMMON, INTERNET_ONLY)


@pytest.fixture
def shared(machine: str) -> Filter:
    return Filter(machine, SHARED_MACHINE, COMMON)


def test_rules_without_a_condition_hold_always(namespaced: Filter, shared: Filter) -> None:
    for rules, each in ((COMMON, namespaced), (SHARED_MACHINE, shared)):
        names = [name for rule in rules if not rule.when for name in rule.calls.split() if each.has(name)]
        assert len(names) > 7
        for name in names:
            assert each(name, 1, 2, 3) in (DENIED, MISSING, NOTHING, WITHOUT), name


def test_namespaces_and_their_ways_round(namespaced: Filter) -> None:
    assert namespaced("clone", 0x11) == ALLOW
    assert namespaced("clone", 0x10000000 | 0x11) == DENIED
    assert namespaced("clone3") == MISSING
    assert namespaced("openat2") == MISSING


def test_set_user_id_bits(namespaced: Filter) -> None:
    assert namespaced("openat", 0, 0, 0o101, 0o644) == ALLOW
    assert namespaced("openat", 0, 0, 0o101, 0o4755) == DENIED
    assert namespaced("fchmodat", 0, 0, 0o2755) == DENIED
    assert namespaced("fchmod", 3, 0o755) == ALLOW
    if namespaced.has("chmod"):
        assert namespaced("chmod", 0, 0o4755) == DENIED


def test_terminal_and_personality(namespaced: Filter) -> None:
    assert namespaced("ioctl", 0, 0x5401) == ALLOW
    assert namespaced("ioctl", 0, 0x5412) == DENIED
    # Only the lower half counts for the kernel, so only it may count here.
    assert namespaced("ioctl", 0, 0x5412 | 1 << 40) == DENIED
    assert namespaced("personality", 0xFFFFFFFF) == ALLOW
    assert namespaced("personality", 0x0040000) == DENIED


def test_sockets_with_a_network_namespace(namespaced: Filter) -> None:
    assert namespaced("socket", socket.AF_INET, socket.SOCK_STREAM) == ALLOW
    assert namespaced("socket", socket.AF_INET6, socket.SOCK_DGRAM) == ALLOW
    for family in (socket.AF_UNIX, 16, 17, 38, 40):
        assert namespaced("socket", family, socket.SOCK_STREAM) == DENIED
    assert namespaced("socketpair", socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) == ALLOW
    assert namespaced("socketpair", socket.AF_UNIX, socket.SOCK_DGRAM) == DENIED
    for family in (socket.AF_INET, socket.AF_TIPC, 41):
        assert namespaced("socketpair", family, socket.SOCK_SEQPACKET) == DENIED


def test_a_shared_machine_has_no_sockets_and_leaves_other_processes_alone(shared: Filter) -> None:
    assert shared("socket", socket.AF_INET, socket.SOCK_STREAM) == DENIED
    assert shared("prlimit64", 0) == ALLOW
    assert shared("prlimit64", 4711) == DENIED
    assert shared("sched_setaffinity", 4711) == DENIED
    assert shared("fchmodat", 0, 0, 0o644) == NOTHING
    assert shared("fchownat", 0, 0, 0) == DENIED


def test_without_namespaces_no_descriptor_changes_what_may_only_be_read(shared: Filter) -> None:
    assert shared("fchmod", 3, 0o755) == NOTHING
    assert shared("utimensat", 3, 0, 0, 0) == NOTHING
    assert shared("fchown", 3) == DENIED
    for call in ("setxattr", "fsetxattr", "fremovexattr"):
        assert shared(call, 3) == WITHOUT
    for flags in (0x40086602, 0x401C5820, 0x40806685):
        assert shared("ioctl", 3, flags) == DENIED
    assert shared("ioctl", 0, 0x5412) == DENIED
    assert shared("ioctl", 0, 0x5401) == ALLOW


def test_what_is_counted_for_the_machine_or_tells_about_it(machine: str, namespaced: Filter, shared: Filter) -> None:
    assert namespaced("io_setup", 512) == DENIED
    assert (shared("inotify_init1", 0), namespaced("inotify_init1", 0)) == (MISSING, ALLOW)
    unbounded = Filter(machine, COMMON, PRIVATE_MEMORY)
    assert (unbounded("memfd_create", 0), namespaced("memfd_create", 0)) == (MISSING, ALLOW)


def test_other_calling_conventions_are_killed(machine: str, namespaced: Filter) -> None:
    assert namespaced.raw(0x40000003, 20) == KILL
    if machine == "x86_64":
        assert namespaced.raw(MACHINES["x86_64"].audit, 0x40000000 | 1) == KILL


def test_what_no_rule_names_is_allowed(machine: str, namespaced: Filter) -> None:
    assert namespaced.raw(MACHINES[machine].audit, 9999) == ALLOW
    assert len(namespaced.code) // 8 < MOST_INSTRUCTIONS


def test_an_unknown_processor_is_refused() -> None:
    with pytest.raises(UnknownMachine):
        program(COMMON, machine="riscv64")
