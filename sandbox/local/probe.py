"""The first command of a start: verifies that commands run, and that a few escapes are closed."""

from __future__ import annotations

import asyncio
import re
import secrets
import shlex
from typing import TYPE_CHECKING

from sandbox.base import WORKSPACE, SandboxUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from sandbox.base import CommandResult

_SECONDS = 30.0
_ALIVE = 7
_OWNER = "probe-owner"
_PATHS = "data_dir should be on a local file system, and its path should contain no spaces"

_COMMAND = """
cat {canary} 2>/dev/null
environ=$(tr -d '\\0' 2>/dev/null </proc/1/environ) && [ -n "$environ" ] && echo {mark}-environment
unshare --user true 2>/dev/null && echo {mark}-namespace
(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null
: >{owner}
exit {alive}
"""


# Lists folders instead of running Python: a tenth of the time. The system's own few packages are elsewhere.
_LIST_PACKAGES = 'python=$(command -v python3) && cd "${python%/bin/python3}/lib" && ls -1 python3*/site-packages'
_PACKAGE = re.compile(r"([A-Za-z0-9][\w.]{0,63})-\w[\w.+!]*\.dist-info", re.ASCII)
_MOST_PACKAGES = 100


def probe_thread(instance: str) -> str:
    """The thread of the probe: separate for each process, since several may share the threads' folders. A killed start
    leaves its files; the next one removes them."""
    return f"probe-{instance}"


async def probe(
    execute: Callable[..., Awaitable[CommandResult]], workspace: Path, explain: Callable[[str], str]
) -> None:
    """Run one command and check what it could do. workspace: its folder on the host. Raises SandboxUnavailable."""
    mark = secrets.token_hex(16)
    canary = workspace.parent / "canary"
    connections = 0

    def heard(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        writer.close()

    server = await asyncio.start_server(heard, "127.0.0.1", 0)
    async with server:
        await asyncio.to_thread(_put, canary, mark)
        command = _COMMAND.format(
            canary=shlex.quote(str(canary)),
            mark=mark,
            port=server.sockets[0].getsockname()[1],
            owner=f"{WORKSPACE}/{_OWNER}",
            alive=_ALIVE,
        )
        result = await execute(command, timeout=_SECONDS)
    if result.exit_code != _ALIVE:
        raise SandboxUnavailable(f"commands cannot be run: {_last_line(result.output)}", explain(result.output))
    ways = [sentence for sign, sentence in _WAYS.items() if mark + sign in result.output]
    ways += ["reach the machine's own network"] if connections else []
    ways += ["run as root"] if await asyncio.to_thread(_owner, workspace) == 0 else []
    if ways:
        raise SandboxUnavailable(f"commands are not isolated on this machine: they can {', '.join(ways)}")


async def packages(execute: Callable[..., Awaitable[CommandResult]]) -> tuple[str, ...]:
    """Names of the Python packages available to commands, from the folder of the first python3 in their PATH; () if
    unknown."""
    listed = await execute(_LIST_PACKAGES, timeout=_SECONDS)
    found = (_PACKAGE.fullmatch(line.strip()) for line in listed.output.splitlines())
    return tuple(sorted({match[1].replace("_", "-").lower() for match in found if match}))[:_MOST_PACKAGES]


_WAYS = {
    "\n": "read files outside the sandbox",
    "-environment": "read their parent process's environment",
    "-namespace": "create namespaces",
}


def _put(canary: Path, mark: str) -> None:
    canary.write_text(mark + "\n")
    canary.chmod(0o644)


def _owner(workspace: Path) -> int:
    try:
        return (workspace / _OWNER).lstat().st_uid
    except FileNotFoundError:
        raise SandboxUnavailable("commands cannot write to their workspace", _PATHS) from None


def _last_line(output: str) -> str:
    lines = output.strip().splitlines()
    return lines[-1][:300] if lines else "they print nothing"
