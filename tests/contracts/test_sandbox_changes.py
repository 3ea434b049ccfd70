"""What the agent's tools rely on in every sandbox (sandbox/base.py): changes of files, listings and searches."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

import pytest

from sandbox.base import NEW, OUTPUTS, UPLOADS, WORKSPACE, Entries, FileInfo, Hits, Problem, ProblemCode, Updated
from tests.contracts.sandbox_answers import PNG, code, found, paths, read, write

if TYPE_CHECKING:
    from sandbox.base import Sandbox


pytestmark = pytest.mark.usefixtures("files_of_its_own")


# Versions and changes


async def test_a_version_changes_with_the_content(sandbox: Sandbox) -> None:
    first = await write(sandbox, "a", "one", expected=NEW)
    assert (await read(sandbox, "a")).info.version == first.version
    second = await write(sandbox, "a", "two", expected=first.version)
    assert second.version != first.version
    assert code(await sandbox.write_file("a", "three", expected=first.version)) is ProblemCode.STALE
    assert code(await sandbox.write_file("a", "three", expected=NEW)) is ProblemCode.STALE
    assert code(await sandbox.write_file("b", "three", expected=first.version)) is ProblemCode.STALE
    assert code(await sandbox.update_file("a", "two", "three", expected=first.version)) is ProblemCode.STALE
    assert code(await sandbox.write_file("a", "!", append=True, expected=first.version)) is ProblemCode.STALE
    assert (await read(sandbox, "a")).text == "two"
    updated = await sandbox.update_file("a", "two", "three", expected=second.version)
    assert isinstance(updated, Updated)
    assert (await read(sandbox, "a")).info == updated.info


async def test_text_is_replaced_where_it_is_unique(sandbox: Sandbox) -> None:
    await write(sandbox, "a.py", "def f():\n    return 1\n\ndef g():\n    return 1\n")
    twice = await sandbox.update_file("a.py", "return 1", "return 2")
    assert code(twice) is ProblemCode.NOT_UNIQUE
    assert isinstance(twice, Problem)
    assert re.search(r"\b2\b.*\b2\b.*\b5\b", twice.detail)
    once = await sandbox.update_file("a.py", "g():\n    return 1", "g():\n    return 2")
    assert isinstance(once, Updated)
    assert once.replaced == 1
    everywhere = await sandbox.update_file("a.py", "return", "yield", replace_all=True)
    assert isinstance(everywhere, Updated)
    assert everywhere.replaced == 2
    assert (await read(sandbox, "a.py")).text == "def f():\n    yield 1\n\ndef g():\n    yield 2\n"
    for missing in ("return", "Yield", ""):
        assert code(await sandbox.update_file("a.py", missing, "x")) is ProblemCode.NO_MATCH
        assert code(await sandbox.update_file("a.py", missing, "x", replace_all=True)) is ProblemCode.NO_MATCH


async def test_overlapping_places_are_not_unique(sandbox: Sandbox) -> None:
    await write(sandbox, "a", "aaa")
    assert code(await sandbox.update_file("a", "aa", "b")) is ProblemCode.NOT_UNIQUE


async def test_other_line_endings_are_told(sandbox: Sandbox) -> None:
    await write(sandbox, "a", "one\r\ntwo\r\n")
    answer = await sandbox.update_file("a", "one\ntwo", "x")
    assert isinstance(answer, Problem)
    assert (answer.code, "CR" in answer.detail) == (ProblemCode.NO_MATCH, True)


async def test_changes_of_one_file_come_one_after_the_other(sandbox: Sandbox) -> None:
    await write(sandbox, "count", "")
    await asyncio.gather(*(sandbox.write_file("count", f"{number}\n", append=True) for number in range(30)))
    lines = (await read(sandbox, "count")).text.split()
    assert sorted(map(int, lines)) == list(range(30))
    version = (await read(sandbox, "count")).info.version
    answers = await asyncio.gather(*(sandbox.write_file("count", f"{n}", expected=version) for n in range(10)))
    assert sum(isinstance(answer, FileInfo) for answer in answers) == 1
    created = await asyncio.gather(*(sandbox.write_file("new", f"{n}", expected=NEW) for n in range(10)))
    assert sum(isinstance(answer, FileInfo) for answer in created) == 1


async def test_readers_see_the_old_content_or_the_new_one(sandbox: Sandbox) -> None:
    contents = [str(number) * 20_000 for number in range(8)]
    await write(sandbox, "a", contents[0])

    async def change() -> None:
        for content in contents:
            await write(sandbox, "a", content)

    changing = asyncio.create_task(change())
    reads = 0
    while not changing.done() or not reads:
        assert (await read(sandbox, "a")).text in contents
        reads += 1
        await asyncio.sleep(0)
    await changing


# Looking around


@pytest.fixture
async def tree(sandbox: Sandbox) -> Sandbox:
    for path, text in {
        "main.py": "import os\n# TODO: one\n",
        "README.md": "Read me. todo\n",
        "src/a.py": "x = 1\ny = 2  # TODO two\n",
        "src/deep/er/b.py": "TODO\n" * 3,
        "src/data.json": "{}",
        ".hidden": "TODO hidden\n",
    }.items():
        await write(sandbox, path, text)
    await write(sandbox, "src/picture.png", PNG + b"TODO\n")
    await write(sandbox, f"{OUTPUTS}/report.md", "TODO in outputs\n")
    return sandbox


async def test_a_listing_is_as_deep_as_asked_for(tree: Sandbox) -> None:
    assert paths(await tree.list_dir(".", depth=1)) == [".hidden", "README.md", "main.py", "src"]
    two = await tree.list_dir(WORKSPACE)
    assert isinstance(two, Entries)
    assert paths(two)[3:] == ["src", "src/a.py", "src/data.json", "src/deep", "src/picture.png"]
    assert [(entry.kind, entry.size) for entry in two.entries][3:5] == [("dir", 0), ("file", 24)]
    assert not two.more
    some = await tree.list_dir(".", most=2)
    assert isinstance(some, Entries)
    assert (len(some.entries), some.more) == (2, True)


async def test_the_folders_above_the_roots_can_be_looked_at(tree: Sandbox) -> None:
    found = await tree.glob("**/*.md", "/mnt/user-data")
    assert paths(found) == [f"{OUTPUTS}/report.md", "README.md"]
    assert paths(await tree.glob("outputs/*", "/mnt/user-data")) == [f"{OUTPUTS}/report.md"]
    listed = await tree.list_dir("/mnt/user-data", depth=1)
    assert isinstance(listed, Entries)
    seen = {entry.path: entry.kind for entry in listed.entries}
    assert {seen[WORKSPACE], seen[UPLOADS], seen[OUTPUTS]} == {"dir"}
    assert seen[f"{OUTPUTS}/report.md"] == "file"


async def test_globs(tree: Sandbox) -> None:
    assert paths(await tree.glob("*.py")) == ["main.py"]
    assert paths(await tree.glob("**/*.py")) == ["main.py", "src/a.py", "src/deep/er/b.py"]
    assert paths(await tree.glob("**/*.{json,md}")) == ["README.md", "src/data.json"]
    assert paths(await tree.glob("src/?.py")) == ["src/a.py"]
    assert paths(await tree.glob("[!a-l]*.py", "src/..")) == ["main.py"]
    assert paths(await tree.glob("**", "src/deep")) == ["src/deep/er/b.py"]
    assert paths(await tree.glob(f"{WORKSPACE}/src/**/*.py")) == ["src/a.py", "src/deep/er/b.py"]
    assert paths(await tree.glob(f"{OUTPUTS}/report.md")) == [f"{OUTPUTS}/report.md"]
    assert paths(await tree.glob("nothing*")) == []
    some = await tree.glob("**/*", most=3)
    assert isinstance(some, Entries)
    assert (len(some.entries), some.more) == (3, True)
    for bad in ("", "{a", "../*", "x" * 2000):
        assert code(await tree.glob(bad)) is ProblemCode.BAD_PATTERN
    assert code(await tree.glob("/etc/*")) is ProblemCode.OUTSIDE


async def test_grep_finds_lines_in_text_files(tree: Sandbox) -> None:
    hits = found(await tree.grep("TODO"))
    assert hits == [
        (".hidden", 1, "TODO hidden"),
        ("main.py", 2, "# TODO: one"),
        ("src/a.py", 2, "y = 2  # TODO two"),
        *(("src/deep/er/b.py", line, "TODO") for line in (1, 2, 3)),
    ]
    assert found(await tree.grep("^todo$", "src", ignore_case=True)) == hits[3:]
    assert found(await tree.grep(r"TODO\b", glob="*.py", path="src")) == hits[2:]
    assert found(await tree.grep("TODO", glob="src/*.py")) == hits[2:3]
    assert found(await tree.grep("o", "main.py")) == [("main.py", 1, "import os"), ("main.py", 2, "# TODO: one")]
    assert found(await tree.grep("TODO", OUTPUTS)) == [(f"{OUTPUTS}/report.md", 1, "TODO in outputs")]
    some = await tree.grep("TODO", most=2)
    assert isinstance(some, Hits)
    assert (len(some.hits), some.more) == (2, True)
    exactly = await tree.grep("TODO", most=6)
    assert isinstance(exactly, Hits)
    assert (len(exactly.hits), exactly.more) == (6, False)


async def test_long_lines_are_shown_around_the_match(sandbox: Sandbox) -> None:
    await write(sandbox, "min.js", "a" * 50_000 + "needle" + "b" * 500_000 + "\nlast\n")
    ((_, line, text),) = found(await sandbox.grep("needle"))
    assert line == 1
    assert "needle" in text
    assert len(text) < 500
    assert found(await sandbox.grep("^last$"))[0][1] == 2


@pytest.mark.parametrize(
    "pattern", ["(", "a)|(b", r"(a)\1", "(?=a)", "(?<!a)b", "x" * 2000, "((a{200}){200}){200}", "\ud800"]
)
async def test_patterns_that_cannot_be_searched_in_linear_time_are_refused(sandbox: Sandbox, pattern: str) -> None:
    assert code(await sandbox.grep(pattern)) is ProblemCode.BAD_PATTERN


async def test_an_evil_pattern_costs_no_time(sandbox: Sandbox) -> None:
    await write(sandbox, "a", ("a" * 30 + "!\n") * 10_000)
    assert found(await sandbox.grep(r"^(a|a)*(a+)+(a*)*$")) == []
