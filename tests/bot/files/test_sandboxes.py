"""Which sandbox a gateway has: the one that the settings name or a refusal with its reason, never a weaker one."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr

from bot.files.sandboxes import Sandboxes
from bot.store.identity import thread_folder
from sandbox import providers
from sandbox.base import FileInfo, Report, SandboxError, SandboxUnavailable, sandbox_id
from sandbox.config import MountSettings, RemoteSettings, SandboxSettings
from sandbox.providers import SharedProvider, Site
from sandbox.remote.homes import in_order
from tests.sandbox.remote.served import TOKEN as SERVERS_TOKEN
from tests.sandbox.remote.served import served
from tests.simulators.process import REPO_ROOT
from tests.simulators.sandbox.provider import USE, MemoryProvider, MemorySandbox

if TYPE_CHECKING:
    from pathlib import Path

HERE = f"{__name__}:"
TOKEN = SecretStr("t" * 32)


class Own(MemoryProvider):
    """A user's own."""

    def __init__(self, settings: SandboxSettings, workspaces: Any, *, instance: str, runtime: Any = None) -> None:
        super().__init__(settings)


class Unavailable(Own):
    async def start(self) -> Report:
        raise SandboxUnavailable("no such kernel", "update it")


class Forbidden(Own):
    async def start(self) -> Report:
        raise PermissionError(1, "Operation not permitted")


class Hanging(Own):
    begun = asyncio.Event()
    ended = False

    async def start(self) -> Report:
        Hanging.begun.set()
        return await asyncio.Future()

    async def shutdown(self) -> None:
        Hanging.ended = True


async def started(folder: Path, **settings: Any) -> Sandboxes:
    sandboxes = Sandboxes(SandboxSettings(**settings), folder)
    assert str(sandboxes.facts).startswith(f"{sandboxes.facts.provider}: ")
    await sandboxes.start()
    sandboxes.tell()
    return sandboxes


async def test_one_that_works_is_named_with_what_it_lacks(tmp_path: Path) -> None:
    sandboxes = await started(tmp_path, use=USE)
    facts = sandboxes.facts
    assert (facts.provider, facts.state) == (USE, "full")
    assert str(facts).startswith(f"{USE}: commands run isolated; Files are kept in memory only")
    async with sandboxes.borrow("t") as sandbox:
        assert (await sandbox.execute_command("echo hello", timeout=5)).output == "hello\n"
    await sandboxes.shutdown(5)
    await sandboxes.shutdown(5)


async def test_a_class_of_a_users_own(tmp_path: Path) -> None:
    sandboxes = await started(tmp_path, use=f"{HERE}Own")
    assert sandboxes.facts.state == "full"
    await sandboxes.shutdown(5)


@pytest.mark.parametrize(
    ("use", "why"),
    [
        (f"{HERE}Unavailable", "no such kernel (update it)"),
        (f"{HERE}Forbidden", "operation not permitted"),
        (f"{HERE}Missing", "cannot be loaded"),
        ("no_such_module_at_all:Class", "cannot be loaded"),
    ],
)
async def test_one_that_does_not_work_leaves_the_files_and_refuses_commands(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, use: str, why: str
) -> None:
    sandboxes = await started(tmp_path, use=use, limits={"free_disk_mb": 0})
    facts = sandboxes.facts
    assert facts.state == "files"
    assert why in facts.shortfalls[0]
    assert "runs no commands" in caplog.text
    assert why in caplog.text
    async with sandboxes.borrow("t") as sandbox:
        assert isinstance(await sandbox.write_file("a.txt", "kept"), FileInfo)
        with pytest.raises(SandboxError, match="commands cannot be run"):
            await sandbox.execute_command("true", timeout=5)
    await sandboxes.shutdown(5)


async def test_servers_that_are_away_are_named_until_they_are_back_and_their_threads_stay(tmp_path: Path) -> None:
    async with served(tmp_path / "a", sandbox={"use": "host"}) as one:
        urls = (f"http://{one.address}", "http://127.0.0.1:1")
        settings = SandboxSettings(use="remote", remote=RemoteSettings(url=urls, token=SecretStr(SERVERS_TOKEN)))
        thread = next(each for each in map(str, range(100)) if in_order(urls, sandbox_id(each))[0] == urls[0])
        for _ in range(2):  # the second one is another process
            sandboxes = Sandboxes(settings, tmp_path / "data")
            await sandboxes.start()
            (trouble,) = sandboxes.facts.troubles
            assert f"server {urls[1]} cannot be reached" in trouble
            assert trouble in str(sandboxes.facts)
            assert sandboxes.has_files
            with pytest.raises(SandboxError, match=urls[1]):
                async with sandboxes.borrow(thread):
                    pass  # the other one has never said what it keeps
            note = thread_folder(tmp_path / "data", thread).with_name("sandbox-server")
            note.parent.mkdir(parents=True, exist_ok=True)
            note.write_text(urls[0])
            async with sandboxes.borrow(thread) as sandbox:
                assert isinstance(await sandbox.write_file("a.txt", "kept"), FileInfo)
            await sandboxes.forget(thread)
            assert not note.parent.exists()
            assert not list((tmp_path / "a").rglob("a.txt"))
            await sandboxes.shutdown(5)


async def test_where_not_even_files_work_there_is_none(tmp_path: Path) -> None:
    mounts = (MountSettings(path="/mnt/lost", host=tmp_path / "lost"),)
    sandboxes = Sandboxes(SandboxSettings(use=f"{HERE}Unavailable", mounts=mounts), tmp_path)
    assert await sandboxes.start() is None
    assert sandboxes.facts.state == "failed"
    assert "/mnt/lost" in str(sandboxes.facts)
    with pytest.raises(SandboxError):
        async with sandboxes.borrow("t"):
            pass


async def test_where_the_files_are_on_a_server_that_is_not_there_this_machines_are_not_taken(tmp_path: Path) -> None:
    remote = RemoteSettings(url="http://127.0.0.1:1", token=SecretStr("t" * 40))
    sandboxes = Sandboxes(SandboxSettings(use="remote", remote=remote), tmp_path)
    assert await sandboxes.start() is None
    assert sandboxes.facts.state == "failed"


async def test_switched_off_there_is_none(tmp_path: Path) -> None:
    sandboxes = Sandboxes(SandboxSettings(use="off"), tmp_path)
    assert await sandboxes.start() is None
    assert sandboxes.facts.state == "off"
    assert sandboxes.owner is None


async def test_a_stop_in_mid_start_ends_what_was_begun(tmp_path: Path) -> None:
    sandboxes = Sandboxes(SandboxSettings(use=f"{HERE}Hanging"), tmp_path)
    starting = asyncio.create_task(sandboxes.start())
    lending = asyncio.create_task(sandboxes.borrow("t").__aenter__())
    done, _ = await asyncio.wait({starting, lending}, timeout=0.2)
    assert not done
    starting.cancel()
    await asyncio.wait({starting, lending})
    assert isinstance(lending.exception(), SandboxError)
    assert Hanging.ended


async def test_a_shutdown_waits_until_a_cancelled_start_has_taken_back_what_it_began(tmp_path: Path) -> None:
    """A cancelled gather ends before each of its tasks has."""
    Hanging.begun, Hanging.ended = asyncio.Event(), False
    sandboxes = Sandboxes(SandboxSettings(use=f"{HERE}Hanging"), tmp_path)
    other: asyncio.Future[None] = asyncio.Future()
    starting = asyncio.gather(sandboxes.start(), other)
    await Hanging.begun.wait()
    starting.cancel()
    await sandboxes.shutdown(5)
    assert Hanging.ended
    with pytest.raises(asyncio.CancelledError):
        await starting


async def test_nothing_of_docker_is_imported_unless_it_is_chosen() -> None:
    code = (
        "import bot.files.sandboxes, sys; print([n for n in ('aiodocker', 'sandbox.docker.api') if n in sys.modules])"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, cwd=REPO_ROOT, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert output == b"[]\n"


async def test_a_released_sandbox_goes_on_for_who_has_borrowed_it() -> None:
    ended: list[str] = []

    class Counting(MemoryProvider):
        async def release(self, thread_id: str) -> None:
            ended.append(thread_id)
            await super().release(thread_id)

    shared = SharedProvider(Counting())
    assert isinstance(await shared.acquire("t"), MemorySandbox)
    async with shared.borrow("t") as borrowed:
        async with shared.borrow("t"):
            await shared.release("t")
        assert ended == []
        assert (await borrowed.execute_command("echo still", timeout=5)).output == "still\n"
    assert ended == ["t"]
    await shared.acquire("t")
    async with shared.borrow("t"):
        pass
    assert ended == ["t"], "a run has it"
    await shared.release("t")
    assert ended == ["t", "t"]


def test_a_name_that_this_version_does_not_have(tmp_path: Path) -> None:
    site = Site(folder_of=lambda thread_id: tmp_path / thread_id, instance="test")
    settings = SandboxSettings().model_copy(update={"use": "imaginary"})
    with pytest.raises(SandboxUnavailable, match="no provider imaginary"):
        providers.make(settings, site)


async def test_a_forgotten_threads_files_are_gone_wherever_they_were(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for settings in ({"use": "off"}, {"use": f"{HERE}Own"}, {"use": f"{HERE}Unavailable"}):
        sandboxes = await started(tmp_path, **settings)
        folder = thread_folder(tmp_path, "thread")
        (folder / "workspace" / "deep").mkdir(parents=True)
        (folder / "workspace" / "deep" / "note").write_text("x")
        (folder / "workspace" / "link").symlink_to(outside)
        (folder / "workspace" / "deep").chmod(0)
        for _ in range(2):
            await sandboxes.forget("thread")
        assert not folder.parent.exists()
        assert outside.is_dir()
        await sandboxes.shutdown(5)


async def test_files_that_cannot_be_reached_are_not_taken_for_deleted(tmp_path: Path) -> None:
    sandboxes = await started(tmp_path, use="remote", remote=RemoteSettings(url="http://127.0.0.1:9", token=TOKEN))
    with pytest.raises(SandboxError, match="does not work"):
        await sandboxes.forget("thread")
