"""Providers cache what requests begin with alike: each request of a thread continues the one before, byte for byte.

Through the real client, as its server recorded it: parsed and written again in the order in which the keys came.
"""

from __future__ import annotations

import asyncio
import io
import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from harness.config import ModelSettings
from harness.context import InputFile, RunInput, Speaker
from tests.harness.support import Bench, collect, context, finished, in_memory, said

if TYPE_CHECKING:
    from pathlib import Path

    from tests.simulators.model.client import ModelSimulator
    from tests.simulators.sandbox.provider import MemoryProvider

CAT = "/mnt/user-data/uploads/cat.png"


@pytest.fixture
def provider(bench: Bench) -> MemoryProvider:
    return in_memory(bench)


def settings(simulator: ModelSimulator) -> ModelSettings:
    values = {"name": "main", "model": "gpt-sim", "base_url": simulator.base_url, "api_key": simulator.api_key}
    return ModelSettings.model_validate(values | {"supports_vision": True})


def png() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (40, 30), "red").save(buffer, "PNG")
    return buffer.getvalue()


def written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


async def requests(simulator: ModelSimulator) -> list[dict[str, Any]]:
    return [record.body for record in await simulator.completions()]


def assert_continues(earlier: dict[str, Any], later: dict[str, Any], *, passing: int = 0) -> None:
    """passing: how many messages at the end of the earlier request were for that request alone."""
    assert written(later["tools"]) == written(earlier["tools"])
    assert {k: v for k, v in later.items() if k != "messages"} == {k: v for k, v in earlier.items() if k != "messages"}
    kept = earlier["messages"][: len(earlier["messages"]) - passing]
    assert len(later["messages"]) > len(kept)
    for old, new in zip(kept, later["messages"], strict=False):
        assert written(new) == written(old)


async def test_two_turns_whoever_speaks_and_whenever(
    bench: Bench, simulator: ModelSimulator, provider: MemoryProvider
) -> None:
    async with bench.open(settings(simulator)) as harness:
        await collect(harness, context("r1", is_group=True), said("hello"))
        bench.clock.advance(90_000)
        bob = Speaker(id="telegram:2", display_name="Bob", is_admin=True)
        await collect(harness, context("r2", is_group=True, speaker=bob, locale="zh"), said("hello again"))
    first, second = await requests(simulator)
    assert_continues(first, second)


async def test_a_tool_round_and_the_turn_after_it(
    bench: Bench, simulator: ModelSimulator, provider: MemoryProvider
) -> None:
    async with bench.open(settings(simulator)) as harness:
        await collect(harness, context("r1"), said('!tools ls {"path": "."} bash {"command": "true"}'))
        await collect(harness, context("r2"), said("and?"))
    first, second, third = await requests(simulator)
    assert_continues(first, second)
    assert_continues(second, third)


async def test_other_threads_begin_alike(bench: Bench, simulator: ModelSimulator, provider: MemoryProvider) -> None:
    async with bench.open(settings(simulator)) as harness:
        await collect(harness, context("r1"), said("hello"))
        await collect(harness, context("r2", thread="thread-2", conversation="slack:C1"), said("something else"))
    first, second = await requests(simulator)
    assert written(first["messages"][0]) == written(second["messages"][0])
    assert first["messages"][0]["role"] == "system"
    assert written(first["tools"]) == written(second["tools"])


async def test_a_run_that_is_resumed_by_another_process(
    bench: Bench, simulator: ModelSimulator, provider: MemoryProvider
) -> None:
    turn = said('!tool ls {"path": "."}\n!pause half')
    async with bench.open(settings(simulator)) as harness:
        await collect(harness, context("r1"), said("hello"))
        running = asyncio.create_task(collect(harness, context("r2"), turn))
        await simulator.wait_for_request(lambda record: "!tool ls" in record.last_user_text)
        await simulator.wait_for_request(lambda record: len(record.body["messages"]) > 5)
        running.cancel()
        await asyncio.wait({running})
    bench.clock.advance(3600)
    async with bench.open(settings(simulator)) as harness:
        await simulator.release("half")
        await collect(harness, context("r2"), turn, attempt=2, next_seq=50)
        await collect(harness, context("r3"), said("and?"))
    made = await requests(simulator)
    assert len(made) >= 5
    for earlier, later in itertools.pairwise(made):
        if len(later["messages"]) > len(earlier["messages"]):
            assert_continues(earlier, later)
        else:  # the very request that was cut off
            assert written(later) == written(earlier)


async def test_pictures_that_people_send(bench: Bench, simulator: ModelSimulator, tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(png())
    picture = InputFile(path=tmp_path / "cat.png", name="cat.png", mime_type="image/png", size=100)
    async with bench.open(settings(simulator)) as harness:
        await collect(harness, context("r1"), RunInput(message_id="m1", text="what is it?", files=(picture,)))
        (tmp_path / "cat.png").unlink()
        assert finished(await collect(harness, context("r2"), said("sure?"))).text
    async with bench.open(settings(simulator)) as harness:
        await collect(harness, context("r3"), said("really?"))
    first, second, third = await requests(simulator)
    assert "data:image/png" in written(first["messages"][1])
    assert_continues(first, second)
    assert_continues(second, third)


async def test_a_picture_that_the_model_looks_at_is_at_the_end_of_one_request(
    bench: Bench, simulator: ModelSimulator, provider: MemoryProvider
) -> None:
    provider.drive("thread-1").put(CAT, png())
    async with bench.open(settings(simulator)) as harness:
        await collect(harness, context("r1"), said(f'!tool view_image {{"path": "{CAT}"}}'))
        await collect(harness, context("r2"), said("and?"))
    asked, shown, after = await requests(simulator)
    assert_continues(asked, shown)
    assert_continues(shown, after, passing=1)
    assert "data:image" in written(shown["messages"][-1])
    assert "data:image" not in written(after)
