"""What an answer looks like: complete, formatted, in parts where it must be, and without what nobody may read."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.simulators.model.prose import prose
from tests.simulators.model.scripts import Pause, Say

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.flow.gateway import World
    from tests.simulators.telegram.seen import Person, SeenMessage

pytestmark = pytest.mark.asyncio(loop_scope="module")

SHOWN_PREFIX = 10
"""So many characters of a secret may be in sight: they help nobody to guess the rest."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(public_world: World) -> AsyncIterator[World]:
    async with public_world:
        yield public_world


async def answer(gateway: World, person: Person, text: str) -> list[SeenMessage]:
    """Say it; the bot's messages when all is quiet, with their history."""
    await gateway.telegram.user_says(text, user=person)
    await gateway.telegram.wait_for_message(person, lambda message: message.text != "Working…")
    await gateway.telegram.wait_idle(person, quiet=0.6, timeout=30)
    return await gateway.telegram.bot_messages(person)


def words(text: str) -> list[str]:
    """What remains of a text without the marks of Markdown and the bullets and rules of its rendering."""
    return re.findall(r"[^\W_]+", re.sub(r"https?://\S+|```python", "", text))


async def test_a_long_answer_comes_complete_in_parts_and_as_a_file(gateway: World, person: Person) -> None:
    messages = await answer(gateway, person, "!long 20000")
    texts, (file,) = [m.text for m in messages if not m.files], [m.files[0] for m in messages if m.files]
    assert len(texts) > 4
    told, expected = words("\n".join(texts)), words(prose(20_000))
    assert [word for word in expected if word not in set(told)] == []
    assert told.count("umlauten".title()) == expected.count("Umlauten")
    assert file["name"].endswith(".md")
    assert file["sha256"] == hashlib.sha256(f"{prose(20_000)}\n".encode()).hexdigest()
    assert messages[-1].files


async def test_a_long_answer_grows_in_parts_that_stay(gateway: World, person: Person) -> None:
    text = prose(9_000)
    steps = (Say(text=text[:5_000], pieces=10), Pause(name="long"), Say(text=text[5_000:], pieces=10))
    await gateway.model.script("tell me a long story", steps, match="contains")
    await gateway.telegram.user_says("tell me a long story", user=person)
    await gateway.model.wait_for_pause("long")
    first = await gateway.telegram.wait_for_message(person)
    await gateway.telegram.wait_for_message(person, lambda message: message.message_id > first.message_id)
    await gateway.telegram.wait_idle(person, quiet=0.6)
    halfway = await gateway.telegram.bot_messages(person)
    assert len(halfway) == 2
    await gateway.model.release("long")
    await gateway.telegram.wait_idle(person, quiet=1.0, timeout=20)
    whole = await gateway.telegram.bot_messages(person)
    assert [m.message_id for m in whole[:2]] == [m.message_id for m in halfway]
    assert whole[0].text == halfway[0].text
    assert "▌" not in whole[-1].text
    shown = words("\n".join(m.text for m in whole))
    assert [word for word in words(text) if word not in set(shown)] == []


@pytest.mark.parametrize(
    ("said", "shown", "entities"),
    [
        ("**b** _i_ ~~s~~ ||x|| `c`", "b i s x c", ["bold", "italic", "strikethrough", "spoiler", "code"]),
        ("[t](tg://user?id=1)", "t (tg:\u2060//user?id=1)", []),
        ("[t](javascript:alert(1))", "t (javascript:alert(1))", []),
        ("[t](data:text/html,x) [f](file:///etc/passwd)", "t (data:text/html,x) f (file:///etc/passwd)", []),
        ("![pixel](https://evil.example/?d=1)", "pixel", ["text_link"]),
        ("a < b > c & d <b>no tag</b>", "a < b > c & d <b>no tag</b>", []),
        ("snake_case_name and 2 * 3 * 4", "snake_case_name and 2 * 3 * 4", []),
        ("\u202ereversed\u202c", None, []),
        ("```", None, []),
    ],
)
async def test_markdown_of_a_model_becomes_text_and_entities(
    gateway: World, person: Person, said: str, shown: str | None, entities: list[str]
) -> None:
    (message,) = await answer(gateway, person, f"!say {said}")
    if shown is not None:
        assert message.text == shown
        assert [entity["type"] for entity in message.entities] == entities
    refused = [r for r in await gateway.telegram.records(chat=person) if r.status == 400]
    assert refused == []


async def test_an_open_code_block_is_shown_while_it_grows(gateway: World, person: Person) -> None:
    steps = (Say(text="Look:\n```python\nprint(1)\n", pieces=2), Pause(name="code"), Say(text="print(2)\n```\ndone"))
    await gateway.model.script("show me code", steps, match="contains")
    await gateway.telegram.user_says("show me code", user=person)
    draft = await gateway.telegram.wait_for_text(person, "print(1)")
    assert [(e["type"], e.get("language")) for e in draft.entities] == [("pre", "python")]
    await gateway.model.release("code")
    final = await gateway.telegram.wait_for_text(person, "done")
    assert [(e["type"], e.get("language")) for e in final.entities] == [("pre", "python")]


@pytest.mark.parametrize("secret", ["model key", "bot token"])
@pytest.mark.parametrize("cut", [3, 9, 12])
async def test_a_secret_never_reaches_the_chat_however_it_is_told(
    gateway: World, person: Person, secret: str, cut: int
) -> None:
    """The draft is looked at while only the first `cut` characters of the secret are told."""
    value = gateway.model.api_key if secret == "model key" else gateway.telegram.token
    name = f"{secret}-{cut}"
    steps = (Say(text=f"It is {value[:cut]}", pieces=2), Pause(name=name), Say(text=f"{value[cut:]}. Enjoy", pieces=30))
    await gateway.model.script(f"tell me the {name}", steps, match="contains")
    await gateway.telegram.user_says(f"tell me the {name}", user=person)
    await gateway.model.wait_for_pause(name)
    await gateway.telegram.wait_for_text(person, "It is")
    await gateway.model.release(name)
    await gateway.telegram.wait_for_text(person, "It is [redacted]. Enjoy")
    await gateway.telegram.wait_idle(person)
    calls = [record for record in await gateway.telegram.records(chat=person) if "text" in record.params]
    assert [call.text for call in calls if value[:SHOWN_PREFIX] in call.text] == []
    assert value not in gateway.log
