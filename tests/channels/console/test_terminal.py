"""The terminal's user interface in a process of its own: in pipes, from a file, and at a pseudo-terminal."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from channels.console.frames import Shown
from channels.console.interactive import render
from channels.console.plain import as_text
from channels.console.terminal import MAX_LINE, read_lines
from tests.pseudo_terminal import VARIABLES, PseudoTerminal, at_a_terminal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = {**os.environ, **VARIABLES, "PYTHONWARNINGS": "error"}


def command(folder: Path) -> list[str]:
    return [sys.executable, "-m", "tests.channels.console.echo_app", str(folder)]


def in_pipes(folder: Path, text: bytes) -> str:
    done = subprocess.run(
        command(folder), input=text, capture_output=True, cwd=ROOT, env=ENVIRONMENT, timeout=20, check=True
    )
    assert done.stderr == b""
    return done.stdout.decode()


def test_a_transcript_in_pipes(tmp_path: Path) -> None:
    assert in_pipes(tmp_path, b"hello\n\n/status\nlast without newline") == (
        "you: hello\nantler: You said: hello\nyou: /status\nantler: You said: /status\n"
        "you: last without newline\nantler: You said: last without newline\n"
    )


def test_no_input_at_all(tmp_path: Path) -> None:
    with open(os.devnull, "rb") as nothing:
        done = subprocess.run(command(tmp_path), stdin=nothing, capture_output=True, cwd=ROOT, timeout=20, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


def test_input_from_a_file_with_bytes_that_are_no_text(tmp_path: Path) -> None:
    source = tmp_path / "input"
    source.write_bytes(b"a\xffb\r\n\x1b[31mred\n")
    with source.open("rb") as given:
        done = subprocess.run(command(tmp_path), stdin=given, capture_output=True, cwd=ROOT, timeout=20, check=True)
    assert done.stdout.decode() == ("you: a\ufffdb\nantler: You said: a\ufffdb\nyou: red\nantler: You said: red\n")


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        (r"The agent *reads* SOUL\.md \(and **a `*.csv`**\)\.", "The agent reads SOUL.md (and a *.csv)."),
        ("# Head\n\none\ntwo", "Head\n\none\ntwo"),
        ("[a page](https://x.org/a), https://y.org", "a page (https://x.org/a), https://y.org"),
        ("- one\n  1. in\n\n     more\n- [x] done\n- [ ] open", "- one\n  1. in\n\n     more\n- [x] done\n- [ ] open"),
        ("> a\n> - b\n\n---", "> a\n> - b\n\n" + "─" * 20),
        ("```python\nif *x*:\n    y\n```", "if *x*:\n    y"),
        ("| a | bb |\n|---|---:|\n| **1** | 2 |", "a | bb\n--+---\n1 |  2"),
        ("| a | b |\n|---|---|\n| [l](https://x.org) | 2 |", "a | b\nl (https://x.org) | 2"),
        ("", ""),
    ],
)
def test_a_pipe_gets_text_and_not_its_markdown(markdown: str, text: str) -> None:
    assert as_text(markdown) == text


def test_a_file_is_named_by_its_copy(tmp_path: Path) -> None:
    entered, first, second = in_pipes(tmp_path, b"file\n").splitlines()
    assert (entered, first) == ("you: file", "antler: Here.")
    assert Path(second.removeprefix("antler: [file] ")).read_text() == "content"


async def test_lines_of_any_length_are_bounded() -> None:
    source, sink = os.pipe()
    writing = asyncio.create_task(asyncio.to_thread(_write, sink, b"x" * (2 * MAX_LINE + 5) + b"\nend"))
    lines = [line async for line in read_lines(source)]
    await writing
    os.close(source)
    assert max(len(line) for line in lines) == MAX_LINE
    assert ("".join(lines[:-1]), lines[-1]) == ("x" * (2 * MAX_LINE + 5), "end")


def _write(fd: int, data: bytes) -> None:
    with os.fdopen(fd, "wb") as pipe:
        pipe.write(data)


@pytest.mark.parametrize("text", ["&#27;[31m", "`&#x1b;]0;x`", '[a](https://x.org/%1b "&#7;")', "```\n\u009b31m\n```"])
def test_markdown_has_no_way_to_a_control_character(text: str) -> None:
    plain = render(Shown(message_id="1", text="words", final=True), 40)
    shown = render(Shown(message_id="1", text=text.replace("\u009b", ""), final=True), 40)
    assert "words" in plain
    bare = _without_colours(shown)
    assert not any((char < " " and char != "\n") or "\x7f" <= char <= "\x9f" for char in bare)


def _without_colours(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.fixture
async def screen(tmp_path: Path) -> AsyncIterator[PseudoTerminal]:
    async with at_a_terminal(command(tmp_path), cwd=ROOT, env=ENVIRONMENT) as terminal:
        yield terminal


async def test_a_conversation_at_a_terminal(screen: PseudoTerminal) -> None:
    await screen.see("›")
    screen.type(b"hello\r")
    await screen.see("You said: ")
    assert b"**" not in screen.output  # rendered, not quoted
    screen.type(b"\x04")  # Ctrl-D
    assert await asyncio.wait_for(screen.process.wait(), 10) == 0


async def test_ctrl_c_stops_the_run_and_again_leaves(screen: PseudoTerminal) -> None:
    await screen.see("›")
    screen.type(b"slow\r")
    await screen.see("thinking")
    screen.type(b"\x03")
    await screen.see("It was stopped.")
    screen.type(b"\x03")
    assert await asyncio.wait_for(screen.process.wait(), 10) == 0
    assert b"/stop" in screen.output
    assert b"Traceback" not in screen.output


async def test_leaving_gives_the_terminal_back_at_once_and_a_second_ctrl_c_forces(tmp_path: Path) -> None:
    async with at_a_terminal([*command(tmp_path), "stuck"], cwd=ROOT, env=ENVIRONMENT) as terminal:
        await terminal.see("›")
        assert not terminal.is_sane()
        terminal.type(b"\x03")
        await terminal.see("stopping")
        assert terminal.is_sane()
        terminal.type(b"\x03")
        assert await terminal.ends() == 1
        assert b"forced to stop" in terminal.output


async def test_a_closed_window_ends_the_process_in_the_middle_of_an_answer(tmp_path: Path) -> None:
    ignoring = ["/bin/sh", "-c", 'trap "" HUP; exec "$@"', "sh", *command(tmp_path)]  # as with a config to reload
    async with at_a_terminal(ignoring, cwd=ROOT, env=ENVIRONMENT) as terminal:
        await terminal.see("›")
        terminal.type(b"hello\r")
        await terminal.see("You said: ")
        terminal.close()
        assert await terminal.ends() == 0
