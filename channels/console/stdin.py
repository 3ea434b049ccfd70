"""Lines from a file descriptor, without blocking the event loop and without a thread that would hold up the exit."""

from __future__ import annotations

import asyncio
import codecs
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MAX_LINE = 1_000_000
"""Characters; a longer line is cut into several."""

_CHUNK = 64 * 1024


async def read_lines(fd: int) -> AsyncIterator[str]:
    """The lines without their ends, the last one also when nothing ends it. Bytes that are not UTF-8 become U+FFFD."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest = ""
    while chunk := await _read(fd):
        *lines, rest = (rest + decoder.decode(chunk)).split("\n")
        if len(rest) > MAX_LINE:
            lines.append(rest)
            rest = ""
        for line in lines:
            for piece in _pieces(line):
                yield piece
    rest += decoder.decode(b"", final=True)
    if rest:
        for piece in _pieces(rest):
            yield piece


def _pieces(line: str) -> list[str]:
    line = line.removesuffix("\r")
    return [line[start : start + MAX_LINE] for start in range(0, len(line), MAX_LINE)] or [""]


async def _read(fd: int) -> bytes:
    """The next bytes; b"" at the end.

    The descriptor stays in blocking mode, because a terminal shares that mode with everything else that it is open as;
    reading one that is ready does not block.
    """
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(fd, ready.set)
    except PermissionError:
        return os.read(fd, _CHUNK)  # a regular file is always ready and cannot be watched
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)
    return os.read(fd, _CHUNK)
