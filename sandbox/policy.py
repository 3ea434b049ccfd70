"""What commands may use and see with any provider: limits, environment, the shell's command line, and the Python
packages for the agent's code.

`make sandbox-runtime` builds these packages (build_runtime.py) into a folder that every provider shows read-only at
RUNTIME, with its bin/ first in PATH. The gateway imports none of them.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox.base import WORKSPACE

if TYPE_CHECKING:
    from sandbox.config import SandboxLimits


MIB = 1024 * 1024
LONGEST_COMMAND = 120_000
"""In bytes; the kernel allows 128 KiB in one argument."""
TOO_LONG = f"bash: the command is longer than {LONGEST_COMMAND} bytes; write it to a file and run that\n"
CANNOT_RUN = 126
"""A shell's exit code if a command cannot be run."""
RUNTIME = "/opt/antler"
TEMPORARY = "/tmp"
_SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"
ETC = (
    "/etc/ld.so.cache",
    "/etc/alternatives",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/fonts",
    "/etc/mime.types",
    "/etc/localtime",
    "/etc/perl",
)
"""The parts of /etc that programs need and that reveal nothing about the host or its users."""

CHECKOUT = Path(__file__).resolve().parents[1]
DEFAULT_FOLDER = CHECKOUT / ".sandbox-venv"
STAMP = "antler-runtime"
"""A file in the folder with the digest of its build inputs, written last."""
RUNTIME_MISSING = 'commands have no pandas, matplotlib etc.: "make sandbox-runtime" installs them'
"""The notice at the start, in doctor and in /status while there is no complete runtime."""


def complete(folder: Path | None) -> Path | None:
    """The folder, if the runtime in it is complete. This costs one disk access, so that each command can check again
    and a newly built runtime is used."""
    return folder if folder is not None and (folder / STAMP).is_file() else None


def built_from(folder: Path) -> str:
    """The digest of the runtime's build inputs; "" while there is no complete one."""
    try:
        return (folder / STAMP).read_text().strip()
    except FileNotFoundError:
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one thread's commands together if a control group enforces them, else of each process. Sizes in bytes.

    cpus: processor time in cores. cpu_seconds: of one process. file_size: of one file. disk, disk_files: maximum usage
    of the thread's folders. disk_free: minimum free space on their file system. temporary, shared_memory: /tmp and
    /dev/shm.
    """

    memory: int
    processes: int
    cpus: float
    cpu_seconds: int
    open_files: int
    file_size: int
    disk: int
    disk_files: int
    disk_free: int
    temporary: int
    shared_memory: int

    @classmethod
    def of(cls, settings: SandboxLimits) -> Limits:
        return cls(
            memory=settings.memory_mb * MIB,
            processes=settings.processes,
            cpus=settings.cpus,
            cpu_seconds=settings.cpu_seconds,
            open_files=settings.open_files,
            file_size=settings.file_mb * MIB,
            disk=settings.disk_mb * MIB,
            disk_files=settings.inodes,
            disk_free=settings.free_disk_mb * MIB,
            temporary=settings.tmp_mb * MIB,
            shared_memory=max(MIB, settings.tmp_mb * MIB // 4),
        )

    def of_process(self, *, memory: bool, full: bool) -> tuple[tuple[int, int], ...]:
        """RLIMIT_* of each process, except for the number of processes. memory: no cgroup limits the sum. full: the
        disk share is used up, so that files can be deleted but not grow."""
        bounds = (
            (resource.RLIMIT_FSIZE, 0 if full else self.file_size),
            (resource.RLIMIT_NOFILE, self.open_files),
            (resource.RLIMIT_CPU, self.cpu_seconds),
            (resource.RLIMIT_CORE, 0),
        )
        return (*bounds, (resource.RLIMIT_AS, self.memory)) if memory else bounds


def environment(
    variables: dict[str, str], limits: Limits, *, home: str = WORKSPACE, temporary: str = TEMPORARY, runtime: str = ""
) -> dict[str, str]:
    """The complete environment of a command. variables: the operator's, which take precedence. temporary: a writable
    folder. runtime: the folder of the runtime for the agent's code, or ""."""
    path = f"{runtime}/bin:{_SEARCH_PATH}" if runtime else _SEARCH_PATH
    common = {"PATH": path, "HOME": home, "LANG": "C.UTF-8", "TERM": "dumb", "USER": "sandbox", "LOGNAME": "sandbox"}
    # There is no terminal and no person: nothing may wait for an answer or page its output.
    quiet = {"PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "DEBIAN_FRONTEND": "noninteractive"}
    # Numeric libraries start a thread for each of the host's processors, but a command may use only some of them.
    threads = str(max(1, int(limits.cpus)))
    frugal = {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads, "XDG_CACHE_HOME": f"{temporary}/.cache"}
    return common | quiet | frugal | variables


def refusal(command: str) -> str:
    """Why no shell could run this command, or ""."""
    if "\0" in command:
        return "bash: the command contains a null character\n"
    try:
        size = len(command.encode())
    except UnicodeEncodeError:
        return "bash: the command is not valid Unicode\n"
    return TOO_LONG if size > LONGEST_COMMAND else ""


def shell(command: str) -> tuple[str, ...]:
    """A shell command line that reads no startup files."""
    return ("/bin/bash", "--noprofile", "--norc", "-c", command)
