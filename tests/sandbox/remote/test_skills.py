"""Skills on their way to the sandbox server: sent once, believed only when they are what they are said to be."""

from __future__ import annotations

import base64
import json
import stat
from typing import TYPE_CHECKING

import pytest

from sandbox.base import FileText, SandboxError, sandbox_id
from sandbox.files.skills import SkillFile
from sandbox.remote import wire
from sandbox.remote.provider import RemoteProvider
from sandbox.remote.server.skills import MOST_KEPT, SkillStore
from tests.sandbox.remote.served import client_settings, older_server, raw, served

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

ONE = f"/v1/sandboxes/{sandbox_id('one')}"


def body(path: str = "x/SKILL.md", text: str = "# X\n", *, executable: bool = False) -> wire.SkillFilesBody:
    content = base64.b64encode(text.encode()).decode()
    return wire.SkillFilesBody(files=[wire.SkillFileBody(path=path, content=content, executable=executable)])


def digest(path: str = "x/SKILL.md", text: str = "# X\n", *, executable: bool = False) -> str:
    return wire.digest_of({path: SkillFile(data=text.encode(), executable=executable, version="")})


def kept(folder: Path) -> list[str]:
    return sorted(entry.name for entry in (folder / "skills").iterdir())


async def read(provider: RemoteProvider, thread: str) -> str:
    found = await (await provider.acquire(thread)).read_file("/mnt/skills/public/x/SKILL.md")
    assert isinstance(found, FileText), found
    return found.text


async def test_each_state_is_sent_once_for_all_threads(tmp_path: Path) -> None:
    skill = tmp_path / "public" / "x" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("# One\n")
    async with served(tmp_path / "server") as service:
        settings = client_settings(f"http://{service.address}")
        provider = RemoteProvider(settings, skills=lambda _: {"public": tmp_path / "public"})
        report = await provider.start()
        assert not any("skills" in shortfall for shortfall in report.shortfalls)
        assert [await read(provider, thread) for thread in ("a", "b")] == ["# One\n"] * 2
        (first,) = kept(tmp_path / "server")
        skill.write_text("# Two\n")
        await provider.release("a")
        assert [await read(provider, thread) for thread in ("a", "b")] == ["# Two\n", "# One\n"]
        assert len(kept(tmp_path / "server")) == 2
        assert first in kept(tmp_path / "server")
        await provider.shutdown()


async def test_a_server_that_takes_none_is_told_of(tmp_path: Path) -> None:
    async with older_server() as address:
        provider = RemoteProvider(client_settings(f"http://{address}"), skills=lambda _: {"public": tmp_path})
        report = await provider.start()
        assert any("does not accept skills" in shortfall for shortfall in report.shortfalls)
        await provider.shutdown()


def refused(answer: httpx.Response) -> bool:
    return (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_request")


@pytest.mark.parametrize(
    "wrong",
    [
        body(text="# Another\n"),
        body("y/SKILL.md"),
        body(executable=True),
        wire.SkillFilesBody(files=[wire.SkillFileBody(path="x", content="no base64")]),
        *(body(path) for path in ("../x", "/x", "x/../../y", "", "x//y", "x\0y", ".")),
    ],
)
async def test_files_that_are_not_the_digests_are_refused(tmp_path: Path, wrong: wire.SkillFilesBody) -> None:
    path = wrong.files[0].path
    named = digest() if path in ("x", "x/SKILL.md", "y/SKILL.md") else digest(path)
    async with served(tmp_path) as service, raw(service) as http:
        assert refused(await http.put(f"/v1/skills/{named}", content=wrong.model_dump_json()))
        places = {"places": {"../mine": named}}
        assert refused(await http.put(f"{ONE}/skills", content=json.dumps(places)))
    assert not (tmp_path / "skills").exists()


async def test_they_can_be_read_and_run_by_whoever_commands_are(tmp_path: Path) -> None:
    store = SkillStore(tmp_path / "skills", {})
    named = digest("x/scripts/run", executable=True)
    assert await store.tell("s", {"mine": named}) == [named]
    await store.put(named, body("x/scripts/run", executable=True))
    await store.put(named, body("x/scripts/run", executable=True))
    assert await store.tell("s", {"mine": named}) == []
    modes = [stat.S_IMODE((store.of("s")["mine"] / path).stat().st_mode) for path in ("", "x/scripts", "x/scripts/run")]
    assert modes == [0o755] * 3
    store.forget("s")
    assert store.of("s") == {}


async def test_what_cannot_be_written_is_an_error_that_names_no_path(tmp_path: Path) -> None:
    store = SkillStore(tmp_path / "skills", {})
    long = "x" * 300
    with pytest.raises(SandboxError, match=r"^skills cannot be stored: file name too long$"):
        await store.put(digest(long), body(long))
    assert kept(tmp_path) == []


async def test_states_that_nobody_shows_any_more_go(tmp_path: Path) -> None:
    store = SkillStore(tmp_path / "skills", {"public": tmp_path / "own"})
    shown = digest()
    assert store.of("s") == {"public": tmp_path / "own"}
    await store.tell("s", {"public": shown})
    await store.put(shown, body())
    for number in range(MOST_KEPT):
        (tmp_path / "skills" / f"old{number}").mkdir()
    await store.put(digest("new"), body("new"))
    assert len(kept(tmp_path)) == MOST_KEPT
    assert shown in kept(tmp_path)
