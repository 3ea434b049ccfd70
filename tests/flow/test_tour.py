"""The first five minutes: `antler run` without a config, each number of its tour, and the terminal around it."""

from __future__ import annotations

import os
import re
import signal
import stat
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.models.tour_texts import EN, ZH
from sandbox.policy import DEFAULT_FOLDER, complete
from tests.flow.sandboxed import require_bubblewrap
from tests.flow.test_console import ANTLER, CTRL_C, CTRL_D, piped
from tests.pseudo_terminal import VARIABLES, at_a_terminal
from tests.simulators.process import child_environment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.pseudo_terminal import PseudoTerminal

require_bubblewrap()

MAKEFILE = Path(__file__).parents[2] / "Makefile"
UP, TAB = b"\x1b[A", b"\t"
DEADLY = "#!/bin/sh\nstty raw -echo\necho now raw\nread line\nkill -9 $$\n"


@asynccontextmanager
async def sitting(folder: Path, *, columns: int = 100) -> AsyncIterator[PseudoTerminal]:
    """At `antler run` without a config, once its prompt is there."""
    variables = child_environment() | VARIABLES
    async with at_a_terminal([*ANTLER, "run"], cwd=folder, env=variables, rows=40, columns=columns) as terminal:
        await terminal.see("›")
        yield terminal


def read(name: str) -> bytes:
    return Path(name).read_bytes()


async def test_a_chart_is_made_of_the_shipped_figures(tmp_path: Path) -> None:
    code, output, _ = await piped(tmp_path, "1\n", "run")
    assert code == 0
    with_pandas = complete(DEFAULT_FOLDER) is not None
    assert re.search(r"Harbour +99011\nMarket +13796[56]\nStation +165010\n", output)
    (name,) = re.findall(r"\[file\] (.+)", output)
    chart = read(name)
    assert chart.startswith(b"\x89PNG" if with_pandas else b"<svg")
    assert ("pandas is not in the sandbox yet" in output) is not with_pandas


async def test_three_subagents_work_through_a_plan(tmp_path: Path) -> None:
    code, output, _ = await piped(tmp_path, "2\n", "run")
    assert code == 0
    assert (
        "- Harbour: 29121 cups, 99011 EUR\n- Market: 44505 cups, 137966 EUR\n- Station: 56900 cups, 165010 EUR"
        in output
    )
    assert "Station earned most." in output


async def test_an_order_is_written_after_a_yes_and_not_after_a_no(tmp_path: Path) -> None:
    code, output, _ = await piped(tmp_path, "3\n3\n3\n1\n", "run")
    assert code == 0
    assert output.count("Why I ask: It is an order.") == 2
    first, second = output.split("Allowed once.")
    assert EN.order_denied in first
    assert "[file]" not in first
    (name,) = re.findall(r"\[file\] (.+)", second)
    assert read(name).decode() == EN.order


@pytest.mark.long
async def test_the_end_of_a_pipe_leaves_a_request_open_until_the_next_start(tmp_path: Path) -> None:
    code, output, _ = await piped(tmp_path, "3\n", "run")
    assert code == 0
    assert "1. Allow once" in output
    code, output, _ = await piped(tmp_path, "1\nhello\n", "run")
    assert code == 0
    assert output.index(EN.order_done.partition(":")[0]) < output.index("you: hello")


async def test_a_question_is_answered_by_its_number(tmp_path: Path) -> None:
    code, output, _ = await piped(tmp_path, "4\n2\n你能做什么？\n4\n1\n", "run")
    assert code == 0
    assert "You chose Market." in output
    assert "2025-07  4445 cups  13779.50 EUR" in output
    assert "你选了 Harbour。" in output


@pytest.mark.long
async def test_all_of_it_is_chinese_for_who_reads_chinese(tmp_path: Path) -> None:
    """What the tour itself says and asks; also for the few orders that it knows in English alone."""
    typed = ("3", "1", "4", "2", "2", "run echo hi", "write a file", "delegate run echo a; 你好", "5", "1", "1")
    chinese = child_environment() | {"LANG": "zh_CN.UTF-8"}
    code, output, errors = await piped(tmp_path, "\n".join([*typed, ""]), "run", env=chinese)
    assert code == 0
    assert "询问原因：这是一份订单。" in output
    assert "- Harbour: 29121 杯, 99011 EUR" in output
    assert ZH.answered.format(tool="bash").replace("`", "") in output
    assert ZH.sent in output
    assert ZH.chart_begin.replace("`", "") in output
    assert ZH.failed.partition("{")[0].strip() not in output
    answers = re.sub(r"^you: .*$", "", output, flags=re.MULTILINE)
    for sentence in re.split(r"[\n，。：（）“”]", answers + errors):
        words = re.findall(r"\b[a-z]{2,}\b", re.sub(r"`[^`]*`|\S*[/_.=]\S*|make \S+|you|schedule|bash", "", sentence))
        assert len(words) < 3, f"English: {sentence}"


async def test_something_is_remembered_and_forgotten(tmp_path: Path) -> None:
    code, output, _ = await piped(tmp_path, "6\n1\n/new\n/memory\n/memory forget 1\n/memory\n", "run")
    assert code == 0
    kept, forgotten = output.split("you: /memory forget 1")
    assert "1. I like green tea" in kept.rpartition("you: /memory")[2]
    assert "I remember nothing about you yet" in forgotten


@pytest.mark.long
async def test_a_reminder_comes_by_itself(tmp_path: Path) -> None:
    async with sitting(tmp_path) as terminal:
        terminal.type(b"5\r")
        await terminal.see("In ten seconds")
        assert "It is time" not in terminal.shown
        await terminal.see("It is time: stretch")


async def test_a_message_reaches_the_answer_that_is_being_made(tmp_path: Path) -> None:
    async with sitting(tmp_path) as terminal:
        terminal.type(b"7\r")
        await terminal.see("Antlers are")
        terminal.type(b"shorter\r")
        await terminal.see("You wrote “shorter” in the meantime, so I stop after")


async def test_a_killed_answer_goes_on_after_the_next_start(tmp_path: Path) -> None:
    async with sitting(tmp_path) as terminal:
        terminal.type(b"8\r")
        await terminal.see("2 Each step")
        (pid,) = {int(number) for number in re.findall(r"kill -9 (\d+)", terminal.shown)}
        assert pid == terminal.process.pid
        os.kill(pid, signal.SIGKILL)
        await terminal.ends()
    async with sitting(tmp_path) as terminal:
        await terminal.see(f"Process {pid} is gone; I am process {terminal.process.pid}")
        await terminal.see("3 What you have read")
        assert terminal.shown.count("1 Your message was on disk") == 1
        terminal.type(CTRL_C)
        terminal.type(CTRL_C)
        assert await terminal.ends() == 0


# The terminal around it.


@pytest.mark.long
async def test_commands_are_completed_and_lines_are_there_again_after_a_restart(tmp_path: Path) -> None:
    async with sitting(tmp_path) as terminal:
        terminal.type(b"/remi")
        await terminal.see("See or cancel what is scheduled")
        terminal.type(TAB + b"\r")
        await terminal.see("› /reminders")
        terminal.type(b" a secret line\r")
        await terminal.see("You wrote")
        terminal.type(CTRL_D)
        assert await terminal.ends() == 0
        assert terminal.is_sane()
    history = tmp_path / "data/console_history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert "secret" not in history.read_text()
    async with sitting(tmp_path) as terminal:
        terminal.type(UP)
        await terminal.see("› /reminders")


async def test_a_paste_of_several_lines_is_one_message(tmp_path: Path) -> None:
    async with sitting(tmp_path) as terminal:
        terminal.type(b"\x1b[200~first\nsecond /new\x1b[201~")
        await terminal.see("second /new")
        assert "You wrote" not in terminal.shown
        terminal.type(b"\r")
        await terminal.see("You wrote: “first second /new”")


async def test_the_log_goes_to_a_file_while_a_person_types(tmp_path: Path) -> None:
    async with sitting(tmp_path, columns=300) as terminal:
        log = tmp_path / "data/antler.log"
        assert f"Log: {log}" in terminal.shown
        terminal.type(b"hello\r")
        await terminal.see("I am the demo model")
        terminal.process.kill()
        await terminal.ends()
    async with sitting(tmp_path) as terminal:
        terminal.type(b"/whoami\r")
        await terminal.see("console:local")
        assert " bot." not in terminal.shown
    assert " info bot." in log.read_text().lower()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


async def test_a_closed_window_ends_the_process_in_the_middle_of_an_answer(tmp_path: Path) -> None:
    async with sitting(tmp_path) as terminal:
        terminal.type(b"8\r")
        await terminal.see("kill -9")
        terminal.close()
        assert await terminal.ends() == 0
        assert _of_session(terminal.process.pid) == []


def _of_session(leader: int) -> list[int]:
    """Processes that a closed window left behind."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
        except OSError:  # it has just ended
            continue
        if int(session) == leader and state != "Z":
            found.append(int(folder.name))
    return found


async def test_two_signals_force_the_end_and_the_terminal_is_sane(tmp_path: Path) -> None:
    async with sitting(tmp_path) as terminal:
        assert not terminal.is_sane()
        terminal.process.send_signal(signal.SIGSTOP)  # so that it finds both at once
        terminal.process.send_signal(signal.SIGTERM)
        terminal.process.send_signal(signal.SIGINT)
        terminal.process.send_signal(signal.SIGCONT)
        assert await terminal.ends() == 1
        assert terminal.is_sane()


async def test_make_gives_the_terminal_back_after_a_kill(tmp_path: Path) -> None:
    program = tmp_path / "antler"
    program.write_text(DEADLY)
    program.chmod(0o700)
    settled = ["-o", f"{sys.prefix}/.installed", "-o", "runtime-in-background", f"VENV={sys.prefix}"]
    command = ["make", "-f", str(MAKEFILE), *settled, f"BIN={tmp_path}", "run"]
    async with at_a_terminal(command, cwd=tmp_path, env=child_environment() | VARIABLES) as terminal:
        await terminal.see("now raw")
        assert not terminal.is_sane()
        terminal.type(b"\n")
        assert await terminal.ends() != 0
        assert terminal.is_sane()
