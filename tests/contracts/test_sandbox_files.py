"""What the agent's file tools rely on in every sandbox (sandbox/base.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox.base import (
    OUTPUTS,
    SKILLS,
    UPLOADS,
    WORKSPACE,
    Entries,
    FileInfo,
    Problem,
    ProblemCode,
)
from tests.contracts.sandbox_answers import PNG, code, fetched, read, write
from tests.contracts.sandbox_bench import SETTINGS

if TYPE_CHECKING:
    from sandbox.base import Sandbox

MEGABYTE = 1 << 20


pytestmark = pytest.mark.usefixtures("files_of_its_own")


# Reading and writing


async def test_what_is_written_is_read(sandbox: Sandbox) -> None:
    written = await write(sandbox, "notes/today.md", "one\ntwo\n")
    assert (written.path, written.size) == (f"{WORKSPACE}/notes/today.md", 8)
    found = await read(sandbox, f"{WORKSPACE}/notes/../notes/./today.md")
    assert found.info == written
    assert (found.text, found.first_line, found.last_line, found.total_lines) == ("one\ntwo\n", 1, 2, 2)
    assert not found.cut


async def test_a_range_of_lines(sandbox: Sandbox) -> None:
    await write(sandbox, "a.txt", "".join(f"line {number}\n" for number in range(1, 11)) + "the end")
    found = await read(sandbox, "a.txt", first_line=3, last_line=5)
    assert (found.text, found.first_line, found.last_line) == ("line 3\nline 4\nline 5\n", 3, 5)
    assert found.total_lines == 11
    rest = await read(sandbox, "a.txt", first_line=10)
    assert (rest.text, rest.first_line, rest.last_line) == ("line 10\nthe end", 10, 11)
    beyond = await read(sandbox, "a.txt", first_line=12)
    assert (beyond.text, beyond.first_line, beyond.last_line, beyond.total_lines) == ("", 0, 0, 11)


async def test_an_empty_file_has_no_lines(sandbox: Sandbox) -> None:
    await write(sandbox, "empty", "")
    found = await read(sandbox, "empty")
    assert (found.text, found.first_line, found.last_line, found.total_lines) == ("", 0, 0, 0)


async def test_a_long_range_ends_with_a_whole_line(sandbox: Sandbox) -> None:
    await write(sandbox, "a.txt", "0123456789\n" * 1000)
    found = await read(sandbox, "a.txt", first_line=2, max_bytes=100)
    assert (found.cut, found.first_line, found.last_line, found.total_lines) == (True, 2, 10, 1000)
    assert found.text == "0123456789\n" * 9
    await write(sandbox, "b.txt", "é" * 1000)
    long_line = await read(sandbox, "b.txt", max_bytes=101)
    assert (long_line.cut, long_line.text, long_line.last_line) == (True, "é" * 50, 1)


async def test_a_large_file_is_read_in_ranges(sandbox: Sandbox) -> None:
    line = "x" * 99 + "\n"
    await write(sandbox, "large.log", line * 40_000)
    found = await read(sandbox, "large.log", first_line=39_999)
    assert (found.text, found.total_lines, found.cut) == (line * 2, 40_000, False)
    whole = await read(sandbox, "large.log")
    assert whole.cut
    assert len(whole.text) <= 200_000


async def test_only_newlines_end_lines_and_endings_are_kept(sandbox: Sandbox) -> None:
    text = "a\r\nb\x0bc\u2028d\re\r\n"
    await write(sandbox, "a.txt", text)
    found = await read(sandbox, "a.txt")
    assert (found.text, found.total_lines) == (text, 2)


async def test_appending(sandbox: Sandbox) -> None:
    await write(sandbox, "log", "one\n", append=True)
    second = await write(sandbox, "log", "two\n", append=True)
    assert second.size == 8
    assert (await read(sandbox, "log")).text == "one\ntwo\n"


async def test_bytes_go_in_and_out_unchanged(sandbox: Sandbox) -> None:
    content = bytes(range(256)) * 5000
    written = await write(sandbox, f"{OUTPUTS}/data.bin", content)
    got, answer = await fetched(sandbox, f"{OUTPUTS}/data.bin")
    assert got == content
    assert answer == written
    nothing, refused = await fetched(sandbox, f"{OUTPUTS}/data.bin", max_bytes=len(content) - 1)
    assert (nothing, code(refused)) == (b"", ProblemCode.TOO_LARGE)


async def test_names_and_texts_of_all_languages(sandbox: Sandbox) -> None:
    for name in ("报告 2026.md", "naïve—file.txt", "🦌.txt", "a'b\"c$d;e.txt", "-rf", " "):
        await write(sandbox, name, f"你好 🦌 {name}\n")
        assert (await read(sandbox, name)).text == f"你好 🦌 {name}\n"
    listed = await sandbox.list_dir(WORKSPACE)
    assert isinstance(listed, Entries)
    assert f"{WORKSPACE}/报告 2026.md" in [entry.path for entry in listed.entries]


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (PNG, "image/png"),
        (b"PK\x03\x04" + bytes(40), "zip"),
        (b"text and a \0 character", "binary"),
        ("grüße".encode("latin-1"), "UTF-8"),
        ("hello".encode("utf-16"), "UTF-16"),
        (b"fine\n" * 5000 + b"\xff\xfe\n", "UTF-8"),
    ],
)
async def test_what_is_no_text_is_refused_with_its_type(sandbox: Sandbox, content: bytes, named: str) -> None:
    await write(sandbox, "file", content)
    for answer in (await sandbox.read_file("file"), await sandbox.update_file("file", "e", "x")):
        assert code(answer) is ProblemCode.BINARY
        assert isinstance(answer, Problem)
        assert named in answer.detail
    assert (await fetched(sandbox, "file"))[0] == content


async def test_text_without_utf8_is_not_written(sandbox: Sandbox) -> None:
    assert code(await sandbox.write_file("a.txt", "half \ud83d")) is ProblemCode.BINARY
    assert code(await sandbox.read_file("a.txt")) is ProblemCode.NOT_FOUND


# Problems are values


async def test_missing_and_wrong_kinds(sandbox: Sandbox) -> None:
    await write(sandbox, "dir/file", "text")
    assert code(await sandbox.read_file("nothing")) is ProblemCode.NOT_FOUND
    assert code(await sandbox.read_file("no/such")) is ProblemCode.NOT_FOUND
    assert code(await sandbox.update_file("no/such", "a", "b")) is ProblemCode.NOT_FOUND
    assert code(await sandbox.list_dir("nothing")) is ProblemCode.NOT_FOUND
    assert code(await sandbox.grep("a", "nothing")) is ProblemCode.NOT_FOUND
    for path in ("dir", "dir/", "."):
        assert code(await sandbox.read_file(path)) is ProblemCode.IS_DIRECTORY
        assert code(await sandbox.write_file(path, "x")) is ProblemCode.IS_DIRECTORY
    for path in ("dir/file/below", "dir/file/", "dir/file/."):
        assert code(await sandbox.read_file(path)) is ProblemCode.NOT_DIRECTORY
        assert code(await sandbox.write_file(path, "x")) is ProblemCode.NOT_DIRECTORY
    assert code(await sandbox.list_dir("dir/file")) is ProblemCode.NOT_DIRECTORY
    assert code(await sandbox.glob("*", "dir/file")) is ProblemCode.NOT_DIRECTORY


async def test_problems_name_the_path_as_it_was_given(sandbox: Sandbox) -> None:
    answer = await sandbox.read_file("./no/../such")
    assert isinstance(answer, Problem)
    assert answer.path == "./no/../such"


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../x",
        "a/../../x",
        f"{WORKSPACE}/../x",
        f"{WORKSPACE}/../../../etc/passwd",
        "/mnt/user-data",
        "/",
    ],
)
async def test_outside_is_outside(sandbox: Sandbox, path: str) -> None:
    assert code(await sandbox.read_file(path)) is ProblemCode.OUTSIDE
    assert code(await sandbox.write_file(path, "x")) is ProblemCode.OUTSIDE


@pytest.mark.parametrize("path", ["", "a\0b", "a" * 256, "a/" * 3000, "\ud800"])
async def test_what_can_be_no_path(sandbox: Sandbox, path: str) -> None:
    assert code(await sandbox.write_file(path, "x")) is ProblemCode.BAD_PATH


async def test_nothing_is_written_below_a_name_like_a_root(sandbox: Sandbox) -> None:
    assert code(await sandbox.write_file(f"{WORKSPACE}2/x", "x")) is ProblemCode.OUTSIDE


async def test_skills_cannot_be_changed(sandbox: Sandbox) -> None:
    answer = await sandbox.write_file(f"{SKILLS}/public/x/SKILL.md", "x")
    assert code(answer) in (ProblemCode.READ_ONLY, ProblemCode.OUTSIDE)  # outside where there are no skills


async def test_a_file_that_is_too_large_is_refused_and_the_old_one_stays(sandbox: Sandbox) -> None:
    limit = SETTINGS.limits.file_mb * MEGABYTE
    await write(sandbox, "a", "old")
    assert code(await sandbox.write_file("a", b"x" * (limit + 1))) is ProblemCode.TOO_LARGE
    assert code(await sandbox.write_file("a", b"x" * (limit - 2), append=True)) is ProblemCode.TOO_LARGE
    assert (await read(sandbox, "a")).text == "old"
    await write(sandbox, "a", b"x" * limit)


async def test_a_thread_has_its_share_of_the_disk_and_no_more(sandbox: Sandbox) -> None:
    chunk = b"x" * (4 * MEGABYTE - 64 * 1024)
    answers = [await sandbox.write_file(f"{UPLOADS}/{number}", chunk) for number in range(6)]
    assert [isinstance(answer, FileInfo) for answer in answers] == [True] * 4 + [False] * 2
    assert code(answers[-1]) is ProblemCode.FULL
    await write(sandbox, f"{UPLOADS}/0", "smaller")  # who has no room may still make some
    await write(sandbox, f"{UPLOADS}/4", chunk)


async def test_a_thread_has_its_share_of_files_and_no_more(sandbox: Sandbox) -> None:
    most = SETTINGS.limits.inodes
    answers = [await sandbox.write_file(f"{number}", b"") for number in range(most + 1)]
    assert code(answers[-1]) is ProblemCode.FULL
    assert sum(isinstance(answer, FileInfo) for answer in answers) >= most - 10
