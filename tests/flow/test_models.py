"""Models and agents as people meet them: one that stands in for another, titles, and /agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from tests.flow.gateway import merged
from tests.simulators.model.scripts import Pause, Say

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.flow.gateway import World
    from tests.simulators.telegram.seen import Person

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(public_world: World) -> AsyncIterator[World]:
    server = {"base_url": public_world.model.base_url, "api_key": "$MODEL_KEY"}
    models = [
        {"name": "main", "model": "sim", **server},
        {"name": "covered", "model": "missing-model", **server, "fallbacks": ["badkey", "main"]},
        {"name": "second", "model": "sim-2", **server},
        {"name": "badkey", "model": "sim", **server, "api_key": "bad-key-of-nobody"},
    ]
    folder = public_world.folder / "agents" / "support"
    folder.mkdir(parents=True)
    (folder / "SOUL.md").write_text("You are Sam from support, and patient.")
    (folder / "config.yaml").write_text("{description: Answers customers, model: second, features: {sandbox: false}}")
    public_world.settings = merged(
        public_world.settings, {"models": models, "title": {"model": "main"}, "log": {"level": "debug"}}
    )
    async with public_world:
        yield public_world


async def test_another_model_answers_and_the_chat_says_so(gateway: World, person: Person) -> None:
    await gateway.telegram.user_says("/models covered", user=person)
    await gateway.telegram.wait_for_text(person, "now uses")
    await gateway.telegram.user_says("anybody there?", user=person)
    answer = await gateway.telegram.wait_for_text(person, "because covered could not")
    assert answer.text == "You said: anybody there?\n\nℹ️ main answered, because covered could not."
    await gateway.telegram.user_says("/status", user=person)
    status = await gateway.telegram.wait_for_text(person, "Antler")
    assert "covered" in status.text
    assert "model main (sim) answers instead of covered (missing-model)" in gateway.log
    assert gateway.model.api_key not in gateway.log


async def test_a_thread_gets_a_title_beside_the_conversation(gateway: World, person: Person) -> None:
    await gateway.model.script(
        "Name this conversation", (Pause(name="title"), Say(text="Pears and cheese")), "contains"
    )
    await gateway.telegram.user_says("which cheese goes with pears?", user=person)
    await gateway.telegram.wait_for_text(person, "You said: which cheese goes with pears?")
    await gateway.model.wait_for_pause("title")
    await gateway.telegram.user_says("/status", user=person)
    await gateway.telegram.wait_for_text(person, "untitled")
    await gateway.model.release("title")
    await gateway.telegram.user_says("thanks", user=person)
    await gateway.telegram.wait_for_text(person, "You said: thanks")
    await gateway.wait_for_log("has a title")
    await gateway.telegram.user_says("/status", user=person)
    await gateway.telegram.wait_for_text(person, "Pears and cheese")
    made = [record.last_user_text for record in await gateway.model.completions()]
    assert sum("Name this" in text and "which cheese goes with pears?" in text for text in made) == 1


async def test_an_agent_is_chosen_for_a_conversation_by_name_and_by_button(gateway: World, person: Person) -> None:
    await gateway.telegram.user_says("who are you?", user=person)
    await gateway.telegram.wait_for_text(person, "You said: who are you?")
    await gateway.telegram.user_says("/agent", user=person)
    listed = await gateway.telegram.wait_for_text(person, "Answers customers")
    assert [button["text"] for button in listed.buttons] == ["● default", "support"]
    press = await gateway.telegram.press(listed.message_id, "support", user=person, chat=person.id)
    await gateway.telegram.wait_answered(press.callback_id)
    await gateway.telegram.user_says("and you?", user=person)
    await gateway.telegram.wait_for_text(person, "You said: and you?")
    asked = {record.last_user_text: record.body for record in await gateway.model.completions()}
    before = next(body for text, body in asked.items() if text.startswith("who are you?"))
    after = next(body for text, body in asked.items() if text.startswith("and you?"))
    assert "You are Antler" in before["messages"][0]["content"]
    assert "You are Sam from support" in after["messages"][0]["content"]
    # It has its own model, its own tools, and the same thread.
    assert (before["model"], after["model"]) == ("sim", "sim-2")
    assert {"bash"} <= names(before) - names(after)
    assert "who are you?" in str(after["messages"])
    await gateway.telegram.user_says("/status", user=person)
    status = await gateway.telegram.wait_for_text(person, "Agent: support")
    assert "second" in status.text
    await gateway.telegram.user_says("/agent nobody", user=person)
    await gateway.telegram.wait_for_text(person, "There is no agent nobody. Available: default, support.")


def names(body: dict[str, Any]) -> set[str]:
    return {tool["function"]["name"] for tool in body["tools"]}
