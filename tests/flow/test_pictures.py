"""Pictures and recordings that the agent makes: paid once, sent as files, refused honestly."""

from __future__ import annotations

import hashlib
import re
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from bot.texts.en import EN
from tests.flow.sandboxed import MISSING, call
from tests.simulators.media import client as media_client
from tests.simulators.media.client import EDIT, GENERATE, SPEECH
from tests.simulators.media.server import picture
from tests.simulators.sandbox.provider import USE
from tests.simulators.telegram.seen import ALICE
from tests.simulators.transcription import faults

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.flow.gateway import World
    from tests.simulators.media.client import MediaSimulator
    from tests.simulators.process import SimulatorProcess


@pytest.fixture
async def media(media_process: SimulatorProcess, world: World) -> AsyncIterator[MediaSimulator]:
    async with media_client.connect(media_process) as media:
        server = {"base_url": world.model.base_url, "api_key": "$MODEL_KEY"}
        world.settings = {
            "models": [{"name": "main", "model": "sim", "price": {"input": 2, "output": 8}, **server}],
            "channels": {"telegram": {"rate": {"per_chat_per_second": 20}}},
            "sandbox": {"use": USE},
            "images": media.images,
        }
        world.environment = {"MEDIA_KEY": media.api_key}
        yield media


def paints(prompt: str, **more: Any) -> str:
    return f"{call('make_image', prompt=prompt, **more)}\n!say Here it is."


def costs(world: World) -> list[int]:
    """Of the pictures that are in the store, in billionths."""
    with sqlite3.connect(world.data_dir / "antler.db") as database:
        found = database.execute("SELECT cost FROM usage WHERE model = 'images/sim-image'").fetchall()
    database.close()
    return [cost for (cost,) in found]


async def sent(world: World) -> list[str]:
    """SHA-256 of the pictures that came."""
    shown = [file for message in await world.telegram.bot_messages(ALICE) for file in message.files]
    return [file["sha256"] for file in shown]


async def told(world: World) -> str:
    """What the tool answered last."""
    return str((await world.model.completions())[-1].body["messages"][-1])


async def test_a_picture_is_made_paid_and_sent(world: World, media: MediaSimulator) -> None:
    async with world:
        await world.telegram.user_says(paints("a red deer", shape="portrait", name="deer"))
        await world.telegram.wait_for_message(ALICE, lambda message: bool(message.files))
        await world.telegram.wait_for_text(ALICE, "Here it is.")
        drawn = picture("a red deer", "1024x1536")
        assert await sent(world) == [hashlib.sha256(drawn).hexdigest()]
        (path,) = re.findall(r"/mnt/user-data/outputs/deer-\w+\.png", await told(world))
        (asked,) = await media.asked(GENERATE)
        assert asked.params == {"model": "sim-image", "prompt": "a red deer", "size": "1024x1536", "n": 1}
        await world.telegram.wait_idle(ALICE)
        assert costs(world) == [40_000_000]
        assert media.api_key not in world.log

        again = call("make_image", prompt="with a hat", references=[path])
        await world.telegram.user_says(f"{again}\n!say With a hat now.")
        await world.telegram.wait_for_text(ALICE, "With a hat now.")
        (edited,) = await media.asked(EDIT)
        assert edited.params["image"] == [len(drawn)]


async def test_what_is_refused_is_told_and_costs_nothing(world: World, media: MediaSimulator) -> None:
    async with world:
        await world.telegram.user_says(paints("something forbidden"))
        await world.telegram.wait_for_text(ALICE, "Here it is.")
        assert "content rules reject this request" in await told(world)

        await media.fail(GENERATE, faults.error(401, "invalid_api_key"))
        await world.telegram.user_says(paints("a blue deer"))
        await world.telegram.wait_idle(ALICE)
        assert "images.api_key" in await told(world)

        await media.fail(GENERATE, faults.error(429, retry_after="0"))
        before = len(await media.asked(GENERATE))
        await world.telegram.user_says(paints("a green deer"))
        await world.telegram.wait_for_message(ALICE, lambda message: bool(message.files))
        assert len(await media.asked(GENERATE)) == before + 2
        await world.telegram.wait_idle(ALICE)
        assert costs(world) == [40_000_000]
        assert media.api_key not in world.log


async def test_a_budget_that_is_used_up_pays_no_picture(world: World, media: MediaSimulator) -> None:
    world.settings["models"] = [{key: value for key, value in world.settings["models"][0].items() if key != "price"}]
    world.settings["budgets"] = {"run": {"money": 0.05}}
    async with world:
        two = f"{call('make_image', prompt='one')}\n{call('make_image', prompt='two')}\n"
        await world.telegram.user_says(f"{two}{call('make_image', prompt='three')}\n!say Done.")
        await world.telegram.wait_for_text(ALICE, EN.budget_of["run"])
        assert len(await media.asked(GENERATE)) == 2
        assert len(costs(world)) == 2


async def test_a_crash_while_it_is_painted_does_not_pay_twice(world: World, media: MediaSimulator) -> None:
    await world.start()
    await media.fail(GENERATE, faults.hold())
    await world.telegram.user_says(paints("a deer in the fog"))
    await media.wait_for_record(lambda asked: asked.method == GENERATE)
    await world.kill()
    await media.release()
    async with world:
        await world.telegram.wait_for_text(ALICE, "Here it is.")
        assert "may have been charged" in await told(world)
        assert len(await media.asked(GENERATE)) == 1


async def test_a_crash_after_it_was_painted_sends_it_once(world: World, media: MediaSimulator) -> None:
    await world.start()
    await world.telegram.user_says(f"{call('make_image', prompt='a deer at night')}\n!pause later\n!say Here it is.")
    await world.model.wait_for_pause("later")
    await world.kill()
    await world.model.release("later")
    async with world:
        await world.telegram.wait_for_message(ALICE, lambda message: bool(message.files))
        await world.telegram.wait_idle(ALICE)
        assert await sent(world) == [hashlib.sha256(picture("a deer at night")).hexdigest()]
        assert len(await media.asked(GENERATE)) == 1


@pytest.mark.skipif(bool(MISSING), reason=MISSING)
async def test_a_crash_between_two_parts_pays_each_part_once(world: World, media_process: SimulatorProcess) -> None:
    async with media_client.connect(media_process) as media:
        world.settings = {"speech": {**media.speech, "voices": ["nova", "onyx"]}, "sandbox": {"use": "bubblewrap"}}
        world.environment = {"MEDIA_KEY": media.api_key}
        record = call("speak", text="ANN: One.\nBEN: Two.\nANN: Three.", voices={"ANN": "nova", "BEN": "onyx"})
        await media.fail(SPEECH, faults.hold(), skip=1)
        await world.start()
        await world.telegram.user_says(f"{record}\n!say All said.")
        await media.wait_for_record(lambda asked: asked.params.get("input") == "Two.")
        await world.kill()
        await media.release()
        async with world:
            await world.telegram.wait_for_message(ALICE, lambda message: bool(message.files))
            said = [asked.params["input"] for asked in await media.asked(SPEECH)]
            assert said == ["One.", "Two.", "Two.", "Three."], "only what was in flight is asked for again"
