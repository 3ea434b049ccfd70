"""What people read when the model fails: one clear sentence each, and the conversation goes on."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from bot.texts.en import EN
from harness.events import FailureKind as Kind
from tests.flow.gateway import merged
from tests.simulators.model.scripts import Garbage, Say
from tests.simulators.telegram.seen import TEAM, Person

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.flow.gateway import World

pytestmark = pytest.mark.asyncio(loop_scope="module")

SIGN = "⚠️"
"""What every sentence about a failure begins with."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(public_world: World) -> AsyncIterator[World]:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: every connection is refused
        refused = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        server = {"base_url": public_world.model.base_url, "api_key": "$MODEL_KEY"}
        models = [
            {"name": "main", "model": "sim", **server},
            {"name": "hasty", "model": "sim", "timeout": 0.5, **server},
            {"name": "unknown", "model": "missing-model", **server},
            {"name": "badkey", "model": "sim", **server, "api_key": "bad-key-of-nobody"},
            {"name": "refused", "model": "sim", **server, "base_url": refused},
        ]
        llm = {"patience": 5, "max_retry_wait": 30}
        public_world.settings = merged(public_world.settings, {"models": models, "llm": llm})
        async with public_world:
            yield public_world


async def failure(gateway: World, person: Person, text: str, kind: Kind, model: str) -> str:
    """Say it, and return the one message that the chat then shows. The log must tell more, and the key never."""
    began = len(gateway.log)
    if model != "main":
        await gateway.telegram.user_says(f"/models {model}", user=person)
        await gateway.telegram.wait_for_text(person, "now uses")
    before = len(await gateway.telegram.bot_messages(person)) if model != "main" else 0
    await gateway.telegram.user_says(text, user=person)
    await gateway.telegram.wait_for_text(person, SIGN, timeout=25)
    await gateway.telegram.wait_idle(person)
    shown = (await gateway.telegram.bot_messages(person))[before:]
    assert len(shown) == 1, await gateway.telegram.transcript(person)
    assert shown[0].text.count(SIGN) == 1
    log = gateway.log[began:]
    assert f"failed ({kind}, {model} (" in log, "with the provider's name of it"
    assert gateway.model.api_key not in log
    assert "Traceback" not in log
    return shown[0].text


async def goes_on(gateway: World, person: Person) -> None:
    """The next message of the conversation is answered."""
    if "now uses" in await gateway.telegram.transcript(person):
        await gateway.telegram.user_says("/models main", user=person)
    await gateway.telegram.user_says("still there?", user=person)
    await gateway.telegram.wait_for_text(person, "You said: still there?")


@pytest.mark.parametrize(
    ("said", "model", "kind", "wait"),
    [
        ("hello", "badkey", Kind.AUTH, ""),
        ("hello", "unknown", Kind.NOT_FOUND, ""),
        ("hello", "refused", Kind.CONNECTION, ""),
        ("!hang", "hasty", Kind.TIMEOUT, ""),
        ("!status 500", "main", Kind.UNAVAILABLE, ""),
        ("!status 529", "main", Kind.OVERLOADED, ""),
        ("!status 429 retry-after=90", "main", Kind.RATE_LIMITED, " Try again in 2 min."),
        ("!status 429 code=insufficient_quota", "main", Kind.QUOTA, ""),
        ("!context 0", "main", Kind.CONTEXT_LENGTH, ""),
        ("!filter request", "main", Kind.CONTENT_FILTER, ""),
        ("!filter", "main", Kind.CONTENT_FILTER, ""),
        ("!empty", "main", Kind.EMPTY, ""),
        ("!garbage after=0", "main", Kind.BAD_RESPONSE, ""),
        ("!cut after=0", "main", Kind.CUT, ""),
        ("!reset", "main", Kind.CUT, ""),
        ("!reset after=0", "main", Kind.CONNECTION, ""),
        ("!error", "main", Kind.CUT, ""),
        ("!error after=0", "main", Kind.UNAVAILABLE, ""),
    ],
)
async def test_a_failure_is_one_clear_sentence(
    gateway: World, person: Person, said: str, model: str, kind: Kind, wait: str
) -> None:
    text = await failure(gateway, person, said, kind, model)
    assert EN.failures[kind].format(model=model, wait=wait).replace("`", "") in text
    await goes_on(gateway, person)


@pytest.mark.parametrize(
    "said",
    [
        "!status 500 times=2",
        "!status 503 times=1",
        "!status 429 retry-after=1 times=1",
        "!reset times=1",
        "!cut times=1",
        "!garbage times=1",
        "!error times=1",
    ],
)
async def test_what_helps_is_tried_again_and_leaves_no_trace_in_the_answer(
    gateway: World, person: Person, said: str
) -> None:
    await gateway.telegram.user_says(f"{said}\n!say The whole answer.", user=person)
    answer = await gateway.telegram.wait_for_text(person, "The whole answer.", timeout=15)
    await gateway.telegram.wait_idle(person)
    (only,) = await gateway.telegram.bot_messages(person)
    assert only.message_id == answer.message_id
    assert only.text in ("The whole answer.", "one two three four five The whole answer.")
    await goes_on(gateway, person)


async def test_a_refusal_of_the_model_is_its_answer(gateway: World, person: Person) -> None:
    await gateway.telegram.user_says("!refuse", user=person)
    await gateway.telegram.wait_for_text(person, "I can't help with that.")
    await goes_on(gateway, person)


async def test_an_answer_that_the_provider_cut_is_not_passed_off_as_whole(gateway: World, person: Person) -> None:
    await gateway.telegram.user_says("!tokens 5\n!finish length", user=person)
    cut = await gateway.telegram.wait_for_text(person, EN.cut_short)
    assert cut.text.startswith("one two three four five")
    await goes_on(gateway, person)


async def test_a_wait_that_the_provider_asks_for_is_kept(gateway: World, person: Person) -> None:
    await gateway.telegram.user_says("!status 429 retry-after=4 times=1", user=person)
    busy = EN.troubles[Kind.RATE_LIMITED]
    await gateway.telegram.wait_for_text(person, EN.retrying.format(trouble=busy, seconds=4))
    await gateway.telegram.wait_for_text(person, "You said")
    first, second = [
        record
        for record in await gateway.model.completions()
        if "429 retry-after=4" in record.last_user_text and f"{person.first_name}" in record.last_user_text
    ]
    assert second.started - first.started >= 4.0


async def test_a_context_that_is_too_long_is_summarised_and_asked_again(gateway: World, person: Person) -> None:
    for turn in range(4):
        await gateway.telegram.user_says(f"fact number {turn}", user=person)
        await gateway.telegram.wait_for_text(person, f"fact number {turn}")
    await gateway.telegram.user_says("!context 5", user=person)
    await gateway.telegram.wait_for_text(person, "You said: !context 5")
    request = (await gateway.model.completions())[-1]
    assert "Summary of a conversation" in str(request.body["messages"])
    await goes_on(gateway, person)


async def test_seventy_turns_stay_within_bounds(gateway: World) -> None:
    people = [Person(30_000 + number, f"Speaker{number}") for number in range(3)]  # one alone would be too fast
    for turn in range(70):
        await gateway.telegram.group_says(f"@antler_bot turn {turn}.", user=people[turn % 3])
        await gateway.telegram.wait_for_text(TEAM, f"turn {turn}.")
    requests = [record for record in await gateway.model.completions() if "Speaker" in str(record.body)]
    assert max(len(record.body["messages"]) for record in requests) <= 62
    assert any("Messages to summarize:" in record.last_user_text for record in requests)
    assert [record.error for record in requests if record.error] == []


async def test_a_stream_that_breaks_is_not_told_twice(gateway: World, person: Person) -> None:
    steps = (Say(text="The beginning. ", pieces=3), Garbage(times=1), Say(text="And the end.", pieces=3))
    await gateway.model.script("break in the middle", steps, match="contains")
    await gateway.telegram.user_says("break in the middle", user=person)
    answer = await gateway.telegram.wait_for_text(person, "And the end.")
    assert answer.text == "The beginning. And the end."
