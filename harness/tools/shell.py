"""bash: runs commands in the sandbox, and reports the progress of long ones."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated

from langchain_core.tools import tool

from harness.events import ToolProgress
from harness.graph.results import Answer, Runtime, done, failed, sandbox_of
from harness.graph.sandbox import CANCELLED, FAILED, CommandEnd
from harness.graph.signals import Told, tell
from harness.text.plain import one_line, plain_text
from sandbox.base import Ending, SandboxError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from langchain_core.tools import BaseTool

    from harness.graph.results import Runtime
    from harness.graph.sandbox import SandboxSetup
    from harness.ports import Clock
    from sandbox.base import CommandResult

BASH = "bash"
DESCRIPTION = """\
Run a command in bash, in the working directory. Every call is a new shell: folder and variables do not carry
over, files do. It has no terminal and no input. It may take {default:g} seconds, or as many as `timeout` says, at most
{most:g}; then it is killed with everything that it started."""

EVERY = 1.0
"""Minimum seconds between two events."""
QUIET = 5.0
"""Seconds after which the time is reported even if nothing new was printed."""
KEPT = 500


def bash_tool(setup: SandboxSetup, clock: Clock) -> BaseTool:
    """The tool, with the time limits of the sandbox."""
    default, most = setup.command_seconds, setup.most_command_seconds

    @tool(BASH, description=DESCRIPTION.format(default=default, most=most).replace("\n", " "))
    async def bash(
        command: Annotated[str, "The command"],
        runtime: Runtime,
        description: Annotated[str, "What it does, for the person: a few words in their language"] = "",
        timeout: Annotated[float, "Seconds that it may take"] = default,
    ) -> Answer:
        run = sandbox_of(runtime)
        seconds = min(max(timeout, 1.0), most)
        sandbox = await run.get()
        begun = clock.monotonic()
        ending, exit_code = CANCELLED, None
        try:
            async with telling_progress(runtime, BASH, clock) as progress:
                result = await sandbox.execute_command(command, timeout=seconds, on_output=progress.feed)
            ending, exit_code = str(result.ending), result.exit_code
        except SandboxError:
            ending = FAILED
            raise
        finally:
            ended = CommandEnd(ending=ending, exit_code=exit_code, seconds=clock.monotonic() - begun)
            run.commands[runtime.tool_call_id or ""] = ended
        return _answer(runtime, result, seconds, most)

    return bash


def _answer(runtime: Runtime, result: CommandResult, seconds: float, most: float) -> Answer:
    parts = [_output(result), _ending(result, seconds, most)]
    text = "\n".join(part for part in parts if part) or "[it printed nothing]"
    return (done if result.ending is Ending.EXITED else failed)(runtime, BASH, text)


def _output(result: CommandResult) -> str:
    output = result.output
    if result.omitted:
        note = f"\n[... {result.omitted} bytes of output were not kept ...]\n"
        return plain_text(output[: result.gap]) + note + plain_text(output[result.gap :])
    return plain_text(output).rstrip("\n")


def _ending(result: CommandResult, seconds: float, most: float) -> str:
    match result.ending:
        case Ending.EXITED:
            return f"[exit code {result.exit_code}]" if result.exit_code else ""
        case Ending.TIMED_OUT:
            more = f"Ask for more with `timeout` (at most {most:g}), or do" if seconds < most else "Do"
            return f"[killed after {seconds:g} seconds, its time limit. {more} it in smaller steps.]"
        case Ending.OUT_OF_MEMORY:
            return "[killed: it needed more memory than is available. Work on less at once.]"
        case Ending.OUT_OF_SPACE:
            return "[killed: it filled the disk. Delete what is not needed, and write less.]"


class Progress:
    """The end of a command's output. feed: its on_output."""

    def __init__(self) -> None:
        self._end = ""

    def feed(self, text: str) -> None:
        self._end = (self._end + text[-KEPT:])[-KEPT:]

    @property
    def line(self) -> str:
        """The last non-blank line."""
        lines = plain_text(self._end).split("\n")
        return next((one_line(line) for line in reversed(lines) if line.strip()), "")


@asynccontextmanager
async def telling_progress(runtime: Runtime, tool: str, clock: Clock) -> AsyncIterator[Progress]:
    """Emit ToolProgress events while the block runs, the first after EVERY seconds."""
    progress = Progress()
    teller = asyncio.create_task(_tell(runtime, tool, clock, progress), name=f"progress of {tool}")
    try:
        yield progress
    finally:
        teller.cancel()
        await asyncio.wait({teller})


async def _tell(runtime: Runtime, tool: str, clock: Clock, progress: Progress) -> None:
    begun = told_at = clock.monotonic()
    told = ""
    while True:
        await clock.sleep(EVERY)
        now, line = clock.monotonic(), progress.line
        if line == told and now - told_at < QUIET:
            continue
        told, told_at = line, now
        event = partial(
            ToolProgress, call_id=runtime.tool_call_id or "", tool=tool, seconds=round(now - begun), line=line
        )
        tell(runtime, Told(event))
