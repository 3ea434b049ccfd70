"""Several sandbox servers: a thread stays on the one with its files, whatever becomes of the others and of the list."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

from bot.store.identity import thread_folder
from sandbox.base import FileText, Problem, SandboxError, SandboxUnavailable, sandbox_id
from sandbox.remote.homes import Homes, in_order
from sandbox.remote.provider import RemoteProvider
from tests.sandbox.remote.served import SECONDS, Line, client_settings, older_server, served, server_process
from tests.simulators.sandbox.provider import USE as MEMORY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType

    from sandbox.remote.server.__main__ import Service

FILES = {"use": "host"}
COMMANDS = {"use": "bubblewrap" if Path("/usr/bin/bwrap").exists() else MEMORY}


class Servers:
    """Servers by name, each with a folder of its own below `folder`, which it keeps and finds again like its port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.urls: dict[str, str] = {}
        self._running: dict[str, AsyncExitStack] = {}

    async def up(self, *names: str) -> None:
        for name in names:
            stack = AsyncExitStack()
            port = int(self.urls[name].rpartition(":")[2]) if name in self.urls else 0
            service: Service = await stack.enter_async_context(
                served(self.folder / name, sandbox=FILES, listen={"port": port})
            )
            self.urls[name] = f"http://{service.address}"
            self._running[name] = stack

    async def down(self, *names: str) -> None:
        for name in names:
            await self._running.pop(name).aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.down(*self._running)

    def named(self, names: str) -> tuple[str, ...]:
        return tuple(self.urls[name] for name in names)

    def home(self, thread: str, names: str) -> str:
        """The name of the first server in a new thread's order."""
        first = in_order(self.named(names), sandbox_id(thread))[0]
        return next(name for name, url in self.urls.items() if url == first)

    @property
    def threads(self) -> list[str]:
        """24 threads, half of which and half of the others are at home on each of all servers. Their addresses differ
        from one test to the next, and so do the homes of names."""
        found: list[str] = []
        for name in [*self.urls] * 6:
            some = (str(number) for number in count() if str(number) not in found)
            found.append(next(thread for thread in some if self.home(thread, "".join(self.urls)) == name))
        return found

    def have(self, thread: str) -> list[str]:
        """The servers with a folder of its own for a thread."""
        return [name for name in self.urls if self.files(name, thread).exists()]

    def files(self, name: str, thread: str) -> Path:
        return self.folder / name / "sandboxes" / sandbox_id(thread)

    @asynccontextmanager
    async def provider(self, names: str, notes: str = "notes") -> AsyncIterator[RemoteProvider]:
        """As a process has it, which shares its notes with those of the same folder."""
        folder = self.folder / notes
        homes = Homes(partial(thread_folder, folder), folder / "threads" / ".sandbox-servers")
        urls = self.named(names)
        provider = RemoteProvider(client_settings(urls if len(urls) > 1 else urls[0]), homes=homes)
        await provider.start()
        try:
            yield provider
        finally:
            await provider.shutdown()


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Servers]:
    async with Servers(tmp_path) as made:
        await made.up("a", "b", "c", "d")
        yield made


async def write(provider: RemoteProvider, thread: str) -> None:
    """Its own name into a file, at the end of a run as the agent has it."""
    sandbox = await provider.acquire(thread)
    assert not isinstance(await sandbox.write_file("own", thread), Problem)
    await provider.release(thread)


async def read(provider: RemoteProvider, thread: str) -> str | None:
    found = await (await provider.acquire(thread)).read_file("own")
    await provider.release(thread)
    return found.text if isinstance(found, FileText) else None


async def test_threads_are_spread_and_found_again_by_every_process(servers: Servers) -> None:
    async with servers.provider("abc") as provider:
        for thread in servers.threads:
            await write(provider, thread)
    homes = {thread: servers.have(thread) for thread in servers.threads}
    assert homes == {thread: [servers.home(thread, "abc")] for thread in servers.threads}
    assert {name for names in homes.values() for name in names} == {"a", "b", "c"}
    for names, notes in (("abc", "notes"), ("cab", "notes"), ("abc", "none of these")):
        async with servers.provider(names, notes) as provider:
            assert [await read(provider, thread) for thread in servers.threads] == servers.threads
    assert {thread: servers.have(thread) for thread in servers.threads} == homes


@pytest.mark.parametrize("notes", ["notes", "none of these"])
async def test_a_fourth_server_gets_its_share_of_new_threads_and_none_of_the_old_ones(
    servers: Servers, notes: str
) -> None:
    old, new = servers.threads[:12], servers.threads[12:]
    async with servers.provider("abc") as provider:
        for thread in old:
            await write(provider, thread)
    assert "d" in {servers.home(thread, "abcd") for thread in old}
    async with servers.provider("abcd", notes) as provider:
        assert [await read(provider, thread) for thread in old] == old
        for thread in new:
            await write(provider, thread)
    assert not any("d" in servers.have(thread) for thread in old)
    assert {thread: servers.have(thread) for thread in new} == {t: [servers.home(t, "abcd")] for t in new}
    assert "d" in {servers.home(thread, "abcd") for thread in new}


async def test_while_a_server_is_away_its_threads_say_so_and_all_others_work(servers: Servers) -> None:
    old, new = servers.threads[:12], servers.threads[12:]
    lost = [thread for thread in old if servers.home(thread, "abc") == "b"]
    async with servers.provider("abc") as provider:
        await provider.check()
        for thread in old:
            await write(provider, thread)
        await servers.down("b")
        for _ in range(2):  # before and after the provider knows of it
            for thread in lost:
                with pytest.raises(SandboxError, match=f"{servers.urls['b']} cannot be reached"):
                    await provider.acquire(thread)
            await provider.check()
        assert [await read(provider, thread) for thread in old if thread not in lost] == [
            thread for thread in old if thread not in lost
        ]
        for thread in new:
            await write(provider, thread)
        assert all(servers.have(thread) == ["b"] for thread in lost)
        elsewhere = [thread for thread in new if servers.home(thread, "abc") == "b"]
        assert elsewhere
        assert not any("b" in servers.have(thread) for thread in new)
        await servers.up("b")
        await provider.check()
        assert [await read(provider, thread) for thread in servers.threads] == servers.threads
    assert lost


async def test_a_start_tells_by_name_who_is_away_and_a_check_that_it_is_back(servers: Servers) -> None:
    await servers.down("b")
    async with servers.provider("abc") as provider:
        (trouble,) = provider.troubles
        assert trouble.startswith(f"the sandbox server {servers.urls['b']} cannot be reached: threads")
        assert trouble.endswith("(check sandbox.remote.url and that the server runs)")
        await servers.up("b")
        await provider.check()
        assert provider.troubles == ()
        thread = next(thread for thread in servers.threads if servers.home(thread, "abc") == "b")
        await write(provider, thread)
        assert servers.have(thread) == ["b"]
        await servers.down("b")
        await provider.check()
        assert len(provider.troubles) == 1


async def test_a_server_that_accepts_and_says_nothing_is_away(servers: Servers) -> None:
    async with Line(servers.urls["b"].removeprefix("http://")) as line:
        line.deafen()
        urls = (servers.urls["a"], f"http://{line.address}")
        provider = RemoteProvider(client_settings(urls, answer_seconds=0.3))
        await provider.start()
        (trouble,) = provider.troubles
        assert trouble.startswith(f"the sandbox server {urls[1]} does not answer: threads")
        await provider.shutdown()


async def test_a_start_without_any_server_names_all(servers: Servers) -> None:
    await servers.down("a", "b", "c")
    provider = RemoteProvider(client_settings(servers.named("abc")))
    with pytest.raises(SandboxUnavailable) as failure:
        await provider.start()
    assert all(url in str(failure.value) for url in servers.named("abc"))


async def test_files_from_before_there_were_notes_are_never_taken_for_missing(servers: Servers) -> None:
    """A thread of the only server, which then is away when others are added."""
    old, new = (
        next(t for t in some if servers.home(t, "abc") == "b") for some in (servers.threads[:12], servers.threads[12:])
    )
    async with servers.provider("a", "of another version") as provider:
        await write(provider, old)
    await servers.down("a")
    async with servers.provider("abc") as provider:
        for thread in (old, new):
            with pytest.raises(SandboxError, match=f"{servers.urls['a']} cannot be .* files may be there"):
                await provider.acquire(thread)
        await servers.up("a")
        await provider.check()
        await servers.down("a")
        await provider.check()
        with pytest.raises(SandboxError, match=f"{servers.urls['a']} cannot be .* files may be there"):
            await provider.acquire(old)
        await write(provider, new)
        await servers.up("a")
        assert await read(provider, old) == old
    assert (servers.have(old), servers.have(new)) == (["a"], ["b"])


async def test_processes_that_know_of_different_servers_agree_on_one(servers: Servers) -> None:
    async with servers.provider("abc") as one, servers.provider("abc") as two:
        await one.check()
        await servers.down("b")
        await one.check()
        await servers.up("b")  # which only the other one has seen
        sandboxes = await asyncio.gather(*(each.acquire(thread) for thread in servers.threads for each in (one, two)))
        assert len(sandboxes) == 2 * len(servers.threads)
    assert all(len(servers.have(thread)) == 1 for thread in servers.threads)


async def test_a_server_that_is_named_no_more_is_asked_for_until_its_files_are_elsewhere(servers: Servers) -> None:
    thread = next(thread for thread in servers.threads if servers.home(thread, "abc") == "c")
    async with servers.provider("abc") as provider:
        await write(provider, thread)
    for names in ("ab", "a"):
        async with servers.provider(names) as provider:
            with pytest.raises(SandboxError, match=f"on the sandbox server {servers.urls['c']}, which") as failure:
                await provider.acquire(thread)
            assert "sandbox-remote.md" in failure.value.hint
            with pytest.raises(SandboxError, match=servers.urls["c"]):
                await provider.forget(thread)
    await servers.down("c")
    shutil.move(servers.files("c", thread), servers.files("b", thread))
    async with servers.provider("ab") as provider:
        assert await read(provider, thread) == thread
    async with servers.provider("ab") as provider:  # it is noted
        await servers.down("a")
        assert await read(provider, thread) == thread
    await servers.up("a")
    async with servers.provider("ac") as provider:
        with pytest.raises(SandboxError, match=f"{servers.urls['c']} cannot be reached, and this thread's files may"):
            await provider.acquire(thread)


async def test_of_two_servers_with_files_of_a_thread_neither_is_taken(servers: Servers) -> None:
    async with servers.provider("a", "one") as one, servers.provider("b", "two") as two:
        await write(one, "t")
        await write(two, "t")
    async with servers.provider("abc") as provider:
        with pytest.raises(SandboxError, match="this thread has files on several") as failure:
            await provider.acquire("t")
        assert all(url in str(failure.value) for url in servers.named("ab"))
        await provider.forget("t")
        assert servers.have("t") == []


async def test_what_is_forgotten_is_deleted_where_it_is_and_waits_for_nobody_else(servers: Servers) -> None:
    of_b, of_c = (next(thread for thread in servers.threads if servers.home(thread, "abc") == name) for name in "bc")
    async with servers.provider("abc") as provider:
        await provider.check()
        for thread in (of_b, of_c):
            await write(provider, thread)
        await servers.down("b")
        await provider.forget(of_c)
        await provider.forget("never used")
        with pytest.raises(SandboxError, match=servers.urls["b"]):
            await provider.forget(of_b)
        assert (servers.have(of_b), servers.have(of_c)) == (["b"], [])
        await servers.up("b")
        await provider.forget(of_b)
        assert servers.have(of_b) == []
        await write(provider, of_b)
        assert await read(provider, of_b) == of_b


async def test_a_server_that_does_not_tell_what_it_keeps_works_only_alone(servers: Servers) -> None:
    async with older_server() as address:
        servers.urls["old"] = f"http://{address}"
        provider = RemoteProvider(client_settings(servers.named(("a", "old"))))  # type: ignore[arg-type]
        await provider.start()
        assert "does not list its sandboxes" in provider.troubles[0]
        assert servers.urls["old"] in provider.troubles[0]
        await provider.shutdown()


async def test_processes_of_servers_one_of_which_is_killed(open_folder: Path) -> None:
    async with AsyncExitStack() as stack:
        processes = {}
        for name in "abc":
            (open_folder / name).mkdir()
            server = await stack.enter_async_context(server_process(open_folder / name, sandbox=COMMANDS))
            processes[f"http://{server.address}"] = server.process
        homes = Homes(partial(thread_folder, open_folder), open_folder / "threads" / ".sandbox-servers")
        provider = RemoteProvider(client_settings(tuple(processes)), homes=homes)
        report = await provider.start()
        assert report.bash
        assert "on 3 other machines, isolated there by" in report.shortfalls[0]
        threads: dict[str, str] = {
            in_order(tuple(processes), sandbox_id(thread))[0]: thread for thread in map(str, range(24))
        }
        held = {url: await provider.acquire(thread) for url, thread in threads.items()}
        killed, *others = held
        processes[killed].kill()
        await processes[killed].wait()
        with pytest.raises(SandboxError, match=f"{killed} cannot be reached"):
            await held[killed].execute_command("true", timeout=SECONDS)
        for url in others:
            assert (await held[url].execute_command("echo here", timeout=SECONDS)).output == "here\n"
        await provider.shutdown()


def test_each_server_is_reached_on_its_own_way(tmp_path: Path) -> None:
    asked: list[Any] = []

    def route(url: str) -> tuple[str | None, Path | None]:
        asked.append(url)
        return None, None

    RemoteProvider(client_settings(("http://a", "http://b")), route=route)
    assert asked == ["http://a", "http://b"]
