"""Fixtures of the adapters' tests; each adapter's conftest.py says how its channel is made (`new_bench`)."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from channels.base import Channel


class Bench(Protocol):
    """An account on a simulator with its channel."""

    @property
    def channel(self) -> Channel: ...


BenchT = TypeVar("BenchT", bound=Bench)


@pytest.fixture
async def make_bench(new_bench: Callable[..., BenchT]) -> AsyncIterator[Callable[..., BenchT]]:
    """Channels to the fresh account, with settings; closed at the end."""
    async with AsyncExitStack() as closing:

        def make(*given: Any, **settings: Any) -> BenchT:
            bench = new_bench(*given, **settings)
            closing.push_async_callback(bench.channel.close)
            return bench

        yield make


@pytest.fixture
async def bench(make_bench: Callable[..., BenchT]) -> BenchT:
    return make_bench()
