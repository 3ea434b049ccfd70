"""kill -9 between a file's upload and the message that shows it: after the restart it is there once, everywhere."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

from tests.flow.platforms.base import SECONDS, Person, shows
from tests.flow.platforms.feishu import Feishu
from tests.flow.platforms.slack import Slack
from tests.flow.platforms.telegram import Telegram
from tests.flow.platforms.wecom import Wecom
from tests.flow.platforms.world import PLATFORMS, everywhere, simulators
from tests.flow.sandboxed import bash, call, require_bubblewrap
from tests.simulators.feishu import faults as feishu
from tests.simulators.model.client import ModelSimulator
from tests.simulators.slack import faults as slack
from tests.simulators.telegram import faults as telegram
from tests.simulators.wecom import faults as wecom

if TYPE_CHECKING:
    from pathlib import Path

    from tests.flow.platforms.base import Platform
    from tests.simulators.process import SimulatorProcess

require_bubblewrap()

ADA = Person(130)
CONTENT = "echo figures > /mnt/user-data/outputs/report.dat"
PRESENT = call("present_files", paths=["/mnt/user-data/outputs/report.dat"])
REPORT = [("report.dat", hashlib.sha256(b"figures\n").hexdigest())]


async def lose_the_last_step(platform: Platform) -> None:
    """The call that shows the next file is not carried out and not answered either; the upload before it is."""
    match platform:
        case Telegram():  # which has one call for both
            await platform.simulator.fail("sendDocument", telegram.Fault("lost", "reset", hold_before=True))
        case Slack():
            await platform.simulator.fail(
                "files.completeUploadExternal", slack.Fault("lost", "reset", hold_before=True)
            )
        case Feishu():
            # The first message is the answer itself.
            await platform.simulator.fail("im.message.create", feishu.Fault("lost", "reset", hold_before=True), skip=1)
        case Wecom():
            await platform.simulator.fail("aibot_send_msg", wecom.missing_ack(apply=False))


async def until_lost(platform: Platform) -> None:
    """Until that call has come."""
    match platform:
        case Telegram():
            await platform.simulator.wait_for_record(lambda call: call.method == "sendDocument", SECONDS)
        case Slack():
            await platform.simulator.wait_for_record(
                lambda call: call.method == "files.completeUploadExternal", SECONDS
            )
        case Feishu():
            await platform.simulator.wait_for_record(
                lambda call: call.method == "im.message.create" and not call.applied,
                SECONDS,
            )
        case Wecom():
            await platform.simulator.wait_for_record(lambda frame: frame.title == "aibot_send_msg", SECONDS)


async def let_go(platform: Platform) -> None:
    """The call that was lost is over for the platform, too."""
    if isinstance(platform, Telegram | Slack | Feishu):
        await platform.simulator.release()


async def received(platform: Platform) -> list[tuple[str, str]]:
    """The files that came, as soon as there are any and nothing follows them."""
    async with asyncio.timeout(SECONDS):
        while not await platform.files(ADA):
            pass
    await platform.quiet(ADA)
    return await platform.files(ADA)


async def test_uploaded_and_not_shown_it_is_shown_once_after_the_restart(
    telegram_process: SimulatorProcess, model_process: SimulatorProcess, tmp_path: Path
) -> None:
    with simulators(telegram_process) as processes:
        async with ModelSimulator(model_process.port) as model, everywhere(processes, model, tmp_path) as world:
            await model.reset()
            platforms = [world.platforms[account] for account in PLATFORMS]
            world.settings = {"access": {"allow": [platform.id(ADA) for platform in platforms]}}
            await world.start()
            for platform in platforms:
                await lose_the_last_step(platform)
                await platform.say("\n".join([bash(CONTENT), PRESENT, "!say the report"]), ADA)
            await asyncio.gather(*map(until_lost, platforms))
            assert not any([await platform.files(ADA) for platform in platforms])
            await world.kill()
            await asyncio.gather(*map(let_go, platforms))
            async with world:
                for platform in platforms:
                    await shows(platform, ADA, "the report")
                    assert await received(platform) == REPORT, platform.account
