"""/research on every platform: the plan with its buttons, a change, the report with its files and what is made of it
by its buttons; and on PostgreSQL."""

from __future__ import annotations

import asyncio
import itertools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from bot.texts.en import EN
from tests.flow.platforms.base import SECONDS, Person, shows
from tests.flow.platforms.world import PLATFORMS, Everywhere, everywhere, simulators
from tests.flow.researching import Play, asked_for, reads, step, web_settings
from tests.flow.sandboxed import require_bubblewrap
from tests.simulators.media import client as media_client
from tests.simulators.model.client import ModelSimulator
from tests.simulators.model.scripts import Call, Pause, Say, ToolUse
from tests.simulators.process import SimulatorProcess
from tests.simulators.telegram.seen import ALICE
from tests.simulators.web import pages

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.flow.gateway import World
    from tests.flow.platforms.base import Platform, Seen
    from tests.simulators.postgres import PostgresServer

require_bubblewrap()
shared = pytest.mark.asyncio(loop_scope="module")

KNOWN = range(100, 120)
WORDS = EN.research
START, CHANGE, STOP = WORDS["start"], WORDS["change"], WORDS["stop"]
PODCAST, SLIDES, DEEPER = EN.offers["podcast-script"], EN.offers["ppt-generation"], EN.offers["deeper"]

_people = itertools.count(KNOWN.start)


@dataclass
class Here:
    gateway: Everywhere
    platform: Platform
    person: Person
    web: str

    async def files(self, count: int) -> list[tuple[str, str]]:
        """The files that came, as soon as there are so many."""
        async with asyncio.timeout(SECONDS):
            while len(found := await self.platform.files(self.person)) < count:
                pass
        return found

    async def plan(self, text: str) -> Seen:
        """The newest plan with this text, or on some platforms the card of its buttons behind it."""
        await shows(self.platform, self.person, text)
        return await self.platform.until(self.person, lambda seen: seen.labels == (START, CHANGE, STOP))


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    with SimulatorProcess("tests.simulators.web") as process:
        yield f"http://127.0.0.1:{process.port}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(
    telegram_process: SimulatorProcess,
    model_process: SimulatorProcess,
    media_process: SimulatorProcess,
    tmp_path_factory: pytest.TempPathFactory,
    web: str,
) -> AsyncIterator[Everywhere]:
    with simulators(telegram_process) as processes:
        async with (
            ModelSimulator(model_process.port) as model,
            media_client.connect(media_process) as media,
            everywhere(processes, model, tmp_path_factory.mktemp("gateway")) as world,
        ):
            accounts = [world.platforms[account] for account in PLATFORMS]
            allow = [platform.id(Person(number)) for platform in accounts for number in KNOWN]
            world.settings = {
                "access": {"dm": "allowlist", "allow": allow},
                **web_settings(web),
                "speech": media.speech,
            }
            world.environment = {"MEDIA_KEY": media.api_key}
            async with world:
                yield world


@pytest_asyncio.fixture(loop_scope="module", params=PLATFORMS)
async def here(gateway: Everywhere, request: pytest.FixtureRequest, web: str) -> Here:
    await gateway.model.reset()
    return Here(gateway, gateway.platforms[request.param], Person(next(_people)), web)


def play_of(name: str, web: str) -> Play:
    return Play(
        f"What colour is it, {name}?",
        [[step("The old way")], [step("Its colour"), step("What follows", "analysis", 1)]],
        {
            "Its colour": reads(f"{web}/article", f"Green ({web}/article)."),
            "What follows": [Say(text="It was green.")],
        },
        f'# The colour, {name}\n\n## Key points\n\n- It is green: "{pages.FACT}" [1]\n- So it is no longer white.',
    )


# This one first: it looks whether the model has connections left, which the shared gateway keeps.


@pytest.mark.postgres
async def test_on_postgresql_a_kill_in_a_step_loses_nothing(world: World, postgres: PostgresServer, web: str) -> None:
    url = postgres.database().replace("+psycopg", "")
    world.settings |= {"database": {"url": url}, **web_settings(web)}
    play = play_of("on PostgreSQL", web)
    play.plans = play.plans[1:]
    play.steps["What follows"] = [Say(text="It "), Pause(name="analysis"), Say(text="was green.")]
    async with world:
        await play.begin(world.model)
        await world.telegram.user_says(f"/research --auto {play.question}")
        await world.model.wait_for_pause("analysis")
        await world.kill()
        await world.model.release("analysis")
        await world.start()
        await world.telegram.wait_for_message(ALICE, lambda seen: bool(seen.files))
        await world.telegram.wait_idle(ALICE)
        assert len([seen for seen in await world.telegram.bot_messages(ALICE) if seen.files]) == 1
        begun = await asked_for(world.model, "<step>\nIts colour")
        assert len([each for each in begun if each.body["messages"][-1]["role"] == "user"]) == 1
        await world.telegram.user_says("/research list")
        listed = await world.telegram.wait_for_text(ALICE, WORDS["list_head"].strip("*"))
        assert f"About {play.question}" in listed.text


@shared
async def test_a_plan_is_changed_started_and_becomes_a_report(here: Here) -> None:
    play = play_of(here.platform.account, here.web)
    await play.begin(here.gateway.model)
    await here.platform.say(f"/research {play.question}", here.person)
    first = await here.plan("The old way")
    await here.platform.press(first, CHANGE, here.person)
    await shows(here.platform, here.person, WORDS["ask_change"])
    await here.gateway.model.reset()
    await play.plan(here.gateway.model, 1, change="Rather its colour")
    await play.begin(here.gateway.model)
    await here.platform.say("Rather its colour", here.person)
    await shows(here.platform, here.person, "No longer planned: The old way")
    second = await here.platform.until(
        here.person, lambda seen: seen.labels == (START, CHANGE, STOP) and seen.id != first.id
    )
    assert not await asked_for(here.gateway.model, "<step>"), "nothing is spent before the person says so"
    await here.platform.press(second, START, here.person)
    summary = await shows(here.platform, here.person, "The whole report:")
    assert pages.FACT in summary.text
    assert WORDS["summary_clean"] in summary.text
    ((name, _),) = await here.files(1)
    assert name.endswith(".md")


@shared
async def test_a_report_becomes_a_podcast_a_presentation_and_a_deeper_research_by_its_buttons(here: Here) -> None:
    name, model = here.platform.account, here.gateway.model
    play = play_of(f"on {name} aloud", here.web)
    play.plans = play.plans[1:]
    await play.begin(model)
    await here.platform.say(f"/research --auto {play.question}", here.person)
    await shows(here.platform, here.person, "The whole report:")
    offers = await here.platform.until(here.person, lambda seen: seen.labels == (PODCAST, SLIDES, DEEPER))
    assert len(await here.files(1)) == 1

    words = {"text": f"ANN: On {name} it is green.\nBEN: Really?", "voices": {"ANN": "alloy", "BEN": "nova"}}
    spoken = Call(calls=(ToolUse(name="speak", arguments=json.dumps({**words, "name": "episode"})),))
    await model.script("Make a podcast of the report", [spoken, Say(text=f"The episode of {name}.")], "contains")
    await here.platform.press(offers, PODCAST, here.person)
    await shows(here.platform, here.person, f"The episode of {name}.")
    assert "episode.mp3" in [each for each, _ in await here.files(2)]
    asked = (await asked_for(model, "Make a podcast of the report"))[0].last_user_text
    assert "<antler-skill>\nskill: podcast-script\n" in asked
    (report,) = [each for each, _ in await here.files(2) if each.endswith(".md")]
    assert f"/mnt/user-data/outputs/{report}" in asked

    await model.script("Make a presentation of the report", [Say(text=f"The slides of {name}.")], "contains")
    await here.platform.press(offers, SLIDES, here.person)
    await shows(here.platform, here.person, f"The slides of {name}.")
    assert "skill: ppt-generation" in (await asked_for(model, "Make a presentation"))[0].last_user_text

    further = Play("Go deeper than the report", [[step(f"Further on {name}")]])
    await further.begin(model)
    await further.plan(model, 0)
    await here.platform.press(offers, DEEPER, here.person)
    await here.plan(f"Further on {name}")
