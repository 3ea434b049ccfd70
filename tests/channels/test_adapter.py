"""What the adapters share: committing before each acknowledgement, and files that are opened and capped."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from channels.adapter import capped, commit, open_regular
from channels.base import ChannelPorts, Route
from channels.errors import AttachmentFailed, NotCommitted, Rejected
from tests.clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from channels.message import InboundEvent


def ports(raised: BaseException | None) -> ChannelPorts:
    async def publish(events: Sequence[InboundEvent]) -> None:
        if raised is not None:
            raise raised

    return ChannelPorts(publish=publish, clock=VirtualClock(), route=lambda url: Route())


@pytest.mark.parametrize("raised", [OSError("disk full"), TimeoutError(), KeyError("a mistake"), RecursionError()])
async def test_any_failure_means_that_it_is_not_committed(raised: Exception) -> None:
    with pytest.raises(NotCommitted, match=type(raised).__name__) as failure:
        await commit([], ports(raised))
    assert failure.value.__cause__ is raised
    assert "disk full" not in str(failure.value), "people are shown it"


async def test_being_cancelled_is_no_failure() -> None:
    with pytest.raises(asyncio.CancelledError):
        await commit([], ports(asyncio.CancelledError()))


@dataclass
class Bytes:
    content: bytes = b""
    pieces: list[int] = field(default_factory=list)

    async def write(self, chunk: bytes) -> None:
        self.content += chunk
        self.pieces.append(len(chunk))


def test_a_file_is_opened(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"content")
    with open_regular(tmp_path / "a") as file:
        assert file.read() == b"content"


def test_links_pipes_folders_and_nothing_are_refused(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"secret")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")  # nobody writes: opening it must not wait
    for name in ("link", "folder", "pipe", "missing"):
        with pytest.raises(Rejected):
            open_regular(tmp_path / name)


async def test_a_file_of_just_the_cap_passes_in_its_pieces() -> None:
    sink = Bytes()
    taken = capped(sink, 6, declared=6)
    await taken.write(b"abc")
    await taken.write(b"def")
    assert (sink.content, sink.pieces) == (b"abcdef", [3, 3])


async def test_whatever_is_declared_no_more_than_the_cap_is_taken() -> None:
    sink = Bytes()
    taken = capped(sink, 5, declared=1)
    await taken.write(b"abc")
    with pytest.raises(AttachmentFailed) as failure:
        await taken.write(b"def")
    assert failure.value.reason == "too_large"
    assert sink.content == b"abc"


def test_what_says_that_it_is_too_large_is_not_begun() -> None:
    with pytest.raises(AttachmentFailed) as failure:
        capped(Bytes(), 5, declared=6)
    assert failure.value.reason == "too_large"
