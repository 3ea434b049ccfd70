"""Attachments: streamed, capped whatever was declared, and never a URL in what is kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from channels.errors import AttachmentFailed, ChannelError, Temporary
from channels.message import Attachment, Message
from tests.simulators.telegram import faults
from tests.simulators.telegram.seen import FileSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.channels.telegram.support import Bench

MEGABYTE = 1024 * 1024


@dataclass
class CountingSink:
    most: int = 100 * MEGABYTE
    size: int = 0
    largest: int = 0
    head: bytes = b""

    async def write(self, chunk: bytes) -> None:
        self.size += len(chunk)
        self.largest = max(self.largest, len(chunk))
        self.head = (self.head + chunk)[:100]
        if self.size > self.most:
            raise AttachmentFailed("the quota is used up", "too_large")


async def attachment_of(bench: Bench, spec: FileSpec) -> Attachment:
    async with bench.running():
        await bench.telegram.user_says("see", file=spec)
        event = await bench.gateway.event()
    assert isinstance(event, Message)
    (attachment,) = event.attachments
    return attachment


async def test_a_file_arrives_whole(bench: Bench) -> None:
    attachment = await attachment_of(bench, FileSpec(content=b"one two three", name="a.txt", mime="text/plain"))
    sink = CountingSink()
    await bench.channel.fetch(attachment, sink)
    assert (sink.head, sink.size, attachment.size, attachment.name) == (b"one two three", 13, 13, "a.txt")
    assert bench.telegram.token not in attachment.ref
    assert "http" not in attachment.ref


async def test_a_large_file_is_streamed_in_pieces(bench: Bench) -> None:
    attachment = await attachment_of(bench, FileSpec(stream_size=8 * MEGABYTE))
    sink = CountingSink()
    await bench.channel.fetch(attachment, sink)
    assert sink.size == 8 * MEGABYTE
    assert sink.largest <= MEGABYTE


async def test_a_file_that_lies_about_its_size_is_cut_off(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(max_download_mb=1)
    attachment = await attachment_of(bench, FileSpec(declared_size=1024, stream_size=5 * 1024**3))
    sink = CountingSink()
    with pytest.raises(AttachmentFailed) as failure:
        await bench.channel.fetch(attachment, sink)
    assert failure.value.reason == "too_large"
    assert sink.size <= MEGABYTE


async def test_the_sink_may_stop_earlier(bench: Bench) -> None:
    attachment = await attachment_of(bench, FileSpec(stream_size=4 * MEGABYTE))
    with pytest.raises(AttachmentFailed, match="quota"):
        await bench.channel.fetch(attachment, CountingSink(most=1000))


async def test_a_file_declared_too_large_is_not_even_asked_for(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(max_download_mb=1)
    attachment = await attachment_of(bench, FileSpec(stream_size=2 * MEGABYTE))
    with pytest.raises(AttachmentFailed) as failure:
        await bench.channel.fetch(attachment, CountingSink())
    assert failure.value.reason == "too_large"
    assert await bench.telegram.records("getFile") == []


FAILURES: list[tuple[str, faults.Fault, type[ChannelError], str]] = [
    ("getFile", faults.bad_request("file is too big"), AttachmentFailed, "too_large"),
    ("getFile", faults.bad_request("wrong file_id or the file is temporarily unavailable"), AttachmentFailed, "gone"),
    ("getFile", faults.bad_gateway(), Temporary, ""),
    ("file", faults.not_found(), AttachmentFailed, "gone"),
    ("file", faults.bad_gateway(), Temporary, ""),
    ("file", faults.reset(), Temporary, ""),
]


@pytest.mark.parametrize(("method", "fault", "error", "reason"), FAILURES)
async def test_each_failure_of_a_download_becomes_ours(
    bench: Bench, method: str, fault: faults.Fault, error: type[ChannelError], reason: str
) -> None:
    attachment = await attachment_of(bench, FileSpec(content=b"x"))
    await bench.telegram.fail(method, fault, times=2)  # a download that was reset is tried once more at once
    with pytest.raises(error) as failure:
        await bench.channel.fetch(attachment, CountingSink())
    if isinstance(failure.value, AttachmentFailed):
        assert failure.value.reason == reason
    assert bench.telegram.token not in str(failure.value)


@pytest.mark.parametrize("ref", ["", "{}", "[]", '{"file_id": 5}', "https://example.org/x"])
async def test_a_foreign_reference_is_refused(bench: Bench, ref: str) -> None:
    attachment = await attachment_of(bench, FileSpec(content=b"x"))
    with pytest.raises(AttachmentFailed):
        await bench.channel.fetch(replace(attachment, ref=ref), CountingSink())
