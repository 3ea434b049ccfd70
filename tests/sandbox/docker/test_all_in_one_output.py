"""Output through an API that decodes each piece by itself (sandbox/docker/http_session.py)."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sandbox.docker.http_api import Command, Gone, Output
from sandbox.docker.http_session import Session
from tests.simulators.all_in_one.bash import Stream


class Printing:
    """An API with one command, which prints a piece more whenever somebody waits for it."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces
        self._stdout = Stream()

    async def output(
        self, session: str, command: str, offset: int, stderr_offset: int, *, seconds: float = 0.0
    ) -> Output:
        if seconds and self._pieces:
            self._stdout.add(self._pieces.pop(0))
        status = Command(status="running" if self._pieces else "completed")
        text = self._stdout.since(offset)
        return Output(stdout=text, offset=self._stdout.end, stderr_offset=stderr_offset, command=status)

    async def write(self, session: str, command: str, text: str) -> None:
        raise Gone("it has no input")

    async def end(self, session: str) -> None:
        return


def told(pieces: list[bytes]) -> bytes:
    async def read() -> bytes:
        session, said = Session(Printing(pieces), "session", "command"), bytearray()
        while (piece := await session.read()) is not None:
            said += piece[1]
        await session.close()
        return bytes(said)

    return asyncio.run(read())


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(each % (len(data) + 1) for each in places), len(data)]
    return [data[begin:end] for begin, end in pairwise(edges)]


@given(st.text("aé中😀\n\x00", max_size=40), st.lists(st.integers(0, 200), max_size=30))
def test_a_text_arrives_as_it_was_wherever_it_is_cut(text: str, places: list[int]) -> None:
    assert told(cut(text.encode(), places)) == text.encode()


@given(st.binary(max_size=40), st.lists(st.integers(0, 200), max_size=20))
def test_of_what_is_no_text_all_that_is_arrives(data: bytes, places: list[int]) -> None:
    kept = [each for each in told(cut(data, places)).decode() if each.isascii()]
    assert kept == [each for each in data.decode(errors="replace") if each.isascii()]


def test_what_the_api_let_go_of_is_marked() -> None:
    said = told([b"begin\n" + b"x" * (11 * 1024 * 1024), b"end\n"])
    assert said.startswith(b"\n[some output is missing here")
    assert said.endswith(b"xend\n")
