"""Scenario `sandboxes`: the cost of a command and a file with each provider that works on this machine.

Figures are named PROVIDER/WHAT. The floor is `bash -c true`, started by the gateway itself without a sandbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from tests.bench.figures import Figure, Outcome, Target, percentile, spread
from tests.bench.gauge import MEGABYTE
from tests.bench.sandbox_run import BARE, HOLD, Findings, Orders, Size
from tests.sandbox.docker.daemon import IMAGE, Daemon, DaemonMissing
from tests.sandbox.modes import ORDINARY_USER
from tests.simulators.process import REPO_ROOT
from tests.simulators.sandbox.provider import USE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

FULL = Size(threads=20, commands=100, pauses=8, rounds=10, fresh=8, files=100, seconds=2.5)
QUICK = Size(threads=8, commands=15, pauses=2, rounds=2, fresh=1, files=15, seconds=0.7)
_SECONDS = 120.0
"""Time after which a provider counts as hanging; `Size.seconds` limits the others."""
_LONGEST_LINE = 1 << 20
_NOT_READABLE = "only root may read the memory of what the gateway keeps running"


@dataclass(frozen=True)
class Subject:
    """A provider and the gateway's user. as_root: True: root only; False: an ordinary user; None: the current user.

    target: median milliseconds of a trivial command.
    """

    name: str
    provider: str
    as_root: bool | None = None
    target: float | None = None

    @property
    def user(self) -> int:
        return ORDINARY_USER if self.as_root is False and os.geteuid() == 0 else os.geteuid()

    def settings(self, daemon: Daemon | None, size: Size) -> dict[str, Any]:
        if self.provider == BARE:
            return {}
        found: dict[str, Any] = {"use": self.provider, "limits": {"free_disk_mb": 1}}
        if daemon is not None:
            found["docker"] = {"image": IMAGE, "host": daemon.host, "replicas": size.threads + size.fresh}
        return found


DOCKER = Subject("docker", "docker", target=80)
SUBJECTS = (
    Subject(BARE, BARE),
    Subject("memory", USE),
    Subject("bubblewrap-root", "bubblewrap", as_root=True, target=15),
    Subject("bubblewrap-user", "bubblewrap", as_root=False, target=15),
    Subject("landlock-user", "landlock", as_root=False),
    DOCKER,
)


@dataclass
class Measured:
    """Measurements of a provider. held: MB of its running processes, without sandboxes and with `threads` of them."""

    findings: Findings
    held: list[float | None]
    threads: int


async def sandboxes(size: Size, subjects: Sequence[Subject] = SUBJECTS) -> Outcome:
    """Measure the providers in turn; an unavailable one has a figure with the reason."""
    outcome = Outcome(details={"size": asdict(size)})
    for subject in subjects:
        load, began = round(os.getloadavg()[0], 2), time.monotonic()
        try:
            measured = await _measured(subject, size)
        except (DaemonMissing, PermissionError) as error:
            measured = Measured(Findings(unavailable=str(error)), [], 0)
        except RuntimeError as error:
            outcome.problems.append(f"{subject.name}: {error}")
            continue
        except TimeoutError:
            outcome.problems.append(f"{subject.name}: not done after {_SECONDS:g} s")
            continue
        outcome.figures += figures(subject, measured)
        outcome.details[subject.name] = {
            "seconds": round(time.monotonic() - began, 1),
            "load_before": load,
            "shortfalls": measured.findings.shortfalls,
        }
    return outcome


def figures(subject: Subject, measured: Measured) -> list[Figure]:
    """Figures of one provider; if it is unavailable, only its latency, with the reason."""
    found = measured.findings
    target = Target(subject.target) if subject.target is not None else None
    if found.unavailable:
        return [Figure(f"{subject.name}/command_p50", None, "ms", target, reason=found.unavailable)]
    shown = spread("command", found.times["command"], "ms", {50: target} if target else None)
    shown += [Figure("command_least", min(found.times["command"]), "ms"), *_ratios(subject, found)]
    shown += [Figure(name, value, "s" if name == "start" else "/s") for name, value in _rates(found.values)]
    shown.append(Figure("gateway_cpu_per_command", found.values["gateway_cpu"], "ms"))
    others = [(name, times) for name, times in found.times.items() if name not in ("command", "bare")]
    shown += [Figure(f"{name}_p50", percentile(times, 50), "ms") for name, times in others if times]
    shown += _memory(measured.held, measured.threads)
    return [Figure(f"{subject.name}/{each.name}", each.value, each.unit, each.target, each.reason) for each in shown]


def _rates(values: dict[str, float]) -> Iterable[tuple[str, float]]:
    return [(name, value) for name, value in values.items() if name != "gateway_cpu"]


def _ratios(subject: Subject, found: Findings) -> list[Figure]:
    """Ratios to the bare commands between its own, and to its target."""
    median = percentile(found.times["command"], 50)
    shown = []
    if subject.provider != BARE:
        shown.append(Figure("command_to_bare", median / percentile(found.times["bare"], 50), "x"))
    if subject.target is not None:
        shown.append(Figure("command_to_target", median / subject.target, "x"))
    return shown


def _memory(held: list[float | None], threads: int) -> list[Figure]:
    """PSS of an idle sandbox, and of the processes without any sandbox."""
    if not held:
        return []
    empty, full = held  # in this order, see `sandbox_run.measure`
    if empty is None or full is None:
        return [Figure("idle_sandbox_pss", None, "MB", reason=_NOT_READABLE)]
    return [
        Figure("idle_sandbox_pss", max(0.0, full - empty) / threads, "MB"),
        Figure("pss_without_sandboxes", empty, "MB"),
    ]


async def _measured(subject: Subject, size: Size) -> Measured:
    """Measure a provider. Raises DaemonMissing, PermissionError; RuntimeError, TimeoutError for a failed attempt."""
    if subject.as_root and os.geteuid() != 0:
        raise PermissionError("Antler has to run as root for it")
    with contextlib.ExitStack() as stack:
        daemon = stack.enter_context(_running_daemon()) if subject is DOCKER else None
        data = stack.enter_context(_data_folder(subject.user))
        orders = Orders(str(data), subject.settings(daemon, size), size)
        process = await asyncio.create_subprocess_exec(
            *_command(subject.user),
            cwd="/",
            env={"PYTHONPATH": str(REPO_ROOT), "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_LONGEST_LINE,
        )
        try:
            async with asyncio.timeout(_SECONDS):
                return await _listen(process, orders, str(daemon.root) if daemon else "")
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def _command(user: int) -> list[str]:
    measuring = [sys.executable, "-m", "tests.bench.sandbox_run"]
    if user == os.geteuid():
        return measuring
    return ["/usr/bin/setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups", *measuring]


async def _listen(process: asyncio.subprocess.Process, orders: Orders, mark: str) -> Measured:
    """Read the child's memory at each HOLD, then its findings. mark: in the arguments of a daemon's processes."""
    assert process.stdin is not None
    assert process.stdout is not None
    held: list[float | None] = []
    findings: Findings | None = None
    process.stdin.write(json.dumps(asdict(orders)).encode() + b"\n")
    while line := (await process.stdout.readline()).decode():
        if line.strip() == HOLD:
            held.append(_pss(_kept(process.pid, mark)))
            process.stdin.write(b"\n")
        else:
            findings = Findings(**json.loads(line))
    code = await process.wait()
    if code or findings is None:
        raise RuntimeError(f"the process that measures it ended with {code}; see its message above")
    return Measured(findings, held, orders.size.threads)


def _kept(gateway: int, mark: str) -> set[psutil.Process]:
    """Processes that run for a gateway: its own, and those whose arguments contain its daemon's folder."""
    found = set(psutil.Process(gateway).children(recursive=True))
    for process in psutil.process_iter() if mark else ():
        with contextlib.suppress(psutil.NoSuchProcess):
            if any(mark in argument for argument in process.cmdline()):
                found |= {process, *process.children(recursive=True)}
    return found - {psutil.Process(gateway)}


def _pss(processes: Iterable[psutil.Process]) -> float | None:
    """Total PSS in MB; None without permission to read it."""
    total = 0.0
    for process in processes:
        try:
            total += process.memory_full_info().pss / MEGABYTE
        except psutil.NoSuchProcess:
            continue
        except psutil.AccessDenied:
            return None
    return total


@contextlib.contextmanager
def _data_folder(user: int) -> Iterator[Path]:
    """A folder owned by a user, like a gateway's data folder."""
    with tempfile.TemporaryDirectory(prefix="antler-bench-", ignore_cleanup_errors=True) as above:
        os.chmod(above, 0o755)
        data = Path(above, "data")
        data.mkdir(mode=0o700)
        if user != os.geteuid():
            os.chown(data, user, user)
        yield data


@contextlib.contextmanager
def _running_daemon() -> Iterator[Daemon]:
    daemon = Daemon()
    try:
        daemon.start()
        daemon.load_image()
        yield daemon
    finally:
        daemon.close()
