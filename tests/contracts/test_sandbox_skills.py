"""How every sandbox shows the skills of a thread: each place by its name, to be read and run, never changed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from sandbox.base import SKILLS, Entries, FileText, Hits, ProblemCode
from tests.contracts.sandbox_answers import code, read
from tests.contracts.sandbox_bench import Ability, SandboxBench, needs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sandbox.base import Sandbox, SandboxProvider

    Put = Callable[[str, str], Path]

SECONDS = 60.0


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Make a file of a skill: of `public` or `custom`, or of a thread's own by the thread's name."""

    def put(path: str, text: str) -> Path:
        place, _, rest = path.partition("/")
        folder = tmp_path / "skills" / place if place in ("public", "custom") else tmp_path / "users" / place
        file = folder / rest
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    return put


async def listed(sandbox: Sandbox, path: str) -> list[str]:
    found = await sandbox.list_dir(path, depth=9)
    assert isinstance(found, Entries), found
    return [entry.path for entry in found.entries]


async def said(sandbox: Sandbox, command: str) -> str:
    result = await sandbox.execute_command(command, timeout=SECONDS)
    assert result.exit_code == 0, result
    return result.output


@pytest.mark.usefixtures("files_of_its_own")
async def test_each_place_is_found_searched_and_read(sandbox_provider: SandboxProvider, put: Put) -> None:
    put("public/x/SKILL.md", "# The first\n")
    put("thread/y/scripts/run.py", "print('mine')\n")
    sandbox = await sandbox_provider.acquire("thread")
    below = ("mine", "mine/y", "mine/y/scripts", "mine/y/scripts/run.py", "public", "public/x", "public/x/SKILL.md")
    assert await listed(sandbox, SKILLS) == [f"{SKILLS}/{path}" for path in below]
    assert (await read(sandbox, f"{SKILLS}/public/x/SKILL.md")).text == "# The first\n"
    found = await sandbox.glob("**/*.py", SKILLS)
    assert isinstance(found, Entries)
    assert [entry.path for entry in found.entries] == [f"{SKILLS}/mine/y/scripts/run.py"]
    hits = await sandbox.grep("first", SKILLS)
    assert isinstance(hits, Hits)
    assert [(hit.path, hit.line) for hit in hits.hits] == [(f"{SKILLS}/public/x/SKILL.md", 1)]


@pytest.mark.usefixtures("files_of_its_own")
async def test_nothing_of_them_is_changed_by_the_file_tools(sandbox_provider: SandboxProvider, put: Put) -> None:
    file = put("custom/x/SKILL.md", "# X\n")
    sandbox = await sandbox_provider.acquire("thread")
    for path in (f"{SKILLS}/custom/x/SKILL.md", f"{SKILLS}/custom/new/SKILL.md"):
        assert code(await sandbox.write_file(path, "x")) is ProblemCode.READ_ONLY
    assert code(await sandbox.update_file(f"{SKILLS}/custom/x/SKILL.md", "X", "Y")) is ProblemCode.READ_ONLY
    for path in (f"{SKILLS}/mine/x", f"{SKILLS}/new", f"{SKILLS}/custom/../../x"):
        answer = await sandbox.write_file(path, "x")
        assert code(answer) in (ProblemCode.READ_ONLY, ProblemCode.OUTSIDE)
    assert file.read_text() == "# X\n"


@pytest.mark.usefixtures("files_of_its_own")
async def test_a_threads_own_are_seen_by_no_other_one(sandbox_provider: SandboxProvider, put: Put) -> None:
    put("one/x/SKILL.md", "# Of one\n")
    one, other = [await sandbox_provider.acquire(thread) for thread in ("one", "other")]
    assert (await read(one, f"{SKILLS}/mine/x/SKILL.md")).text == "# Of one\n"
    assert not isinstance(await other.read_file(f"{SKILLS}/mine/x/SKILL.md"), FileText)


@pytest.mark.usefixtures("files_of_its_own")
async def test_a_link_in_a_skill_leads_nowhere(sandbox_provider: SandboxProvider, put: Put, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a secret\n")
    link = put("public/x/SKILL.md", "# X\n").with_name("link")
    os.symlink(tmp_path / "secret", link)
    os.symlink(tmp_path, link.with_name("folder"))
    sandbox = await sandbox_provider.acquire("thread")
    for path in ("link", "folder/secret"):
        answer = code(await sandbox.read_file(f"{SKILLS}/public/x/{path}"))
        assert answer in (ProblemCode.LINK, ProblemCode.NOT_FOUND)
    hits = await sandbox.grep("secret", SKILLS)
    assert isinstance(hits, Hits)
    assert not hits.hits


@pytest.mark.usefixtures("files_of_its_own")
async def test_a_file_that_an_installer_linked_is_read(sandbox_provider: SandboxProvider, put: Put) -> None:
    os.link(put("cache/SKILL.md", "# Linked\n"), put("public/x/other", "").with_name("SKILL.md"))
    sandbox = await sandbox_provider.acquire("thread")
    assert (await read(sandbox, f"{SKILLS}/public/x/SKILL.md")).text == "# Linked\n"
    hits = await sandbox.grep("Linked", SKILLS)
    assert isinstance(hits, Hits)
    assert [hit.path for hit in hits.hits] == [f"{SKILLS}/public/x/SKILL.md"]
    assert code(await sandbox.write_file(f"{SKILLS}/public/x/SKILL.md", "x")) is ProblemCode.READ_ONLY


@pytest.mark.usefixtures("files_of_its_own")
async def test_what_comes_later_is_seen_from_the_next_run_on(sandbox_provider: SandboxProvider, put: Put) -> None:
    await sandbox_provider.acquire("thread")
    await sandbox_provider.release("thread")
    file = put("thread/x/SKILL.md", "# Before\n")
    sandbox = await sandbox_provider.acquire("thread")
    assert await listed(sandbox, SKILLS) == [f"{SKILLS}/{path}" for path in ("mine", "mine/x", "mine/x/SKILL.md")]
    file.write_text("# After, and longer\n")
    await sandbox_provider.release("thread")
    sandbox = await sandbox_provider.acquire("thread")
    assert (await read(sandbox, f"{SKILLS}/mine/x/SKILL.md")).text == "# After, and longer\n"


async def test_commands_see_what_the_file_tools_see(
    sandbox_bench: SandboxBench, sandbox_provider: SandboxProvider, put: Put
) -> None:
    needs(sandbox_bench, Ability.COMMANDS)
    file = put("public/x/SKILL.md", "# X\n")
    sandbox = await sandbox_provider.acquire("thread")
    assert await said(sandbox, f"cat {SKILLS}/public/x/SKILL.md") == "# X\n"
    assert await said(sandbox, f"ls {SKILLS}") == "public\n"
    await sandbox_provider.release("thread")
    # Another folder than the one that a warm container may hold.
    file.unlink()
    for folder in (file.parent, file.parent.parent):
        folder.rmdir()
    put("public/x/SKILL.md", "# Another\n")
    put("thread/y/SKILL.md", "# Y\n")
    sandbox = await sandbox_provider.acquire("thread")
    assert await said(sandbox, f"cat {SKILLS}/public/x/SKILL.md {SKILLS}/mine/y/SKILL.md") == "# Another\n# Y\n"


async def test_commands_cannot_change_them(
    sandbox_bench: SandboxBench, sandbox_provider: SandboxProvider, put: Put
) -> None:
    needs(sandbox_bench, Ability.COMMANDS)
    needs(sandbox_bench, Ability.HELD)
    file = put("public/x/SKILL.md", "# X\n")
    file.chmod(0o666)
    file.parent.chmod(0o777)
    sandbox = await sandbox_provider.acquire("thread")
    for command in (f"echo x > {SKILLS}/public/x/SKILL.md", f"rm {SKILLS}/public/x/SKILL.md", f"mkdir {SKILLS}/new"):
        assert (await sandbox.execute_command(command, timeout=SECONDS)).exit_code
    assert (file.read_text(), sorted(os.listdir(file.parent))) == ("# X\n", ["SKILL.md"])
