"""Runs inside a sandbox, with any python3 and nothing else: 80 attempts to get out, each in a process of its own.

It reads escapes.json beside its working directory's files, and prints one JSON object: attempt -> what it got. Nothing
here judges; the host looks at its own state and at what came back (world.py).
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import pty
import resource
import signal
import socket
import stat
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

OPEN_AT_START = [number for number in range(3, 256) if os.path.lexists(f"/proc/self/fd/{number}")]
ATTEMPTS: dict[str, Callable[[], str]] = {}
SECONDS = 8
WORLD: dict[str, Any] = {}

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def attempt(name: str) -> Callable[[Callable[[], str]], Callable[[], str]]:
    def keep(function: Callable[[], str]) -> Callable[[], str]:
        ATTEMPTS[name] = function
        return function

    return keep


def call(name: str, *arguments: object) -> str:
    """Evidence that a system call went through: its result; "" otherwise."""
    numbers: dict[str, int] = WORLD["calls"]
    if name not in numbers:
        return ""
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = libc.syscall(ctypes.c_long(numbers[name]), *wide)
    return f"{name}={result}" if result >= 0 else ""


def read(path: str | Path) -> str:
    with open(path, "rb") as file:
        return file.read(65536).decode(errors="replace")


def write(path: str | Path, content: str) -> str:
    with open(path, "a") as file:
        file.write(content)
    return f"wrote {path}"


def rewrite(path: str) -> str:
    """Write back what is there: proof enough that it could be changed."""
    before = read(path)
    with open(path, "w") as file:
        file.write(before)
    return f"wrote {path}"


def every(pattern: str, look: Callable[[Path], str]) -> str:
    found = []
    for path in Path("/").glob(pattern):
        try:
            found.append(look(path))
        except OSError:
            continue
    return "\n".join(found)


def listing(*folders: str) -> str:
    return " ".join(name for folder in folders if os.path.isdir(folder) for name in _names(folder))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


# A: read what is not ours.
attempt("A01")(lambda: read("/etc/shadow"))
attempt("A02")(lambda: read("/etc/passwd"))
attempt("A03")(lambda: read(WORLD["public"]))
attempt("A04")(lambda: read(WORLD["private"]))
attempt("A05")(lambda: read("../" * 12 + WORLD["public"].lstrip("/")))


@attempt("A06")
def _symlink() -> str:
    os.symlink(WORLD["public"], "a06")
    return read("a06")


@attempt("A07")
def _symlink_to_root() -> str:
    os.symlink("/", "a07")
    return read("a07" + WORLD["public"])


@attempt("A08")
def _hard_link() -> str:
    os.link(WORLD["private"], "a08")
    return read("a08")


attempt("A09")(lambda: read("/proc/1/root" + WORLD["public"]))
attempt("A10")(lambda: every("proc/[0-9]*/root", lambda path: read(f"{path}{WORLD['public']}")))


@attempt("A11")
def _by_handle() -> str:
    root_inode = struct.pack("<IiII", 8, 1, 2, 0)
    handle = ctypes.create_string_buffer(root_inode, 128)
    return call("open_by_handle_at", os.open(".", os.O_RDONLY), handle, os.O_RDONLY)


attempt("A12")(lambda: " ".join(os.readlink(f"/proc/self/fd/{number}") for number in OPEN_AT_START))
attempt("A13")(lambda: listing("/root", "/home"))
attempt("A14")(lambda: listing("/sys", "/boot"))
attempt("A15")(lambda: read(WORLD["tenant"]))
attempt("A16")(lambda: every("dev/[vsnmk][dvme][a-zm]*", read))


@attempt("A17")
def _device() -> str:
    os.mknod("a17", stat.S_IFCHR | 0o666, os.makedev(1, 1))
    return "made /dev/mem's twin"


# B: write what is not ours.
attempt("B01")(lambda: write(f"/usr/bin/{WORLD['mark']}", "x"))
attempt("B02")(lambda: write(f"/etc/cron.d/{WORLD['mark']}", "x"))
attempt("B03")(lambda: write(WORLD["profile"], "evil\n"))
attempt("B04")(lambda: write(f"{WORLD['open']}/{WORLD['mark']}", "x"))
attempt("B05")(lambda: write(f"/tmp/{WORLD['mark']}", "x"))
attempt("B06")(lambda: write(f"/{WORLD['mark']}", "x"))
attempt("B07")(lambda: call("mount", b"none", b"/usr", None, 0x1020, None))


@attempt("B08")
def _mount() -> str:
    os.mkdir("b08")
    return call("mount", b"none", b"b08", b"tmpfs", 0, None)


attempt("B09")(lambda: call("fsopen", b"tmpfs", 0))
attempt("B10")(lambda: call("umount2", b"/proc/sys", 2) or call("umount2", b"/tmp", 2))
attempt("B11")(lambda: call("chroot", b"."))
attempt("B12")(lambda: rewrite("/proc/sys/kernel/core_pattern"))
attempt("B13")(lambda: write("/proc/sysrq-trigger", "h"))
attempt("B14")(lambda: rewrite("/proc/sys/vm/swappiness"))
attempt("B15")(lambda: every("sys/fs/cgroup/**/release_agent", lambda path: rewrite(str(path))))
attempt("B16")(lambda: every("sys/fs/cgroup/**/cgroup.procs", lambda path: write(path, str(os.getpid()))))

# C: processes and secrets.
attempt("C01")(lambda: json.dumps(dict(os.environ)))
attempt("C02")(lambda: read("/proc/1/environ"))
attempt("C03")(lambda: every("proc/[0-9]*/environ", read))
attempt("C04")(lambda: every("proc/[0-9]*/cmdline", read))
attempt("C05")(lambda: read(f"/proc/{WORLD['victim']}/cmdline"))


@attempt("C06")
def _kill() -> str:
    os.kill(WORLD["target"], signal.SIGKILL)
    return "killed"


@attempt("C07")
def _trace() -> str:
    seize = 0x4206
    return call("ptrace", seize, WORLD["victim"], 0, 0)


@attempt("C08")
def _read_memory() -> str:
    first = read(f"/proc/{WORLD['victim']}/maps").split("-", 1)[0]
    buffer = ctypes.create_string_buffer(16)
    ours = struct.pack("<QQ", ctypes.addressof(buffer), 16)
    theirs = struct.pack("<QQ", int(first, 16), 16)
    return call("process_vm_readv", WORLD["victim"], ours, 1, theirs, 1, 0)


@attempt("C09")
def _take_descriptor() -> str:
    handle = os.pidfd_open(WORLD["victim"])
    return call("pidfd_getfd", handle, 0, 0)


@attempt("C10")
def _shared_memory() -> str:
    found = call("shmget", WORLD["shm_key"], 0, 0)
    if not found:
        return ""
    libc.shmat.restype = ctypes.c_void_p
    address = libc.shmat(int(found.split("=")[1]), None, 0o10000)
    return ctypes.string_at(address, 64).decode(errors="replace") if address not in (None, 2**64 - 1) else ""


attempt("C11")(lambda: call("add_key", b"user", b"antler", b"x", 1, -4))
attempt("C12")(lambda: call("syslog", 3, ctypes.create_string_buffer(4096), 4096))


@attempt("C13")
def _kernel_memory() -> str:
    addresses = [line.split()[0] for line in read("/proc/kallsyms").splitlines()[:50]]
    return "addresses" if any(int(each, 16) for each in addresses) else read("/proc/kcore")[:10]


# D: the network.
def connect(family: int, address: Any, kind: int = socket.SOCK_STREAM) -> str:
    with socket.socket(family, kind) as connection:
        connection.settimeout(1)
        connection.connect(address)
        connection.send(b"hello from inside")
    return f"sent to {address}"


def routed(address: str) -> str:
    """Whether there is a way there; connecting a datagram socket sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((address, 53))
        return f"route to {address} from {probe.getsockname()[0]}"


def made(family: int, kind: int, protocol: int = 0) -> str:
    with socket.socket(family, kind, protocol):
        return "made"


attempt("D01")(lambda: connect(socket.AF_INET, ("127.0.0.1", WORLD["tcp4"])))
attempt("D02")(lambda: connect(socket.AF_INET6, ("::1", WORLD["tcp6"])))
attempt("D03")(lambda: connect(socket.AF_INET, (WORLD["address"], WORLD["tcp4"])))
attempt("D04")(lambda: routed("169.254.169.254"))
attempt("D05")(lambda: routed("192.0.2.1"))
attempt("D06")(lambda: connect(socket.AF_INET, ("127.0.0.1", WORLD["udp"]), socket.SOCK_DGRAM))
attempt("D07")(lambda: connect(socket.AF_UNIX, "\0" + WORLD["mark"]))
attempt("D08")(lambda: connect(socket.AF_UNIX, WORLD["socket"]))
attempt("D09")(lambda: made(17, socket.SOCK_RAW, socket.htons(3)))
attempt("D10")(lambda: made(16, socket.SOCK_RAW))
attempt("D11")(lambda: made(40, socket.SOCK_STREAM))


@attempt("D12")
def _kernel_crypto() -> str:
    with socket.socket(38, socket.SOCK_SEQPACKET) as crypto:
        crypto.bind(("hash", "sha256"))
    return "bound"


attempt("D13")(lambda: made(socket.AF_INET, socket.SOCK_RAW, 1))


# E: the kernel and other users.
@attempt("E01")
def _other_user() -> str:
    done = subprocess.run(["su", "-c", "id -u"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return done.stdout.decode() if done.returncode == 0 else ""


attempt("E02")(lambda: call("unshare", 0x10000000))


@attempt("E03")
def _clone3() -> str:
    arguments = struct.pack("<11Q", 0x10000000, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0)
    done = call("clone3", arguments, len(arguments))
    if done == "clone3=0":
        os._exit(0)
    return done


attempt("E04")(lambda: call("bpf", 0, struct.pack("<IIII", 2, 4, 4, 1) + bytes(56), 72))
attempt("E05")(lambda: call("perf_event_open", struct.pack("<IIQ", 1, 112, 0) + bytes(96), 0, -1, -1, 0))
attempt("E06")(lambda: call("io_uring_setup", 4, ctypes.create_string_buffer(120)))
attempt("E07")(lambda: call("userfaultfd", 1))
attempt("E08")(lambda: call("init_module", b"x", 1, b""))


@attempt("E09")
def _other_namespace() -> str:
    with open(f"/proc/{WORLD['victim']}/ns/net") as namespace:
        return call("setns", namespace.fileno(), 0)


@attempt("E10")
def _type_into_terminal() -> str:
    pid, terminal = pty.fork()
    if pid == 0:
        os._exit(0 if call("ioctl", 0, 0x5412, b"x") else 1)
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return "typed" if status == 0 else ""


attempt("E11")(lambda: call("clock_settime", 0, struct.pack("<qq", 1_700_000_000, 0)))
attempt("E12")(lambda: call("reboot", 0xFEE1DEAD, 672274793, 0, 0))
attempt("E13")(lambda: call("setuid", 0))
attempt("E14")(lambda: call("personality", 0x0040000))


@attempt("E15")
def _old_abi() -> str:
    if os.uname().machine != "x86_64":
        return ""
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, getpid; int 0x80; ret
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    return f"pid {function()}"


@attempt("E16")
def _set_user_id() -> str:
    with open("e16", "w") as file:
        os.chmod(file.fileno(), 0o4755)
    return "made"


# S: what the same user may do to its other processes and files anywhere.
@attempt("S01")
def _permissions() -> str:
    os.chmod(WORLD["private"], 0o777)
    return "changed"


@attempt("S02")
def _limits() -> str:
    resource.prlimit(WORLD["victim"], resource.RLIMIT_NOFILE, (7, 7))
    return "changed"


@attempt("S03")
def _scheduling() -> str:
    os.sched_setscheduler(WORLD["victim"], os.SCHED_BATCH, os.sched_param(0))
    return "changed"


@attempt("S04")
def _turned_pair() -> str:
    pair, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    pair.sendto(b"hello from inside", WORLD["datagrams"])
    return "sent"


@attempt("S05")
def _message_queue() -> str:
    queue = libc.mq_open(f"/{WORLD['mark']}".encode(), os.O_RDONLY | os.O_NONBLOCK)
    buffer = ctypes.create_string_buffer(8192)
    size = libc.mq_receive(queue, buffer, ctypes.c_size_t(8192), None)
    return buffer.raw[: max(0, size)].decode()


def outcome(function: Callable[[], str]) -> str:
    """What an attempt got, from a process that it may break."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(SECONDS)
        try:
            got = function()
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            got = ""
            name = errno.errorcode.get(getattr(error, "errno", None) or 0, "")
            print(f"  {name} {error}", file=sys.stderr)
        os.write(writing, got.encode(errors="replace")[:60000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        got_bytes = answer.read()
    os.waitpid(pid, 0)
    return got_bytes.decode(errors="replace")


def main() -> None:
    WORLD.update(json.loads(Path("escapes.json").read_text()))
    json.dump({name: outcome(function) for name, function in ATTEMPTS.items()}, sys.stdout)


if __name__ == "__main__":
    main()
