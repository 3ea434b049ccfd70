"""An account that cannot go on by itself: the others go on, and who administers one of them is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulators.telegram import faults
from tests.simulators.telegram.seen import ALICE

if TYPE_CHECKING:
    from tests.flow.gateway import World
    from tests.simulators.telegram.client import TelegramSimulator


async def with_two_accounts(world: World) -> TelegramSimulator:
    """Alice administers both."""
    second = await world.telegram.fresh_bot()
    world.environment["SECOND"] = second.token
    world.settings = {
        "channels": {"second": {"type": "telegram", "token": "$SECOND", "base_url": world.telegram.root}},
        "access": {"admins": [f"telegram:{ALICE.id}", f"second:{ALICE.id}"]},
    }
    return second


async def test_a_revoked_token_is_told_through_the_other_account(world: World) -> None:
    second = await with_two_accounts(world)
    async with world:
        await second.wait_polled()
        await second.user_says("hello")
        await second.wait_for_text(ALICE, "You said: hello")
        await world.telegram.fail("getUpdates", faults.unauthorized(), times=1_000)
        await world.telegram.user_says("wakes the poll")
        told = await second.wait_for_text(ALICE, "The account telegram has stopped")
        assert "set channels.telegram.token" in told.text
        await second.user_says("are you there?")
        await second.wait_for_text(ALICE, "You said: are you there?")


async def test_one_that_fails_at_the_start_is_told_and_stays_in_the_status(world: World) -> None:
    second = await with_two_accounts(world)
    async with world:
        await world.telegram.user_says("hello")
        await world.telegram.wait_for_text(ALICE, "You said: hello")
    await second.fail("getMe", faults.unauthorized(), times=1_000)
    async with world:
        told = await world.telegram.wait_for_text(ALICE, "The account second has stopped")
        assert "set channels.second.token" in told.text
        await world.telegram.user_says("/status")
        status = await world.telegram.wait_for_text(ALICE, "second stopped (")
        assert "set channels.second.token" in status.text
        code, output = await world.command("status")
        assert (code, "second: stopped" in output, "telegram: connected" in output) == (1, True, True)
