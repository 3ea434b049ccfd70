"""The life of a message on Feishu: cards that grow, groups, threads, files, buttons, and what goes wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.flow.feishu_world import FeishuWorld, feishu_app
from tests.simulators.feishu import faults
from tests.simulators.feishu.client import MODULE
from tests.simulators.feishu.seen import ALICE, BOB, PNG, TEAM, FileSpec
from tests.simulators.model.client import ModelSimulator
from tests.simulators.process import SimulatorProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.flow.gateway import World

pytestmark = pytest.mark.timeout(120)

FIRST_HALF = "The first half of the answer"
WHOLE = "The first half of the answer, and the second half."


@pytest.fixture(scope="module")
def feishu_process() -> Iterator[SimulatorProcess]:
    with SimulatorProcess(MODULE) as process:
        yield process


@pytest.fixture
async def here(
    feishu_process: SimulatorProcess, model_process: SimulatorProcess, world: World, tmp_path: Path
) -> AsyncIterator[FeishuWorld]:
    """A configured gateway that is not started yet."""
    async with feishu_app(feishu_process) as app, ModelSimulator(model_process.port) as model:
        yield FeishuWorld(world.telegram, model, tmp_path, feishu=app)


async def test_an_answer_grows_in_one_card(here: FeishuWorld) -> None:
    async with here:
        await here.feishu.user_says("hello")  # by the first answer the agent is loaded
        await here.feishu.wait_for_text(ALICE, "You said: hello")
        await here.feishu.user_says("!pause half")
        draft = await here.feishu.wait_for_text(ALICE, FIRST_HALF)
        assert (draft.streaming, draft.generating) == (True, True)
        await here.model.release("half")
        answer = await here.feishu.wait_for_message(ALICE, lambda m: m.text == WHOLE and not m.generating)
        assert (answer.message_id, answer.card_id) == (draft.message_id, draft.card_id)
        assert (answer.streaming, answer.summary) == (False, WHOLE)
        await here.feishu.wait_idle(ALICE)
        assert [message.text for message in await here.feishu.bot_messages(ALICE)] == ["You said: hello", WHOLE]


async def test_in_a_group_only_who_names_the_bot_is_answered(here: FeishuWorld) -> None:
    async with here:
        await here.feishu.group_says("nobody is asked here", user=BOB)
        said = await here.feishu.group_says("@antler !say hello team")
        answer = await here.feishu.wait_for_text(TEAM, "hello team")
        assert (answer.parent_id, answer.thread_id) == (said.message_id, "")
        await here.feishu.wait_idle(TEAM)
        assert len(await here.feishu.bot_messages(TEAM)) == 1


async def test_a_file_is_fetched_and_a_post_keeps_its_links(here: FeishuWorld) -> None:
    async with here:
        await here.feishu.sends(FileSpec("report.txt", "text/plain", b"figures"))
        rows = [[{"tag": "text", "text": "see "}, {"tag": "a", "text": "the page", "href": "https://example.org/x"}]]
        await here.feishu.posts(rows, title="News")
        request = await here.model.wait_for_request(lambda record: "the page" in record.last_user_text)
        assert "[the page](https://example.org/x)" in request.last_user_text
        uploads = list(here.data_dir.glob("threads/*/user-data/uploads/*"))
        assert [path.read_bytes() for path in uploads] == [b"figures"]


async def test_a_model_that_sees_gets_pictures(here: FeishuWorld) -> None:
    models = here.config()["models"]
    here.settings["models"] = [{**model, "supports_vision": True} for model in models]
    async with here:
        await here.feishu.sends_image()
        alone = await here.model.wait_for_request(lambda record: len(record.images) == 1)
        assert "[image image.png is shown below" in alone.last_user_text
        picture = FileSpec("image.png", "image/png", PNG, kind="image")
        rows = [[{"tag": "text", "text": "and this?"}], [{"tag": "img", "image_key": "image.png"}]]
        await here.feishu.posts(rows, files=[picture])
        await here.model.wait_for_request(lambda record: "and this?" in record.last_user_text and bool(record.images))


NAMED = "Unauthorized. Required one of these privileges under the user identity: [im:message.history:readonly]"


@pytest.mark.parametrize(
    ("refusal", "scopes"),
    [
        (faults.error(230027, "Lack of necessary permissions."), "im:resource, im:message:readonly"),
        (faults.error(99991679, NAMED), "im:message.history:readonly"),
    ],
    ids=["230027", "99991679"],
)
async def test_a_file_that_may_not_be_read_is_not_called_gone(
    here: FeishuWorld, refusal: faults.Fault, scopes: str
) -> None:
    await here.feishu.fail("im.resource.get", refusal, times=2)
    async with here:
        for name in ("one.txt", "two.txt"):
            await here.feishu.sends(FileSpec(name, "text/plain", b"figures"))
            await here.feishu.wait_for_text(ALICE, f"{name} could not be downloaded: I have no right to read files")
        (told,) = [line for line in here.log.splitlines() if "no files are fetched" in line]
        assert f"({refusal.code}); add one of the scopes {scopes} to the app of account" in told


async def test_a_button_answers_with_a_toast(here: FeishuWorld) -> None:
    async with here:
        await here.feishu.user_says("/models")
        listed = await here.feishu.wait_for_message(ALICE, lambda message: "other" in message.labels)
        pressed = await here.feishu.press(listed.message_id, "other")
        seen = await here.feishu.wait_acked(pressed.event_id)
        assert seen.toast
        await here.feishu.wait_for_message(ALICE, lambda m: "☑ other" in m.text and not m.labels)


async def test_kill_in_mid_answer_goes_on_and_ends_in_a_card_that_is_noticed(here: FeishuWorld) -> None:
    async with here:
        await here.feishu.user_says("!pause half")
        draft = await here.feishu.wait_for_text(ALICE, FIRST_HALF)
        await here.kill()
        await here.feishu.user_says("and while you were away")
        await here.model.release("half")

        await here.start()
        await here.feishu.wait_for_text(ALICE, "while you were away")
        await here.feishu.wait_idle(ALICE)
        answer, _ = await here.feishu.bot_messages(ALICE)
        assert (answer.text, answer.generating) == (WHOLE, False)
        assert answer.message_id != draft.message_id


async def test_an_event_that_comes_again_after_a_restart_is_answered_once(here: FeishuWorld) -> None:
    async with here:
        said = await here.feishu.user_says("just once")
        await here.feishu.wait_for_text(ALICE, "just once")
        await here.stop()
        await here.start()
        assert await here.feishu.redeliver(said.event_id)
        await here.feishu.repeats(said.message_id)
        await here.feishu.wait_idle(ALICE)
        assert len(await here.feishu.bot_messages(ALICE)) == 1
        assert len(await here.model.completions()) == 1


async def test_two_apps_in_one_gateway(here: FeishuWorld) -> None:
    second = await here.feishu.another_app("second")
    here.settings = {
        "channels": {
            "work": {
                "type": "feishu",
                "app_id": second.app_id,
                "app_secret": second.app_secret,
                "domain": second.domain,
            }
        },
        "access": {"dm": "open", "i_accept_public": True},
    }
    async with here:
        await second.wait_connected(pings=1)
        await here.feishu.user_says("!pause half")
        await here.feishu.wait_for_text(ALICE, FIRST_HALF)
        await second.user_says("!say hello from the second")
        await second.wait_for_text(ALICE, "hello from the second")
        await here.model.release("half")
        await here.feishu.wait_for_text(ALICE, WHOLE)
        assert len(await second.bot_messages(ALICE)) == 1
    await second.wait_connected(0)


async def test_a_wrong_secret_stops_the_account_with_a_hint(here: FeishuWorld) -> None:
    here.environment = {"FEISHU_SECRET": "not-the-secret"}
    await here.begin()
    await here.wait_for_log("set channels.feishu.app_id and app_secret to what Credentials & Basic Info shows")
    await here.kill()
