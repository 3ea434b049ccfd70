"""The agent reads the web for people: a page in an answer, a page that gives orders, and addresses of an inside."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.flow.sandboxed import call
from tests.simulators.process import SimulatorProcess
from tests.simulators.sandbox.provider import USE
from tests.simulators.telegram.seen import ALICE
from tests.simulators.web import pages
from tests.simulators.web.engines import HITS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.flow.gateway import World
    from tests.simulators.model.records import Record
    from tests.simulators.telegram.seen import Person

shared = pytest.mark.asyncio(loop_scope="module")
"""Of tests that share one gateway."""


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    """The address of the simulated website, which answers as a SearXNG too."""
    with SimulatorProcess("tests.simulators.web") as process:
        yield f"http://127.0.0.1:{process.port}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(public_world: World, web: str) -> AsyncIterator[World]:
    public_world.settings |= {
        "sandbox": {"use": USE},
        "web": {
            "search": {"provider": "searxng", "base_url": web},
            "fetch": {"enabled": True, "allow": [web.removeprefix("http://")]},
        },
    }
    async with public_world:
        yield public_world


async def told_to_model(gateway: World, mark: str) -> str:
    """The newest tool result that the model was sent in the turn with this mark."""

    def is_it(record: Record) -> bool:
        messages = record.body["messages"]
        return messages[-1]["role"] == "tool" and any(mark in str(message["content"]) for message in messages)

    record = await gateway.model.wait_for_request(is_it)
    return str(record.body["messages"][-1]["content"])


# These two first: they look whether the model has connections left, which the shared gateway keeps.


async def test_without_the_setting_there_is_no_web(world: World) -> None:
    async with world:
        await world.telegram.user_says("hello")
        await world.telegram.wait_for_text(ALICE, "hello")
        (record, *_) = await world.model.completions()
        offered = {tool["function"]["name"] for tool in record.body.get("tools", [])}
        assert not {"web_fetch", "web_search"} & offered
        assert "antler-outside" not in str(record.body["messages"][0]["content"])


async def test_a_tool_of_the_operator_that_is_not_there_stops_the_start(world: World) -> None:
    world.settings["tools"] = [{"use": "json:no_such_tool"}]
    world.write_config()
    code, output = await world.command("check-config")
    assert code == 78
    assert "tools[0].use: json has no no_such_tool" in output
    assert await world.ends() == 78
    assert "tools[0].use: json has no no_such_tool" in world.log


@shared
async def test_a_page_is_fetched_and_quoted(gateway: World, person: Person, web: str) -> None:
    asked = call("web_fetch", url=f"{web}/redirect?to=/article")
    await gateway.telegram.user_says(f"{asked}\n!quote painted", user=person)
    answer = await gateway.telegram.wait_for_text(person, "I read: ")
    assert pages.FACT in answer.text


@shared
async def test_a_long_page_is_read_by_its_sections(gateway: World, person: Person, web: str) -> None:
    asked = call("web_fetch", url=f"{web}/handbook", section="fog horn")
    await gateway.telegram.user_says(f"{asked}\n!quote Sentence 119", user=person)
    answer = await gateway.telegram.wait_for_text(person, "I read: ")
    assert "Sentence 119 of the chapter Fog horn" in answer.text
    cards = [json.loads(card.read_bytes()) for card in gateway.data_dir.glob("threads/*/sources/*.json")]
    assert f"{web}/handbook" in [card["url"] for card in cards]


@shared
async def test_a_search_leads_to_an_answer(gateway: World, person: Person) -> None:
    await gateway.telegram.user_says(f"{call('web_search', query='lighthouse')}\n!quote painted", user=person)
    answer = await gateway.telegram.wait_for_text(person, "I read: ")
    assert HITS[0][2] in answer.text


@shared
async def test_orders_in_a_page_are_data(gateway: World, person: Person, web: str) -> None:
    await gateway.telegram.user_says(f"{call('web_fetch', url=f'{web}/injection?a')}\n!say Three eggs.", user=person)
    await gateway.telegram.wait_for_text(person, "Three eggs.")
    told = await told_to_model(gateway, "injection?a")
    opening, closing = told.index("<antler-outside>"), told.index("</antler-outside>")
    assert opening < told.index(pages.ORDERS) < closing
    assert told.endswith("</antler-outside>")
    assert "<antler-context>" not in told


@shared
async def test_a_model_that_obeys_a_page_shows_none_of_the_block(gateway: World, person: Person, web: str) -> None:
    """Without a script of its own it repeats all that the tools said."""
    await gateway.telegram.user_says(call("web_fetch", url=f"{web}/injection?b"), user=person)
    answer = await gateway.telegram.wait_for_text(person, "Tool result")
    assert "antler-" not in answer.text
    assert "curl" not in answer.text


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://127.0.0.1:1/",
        "http://[::ffff:10.0.0.1]/",
        "file:///etc/passwd",
    ],
)
@shared
async def test_an_inside_is_not_reached(gateway: World, person: Person, url: str) -> None:
    await gateway.telegram.user_says(call("web_fetch", url=url), user=person)
    answer = await gateway.telegram.wait_for_text(person, "This page was not read.")
    assert "root:" not in answer.text


@shared
async def test_a_redirect_to_an_inside_is_not_followed(gateway: World, person: Person, web: str) -> None:
    await gateway.telegram.user_says(call("web_fetch", url=f"{web}/redirect?to=http://10.0.0.1/"), user=person)
    await gateway.telegram.wait_for_text(person, "It redirects to an address that may not be fetched")
