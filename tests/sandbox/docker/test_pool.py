"""How many containers there are, and whose goes first (sandbox/docker/containers.py)."""

from __future__ import annotations

import asyncio

import pytest

from sandbox.base import SandboxError
from sandbox.docker.containers import Pool

PATIENCE = 30.0


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


async def test_the_least_recently_used_idle_one_goes() -> None:
    pool = Pool(2, PATIENCE, Clock())
    assert [await pool.enter(name) for name in ("a", "b")] == [None, None]
    pool.rest("b")
    pool.rest("a")
    assert await pool.enter("c") == "b"
    assert await pool.enter("a") is None
    pool.leave("b")
    assert pool.all == {"a", "c"}


async def test_who_enters_again_keeps_its_place() -> None:
    pool = Pool(1, PATIENCE, Clock())
    await pool.enter("a")
    assert await pool.enter("a") is None
    pool.rest("a")
    assert await pool.enter("a") is None


async def test_when_all_are_in_use_one_waits_for_the_next_that_is_free() -> None:
    pool = Pool(1, PATIENCE, Clock())
    await pool.enter("a")
    waiting = asyncio.create_task(pool.enter("b"))
    await asyncio.sleep(0)
    assert not waiting.done()
    pool.rest("a")
    assert await waiting == "a"


async def test_waiting_ends_with_a_reason() -> None:
    pool = Pool(1, 0.01, Clock())
    await pool.enter("a")
    with pytest.raises(SandboxError, match="all 1 sandboxes are in use") as caught:
        await pool.enter("b")
    assert "replicas" in caught.value.hint


async def test_idle_ones_expire_and_keep_their_places_until_they_are_gone() -> None:
    clock = Clock()
    pool = Pool(1, 0.01, clock)
    await pool.enter("a")
    assert pool.expire(600) == []
    pool.rest("a")
    clock.seconds += 599
    assert pool.expire(600) == []
    clock.seconds += 1
    assert pool.expire(600) == ["a"]
    for name in ("a", "b"):
        with pytest.raises(SandboxError):
            await pool.enter(name)
    pool.leave("a")
    assert await pool.enter("b") is None


async def test_one_that_is_being_removed_cannot_be_entered_before() -> None:
    pool = Pool(1, PATIENCE, Clock())
    await pool.enter("a")
    pool.rest("a")
    assert await pool.enter("b") == "a"
    waiting = asyncio.create_task(pool.enter("a"))
    await asyncio.sleep(0)
    pool.rest("b")
    await asyncio.sleep(0)
    assert not waiting.done()
    pool.leave("a")
    assert await waiting == "b"
