"""The in-memory sandbox's commands: what it knows it does as a shell does, and what it does not know it says."""

from __future__ import annotations

import asyncio
import tracemalloc

import pytest

from sandbox.base import WORKSPACE, Ending, FileText, Isolation, SandboxError
from sandbox.config import SandboxLimits, SandboxSettings
from tests.simulators.sandbox.provider import USE, MemoryProvider, MemorySandbox

SECONDS = 30.0


@pytest.fixture
async def sandbox() -> MemorySandbox:
    return await MemoryProvider().acquire("thread")


@pytest.mark.parametrize(
    ("command", "code", "output"),
    [
        ("", 0, ""),
        ("echo a  b 'c  d' \"e f\" g\\ h", 0, "a b c  d e f g h\n"),
        ("echo -n a; echo b", 0, "ab\n"),
        ("true && echo yes || echo no", 0, "yes\n"),
        ("false && echo yes || echo no", 0, "no\n"),
        ("false", 1, ""),
        ("false\necho two\n", 0, "two\n"),
        ("exit 259; echo never", 3, ""),
        ("printf '%s: %s%%\\n' a 5", 0, "a: 5%\n"),
        ("seq 3", 0, "1\n2\n3\n"),
        ("seq 2 3 > n; seq 1 >> n; cat n n", 0, "2\n3\n1\n2\n3\n1\n"),
        ("mkdir -p a/b; cd a; echo x > b/c; pwd; ls; ls b", 0, f"{WORKSPACE}/a\nb\nc\n"),
        ("echo x > f; rm f; cat f", 1, "cat: No such file or directory\n"),
        ("rm -f f; rm f", 1, "rm: No such file or directory\n"),
        ("cat 2>&1; echo a >&2", 0, "a\n"),
        ("echo x > /etc/passwd", 1, "/etc/passwd: No such file or directory\n"),
        ("echo x > /mnt/skills/x", 1, "/mnt/skills/x: Read-only file system\n"),
        ("python3 -c 1", 127, "bash: python3: command not found\n"),
        ("echo a >", 2, "bash: syntax error: unexpected end of file\n"),
        ("; echo", 2, "bash: syntax error near unexpected token `;'\n"),
        ("ls -la", 2, "ls: these options are not known here\n"),
        ("sleep soon", 2, "sleep: a number is needed\n"),
    ],
)
async def test_what_it_knows(sandbox: MemorySandbox, command: str, code: int, output: str) -> None:
    result = await sandbox.execute_command(command, timeout=SECONDS)
    assert (result.exit_code, result.output) == (code, output)


@pytest.mark.parametrize("sign", ["|", "$HOME", "`x`", "*", "& ", "<f", "(x)", "{a,b}", "'open", "~"])
async def test_what_it_does_not_know_it_refuses_before_anything_runs(sandbox: MemorySandbox, sign: str) -> None:
    result = await sandbox.execute_command(f"echo begun > f; echo {sign}", timeout=SECONDS)
    assert result.exit_code == 2
    assert result.output.startswith(f"bash: {sign[0]}: ")
    assert not isinstance(await sandbox.read_file("f"), FileText)


async def test_it_says_what_it_is() -> None:
    report = await MemoryProvider().start()
    assert (report.isolation, report.bash) == (Isolation.FULL, True)
    assert "in memory" in report.shortfalls[0]


async def test_what_runs_ends_with_the_sandbox() -> None:
    provider = MemoryProvider()
    sandbox = await provider.acquire("thread")
    begun = asyncio.Event()
    running = asyncio.create_task(
        sandbox.execute_command("echo begun; sleep 600", timeout=900, on_output=lambda _: begun.set())
    )
    await begun.wait()
    await provider.release("thread")
    with pytest.raises(SandboxError):
        await running
    with pytest.raises(SandboxError):
        await sandbox.execute_command("true", timeout=SECONDS)
    again = await provider.acquire("thread")
    assert (await again.execute_command("true", timeout=SECONDS)).ending is Ending.EXITED


async def test_a_program_can_put_files_where_the_agent_cannot(sandbox: MemorySandbox) -> None:
    sandbox.drive.put("/mnt/skills/public/x/SKILL.md", b"# X\n")
    read = await sandbox.read_file("/mnt/skills/public/x/SKILL.md")
    assert isinstance(read, FileText)
    assert read.text == "# X\n"


@pytest.mark.slow
async def test_what_is_too_large_for_a_file_is_not_held() -> None:
    settings = SandboxSettings(use=USE, limits=SandboxLimits(file_mb=1))
    sandbox = await MemoryProvider(settings).acquire("thread")
    tracemalloc.start()
    result = await sandbox.execute_command("seq 2000000 > x", timeout=SECONDS)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "File too large" in result.output
    assert most < 6 << 20
