"""Pictures that the model asks to see: in the next request, in no other, and never in the thread."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage
from PIL import Image

from harness.config import LoopSettings
from harness.graph.state import thread_config
from tests.harness.support import (
    Bench,
    Script,
    answers,
    calls,
    collect,
    context,
    in_memory,
    results,
    said,
    stopped_after,
)
from tests.harness.support import scripted_settings as settings

if TYPE_CHECKING:
    from tests.simulators.sandbox.provider import MemoryProvider

CAT = "/mnt/user-data/uploads/cat.png"
SEES = settings(supports_vision=True)


@pytest.fixture
def provider(bench: Bench) -> MemoryProvider:
    provider = in_memory(bench)
    buffer = io.BytesIO()
    Image.new("RGB", (3000, 20), "red").save(buffer, "PNG")
    provider.drive("thread-1").put(CAT, buffer.getvalue())
    provider.drive("thread-1").put("/mnt/user-data/uploads/no.png", b"text")
    return provider


def pictures(messages: list[BaseMessage]) -> list[str]:
    blocks: list[Any] = [block for m in messages if isinstance(m.content, list) for block in m.content]
    return [block["image_url"]["url"] for block in blocks if block.get("type") == "image_url"]


async def test_it_is_shown_once(bench: Bench, script: Script, provider: MemoryProvider) -> None:
    told = await answers(
        bench,
        script,
        calls(("view_image", {"path": CAT}), ("ls", {})),
        calls(("ls", {}), ids=["later"]),
        model=SEES,
    )
    assert told[0] == f"{CAT} is shown to you now."
    before, shown, after = script.requests
    assert [len(pictures(request)) for request in (before, shown, after)] == [0, 1, 0]
    assert isinstance(shown[-1], HumanMessage)
    content: Any = shown[-1].content
    assert content[0]["text"] == f"<antler-image>\nThe image {CAT}, which you asked to see:\n</antler-image>"
    assert pictures(shown)[0].startswith("data:image/")
    async with bench.open(SEES) as harness:
        state = await harness._any_graph().aget_state(thread_config("thread-1"))
    assert "data:image" not in str(state.values)


async def test_what_cannot_be_shown(bench: Bench, script: Script, provider: MemoryProvider) -> None:
    asked = calls(*(("view_image", {"path": path}) for path in ("/mnt/user-data/uploads/no.png", "missing", "/etc/x")))
    told = await answers(bench, script, asked, model=SEES)
    assert "cannot be shown: it is not a readable PNG, JPEG, WEBP or GIF file" in told[0]
    assert "does not exist" in told[1]
    assert "outside" in told[2]
    assert not pictures(script.requests[-1])


async def test_only_a_few_at_once(bench: Bench, script: Script, provider: MemoryProvider) -> None:
    bench.loop = LoopSettings(warn=19, stop=20)
    rounds = [calls(*[("view_image", {"path": CAT})] * 5, ids=[f"{turn}-{n}" for n in range(5)]) for turn in range(2)]
    told = await answers(bench, script, *rounds, model=SEES)
    assert [("shown to you now" in text) for text in told].count(True) == 8
    assert [len(pictures(request)) for request in script.requests] == [0, 4, 4]


async def test_after_a_restart_it_has_to_be_asked_for_again(
    bench: Bench, script: Script, provider: MemoryProvider
) -> None:
    async with bench.open(SEES) as harness:
        await stopped_after(harness, script, calls(("view_image", {"path": CAT})))
    script.steps = ["done"]
    async with bench.open(SEES) as harness:
        await collect(harness, context("r1"), said("go"), attempt=2, next_seq=9)
    assert "is no longer available after a restart" in str(script.requests[-1][-1].content)


async def test_a_model_that_cannot_see_has_no_such_tool(bench: Bench, script: Script, provider: MemoryProvider) -> None:
    await answers(bench, script, calls(("view_image", {"path": CAT})))
    assert "not a valid tool" in str(results(script)[0].content)
