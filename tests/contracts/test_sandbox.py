"""What the agent's tools rely on in every sandbox (sandbox/base.py): its life and its commands. A provider earns these
tests by a line in sandbox_benches.py; test_sandbox_files.py has those of the files."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

import psutil
import pytest

from sandbox.base import OUTPUTS, UPLOADS, WORKSPACE, Ending, FileInfo, FileText, sandbox_id
from tests.contracts.sandbox_bench import Ability, needs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sandbox.base import Sandbox, SandboxProvider
    from tests.contracts.sandbox_bench import SandboxBench

LONG = 60.0
"""Seconds that a command may take; only ever waited for when something is wrong."""


@pytest.fixture
def shell(sandbox_bench: SandboxBench, sandbox: Sandbox) -> Sandbox:
    needs(sandbox_bench, Ability.COMMANDS)
    return sandbox


class Output:
    """An `on_output` that can be waited for."""

    def __init__(self) -> None:
        self.text = ""
        self._changed = asyncio.Event()

    def __call__(self, piece: str) -> None:
        self.text += piece
        self._changed.set()

    async def until(self, text: str) -> None:
        async with asyncio.timeout(LONG):
            while text not in self.text:
                self._changed.clear()
                await self._changed.wait()


async def until(condition: Callable[[], bool]) -> None:
    """Something that only looking tells: processes of this machine."""
    async with asyncio.timeout(LONG):
        while not await asyncio.to_thread(condition):
            pass


def alive(mark: str) -> list[int]:
    """The processes of this machine that have the mark among their arguments."""
    found = []
    for process in psutil.process_iter():
        try:
            if mark in process.cmdline():
                found.append(process.pid)
        except psutil.Error:
            continue  # it ended while we looked
    return found


# Its life


async def test_a_thread_has_one_sandbox_whoever_asks_at_once(sandbox_provider: SandboxProvider) -> None:
    first, *others = await asyncio.gather(*(sandbox_provider.acquire("thread") for _ in range(5)))
    assert all(other is first for other in others)
    assert sandbox_provider.get("thread") is first
    assert first.id == sandbox_id("thread")


async def test_threads_have_sandboxes_and_files_of_their_own(sandbox_provider: SandboxProvider) -> None:
    one, two = await asyncio.gather(sandbox_provider.acquire("one"), sandbox_provider.acquire("two"))
    assert one.id != two.id
    assert isinstance(await one.write_file("secret.txt", "one's"), FileInfo)
    assert not isinstance(await two.read_file("secret.txt"), FileText)


async def test_who_was_never_asked_for_is_not_there(sandbox_provider: SandboxProvider) -> None:
    assert sandbox_provider.get("nobody") is None
    await sandbox_provider.release("nobody")
    await sandbox_provider.forget("nobody")


async def test_files_outlive_a_release_and_the_id_stays(sandbox_provider: SandboxProvider) -> None:
    before = await sandbox_provider.acquire("thread")
    await before.write_file("kept.txt", "kept")
    await sandbox_provider.release("thread")
    after = await sandbox_provider.acquire("thread")
    assert after.id == before.id
    read = await after.read_file("kept.txt")
    assert isinstance(read, FileText)
    assert read.text == "kept"


async def test_a_forgotten_thread_is_held_no_longer_and_can_begin_again(sandbox_provider: SandboxProvider) -> None:
    await sandbox_provider.acquire("thread")
    await sandbox_provider.forget("thread")
    assert sandbox_provider.get("thread") is None
    assert isinstance(await (await sandbox_provider.acquire("thread")).write_file("new.txt", "new"), FileInfo)


async def test_a_thread_that_was_never_there_can_be_forgotten_and_one_twice(sandbox_provider: SandboxProvider) -> None:
    await sandbox_provider.forget("nobody")
    await sandbox_provider.acquire("thread")
    for _ in range(2):
        await sandbox_provider.forget("thread")
    assert sandbox_provider.get("thread") is None


async def test_shutting_down_twice_is_fine(sandbox_provider: SandboxProvider) -> None:
    await sandbox_provider.acquire("thread")
    await sandbox_provider.shutdown()
    await sandbox_provider.shutdown()


async def test_files_are_in_the_threads_folders(sandbox_bench: SandboxBench, sandbox: Sandbox, tmp_path: Path) -> None:
    needs(sandbox_bench, Ability.HOST_FOLDERS)
    for root in (WORKSPACE, UPLOADS, OUTPUTS):
        await sandbox.write_file(f"{root}/a/b.txt", root)
        host = tmp_path / "thread" / "user-data" / root.rpartition("/")[2] / "a" / "b.txt"
        assert host.read_text() == root


# Commands


async def test_a_command_says_how_it_ended(shell: Sandbox) -> None:
    good = await shell.execute_command("echo hello", timeout=LONG)
    assert (good.ending, good.exit_code, good.output, good.omitted) == (Ending.EXITED, 0, "hello\n", 0)
    assert 0 <= good.seconds < LONG
    bad = await shell.execute_command("echo no; exit 3", timeout=LONG)
    assert (bad.ending, bad.exit_code, bad.output) == (Ending.EXITED, 3, "no\n")
    unknown = await shell.execute_command("no-such-command", timeout=LONG)
    assert unknown.exit_code == 127
    assert "not found" in unknown.output


async def test_both_outputs_come_in_order(shell: Sandbox) -> None:
    result = await shell.execute_command("echo one; echo two >&2; echo three; echo four >&2", timeout=LONG)
    assert result.output == "one\ntwo\nthree\nfour\n"


async def test_commands_begin_in_the_workspace_and_share_the_files(shell: Sandbox) -> None:
    assert (await shell.execute_command("pwd", timeout=LONG)).output == WORKSPACE + "\n"
    await shell.write_file("from_tool.txt", "tool\n")
    result = await shell.execute_command("cat from_tool.txt; echo shell > from_shell.txt", timeout=LONG)
    assert result.output == "tool\n"
    read = await shell.read_file("from_shell.txt")
    assert isinstance(read, FileText)
    assert read.text == "shell\n"
    await shell.update_file("from_shell.txt", "shell", "both")
    assert (await shell.execute_command("cat from_shell.txt", timeout=LONG)).output == "both\n"


async def test_nobody_can_be_asked_anything(shell: Sandbox) -> None:
    result = await shell.execute_command("cat; echo end", timeout=LONG)
    assert result.output == "end\n"


async def test_output_is_told_as_it_comes(shell: Sandbox) -> None:
    output = Output()
    running = asyncio.create_task(shell.execute_command("echo ready; sleep 600", timeout=900, on_output=output))
    await output.until("ready\n")
    assert not running.done()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_of_a_flood_the_beginning_and_the_end_are_kept(shell: Sandbox) -> None:
    result = await shell.execute_command("seq 1 1000000", timeout=LONG)
    assert result.exit_code == 0
    assert result.omitted > 1_000_000
    assert len(result.output) < 2_000_000
    assert result.output[: result.gap].startswith("1\n2\n3\n")
    assert result.output[result.gap :].endswith("999999\n1000000\n")
    assert len(result.output) + result.omitted == sum(len(str(number)) + 1 for number in range(1, 1_000_001))


async def test_bytes_that_are_no_text_do_no_harm(sandbox_bench: SandboxBench, shell: Sandbox) -> None:
    needs(sandbox_bench, Ability.SHELL)
    result = await shell.execute_command(r"printf 'a\377b\360\237\230\200'", timeout=LONG)
    assert result.output == "a\N{REPLACEMENT CHARACTER}b😀"


async def test_several_run_at_a_time(shell: Sandbox) -> None:
    first, second = Output(), Output()
    slow = asyncio.create_task(shell.execute_command("echo one; sleep 600", timeout=900, on_output=first))
    await first.until("one\n")
    result = await shell.execute_command("echo two", timeout=LONG, on_output=second)
    assert result.output == second.text == "two\n"
    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow


async def test_when_the_time_is_over_it_is_ended_and_what_it_said_is_kept(shell: Sandbox) -> None:
    result = await shell.execute_command("echo begun; sleep 600", timeout=1.0)
    assert (result.ending, result.exit_code, result.output) == (Ending.TIMED_OUT, None, "begun\n")
    assert 1.0 <= result.seconds < LONG


TREE = "sleep {mark} & (trap '' TERM HUP INT; setsid sleep {mark} & sleep {mark}) & echo begun; sleep {mark}"
"""Processes in the background, in another session, and deaf to every signal that can be ignored."""


async def test_when_the_time_is_over_the_whole_tree_is_killed(sandbox_bench: SandboxBench, shell: Sandbox) -> None:
    needs(sandbox_bench, Ability.SHELL)
    mark = f"600.{uuid.uuid4().int % 10**9}"
    result = await shell.execute_command(TREE.format(mark=mark), timeout=1.5)
    assert result.ending is Ending.TIMED_OUT
    assert alive(mark) == []


async def test_when_the_caller_is_cancelled_the_whole_tree_is_killed(
    sandbox_bench: SandboxBench, shell: Sandbox
) -> None:
    needs(sandbox_bench, Ability.SHELL)
    mark = f"600.{uuid.uuid4().int % 10**9}"
    running = asyncio.create_task(shell.execute_command(TREE.format(mark=mark), timeout=900))
    await until(lambda: len(alive(mark)) >= 4)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert alive(mark) == []


async def test_what_runs_ends_with_the_thread(sandbox_bench: SandboxBench, sandbox_provider: SandboxProvider) -> None:
    needs(sandbox_bench, Ability.SHELL)
    sandbox = await sandbox_provider.acquire("thread")
    mark = f"600.{uuid.uuid4().int % 10**9}"
    await sandbox.execute_command(f"nohup setsid sleep {mark} >&- 2>&- <&- &", timeout=LONG)
    await sandbox_provider.forget("thread")
    await until(lambda: alive(mark) == [])
