"""`python -m tests.bench.sandbox_run`: measures one sandbox provider, in the process that acts as its gateway.

A child process of scenario `sandboxes`, so that it can be another user. It reads `Orders` from a line, prints HOLD
when the memory of its processes is to be read, continues after another line, and finally prints its `Findings`.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox import providers
from sandbox.base import Problem, SandboxUnavailable
from sandbox.config import SandboxSettings
from tests.bench.figures import mean

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from sandbox.base import Sandbox, SandboxProvider

    Work = Callable[[], Awaitable[object]]

BARE = "bare"
"""Instead of a provider: `bash -c true` by subprocess, without a sandbox."""
HOLD = "hold"
TREE_FILES = 100
TEXT = "".join(f"line {number} of a file that is searched through\n" for number in range(100))
PAUSE_SECONDS = 0.25
"""Pause between two commands, in which an agent waits at least for the model."""
_COMMAND_SECONDS = 60.0


@dataclass(frozen=True)
class Size:
    """Number of repetitions; no measurement takes longer than `seconds`. threads: number with a sandbox at the same
    time, with one command each per round."""

    threads: int
    commands: int
    pauses: int
    rounds: int
    fresh: int
    files: int
    seconds: float


@dataclass(frozen=True)
class Orders:
    """Instructions for the child. data: the process's own folder. settings: the section `sandbox`; {} for BARE."""

    data: str
    settings: dict[str, Any]
    size: Size


@dataclass
class Findings:
    """Results. times: milliseconds of each kind of work. values: single numbers. unavailable: why there are none."""

    times: dict[str, list[float]] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    shortfalls: list[str] = field(default_factory=list)
    unavailable: str = ""


async def measure(provider: SandboxProvider, size: Size, hold: Callable[[], Awaitable[None]]) -> Findings:
    """Start the provider, measure, and shut it down. hold: awaited without sandboxes, and with all of them idle.

    Raises RuntimeError for a wrong result, and the provider's errors.
    """
    found = Findings()
    try:
        began = time.perf_counter()
        found.shortfalls = list((await provider.start()).shortfalls)
        found.values["start"] = time.perf_counter() - began
        await hold()
        threads = [f"t{number}" for number in range(size.threads)]
        sandboxes = await asyncio.gather(*map(provider.acquire, threads))
        works = [_true(sandbox) for sandbox in sandboxes]
        await asyncio.gather(*(work() for work in works))
        await asyncio.sleep(PAUSE_SECONDS)  # Preparations for the next command are part of an idle sandbox.
        await hold()
        await _commands(found, works, size)
        await _file_work(found, sandboxes[0], size)
        await asyncio.gather(*map(provider.forget, threads))
        await _fresh(found, provider, size)
    finally:
        await provider.shutdown()
    return found


async def measure_bare(size: Size) -> Findings:
    found = Findings()
    await _commands(found, [bare] * size.threads, size)
    return found


async def bare() -> None:
    command = ["/bin/bash", "-c", "true"]
    await asyncio.to_thread(subprocess.run, command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)


def _true(sandbox: Sandbox) -> Work:
    async def work() -> None:
        result = await sandbox.execute_command("true", timeout=_COMMAND_SECONDS)
        if result.exit_code != 0:
            raise RuntimeError(f"`true` ended with {result.exit_code} ({result.ending}): {result.output}")

    return work


async def _commands(found: Findings, works: Sequence[Work], size: Size) -> None:
    """Measure each command together with a bare one, so that other load on the machine affects both."""
    found.times |= {"command": [], "bare": [], "after_pause": []}
    until = time.monotonic() + size.seconds
    for _ in range(size.commands):
        found.times["command"].append(await _ms(works[0]()))
        found.times["bare"].append(await _ms(bare()))
        if time.monotonic() > until:
            break
    for _ in range(size.pauses):
        await asyncio.sleep(PAUSE_SECONDS)
        found.times["after_pause"].append(await _ms(works[0]()))
    cpu = []
    for at_once, rounds in ((1, size.commands), (len(works), size.rounds)):
        done, seconds, cpu_seconds = await _rate(works[:at_once], rounds, size.seconds)
        found.values[f"per_s_{at_once}"] = done / seconds
        cpu.append(cpu_seconds / done * 1000)
    found.values["gateway_cpu"] = mean(cpu)


async def _rate(works: Sequence[Work], rounds: int, most_seconds: float) -> tuple[int, float, float]:
    """Repeat all works concurrently; return the total number, the seconds, and the CPU seconds of this process."""
    done = 0
    until = time.monotonic() + most_seconds

    async def again_and_again(work: Work) -> None:
        nonlocal done
        for _ in range(rounds):
            await work()
            done += 1
            if time.monotonic() > until:
                return

    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*map(again_and_again, works))
    return done, time.perf_counter() - began, time.process_time() - cpu


async def _file_work(found: Findings, sandbox: Sandbox, size: Size) -> None:
    for number in range(TREE_FILES):
        _good(await sandbox.write_file(f"tree/{number}.txt", TEXT))
    kinds: dict[str, Work] = {
        "write": lambda: sandbox.write_file("page.txt", TEXT),
        "read": lambda: sandbox.read_file("page.txt"),
        "grep": lambda: sandbox.grep("line 99 .* searched", "tree"),
    }
    for name, work in kinds.items():
        _good(await work())
        times = found.times[name] = []
        until = time.monotonic() + size.seconds
        while len(times) < size.files and time.monotonic() < until:
            times.append(await _ms(work()))


def _good(result: object) -> None:
    if isinstance(result, Problem):
        raise RuntimeError(f"{result.path}: {result.code} {result.detail}")


async def _fresh(found: Findings, provider: SandboxProvider, size: Size) -> None:
    """Measure the first command in a new sandbox, and in the same one after its release."""
    until = time.monotonic() + size.seconds
    for number in range(size.fresh):
        thread = f"fresh{number}"
        for kind in ("cold", "warm"):
            began = time.perf_counter()
            sandbox = await provider.acquire(thread)
            acquired = time.perf_counter()
            await _true(sandbox)()
            found.times.setdefault(f"{kind}_acquire", []).append((acquired - began) * 1000)
            found.times.setdefault(f"{kind}_first_command", []).append((time.perf_counter() - began) * 1000)
            await provider.release(thread)
        await provider.forget(thread)
        if time.monotonic() > until:
            break


async def _ms(work: Awaitable[object]) -> float:
    began = time.perf_counter()
    await work
    return (time.perf_counter() - began) * 1000


async def _hold() -> None:
    print(HOLD, flush=True)
    await asyncio.to_thread(sys.stdin.readline)


async def _found(orders: Orders) -> Findings:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(orders.size.threads))
    if not orders.settings:
        return await measure_bare(orders.size)
    data = Path(orders.data)
    site = providers.Site(folder_of=lambda thread: data / thread / "user-data", instance=data.parent.name)
    try:
        provider = providers.make(SandboxSettings.model_validate(orders.settings), site)
        return await measure(provider, orders.size, _hold)
    except SandboxUnavailable as error:
        return Findings(unavailable=f"{error} ({error.hint})" if error.hint else str(error))


def main() -> None:
    given = json.loads(sys.stdin.readline())
    orders = Orders(given["data"], given["settings"], Size(**given["size"]))
    print(json.dumps(asdict(asyncio.run(_found(orders)))))


if __name__ == "__main__":
    main()
