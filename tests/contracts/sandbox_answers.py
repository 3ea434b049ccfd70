"""Short words for the answers of sandboxes, for the sandbox contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox.base import WORKSPACE, Entries, FileInfo, FileText, Hits, Problem, ProblemCode

if TYPE_CHECKING:
    from sandbox.base import Sandbox

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(30)


async def write(sandbox: Sandbox, path: str, content: str | bytes, **more: object) -> FileInfo:
    written = await sandbox.write_file(path, content, **more)  # type: ignore[arg-type]
    assert isinstance(written, FileInfo), written
    return written


async def read(sandbox: Sandbox, path: str, **more: object) -> FileText:
    found = await sandbox.read_file(path, **more)  # type: ignore[arg-type]
    assert isinstance(found, FileText), found
    return found


def code(answer: object) -> ProblemCode:
    assert isinstance(answer, Problem), answer
    return answer.code


async def fetched(sandbox: Sandbox, path: str, max_bytes: int = 10 << 20) -> tuple[bytes, FileInfo | Problem]:
    got = bytearray()

    async def take(chunk: bytes) -> None:
        got.extend(chunk)

    answer = await sandbox.fetch(path, take, max_bytes=max_bytes)
    return bytes(got), answer


def paths(answer: Entries | Problem) -> list[str]:
    assert isinstance(answer, Entries), answer
    return [entry.path.removeprefix(WORKSPACE + "/") for entry in answer.entries]


def found(answer: Hits | Problem) -> list[tuple[str, int, str]]:
    assert isinstance(answer, Hits), answer
    return [(hit.path.removeprefix(WORKSPACE + "/"), hit.line, hit.text) for hit in answer.hits]
