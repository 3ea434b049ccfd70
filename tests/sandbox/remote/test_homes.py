"""Where threads live among several servers: the order, and the notes that processes share."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import pytest

from bot.store.identity import thread_folder
from sandbox.base import SandboxError, sandbox_id
from sandbox.remote.homes import Homes, in_order

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

URLS = [f"https://sandboxes-{number}.example.org" for number in range(5)]
THREADS = [sandbox_id(f"thread {number}") for number in range(4000)]


def homes_of(urls: Sequence[str]) -> dict[str, str]:
    return {thread: in_order(urls, thread)[0] for thread in THREADS}


@pytest.mark.parametrize("number", [2, 3, 4])
def test_one_more_server_takes_its_share_and_moves_nothing_else(number: int) -> None:
    before, after = homes_of(URLS[:number]), homes_of(URLS[: number + 1])
    moved = [thread for thread in THREADS if before[thread] != after[thread]]
    assert {after[thread] for thread in moved} == {URLS[number]}
    share = len(THREADS) / (number + 1)
    assert share * 0.85 < len(moved) < share * 1.15


def test_all_servers_have_as_many() -> None:
    counts = Counter(homes_of(URLS).values())
    assert len(counts) == len(URLS)
    assert max(counts.values()) < 1.15 * len(THREADS) / len(URLS) < 1.3 * min(counts.values())


def test_the_second_of_an_order_is_the_first_without_the_first() -> None:
    for thread in THREADS[:200]:
        first, *others = in_order(URLS, thread)
        assert in_order([url for url in URLS if url != first], thread) == others


def test_the_order_is_the_same_in_every_process_and_version() -> None:
    assert in_order(list(reversed(URLS)), THREADS[0]) == in_order(URLS, THREADS[0])
    firsts = [URLS.index(in_order(URLS, thread)[0]) for thread in THREADS[:12]]
    assert firsts == [2, 3, 4, 1, 4, 3, 1, 3, 2, 1, 1, 3]


def homes(folder: Path) -> Homes:
    return Homes(partial(thread_folder, folder), folder / "threads" / ".sandbox-servers")


async def test_of_many_who_settle_a_thread_at_once_one_decides(tmp_path: Path) -> None:
    wanted = [f"http://{number}" for number in range(20)]
    told = await asyncio.gather(*(homes(tmp_path).settle("t", url) for url in wanted))
    assert set(told) == {await homes(tmp_path).of("t")}
    assert set(told) < set(wanted)
    (folder,) = (tmp_path / "threads").iterdir()
    assert [file.name for file in folder.iterdir()] == ["sandbox-server"]


async def test_a_note_is_of_one_thread_and_goes_with_it(tmp_path: Path) -> None:
    notes = homes(tmp_path)
    assert await notes.settle("t", "http://a") == await notes.settle("t", "http://b") == "http://a"
    assert await notes.of("u") is None
    await notes.move("t", "http://b")
    assert await notes.of("t") == "http://b"
    for _ in range(2):
        await notes.forget("t")
        assert await notes.of("t") is None


async def test_a_server_that_was_never_asked_may_keep_anything(tmp_path: Path) -> None:
    notes = homes(tmp_path)
    assert await notes.unlisted(["http://a", "http://b"]) == ["http://a", "http://b"]
    assert await notes.may_keep("http://a", THREADS[0])
    await notes.enlist("http://a", THREADS[1:3])
    assert await notes.unlisted(["http://a", "http://b"]) == ["http://b"]
    assert not await notes.may_keep("http://a", THREADS[0])
    assert await notes.may_keep("http://a", THREADS[2])


async def test_a_data_folder_that_takes_no_notes_is_said(tmp_path: Path) -> None:
    (tmp_path / "threads").write_text("no folder")
    with pytest.raises(SandboxError, match="cannot be recorded in the data folder"):
        await homes(tmp_path).settle("t", "http://a")
