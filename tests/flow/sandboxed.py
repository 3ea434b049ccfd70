"""Helpers of the sandbox's flow tests: the requirement of bubblewrap, and checks of this machine's processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
from pathlib import Path

import pytest

MISSING = "" if shutil.which("bwrap", path="/usr/bin:/bin") else "bubblewrap is not installed"

MARK = f"{secrets.randbelow(10**8):08}"
"""Part of every `mark`, different in concurrent test runs on this machine."""


def require_bubblewrap() -> None:
    """Skip the module if it is missing; fail in CI."""
    if MISSING and not os.environ.get("CI"):
        pytest.skip(MISSING, allow_module_level=True)
    assert not MISSING


def call(tool: str, **arguments: object) -> str:
    """A line that makes the simulated model call a tool."""
    return f"!tool {tool} {json.dumps(arguments)}"


def bash(command: str, **more: object) -> str:
    return call("bash", command=command, **more)


def delegates(**prompts: str) -> str:
    """A line that makes the simulated model delegate; each prompt in turn controls its subagent's model."""
    tasks = [
        {"description": name.replace("_", " "), "prompt": prompt, "subagent_type": "general-purpose"}
        for name, prompt in prompts.items()
    ]
    return "!tools " + " ".join(f"task {json.dumps(task)}" for task in tasks)


def running(mark: str) -> list[int]:
    """The processes of this machine with the mark in their command lines."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                line = (folder / "cmdline").read_bytes()
            except OSError:  # it has just ended
                continue
            if mark.encode() in line:
                found.append(int(folder.name))
    return found


async def until_running(mark: str, seconds: float = 20.0) -> None:
    """Wait until the mark is a whole argument of a process: a shell has it from the start, within its script."""
    async with asyncio.timeout(seconds):
        while not await asyncio.to_thread(_started, mark):
            pass


def _started(mark: str) -> bool:
    for pid in running(mark):
        with contextlib.suppress(OSError):  # it has just ended
            if mark.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                return True
    return False


async def until_gone(mark: str, seconds: float) -> None:
    """Raise AssertionError if a check that begins after that time still finds a process with the mark."""
    deadline = asyncio.get_running_loop().time() + seconds
    late = False
    while left := await asyncio.to_thread(running, mark):
        assert not late, f"still running after {seconds} s: {left}"
        late = asyncio.get_running_loop().time() > deadline
