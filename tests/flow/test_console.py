"""The terminal: in a pipe, at a prompt, attached to a running gateway; the same answers as anywhere."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import yaml

from tests.pseudo_terminal import VARIABLES, at_a_terminal
from tests.simulators.process import child_environment
from tests.simulators.telegram.seen import ALICE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.flow.gateway import World
    from tests.pseudo_terminal import PseudoTerminal

ANTLER = (sys.executable, "-m", "bot")
CTRL_C, CTRL_D = b"\x03", b"\x04"
FIRST_HALF = "The first half of the answer"


async def piped(folder: Path, text: str, *arguments: str, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    """Run antler in a folder with that on standard input: exit code, output, errors."""
    process = await asyncio.create_subprocess_exec(
        *(*ANTLER, *arguments),
        cwd=folder,
        env=env or child_environment(),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(30):
        output, errors = await process.communicate(text.encode())
    return process.returncode or 0, output.decode(), errors.decode()


async def test_without_a_config_each_line_is_said_before_its_answer_and_the_advert_once(tmp_path: Path) -> None:
    code, output, errors = await piped(tmp_path, "hello\n/status\nmarkdown\n", "run")
    assert code == 0
    said = [output.index(f"you: {line}\nantler:") for line in ("hello", "/status", "markdown")]
    assert said == sorted(said)
    assert said[0] < output.index("I am the demo model") < said[1] < output.index("Connection: connected") < said[2]
    assert errors.startswith("Antler, without a config.yaml: a demo model answers")
    assert "  8  kill me" in errors
    assert "antler init" in errors
    assert "config.yaml" not in output
    assert "**" not in output
    assert "Traceback" not in errors
    assert "\x1b" not in output


async def test_the_first_screen_speaks_the_terminals_language(tmp_path: Path) -> None:
    chinese = child_environment() | {"LC_ALL": "zh_CN.UTF-8"}
    code, output, errors = await piped(tmp_path, "/whoami\n4\n", "run", env=chinese)
    assert code == 0
    assert "  8  杀掉我" in errors
    assert "要看哪家店的全年数据？" in output


async def test_every_line_is_answered_in_order_and_the_thread_is_kept(world: World) -> None:
    write_console_config(world)
    lines = [f"line {number}" for number in range(12)]
    code, output, _ = await piped(world.folder, "\n".join(lines), "run", env=world.variables)
    assert code == 0
    places = [output.index(f"You said: {line}\n") for line in lines]
    assert places == sorted(places)
    code, output, _ = await piped(world.folder, "and now?\n", "run", env=world.variables)
    assert code == 0
    assert "line 0" in str((await world.model.completions())[-1].body["messages"])


async def test_a_failure_of_the_model_is_told_and_the_exit_is_clean(world: World) -> None:
    write_console_config(world)
    code, output, errors = await piped(world.folder, "!status 404\nstill there?\n", "run", env=world.variables)
    assert code == 0
    assert "The model main is not available" in output
    assert "You said: still there?" in output
    assert world.model.api_key not in errors


def write_console_config(world: World) -> None:
    """A gateway whose only account is the terminal, on which each line of a pipe has an answer of its own."""
    config = {key: value for key, value in world.config().items() if key != "access"}
    apart = {"conversations": {**config["conversations"], "busy": "queue", "join_seconds": 0}}
    world.config_file.write_text(yaml.safe_dump({**config, **apart, "channels": {"console": {}}}))


@asynccontextmanager
async def sitting_at(world: World, *arguments: str) -> AsyncIterator[PseudoTerminal]:
    command = [*ANTLER, *arguments, "--config", str(world.config_file)]
    async with at_a_terminal(command, cwd=world.folder, env=world.variables | VARIABLES) as terminal:
        yield terminal


async def test_at_a_terminal_an_answer_grows_and_is_printed_once(world: World) -> None:
    write_console_config(world)
    async with sitting_at(world, "run") as terminal:
        await terminal.see("›")
        terminal.type(b"!pause half\r")
        await terminal.see(FIRST_HALF)
        await world.model.release("half")
        await terminal.see("and the second half.")
        terminal.type(b"!say **bold** words\r")
        await terminal.see("words")
        terminal.type(CTRL_D)
        assert await terminal.ends() == 0
        assert b"**bold**" not in terminal.output.rpartition(b"!say")[2].partition(b"\r\n")[2]
        assert b"Traceback" not in terminal.output


async def test_ctrl_c_stops_the_run_and_a_second_one_leaves(world: World) -> None:
    write_console_config(world)
    async with sitting_at(world, "run") as terminal:
        await terminal.see("›")
        terminal.type(b"!pause half\r")
        await terminal.see(FIRST_HALF)
        terminal.type(CTRL_C)
        await terminal.see("The text above is unfinished.")
        terminal.type(b"still there?\r")
        await terminal.see("You said: still there?")
        terminal.type(CTRL_C)
        assert await terminal.ends() == 0
        assert b"Traceback" not in terminal.output


async def test_beside_other_accounts_ctrl_d_ends_the_input_and_ctrl_c_the_process(world: World) -> None:
    world.config_file.write_text(yaml.safe_dump(with_console(world)))
    async with sitting_at(world, "run") as terminal:
        await terminal.see("›")
        terminal.type(CTRL_D)
        await terminal.see("Ctrl-C stops it")
        assert terminal.is_sane()
        await world.telegram.user_says("still serving?")
        await world.telegram.wait_for_text(ALICE, "You said: still serving?")
        terminal.type(CTRL_C)
        assert await terminal.ends() == 0
        assert b"Traceback" not in terminal.output
    async with sitting_at(world, "run") as terminal:
        await terminal.see("›")
        terminal.type(CTRL_C)
        assert await terminal.ends() == 0
        assert terminal.is_sane()


async def test_a_closed_window_leaves_no_process_behind(world: World) -> None:
    world.config_file.write_text(yaml.safe_dump(with_console(world)))
    async with sitting_at(world, "run") as terminal:
        await terminal.see("›")
        terminal.close()
        assert await terminal.ends() == 0


def with_console(world: World) -> dict[str, Any]:
    """A gateway with a terminal beside its bot."""
    config = world.config()
    return {**config, "channels": {**config["channels"], "console": {}}}


async def test_two_quick_ctrl_c_leave_and_the_run_goes_on_next_time(world: World) -> None:
    write_console_config(world)
    async with sitting_at(world, "run") as terminal:
        await terminal.see("›")
        terminal.type(b"!hang\r")
        await world.model.wait_for_request(lambda record: "!hang" in record.last_user_text)
        terminal.type(CTRL_C)
        terminal.type(CTRL_C)
        assert await terminal.ends() == 0


async def test_a_terminal_joins_a_running_gateway_and_leaves_it_running(world: World) -> None:
    world.settings = {"channels": {"console": {}}}
    async with world:
        code, output, errors = await piped(
            world.folder, "from a pipe\n/whoami\n", "console", "--config", str(world.config_file), env=world.variables
        )
        assert (code, errors) == (0, "")
        assert "You said: from a pipe" in output
        assert "console:local" in output
        async with sitting_at(world, "console") as terminal:
            await terminal.see("›")
            terminal.type(b"from a prompt\r")
            await terminal.see("You said: from a prompt")
            terminal.type(CTRL_D)
            assert await terminal.ends() == 0
        await world.telegram.user_says("still serving?")
        await world.telegram.wait_for_text(ALICE, "You said: still serving?")


async def test_a_gateway_without_a_console_says_what_to_add(world: World) -> None:
    async with world:
        code, _, errors = await piped(
            world.folder, "hello\n", "console", "--config", str(world.config_file), env=world.variables
        )
        assert code == 1
        assert "add `console: {}`" in errors


async def test_a_gateway_that_stops_lets_its_terminals_go(world: World) -> None:
    world.settings = {"channels": {"console": {}}}
    async with world, sitting_at(world, "console") as terminal:
        await terminal.see("›")
        terminal.type(b"!pause half\r")
        await terminal.see(FIRST_HALF)
        assert await world.stop() == 0
        await terminal.ends()
        assert b"Traceback" not in terminal.output


async def test_without_a_running_gateway_the_terminal_starts_its_own(world: World) -> None:
    world.config_file.write_text(yaml.safe_dump(world.config()))
    code, output, _ = await piped(
        world.folder, "hello\n", "console", "--config", str(world.config_file), env=world.variables
    )
    assert code == 0
    assert "You said: hello" in output
    assert await world.telegram.records() == []


async def test_a_service_with_a_console_account_does_not_end_with_its_standard_input(world: World) -> None:
    world.settings = {"channels": {"console": {}}}
    async with world:  # its standard input is /dev/null
        await world.telegram.user_says("are you there?")
        await world.telegram.wait_for_text(ALICE, "are you there?")
        assert world.process is not None
        assert world.process.returncode is None
