"""Accounts come, go and change by a reload, while answers grow in them and in others; nothing is lost or told twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.flow.gateway import merged
from tests.flow.slack_world import SlackWorld, slack_app
from tests.simulators.process import SimulatorProcess
from tests.simulators.slack import client as slack_client
from tests.simulators.slack.seen import ALICE as SLACK_ALICE
from tests.simulators.telegram.seen import ALICE, BOB

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.flow.gateway import World
    from tests.simulators.telegram.client import TelegramSimulator

WHOLE = "The first half of the answer, and the second half."
"""What the model says to `!pause NAME`, once that is released."""


@pytest.fixture(scope="module")
def slack_process() -> Iterator[SimulatorProcess]:
    with SimulatorProcess(slack_client.MODULE) as process:
        yield process


@pytest.fixture
async def second(world: World) -> TelegramSimulator:
    """Another bot of the same Telegram."""
    bot = world.telegram
    return await bot.add_bot(f"{bot.bot_id}9:SECOND-bot-token-{'0' * 25}", username="second_bot")


@pytest.fixture
async def gateway(
    world: World, slack_process: SimulatorProcess, second: TelegramSimulator
) -> AsyncIterator[SlackWorld]:
    """A Telegram bot and a Slack app; the second bot is not in the config yet."""
    async with slack_app(slack_process) as app:
        settings = {"channels": {"telegram": account(world.telegram, "$BOT_TOKEN")}}
        made = SlackWorld(world.telegram, world.model, world.folder, settings, slack=app)
        made.environment = {"SECOND_TOKEN": second.token}
        yield made


def account(telegram: TelegramSimulator, token: str) -> dict[str, Any]:
    """As the config has a bot with which Alice and Bob may talk."""
    allowed = [str(ALICE.id), str(BOB.id)]
    return {"type": "telegram", "token": token, "base_url": telegram.root, "access": {"allow": allowed}}


async def reloaded(gateway: World, **channels: dict[str, Any] | None) -> str:
    """Write changed accounts and have them read; the reload succeeds."""
    code, told = await tried(gateway, **channels)
    assert code == 0, told
    return told


async def tried(gateway: World, **channels: dict[str, Any] | None) -> tuple[int, str]:
    for account, keys in channels.items():
        if keys is None:
            gateway.settings["channels"].pop(account)
        else:
            gateway.settings = merged(gateway.settings, {"channels": {account: keys}})
    gateway.write_config()
    return await gateway.command("reload")


async def answers(telegram: TelegramSimulator, question: str, answer: str) -> None:
    await telegram.user_says(question, user=ALICE)
    await telegram.wait_for_text(ALICE, answer)


async def texts(telegram: TelegramSimulator) -> list[str]:
    return [message.text for message in await telegram.bot_messages(ALICE)]


async def test_an_account_comes_and_changes_while_an_answer_grows_in_another(
    gateway: SlackWorld, second: TelegramSimulator
) -> None:
    async with gateway:
        slack, telegram = gateway.slack, gateway.telegram
        await slack.user_says("!pause slack", user=SLACK_ALICE)
        await slack.wait_for_text(SLACK_ALICE, "The first half")
        greeted = len(await slack.records("auth.test"))
        told = await reloaded(gateway, second=account(telegram, "$SECOND_TOKEN"))
        assert "now in force: channels.second" in told
        await answers(second, "you too?", "You said: you too?")
        assert "channels.telegram" in await reloaded(gateway, telegram={"notify_after": 3})
        await answers(telegram, "still there?", "You said: still there?")
        await gateway.model.release("slack")
        await slack.wait_for_text(SLACK_ALICE, WHOLE)
        assert [message.shown for message in await slack.bot_messages(SLACK_ALICE)] == [WHOLE]
        # Nobody else was connected anew.
        assert len(await slack.records("auth.test")) == greeted
        assert len(await second.records("getMe")) == 1


async def test_a_growing_answer_goes_on_in_a_changed_account(gateway: SlackWorld) -> None:
    gateway.settings = merged(gateway.settings, {"channels": {"slack": {"streaming": "stream"}}})
    async with gateway:
        slack, telegram = gateway.slack, gateway.telegram
        await telegram.user_says("!pause telegram", user=ALICE)
        await slack.user_says("!long 900\n!pause slack", user=SLACK_ALICE)
        await telegram.wait_for_text(ALICE, "The first half")
        await slack.wait_for_text(SLACK_ALICE, "## Section 1")
        before = await telegram.bot_messages(ALICE)
        await reloaded(gateway, telegram={"notify_after": 120}, slack={"notify_after": 120})
        await telegram.user_says("and you?", user=BOB)
        await telegram.wait_for_text(BOB, "You said: and you?")
        await gateway.model.release("telegram")
        await gateway.model.release("slack")
        await telegram.wait_for_text(ALICE, WHOLE)
        (answer,) = await telegram.bot_messages(ALICE)
        assert [answer.message_id] == [message.message_id for message in before]
        await slack.wait_for_message(SLACK_ALICE, lambda message: message.shown.endswith("and the second half."))
        await slack.wait_idle(SLACK_ALICE, timeout=30)
        assert len(await slack.bot_messages(SLACK_ALICE)) == 1


async def test_what_an_account_was_to_say_when_it_went_is_said_when_it_is_back(gateway: SlackWorld) -> None:
    async with gateway:
        telegram = gateway.telegram
        kept = gateway.settings["channels"]["telegram"]
        await telegram.user_says("!pause held", user=ALICE)
        await telegram.wait_for_text(ALICE, "The first half")
        assert "channels.telegram" in await reloaded(gateway, telegram=None)
        code, told = await gateway.command("status")
        assert (code, "telegram" in told) == (0, False), told
        await gateway.model.release("held")
        await gateway.slack.user_says("and here?", user=SLACK_ALICE)
        await gateway.slack.wait_for_text(SLACK_ALICE, "You said: and here?")
        await telegram.user_says("are you there?", user=ALICE)
        assert not [text for text in await texts(telegram) if "second half" in text]
        # A restart in between changes nothing.
        assert await gateway.end() == 0
        await gateway.begin()
        await gateway.wait_for_log("slack is connected as")
        await reloaded(gateway, telegram=kept)
        await telegram.wait_for_text(ALICE, WHOLE)
        await telegram.wait_for_text(ALICE, "You said: are you there?")
        assert [text for text in await texts(telegram) if "second half" in text] == [WHOLE]


async def test_settings_that_the_platform_does_not_take_leave_the_account_as_it_was(gateway: SlackWorld) -> None:
    async with gateway:
        telegram = gateway.telegram
        await telegram.user_says("!pause held", user=ALICE)
        await telegram.wait_for_text(ALICE, "The first half")
        code, told = await tried(gateway, telegram={"token": "7:never-heard-of-this-token-00000000000"})
        assert code == 1, told
        assert "channels.telegram was not changed and continues as before: " in told
        assert "7:never" not in told + gateway.log
        code, told = await gateway.command("status")
        assert (code, "continues as before" in told) == (0, True), told
        await gateway.model.release("held")
        await telegram.wait_for_text(ALICE, WHOLE)
        await answers(telegram, "and now?", "You said: and now?")
        # Another bot under the same name would show one person's data to another.
        code, told = await tried(gateway, telegram={"token": "$SECOND_TOKEN"})
        assert (code, "antler account rename" in told) == (1, True), told
        await reloaded(gateway, telegram={"token": "$BOT_TOKEN"})
        await answers(telegram, "at last?", "You said: at last?")
