"""Going back: an exchange that the model never hears of again, and an older thread that it remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.texts.en import EN
from harness.events import FailureKind
from tests.simulators.model.scripts import Status
from tests.simulators.telegram.seen import ALICE

if TYPE_CHECKING:
    from tests.flow.gateway import World


async def said(world: World, text: str, expected: str) -> int:
    await world.telegram.user_says(text)
    return (await world.telegram.wait_for_text(ALICE, expected)).message_id


async def seen_by_model(world: World) -> str:
    return str((await world.model.completions())[-1].body["messages"])


async def test_the_model_never_hears_of_an_undone_exchange(world: World) -> None:
    async with world:
        await said(world, "remember the zebra", "You said: remember the zebra")
        await said(world, "remember the walrus", "You said: remember the walrus")
        await world.telegram.wait_idle(ALICE)
        await said(world, "/undo", EN.undo["done"].partition("`")[0])
        await world.kill()
        await world.start()
        await said(world, "what now?", "You said: what now?")
        seen = await seen_by_model(world)
        assert "zebra" in seen
        assert "walrus" not in seen
        for _ in range(2):
            await world.telegram.wait_idle(ALICE)
            await world.telegram.user_says("/undo")
        await world.telegram.wait_for_text(ALICE, "(remember the zebra)")
        await said(world, "and now?", "You said: and now?")
        assert "zebra" not in await seen_by_model(world)


async def test_an_older_thread_goes_on_where_it_was(world: World) -> None:
    async with world:
        await said(world, "remember the zebra", "You said: remember the zebra")
        await said(world, "/new Walruses", "New thread")
        await said(world, "remember the walrus", "You said: remember the walrus")
        assert "zebra" not in await seen_by_model(world)
        await world.telegram.wait_idle(ALICE)
        listed = await said(world, "/threads", EN.threads["head"].strip("*"))
        press = await world.telegram.press(listed, "remember the zebra")
        answer = await world.telegram.wait_answered(press.callback_id)
        assert answer["text"] == "🧵 Back in remember the zebra."
        await said(world, "go on", "You said: go on")
        seen = await seen_by_model(world)
        assert "zebra" in seen
        assert "walrus" not in seen


async def test_compact_leaves_a_summary(world: World) -> None:
    async with world:
        for number in range(3):
            await said(world, f"fact {number}", f"You said: fact {number}")
        await world.telegram.wait_idle(ALICE)
        await said(world, "/compact", EN.compact["done"].partition("{")[0].strip())
        await said(world, "go on", "You said: go on")
        assert len((await world.model.completions())[-1].body["messages"]) < 8


async def test_a_busy_model_that_cannot_summarize_costs_no_message(world: World) -> None:
    async with world:
        for number in range(3):
            await said(world, f"fact {number}", f"You said: fact {number}")
        await world.telegram.wait_idle(ALICE)
        await world.model.script("Context Extraction Assistant", [Status(status=429)], match="contains")
        busy = EN.compact["not_now"].format(trouble=EN.troubles[FailureKind.RATE_LIMITED])
        await said(world, "/compact", busy)
        await said(world, "go on", "You said: go on")
        seen = await seen_by_model(world)
        assert all(f"fact {number}" in seen for number in range(3))
        await world.model.reset()
        await said(world, "/compact", EN.compact["done"].partition("{")[0].strip())


async def test_titles_and_memories_can_be_left_to_the_model_of_the_chat(world: World) -> None:
    world.settings = {"title": {"model": "same"}, "memory": {"model": "same", "debounce_seconds": 0}}
    async with world:
        await said(world, "/models other", "other")
        await said(world, "I live in Lisbon", "You said: I live in Lisbon")
        await world.model.wait_for_request(lambda request: "Name this conversation" in str(request.body))
        await world.model.wait_for_request(lambda request: "You keep the memory" in str(request.body), timeout=20)
        assert {request.body["model"] for request in await world.model.completions()} == {"sim-2"}


async def test_compact_asks_the_model_of_the_chat_and_no_other(world: World) -> None:
    async with world:
        await said(world, "/models other", "other")
        for number in range(3):
            await said(world, f"fact {number}", f"You said: fact {number}")
        await world.telegram.wait_idle(ALICE)
        await said(world, "/compact", EN.compact["done"].partition("{")[0].strip())
        assert {request.body["model"] for request in await world.model.completions()} == {"sim-2"}
