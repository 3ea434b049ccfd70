"""The host as the attempts find it: secrets, listeners, processes; and the judgement, by the host's own state."""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sandbox.kernel.syscall_numbers import AARCH64, X86_64

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

CALLS = {"x86_64": X86_64 | {"setuid": 105}, "aarch64": AARCH64 | {"setuid": 146}}
_SHM_READABLE = 0o666 | 0o1000

WITHOUT_EVIDENCE = frozenset({"A01", "A02", "A03", "A04", "A05", "A06", "A07", "A08", "A09", "A10", "A15"})
"""What these read is looked at, not whether they read anything."""


class World:
    """Everything under one folder that any user may enter. user: who the attempts are on the host."""

    def __init__(self, user: int) -> None:
        self.user = user
        self.token = secrets.token_hex(16)
        self.mark = f"antler-{secrets.token_hex(6)}"
        self.top = Path(tempfile.mkdtemp(prefix="antler-world-", dir="/tmp"))
        self.top.chmod(0o755)
        self.workspace = self._folder("workspace", 0o700, owner=user)
        self._files()
        self._listeners()
        self.victim, self.target = self._process(), self._process()
        self._shm_key = secrets.randbelow(2**31 - 2) + 1
        self._shm_id = self._shared_memory()
        self._message_queue()
        self.core_pattern = Path("/proc/sys/kernel/core_pattern").read_text()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in (self.victim, self.target):
            process.kill()
            process.wait()
        for listener in self._sockets.values():
            listener.close()
        ctypes.CDLL(None).shmctl(self._shm_id, 0, None)
        ctypes.CDLL(None).mq_unlink(f"/{self.mark}".encode())
        for path in self._marks():
            path.unlink(missing_ok=True)
        shutil.rmtree(self.top)

    def _folder(self, name: str, mode: int, owner: int = -1) -> Path:
        path = self.top / name
        path.mkdir()
        path.chmod(mode)
        if os.geteuid() == 0:
            os.chown(path, owner, owner)
        return path

    def _files(self) -> None:
        self.open = self._folder("open", 0o777)
        self.public, self.private, self.profile = (self.top / name for name in ("public", "private", "profile"))
        tenant = self._folder("tenant", 0o700, owner=self.user)
        self.tenant = tenant / "memory.json"
        for path, mode in ((self.public, 0o644), (self.private, 0o600), (self.profile, 0o666), (self.tenant, 0o600)):
            path.write_text(f"{self.token} of {path.name}\n")
            path.chmod(mode)
            if os.geteuid() == 0 and path is not self.public:
                os.chown(path, self.user, self.user)

    def _listeners(self) -> None:
        unix, datagrams = self.top / "socket", self.top / "datagrams"
        addresses: dict[str, tuple[int, int, Any]] = {
            "tcp4": (socket.AF_INET, socket.SOCK_STREAM, ("0.0.0.0", 0)),
            "tcp6": (socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)),
            "udp": (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            "abstract": (socket.AF_UNIX, socket.SOCK_STREAM, "\0" + self.mark),
            "socket": (socket.AF_UNIX, socket.SOCK_STREAM, str(unix)),
            "datagrams": (socket.AF_UNIX, socket.SOCK_DGRAM, str(datagrams)),
        }
        self._sockets: dict[str, socket.socket] = {}
        for name, (family, kind, address) in addresses.items():
            listener = socket.socket(family, kind)
            listener.bind(address)
            if kind == socket.SOCK_STREAM:
                listener.listen(64)
            listener.setblocking(False)
            self._sockets[name] = listener
        unix.chmod(0o777)
        datagrams.chmod(0o777)

    def _process(self) -> subprocess.Popen[bytes]:
        """A process of the same user as the attempts, with a secret in its environment."""
        root = os.geteuid() == 0
        return subprocess.Popen(
            [f"{self.top}/victim", "600"],
            executable="/bin/sleep",
            env={"SECRET": self.token},
            stdin=subprocess.DEVNULL,
            user=self.user if root else None,
            group=self.user if root else None,
        )

    def _shared_memory(self) -> int:
        libc = ctypes.CDLL(None, use_errno=True)
        found = int(libc.shmget(self._shm_key, 4096, _SHM_READABLE))
        libc.shmat.restype = ctypes.c_void_p
        address = libc.shmat(found, None, 0)
        ctypes.memmove(address, self.token.encode() + b"\0", len(self.token) + 1)
        libc.shmdt(ctypes.c_void_p(address))
        return found

    def _message_queue(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        queue = libc.mq_open(f"/{self.mark}".encode(), os.O_CREAT | os.O_RDWR, 0o666, None)
        os.fchmod(queue, 0o666)
        libc.mq_send(queue, self.token.encode(), ctypes.c_size_t(len(self.token)), 0)
        os.close(queue)

    def files(self) -> dict[str, str]:
        """What goes into the workspace: the attempts, and what they need to know."""
        known = {
            "calls": CALLS[os.uname().machine],
            "public": str(self.public),
            "private": str(self.private),
            "tenant": str(self.tenant),
            "profile": str(self.profile),
            "open": str(self.open),
            "mark": self.mark,
            "victim": self.victim.pid,
            "target": self.target.pid,
            "shm_key": self._shm_key,
            "tcp4": self._sockets["tcp4"].getsockname()[1],
            "tcp6": self._sockets["tcp6"].getsockname()[1],
            "udp": self._sockets["udp"].getsockname()[1],
            "socket": str(self.top / "socket"),
            "datagrams": str(self.top / "datagrams"),
            "address": _own_address(),
        }
        attempts = Path(__file__).with_name("attempts.py").read_text()
        return {"escapes.json": json.dumps(known), "attempts.py": attempts}

    def escaped(self, got: dict[str, str], workspace: Path) -> dict[str, str]:
        """What got out, by attempt, with the proof. workspace: where the attempts ran, on the host."""
        self.workspace = workspace
        return {name: proof for name, evidence in got.items() if (proof := self._proof(name, evidence))}

    def _proof(self, name: str, evidence: str) -> str:
        if self.token in evidence:
            return "a secret of the host"
        if name in ("C04", "C05") and str(self.top) in evidence:
            return "a process of the host, with its paths"
        if name in ("A01", "A02"):
            file = Path("/etc/shadow" if name == "A01" else "/etc/passwd")
            return "the host's file" if evidence and file.read_text(errors="replace") == evidence else ""
        if name in _STATE:
            return _STATE[name](self)
        return evidence[:200] if name not in WITHOUT_EVIDENCE | {"C01", "C02", "C03", "C04", "C05"} else ""

    def _marks(self) -> dict[Path, str]:
        places = {"/usr/bin": "B01", "/etc/cron.d": "B02", str(self.open): "B04", "/tmp": "B05", "/": "B06"}
        return {Path(folder, self.mark): name for folder, name in places.items()}

    def written(self, name: str) -> str:
        found = [path for path, attempt in self._marks().items() if attempt == name and path.exists()]
        return f"wrote {found[0]}" if found else ""

    def profile_changed(self) -> str:
        return "changed" if "evil" in self.profile.read_text() else ""

    def heard(self, name: str) -> str:
        """What came in at a listener."""
        listener = self._sockets[name]
        try:
            if listener.type == socket.SOCK_DGRAM:
                return listener.recv(100).decode()
            connection, _ = listener.accept()
        except BlockingIOError:
            return ""
        connection.close()
        return f"a connection at {name}"

    def killed(self) -> str:
        return "killed a process of the host" if self.target.poll() == -signal.SIGKILL else ""

    def opened(self) -> str:
        return "changed" if self.private.stat().st_mode & 0o777 == 0o777 else ""

    def limited(self) -> str:
        limits = Path("/proc", str(self.victim.pid), "limits").read_text()
        return "changed" if " 7 " in next(line for line in limits.splitlines() if "open files" in line) else ""

    def slowed(self) -> str:
        return "changed" if os.sched_getscheduler(self.victim.pid) == os.SCHED_BATCH else ""

    def suid_file(self) -> str:
        path = self.workspace / "e16"
        return "made" if path.exists() and path.stat().st_mode & stat.S_ISUID else ""

    def pattern_changed(self) -> str:
        return "changed" if Path("/proc/sys/kernel/core_pattern").read_text() != self.core_pattern else ""


_STATE: dict[str, Callable[[World], str]] = {
    "B01": lambda world: world.written("B01"),
    "B02": lambda world: world.written("B02"),
    "B04": lambda world: world.written("B04"),
    "B05": lambda world: world.written("B05"),
    "B06": lambda world: world.written("B06"),
    "B03": World.profile_changed,
    "C06": World.killed,
    "D01": lambda world: world.heard("tcp4"),
    "D02": lambda world: world.heard("tcp6"),
    "D03": lambda world: world.heard("tcp4"),
    "D06": lambda world: world.heard("udp"),
    "D07": lambda world: world.heard("abstract"),
    "D08": lambda world: world.heard("socket"),
    "E16": World.suid_file,
    "S01": World.opened,
    "S02": World.limited,
    "S03": World.slowed,
    "S04": lambda world: world.heard("datagrams"),
}
"""Attempts whose success is seen on the host, whatever they say."""


def _own_address() -> str:
    """An address of this machine beside loopback; connecting a datagram socket sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.2"
        return str(probe.getsockname()[0])
