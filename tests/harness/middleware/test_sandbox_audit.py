"""Commands are looked at before they run, and all of them are in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.ports import AuditEntry, MemoryAuditLog
from sandbox.base import SandboxError
from tests.harness.support import (
    Bench,
    Script,
    answers,
    calls,
    collect,
    context,
    in_memory,
    results,
    said,
    stopped_after,
)
from tests.simulators.sandbox.provider import MemoryProvider, MemorySandbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from sandbox.base import CommandResult


def kept(bench: Bench) -> list[AuditEntry]:
    assert isinstance(bench.audit, MemoryAuditLog)
    return list(bench.audit.entries)


async def test_who_ran_what_and_how_it_ended(bench: Bench, script: Script) -> None:
    in_memory(bench)
    await answers(bench, script, calls(("bash", {"command": "echo hi"}), ("ls", {})))
    asked, ended = kept(bench)
    assert (asked.event, asked.command, asked.verdict, asked.call_id) == ("asked", "echo hi", "pass", "call-0")
    assert (asked.speaker, asked.conversation, asked.thread_id, asked.run_id) == (
        "telegram:1",
        "telegram:1",
        "thread-1",
        "r1",
    )
    assert (ended.event, ended.ending, ended.exit_code, ended.command) == ("ended", "exited", 0, "echo hi")
    assert ended.seconds is not None


async def test_a_blocked_command_does_not_run(bench: Bench, script: Script) -> None:
    provider = in_memory(bench)
    provider.drive("thread-1").put("/mnt/user-data/workspace/a", b"x")
    (told,) = await answers(bench, script, calls(("bash", {"command": "rm a; cat /proc/1/environ"})))
    assert "was not run; nothing happened. It reads the memory, environment or keys" in told
    assert results(script)[0].status == "error"
    assert provider.drive("thread-1").file("/mnt/user-data/workspace/a").data == b"x"
    (entry,) = kept(bench)
    assert (entry.event, entry.verdict, entry.rule) == ("asked", "block", "process-secrets")
    assert not bench.effects.records  # type: ignore[attr-defined]


async def test_a_command_that_is_only_noted_runs(bench: Bench, script: Script) -> None:
    in_memory(bench)
    await answers(bench, script, calls(("bash", {"command": "rm -rf *"})))
    assert [(entry.event, entry.verdict, entry.rule) for entry in kept(bench)] == [
        ("asked", "warn", "empty-folder"),
        ("ended", "warn", "empty-folder"),
    ]


async def test_without_its_log_no_command_runs(bench: Bench, script: Script) -> None:
    class Full(MemoryAuditLog):
        async def append(self, entry: AuditEntry) -> None:
            raise OSError(28, "No space left on device")

    provider = in_memory(bench)
    bench.audit = Full()
    (told,) = await answers(bench, script, calls(("bash", {"command": "echo x > a"})))
    assert "the command log cannot be written" in told
    assert not provider.drive("thread-1").files


async def test_a_command_of_a_broken_sandbox_ends_in_the_log(bench: Bench, script: Script) -> None:
    class Broken(MemorySandbox):
        async def execute_command(
            self, command: str, *, timeout: float, on_output: Callable[[str], None] | None = None
        ) -> CommandResult:
            raise SandboxError("it is gone")

    class Provider(MemoryProvider):
        async def acquire(self, thread_id: str) -> MemorySandbox:
            return Broken(thread_id, self.drive(thread_id))

    in_memory(bench, provider=Provider())
    (told,) = await answers(bench, script, calls(("bash", {"command": "true"})))
    assert "The sandbox does not work now: it is gone. An operator has to fix it." in told
    assert [(entry.event, entry.ending) for entry in kept(bench)] == [("asked", ""), ("ended", "failed")]


async def test_a_call_that_is_answered_from_its_record_does_not_end_again(bench: Bench, script: Script) -> None:
    """A crash after the tool's work, before the graph's next step: the newest checkpoint asks for the call again."""
    in_memory(bench)
    async with bench.open() as harness:
        await stopped_after(harness, script, calls(("bash", {"command": "echo hi"})))
        rows = await harness.checkpoints.run(
            "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? ORDER BY checkpoint_id DESC", ("thread-1",)
        )
        *later, before_the_tools = [row[0] for row in rows[:3]]
        for newer in later:
            await harness.checkpoints.run("DELETE FROM checkpoints WHERE checkpoint_id = ?", (newer,))
        await harness.checkpoints.run("DELETE FROM writes WHERE checkpoint_id = ?", (before_the_tools,))
    script.steps = ["done"]
    async with bench.open() as harness:
        await collect(harness, context("r1"), said("go"), attempt=2, next_seq=20)
    assert [str(message.content) for message in results(script)] == ["hi"]
    assert [entry.event for entry in kept(bench)] == ["asked", "ended", "asked"]


async def test_a_very_long_command_is_cut_in_the_log(bench: Bench, script: Script) -> None:
    in_memory(bench)
    await answers(bench, script, calls(("bash", {"command": "echo " + "x" * 30_000})))
    assert kept(bench)[0].command.endswith(" [10005 more characters]")
