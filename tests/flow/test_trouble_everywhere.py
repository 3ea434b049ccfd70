"""What goes wrong with one account, on every platform: noticed, told truthfully, and no other account's business."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

import pytest

from bot.operations.health import DEAF_AFTER
from channels.feishu.socket import LONGEST_PING
from channels.slack.config import SlackConfig
from channels.telegram.config import TelegramConfig
from channels.telegram.poll import GRACE_SECONDS
from channels.wecom.connection import Timing
from tests.flow.gateway import merged
from tests.flow.platforms.base import Person, shows
from tests.flow.platforms.feishu import Feishu
from tests.flow.platforms.world import PLATFORMS, SECOND, Everywhere, everywhere, simulators
from tests.simulators.model.client import ModelSimulator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator
    from pathlib import Path

    from tests.flow.platforms.base import Seen
    from tests.simulators.process import SimulatorProcess

ADMIN = Person(1, "Ann")
NOTICED_SECONDS = 30.0
"""Half-open connections here: poll_timeout 2 s and the grace of the polls, pings every second on the others."""
HINTS = {
    "telegram": "set channels.telegram.token to the token that @BotFather shows",
    "slack": "Slack refuses channels.slack.",
    "feishu": "set channels.feishu.app_id and app_secret to what Credentials & Basic Info shows",
    "wecom": "copy Bot ID and Secret again",
    SECOND: "set channels.second.token",
}


@pytest.fixture(scope="module")
def processes(telegram_process: SimulatorProcess) -> Iterator[dict[str, SimulatorProcess]]:
    with simulators(telegram_process) as running:
        yield running


@pytest.fixture
async def world(
    processes: dict[str, SimulatorProcess], model_process: SimulatorProcess, tmp_path: Path
) -> AsyncIterator[Everywhere]:
    """Ann administers every account; the gateway is not started yet."""
    async with ModelSimulator(model_process.port) as model, everywhere(processes, model, tmp_path) as made:
        await model.reset()
        made.settings = {"access": {"admins": [platform.id(ADMIN) for platform in made.platforms.values()]}}
        yield made


async def everybody_is_answered(world: Everywhere, accounts: tuple[str, ...], text: str) -> None:
    """Ann writes to those accounts at once."""
    platforms = [world.platforms[account] for account in accounts]
    await asyncio.gather(*(platform.say(text, ADMIN) for platform in platforms))
    await asyncio.gather(*(shows(platform, ADMIN, f"You said: {text}") for platform in platforms))


async def status_tells(world: Everywhere, *expected: str) -> str:
    """`antler status`, asked until it tells all that."""
    output = ""
    async with asyncio.timeout(NOTICED_SECONDS):
        while not all(text in output for text in expected):
            _, output = await world.command("status")
    return output


async def test_who_sends_the_claim_code_of_an_account_is_its_administrator(world: Everywhere) -> None:
    world.settings = {}
    async with world:
        for account in world.platforms:
            await world.wait_for_log(f"{account}:  ")
        codes = dict(re.findall(r"(\w+):  ((?:[2-9A-Z]{4}-){2}[2-9A-Z]{4})\b", world.log))
        assert codes.keys() == world.platforms.keys()
        for account, other in zip(PLATFORMS, (*PLATFORMS[1:], PLATFORMS[0]), strict=True):
            platform = world.platforms[account]
            await platform.say("hello?", ADMIN)
            await shows(platform, ADMIN, "claim code")
            await platform.say(codes[other], ADMIN)
            await shows(platform, ADMIN, "This code is not valid")
        for account in PLATFORMS:
            await world.platforms[account].say(codes[account], ADMIN)
            await shows(world.platforms[account], ADMIN, "You are now my administrator")
        await everybody_is_answered(world, PLATFORMS, "what is new?")
        _, listed = await world.command("access", "list")
        for account in PLATFORMS:
            assert world.platforms[account].id(ADMIN) in listed


@pytest.mark.long
async def test_a_half_open_connection_is_noticed_and_rebuilt(world: Everywhere) -> None:
    """Pings come every second; what it takes with the real pace is below."""
    world.program = "tests.flow.platforms.quick"
    world.settings = merged(world.settings, {"channels": {"slack": {"ping_interval": 1}}})
    feishu = world.platforms["feishu"]
    assert isinstance(feishu, Feishu)
    await feishu.simulator.configure(client_config={"PingInterval": 1})
    async with world:
        for account in PLATFORMS:
            await world.platforms[account].silence(True)
        keeping = [account for account in PLATFORMS if world.platforms[account].keeps]
        for account in keeping:
            await world.platforms[account].say("can you hear me?", ADMIN)
        await everybody_is_answered(world, (SECOND,), "are you there?")
        for said in (
            "telegram: no answer to the long poll",
            "slack: no answer to pings",
            "feishu: no sign of life on the socket for",
            "wecom: WeCom has not answered 2 pings",
        ):
            await world.wait_for_log(said, NOTICED_SECONDS)
        await status_tells(world, "telegram: retrying", "no answer to the long poll", f"{SECOND}: connected")
        for account in PLATFORMS:
            await world.platforms[account].silence(False)
        await status_tells(world, *(f"{account}: connected" for account in world.platforms))
        for account in keeping:
            await shows(world.platforms[account], ADMIN, "You said: can you hear me?")
        await everybody_is_answered(world, PLATFORMS, "and now?")


def test_with_the_real_pace_it_is_noticed_before_it_is_called_deaf() -> None:
    """Seconds from the last sign of life on a connection until its death is noticed, at most."""
    wecom = Timing()
    seconds = {
        "telegram": _most(TelegramConfig, "poll_timeout") + GRACE_SECONDS,
        # The SDK pings after so much silence and waits half as long for the answer.
        "slack": 1.5 * _most(SlackConfig, "ping_interval"),
        "feishu": 3 * LONGEST_PING,
        "wecom": wecom.ping + wecom.missed * wecom.pong,
    }
    assert seconds.keys() == set(PLATFORMS)
    assert max(seconds.values()) < DEAF_AFTER <= 90


def _most(config: type[TelegramConfig | SlackConfig], setting: str) -> float:
    """The largest value that a setting takes."""
    (limit,) = [bound.le for bound in config.model_fields[setting].metadata if hasattr(bound, "le")]
    return float(limit)


async def told_somewhere(world: Everywhere, accounts: Iterable[str], text: str) -> Seen:
    """What Ann is told first, whichever of these accounts tells it; a card shows the signs of its Markdown too."""

    def tells(message: Seen) -> bool:
        return text in message.text.replace("`", "")

    looking = [asyncio.create_task(world.platforms[account].until(ADMIN, tells)) for account in accounts]
    done, others = await asyncio.wait(looking, return_when=asyncio.FIRST_COMPLETED)
    for other in others:
        other.cancel()
    return done.pop().result()


async def test_each_that_is_revoked_is_told_through_another_and_the_rest_goes_on(world: Everywhere) -> None:
    first, *others = PLATFORMS
    revoked = (SECOND, *reversed(others))
    async with world:
        await everybody_is_answered(world, tuple(world.platforms), "hello")
        for number, account in enumerate(revoked):
            await world.platforms[account].revoke()
            left = (first, *revoked[number + 1 :])
            told = await told_somewhere(world, left, f"The account {account} has stopped")
            assert HINTS[account] in told.text
            await everybody_is_answered(world, left, f"{account} is gone")
        await world.platforms[first].say("/status", ADMIN)
        status = await shows(world.platforms[first], ADMIN, "Other connections")
        for account in revoked:
            assert f"{account} stopped" in status.text
            assert HINTS[account] in status.text
            assert world.log.count(f"{account} is stopped") == 1
        for platform in world.platforms.values():
            assert not any(secret in world.log for secret in platform.variables.values())


@pytest.mark.long
async def test_each_that_was_revoked_goes_on_without_a_restart(world: Everywhere) -> None:
    async with world:
        await everybody_is_answered(world, tuple(world.platforms), "hello")
        for number, account in enumerate(PLATFORMS, start=1):
            await world.platforms[account].revoke()
            # Through which of them is a matter of who connected first.
            left = (SECOND, *PLATFORMS[number:])
            told = await told_somewhere(world, left, f"The account {account} has stopped")
            assert "retried every few minutes, or at once by antler reload" in told.text
        await status_tells(world, *(f"{account}: stopped" for account in PLATFORMS))
        for account in PLATFORMS:
            await world.platforms[account].restore()
        assert (await world.command("reload"))[0] == 0
        await status_tells(world, *(f"{account}: connected" for account in PLATFORMS))
        await everybody_is_answered(world, tuple(world.platforms), "and now?")
        for account in PLATFORMS:
            await told_somewhere(world, tuple(world.platforms), f"The account {account} is connected again")
        assert (await world.command("status", "--check")) == (0, "")


async def test_those_that_fail_at_the_start_are_told_and_hold_up_no_other(world: Everywhere) -> None:
    second = world.platforms[SECOND]
    async with world:
        await everybody_is_answered(world, (SECOND,), "hello")
    for account in PLATFORMS:
        await world.platforms[account].revoke()
    await world.begin()
    for account in PLATFORMS:
        told = await shows(second, ADMIN, f"The account {account} has stopped")
        assert HINTS[account] in told.text
    await everybody_is_answered(world, (SECOND,), "and you?")
    code, output = await world.command("status")
    assert (code, f"{SECOND}: connected" in output) == (1, True)
    for account in PLATFORMS:
        assert f"{account}: stopped" in output
    assert await world.stop() == 0


async def test_a_kill_in_mid_answer_loses_nothing_and_doubles_nothing_anywhere(world: Everywhere) -> None:
    platforms = list(world.platforms.values())
    async with world:
        await asyncio.gather(*(platform.say("!count 100\n!pause half", ADMIN) for platform in platforms))
        await asyncio.gather(*(shows(platform, ADMIN, "1 2 3 4 5") for platform in platforms))
        await world.kill()
        await world.start()
        await world.model.release("half")
        await asyncio.gather(*(shows(platform, ADMIN, "and the second half.") for platform in platforms))
        await everybody_is_answered(world, tuple(world.platforms), "hello everybody")
        for platform in platforms:
            texts = [message.text for message in await platform.seen(ADMIN)]
            assert sum("and the second half." in text for text in texts) == 1
            assert sum("hello everybody" in text for text in texts) == 1
