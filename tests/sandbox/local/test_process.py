"""Programs that are started, told of, stopped and gone: nothing of them is left, in whatever way they end."""

from __future__ import annotations

import asyncio
import errno
import os
import selectors
import signal
import stat
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.base import SandboxError
from sandbox.launcher.client import Branch, Launcher
from sandbox.launcher.spec import LaunchSpec
from sandbox.local.process import NotStarted, Running, Stop, run
from tests.sandbox.processes import has_ended, marked, parent_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

LONG = 60.0


@pytest.fixture
async def launcher() -> AsyncIterator[Launcher]:
    made = Launcher()
    await made.start()
    yield made
    await made.close()


def bash(command: str, **env: str) -> LaunchSpec:
    return LaunchSpec(argv=("/bin/bash", "-c", command), env=tuple(env.items()))


async def test_environment_descriptors_and_input_are_exactly_what_is_given(launcher: Launcher) -> None:
    outcome = await run(launcher, bash("env | sort; ls /proc/self/fd | wc -l; cat; id -u", GIVEN="1"), timeout=LONG)
    lines = outcome.text.output.split()
    assert lines == ["GIVEN=1", "PWD=/", "SHLVL=1", "_=/usr/bin/env", "4", str(os.getuid())]


async def test_output_of_both_streams_is_told_as_it_comes(launcher: Launcher) -> None:
    told: asyncio.Queue[str] = asyncio.Queue()
    running = asyncio.create_task(
        run(launcher, bash("echo one; echo two >&2; sleep 600"), timeout=LONG, on_output=told.put_nowait)
    )
    heard = ""
    async with asyncio.timeout(LONG):
        while heard != "one\ntwo\n":
            heard += await told.get()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


class FewWatches(selectors.EpollSelector):
    """The kernel's watches of this user are used up: pipes, or all descriptors, are refused for a number of tries."""

    refused = 0
    only_pipes = True

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        if self.refused and (stat.S_ISFIFO(os.fstat(number).st_mode) or not self.only_pipes):
            self.refused -= 1
            raise OSError(errno.ENOSPC, "no space left on device")
        return super().register(fileobj, events, data)


@pytest.mark.parametrize("tries", [1, 3, 1_000_000])
def test_a_command_is_read_and_ended_while_the_kernel_has_no_watch_for_it(tries: int) -> None:
    selector = FewWatches()

    async def both() -> None:
        launcher = Launcher()
        await launcher.start()
        try:
            selector.refused = tries
            told = await run(launcher, bash("echo one; echo two"), timeout=LONG)
            assert told.text.output == "one\ntwo\n"
            hung = await run(launcher, bash("echo begun; sleep 600"), timeout=1.0)
            assert (hung.stopped, hung.text.output) == (Stop.TIME, "begun\n")
        finally:
            selector.refused = 0
            await launcher.close()

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.run(both())


def test_a_command_that_cannot_be_watched_at_all_is_refused_and_ended() -> None:
    selector = FewWatches()
    selector.only_pipes = False

    async def refused() -> None:
        launcher = Launcher()
        await launcher.start()
        try:
            mark = uuid.uuid4().hex
            selector.refused = 1
            with pytest.raises(SandboxError, match="no resources to supervise"):
                await run(launcher, LaunchSpec(argv=("/bin/sleep", "600", mark)), timeout=LONG)
            for left in marked(mark):
                assert await asyncio.to_thread(has_ended, left, LONG)
            assert (await run(launcher, bash("echo fine"), timeout=LONG)).text.output == "fine\n"
        finally:
            await launcher.close()

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.run(refused())


FLOODS = {
    "a small pipe": "fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 4096)\nwhile True: os.write(1, bytes(4096))",
    "packets": "fcntl.fcntl(1, fcntl.F_SETFL, os.O_WRONLY | os.O_DIRECT)\nwhile True: os.write(1, b'xy')",
    "bytes": "while True: os.write(1, b'x')",
}


@pytest.mark.parametrize("flood", FLOODS)
async def test_a_flood_is_read_at_a_pace_however_small_its_pieces(launcher: Launcher, flood: str) -> None:
    told = 0

    def tell(piece: str) -> None:
        nonlocal told
        told += 1

    spec = LaunchSpec(argv=("/usr/bin/python3", "-c", f"import fcntl, os\n{FLOODS[flood]}"))
    outcome = await run(launcher, spec, timeout=2.0, on_output=tell)
    assert outcome.stopped is Stop.TIME
    assert 0 < told < 250 * outcome.seconds + 300  # the last of a pipe of packets is read at once


THIEF = """
import os
own = os.open("/proc/self/fd/1", os.O_RDONLY | os.O_NONBLOCK)
for _ in range(300_000):
    os.write(1, b"x")
    try:
        os.read(own, 100)
    except BlockingIOError:
        pass
"""


async def test_a_program_that_takes_its_own_output_back_troubles_nobody(launcher: Launcher) -> None:
    troubles: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: troubles.append(context))
    spec = LaunchSpec(argv=("/usr/bin/python3", "-c", THIEF))
    assert (await run(launcher, spec, timeout=LONG)).exit_code == 0
    assert troubles == []


async def test_inputs_are_found_at_their_descriptors(launcher: Launcher) -> None:
    spec = LaunchSpec(argv=("/bin/cat", "/dev/fd/10", "/dev/fd/11"), inputs=(b"first,", b"second"))
    assert (await run(launcher, spec, timeout=LONG)).text.output == "first,second"


@pytest.mark.parametrize("how", ["time", "cancel"])
async def test_daemons_go_with_their_program(launcher: Launcher, how: str) -> None:
    mark = uuid.uuid4().hex
    ready = asyncio.Event()
    # It is the daemon that tells, and it has the mark among its arguments from its start.
    daemon = f"(setsid nohup bash -c 'trap \"\" TERM HUP; echo ready; exec -a {mark} sleep 600' {mark} & ) ; sleep 600"
    timeout = 3.0 if how == "time" else LONG
    running = asyncio.create_task(run(launcher, bash(daemon), timeout=timeout, on_output=lambda _: ready.set()))
    async with asyncio.timeout(LONG):
        await ready.wait()
    if how == "cancel":
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    else:
        assert (await running).stopped is Stop.TIME
    assert marked(mark) == []


async def test_a_program_can_be_stopped_for_other_reasons(launcher: Launcher) -> None:
    def stop(running: Running) -> None:
        running.stop(Stop.SPACE)

    outcome = await run(launcher, bash("sleep 600"), timeout=LONG, watch=stop)
    assert (outcome.stopped, outcome.exit_code) == (Stop.SPACE, 128 + signal.SIGKILL)


async def test_many_at_once_keep_their_outputs_apart_and_leave_no_descriptor(launcher: Launcher) -> None:
    before = len(os.listdir("/proc/self/fd"))
    outcomes = await asyncio.gather(*(run(launcher, bash(f"echo {n}"), timeout=LONG) for n in range(40)))
    assert [each.text.output for each in outcomes] == [f"{n}\n" for n in range(40)]
    assert len(os.listdir("/proc/self/fd")) == before


async def test_what_cannot_be_started_says_why(launcher: Launcher) -> None:
    with pytest.raises(NotStarted) as refused:
        await run(launcher, LaunchSpec(argv=("/no/such/program",)), timeout=LONG)
    assert "/no/such/program" in refused.value.problem
    assert "/no/such/program" not in str(refused.value)
    assert (await run(launcher, bash("exit 126"), timeout=LONG)).exit_code == 126


@pytest.mark.parametrize("make", [lambda launcher: launcher, lambda launcher: Branch(launcher, ())])
async def test_who_starts_programs_is_replaced_when_killed_and_they_go_on(
    launcher: Launcher, make: Callable[[Launcher], Launcher | Branch]
) -> None:
    starter = make(launcher)
    lines: asyncio.Queue[str] = asyncio.Queue()
    slow = asyncio.create_task(
        run(starter, bash("echo $PPID; read -t 600 < <(sleep 600)"), timeout=LONG, on_output=lines.put_nowait)
    )
    async with asyncio.timeout(LONG):
        keeper = int(await lines.get())
        parent = parent_of(keeper)
        os.kill(parent, signal.SIGKILL)
        await asyncio.to_thread(has_ended, parent, LONG)
        while (await run(starter, bash("echo new"), timeout=LONG)).text.output != "new\n":
            pass
    assert not slow.done()
    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow
    if isinstance(starter, Branch):
        starter.close()


async def test_a_start_that_is_cancelled_leaves_no_connection() -> None:
    def sockets() -> set[str]:
        return {target for target in map(_target, Path("/proc/self/fd").iterdir()) if target.startswith("socket:")}

    before = sockets()
    for turns in range(8):
        launcher = Launcher()
        starting = asyncio.create_task(launcher.start())
        for _ in range(turns):
            await asyncio.sleep(0)
        starting.cancel()
        with suppress(asyncio.CancelledError):
            await starting
        await launcher.close()
        assert sockets() == before, "although the task, and with it all that it knew, is still there"
        del starting


def _target(handle: Path) -> str:
    try:
        return str(handle.readlink())
    except OSError:  # the one that reads the folder
        return ""
