"""bash: what the model reads, what people see meanwhile, and that stopping a run stops the command."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest

from harness.events import ToolEnded, ToolProgress, ToolStarted
from harness.graph.calls import INTERRUPTED
from harness.graph.sandbox import SandboxSetup
from harness.text.plain import one_line, plain_text, summary
from sandbox.base import CommandResult, Ending, Isolation, Report, SandboxError
from tests.harness.support import (
    Bench,
    HeldClock,
    Script,
    answers,
    calls,
    collect,
    context,
    finished,
    in_memory,
    results,
    said,
)
from tests.simulators.sandbox.provider import MemoryProvider, MemorySandbox
from tests.tables import table

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.events import AnyRunEvent


class PlayedSandbox(MemorySandbox):
    """Its commands end as it is told."""

    result: CommandResult | None = None
    asked: float = 0.0
    printed: tuple[str, ...] = ()
    began: asyncio.Event
    killed = False

    async def execute_command(
        self, command: str, *, timeout: float, on_output: Callable[[str], None] | None = None
    ) -> CommandResult:
        self.asked = timeout
        if on_output is not None:
            for piece in self.printed:
                on_output(piece)
        if self.result is not None:
            return self.result
        self.began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.killed = True
            raise
        raise AssertionError("it never ends by itself")


class PlayedProvider(MemoryProvider):
    def __init__(self) -> None:
        super().__init__()
        self.sandbox = PlayedSandbox("thread-1", self.drive("thread-1"))
        self.sandbox.began = asyncio.Event()
        self.calls: list[str] = []
        self.broken = ""

    async def acquire(self, thread_id: str) -> MemorySandbox:
        self.calls.append("acquire")
        if self.broken:
            raise SandboxError(self.broken, "start it with --fix")
        return self.sandbox

    async def release(self, thread_id: str) -> None:
        self.calls.append("release")
        if self.broken:
            raise SandboxError("still broken")


@pytest.fixture
async def played(bench: Bench) -> PlayedProvider:
    provider = PlayedProvider()
    in_memory(bench, provider=provider)
    return provider


def ended(ending: Ending, output: str = "", code: int | None = None, **more: int) -> CommandResult:
    return CommandResult(ending=ending, exit_code=code, output=output, seconds=1.0, **more)


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (ended(Ending.EXITED, "hello\n", 0), "hello"),
        (ended(Ending.EXITED, "", 0), "[it printed nothing]"),
        (ended(Ending.EXITED, "no\n", 2), "no\n[exit code 2]"),
        (ended(Ending.EXITED, "\x1b[31mred\x1b[0m\r\n10%\r100%\n", 0), "red\n100%"),
        (
            ended(Ending.EXITED, "beginend", 0, omitted=70, gap=5),
            "begin\n[... 70 bytes of output were not kept ...]\nend",
        ),
        (
            ended(Ending.TIMED_OUT, "half"),
            "half\n[killed after 120 seconds, its time limit. Ask for more with `timeout` (at most 900), or do it in "
            "smaller steps.]",
        ),
        (ended(Ending.OUT_OF_MEMORY), "[killed: it needed more memory than is available. Work on less at once.]"),
        (
            ended(Ending.OUT_OF_SPACE),
            "[killed: it filled the disk. Delete what is not needed, and write less.]",
        ),
    ],
)
async def test_what_the_model_reads(
    bench: Bench, script: Script, played: PlayedProvider, result: CommandResult, told: str
) -> None:
    played.sandbox.result = result
    assert await answers(bench, script, calls(("bash", {"command": "x"}))) == [told]


@pytest.mark.parametrize(("wanted", "given"), [(5, 5.0), (-1, 1.0), (99_999, 900.0), (None, 120.0)])
async def test_the_time_limit(
    bench: Bench, script: Script, played: PlayedProvider, wanted: float | None, given: float
) -> None:
    played.sandbox.result = ended(Ending.TIMED_OUT)
    arguments = {"command": "x"} if wanted is None else {"command": "x", "timeout": wanted}
    (told,) = await answers(bench, script, calls(("bash", arguments)))
    assert played.sandbox.asked == given
    assert f"killed after {given:g} seconds" in told


async def test_the_sandbox_is_acquired_at_the_first_tool_call_and_released(
    bench: Bench, script: Script, played: PlayedProvider
) -> None:
    played.sandbox.result = ended(Ending.EXITED, "", 0)
    async with bench.open() as harness:
        await collect(harness, context("r0"), said("no tools"))
        assert played.calls == []
        script.steps = [calls(("bash", {"command": "a"}), ("ls", {})), calls(("bash", {"command": "b"}), ids=["b"])]
        await collect(harness, context("r1"), said("tools"))
    assert played.calls == ["acquire", "release"]


async def test_a_sandbox_that_does_not_work_is_told_and_tried_again(
    bench: Bench, script: Script, played: PlayedProvider
) -> None:
    played.broken = "its service does not answer"
    (told,) = await answers(bench, script, calls(("bash", {"command": "a"})))
    assert "The sandbox does not work now: its service does not answer. " in told
    assert "An operator can help: start it with --fix." in told
    assert played.calls == ["acquire", "release"]
    played.broken = ""
    played.sandbox.result = ended(Ending.EXITED, "well again", 0)
    assert await answers(bench, script, calls(("bash", {"command": "b"}), ids=["b"]), run="r2") == ["well again"]


async def test_stopping_the_run_kills_the_command_and_releases_the_sandbox(
    bench: Bench, script: Script, played: PlayedProvider
) -> None:
    bench.clock = HeldClock()
    script.steps = [calls(("bash", {"command": "sleep 1000"}))]
    async with bench.open() as harness:

        async def follow() -> None:
            async with aclosing(harness.run(context("r1"), said("go"))) as stream:
                async for _ in stream:
                    pass

        running = asyncio.create_task(follow())
        async with asyncio.timeout(10):
            await played.sandbox.began.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert played.sandbox.killed
        assert played.calls == ["acquire", "release"]
        # Whether it had an effect is not known, so it is not run again.
        played.sandbox.began.clear()
        script.steps = ["I will look."]
        await collect(harness, context("r1"), said("go"), attempt=2, next_seq=9)
        assert not played.sandbox.began.is_set()
        assert [message.content for message in results(script)] == [INTERRUPTED]


async def test_people_see_what_runs_and_for_how_long(bench: Bench, script: Script, played: PlayedProvider) -> None:
    clock = bench.clock = HeldClock()
    script.steps = [calls(("bash", {"command": "pytest -q --token abcdefghijkl"})), "done"]
    played.sandbox.printed = ("collected 10\n", "\x1b[32m...\x1b[0m 30%\r... 60%")
    events: list[AnyRunEvent] = []
    progressed = asyncio.Event()
    async with bench.open() as harness:

        async def follow() -> None:
            async with aclosing(harness.run(context("r1"), said("go"))) as stream:
                async for event in stream:
                    events.append(event)
                    if isinstance(event, ToolProgress):
                        progressed.set()

        running = asyncio.create_task(follow())
        async with asyncio.timeout(10):
            await clock.tick(1)
            await progressed.wait()
            for _ in range(7):  # the same line again is told every five seconds only
                await clock.tick(1)
            await clock.asleep.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    started = next(event for event in events if isinstance(event, ToolStarted))
    assert (started.tool, started.summary) == ("bash", "pytest -q --token ***")
    told = [(event.seconds, event.line) for event in events if isinstance(event, ToolProgress)]
    assert told == [(1, "... 60%"), (6, "... 60%")]
    assert {event.call_id for event in events if isinstance(event, ToolProgress)} == {started.call_id}


async def test_short_commands_tell_no_progress(bench: Bench, script: Script) -> None:
    in_memory(bench)
    bench.clock = HeldClock()
    script.steps = [calls(("bash", {"command": "echo hi"})), "done"]
    async with bench.open() as harness:
        events = await collect(harness, context("r1"), said("go"))
    assert [type(event) for event in events if event.type.startswith("tool_")] == [ToolStarted, ToolEnded]


async def test_without_commands_there_is_no_bash_and_the_files_stay(bench: Bench, script: Script) -> None:
    in_memory(bench, bash=False)
    told = await answers(bench, script, calls(("bash", {"command": "ls"}), ("ls", {})))
    assert "bash is not a valid tool" in told[0]
    assert told[1].endswith("is empty.")
    assert "there is no bash tool" in str(script.requests[0][0].content)


async def test_a_provider_of_ones_own_limits(bench: Bench, script: Script, played: PlayedProvider) -> None:
    report = Report(provider="p", isolation=Isolation.FULL, bash=True)
    bench.sandbox = SandboxSetup(provider=played, report=report, command_seconds=7, most_command_seconds=8)
    played.sandbox.result = ended(Ending.EXITED, "ok", 0)
    await answers(bench, script, calls(("bash", {"command": "x"})))
    assert played.sandbox.asked == 7


async def test_a_run_that_fails_releases_the_sandbox(bench: Bench, script: Script, played: PlayedProvider) -> None:
    played.sandbox.result = ended(Ending.EXITED, "ok", 0)
    script.steps = [calls(("bash", {"command": "x"})), ArithmeticError("a defect")]
    async with bench.open() as harness:
        events = await collect(harness, context("r1"), said("go"))
        assert events[-1].type == "failed"
        assert played.calls == ["acquire", "release"]
        assert finished(await collect(harness, context("r2"), said("again"))).files == ()


@table(
    ("text", "shown"),
    [
        ("curl -H 'Authorization: Bearer abcdef123456' x", "curl -H 'Authorization: Bearer ***' x"),
        ("mysql --password=hunter2 db", "mysql --password=*** db"),
        ("mysql --password hunter2 db", "mysql --password *** db"),
        ("export API_KEY=abc123 && run", "export API_KEY=*** && run"),
        ("git clone https://me:secret@example.org/x", "git clone https://me:***@example.org/x"),
        ("curl -u me:secret example.org", "curl -u me:*** example.org"),
        ("echo sk-abcdefghijklmnop", "echo sk***"),
        ("echo ghp_abcdefghijklmnop", "echo ghp***"),
        ('{"client_secret": "abc"}', '{"client_secret": "***"}'),
        ("ls -la src", "ls -la src"),
        ("grep -rn password src", "grep -rn password src"),
        ("a\nb\tc", "a b c"),
        ("x" * 100, "x" * 79 + "…"),
    ],
)
def test_one_line_for_people(text: str, shown: str) -> None:
    assert one_line(text) == shown


@table(
    ("tool", "args", "shown"),
    [
        ("bash", {"timeout": 5, "command": "pytest -q"}, "pytest -q"),
        ("read_file", {"path": "/mnt/user-data/workspace/src/a.py"}, "src/a.py"),
        ("write_file", {"content": "a secret text", "path": "/mnt/user-data/outputs/a.txt"}, "outputs/a.txt"),
        ("write_file", {"content": "a secret text"}, ""),
        ("present_files", {"paths": ["/mnt/user-data/outputs/a.txt", "b.png"]}, "a.txt, b.png"),
        ("ls", {}, ""),
        ("other", {"number": 1, "text": "hello\nworld"}, "hello world"),
        ("other", {}, ""),
    ],
)
def test_what_people_read_of_a_call(tool: str, args: dict[str, object], shown: str) -> None:
    assert summary(tool, args) == shown


def test_plain_text() -> None:
    assert plain_text("a\x1b]0;title\x07b\x1b[2Kc\x00\x08d\u202ee\U000e0041f") == "abcdef"
    assert plain_text("1%\r2%\r3%\nnext\r\n") == "3%\nnext\n"


@pytest.mark.parametrize("text", ["password" * 250, "-" * 2000, "a" * 100_000 + "\r"], ids=["keys", "dash", "returns"])
def test_no_text_takes_long(text: str) -> None:
    began = time.process_time()
    one_line(text)
    plain_text(text)
    assert time.process_time() - began < 2  # it took from five to ten
