"""`antler init` as a person meets it: from an empty folder to the first answer, in one sitting."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

from harness.models.probe import COUNT, NAME_THE_COLOUR, USE_THE_TOOL
from tests.flow.platforms.base import Person, shows
from tests.flow.platforms.world import PLATFORMS, Everywhere, everywhere, simulators
from tests.pseudo_terminal import VARIABLES, at_a_terminal
from tests.simulators.model.scripts import Call, Say, ToolUse
from tests.simulators.telegram.seen import ALICE

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from tests.flow.gateway import World
    from tests.pseudo_terminal import PseudoTerminal
    from tests.simulators.process import SimulatorProcess

UP, ENTER, ESCAPE, CTRL_C = b"\x1b[A", b"\r", b"\x1b", b"\x03"
ADA = Person(1)
CODE = re.compile(r"\?start=([2-9A-Z-]{14})")


async def able_model(world: World) -> None:
    """What the wizard asks a model, answered as a good one does."""
    await world.model.script(COUNT, [Say(text="one two three", delay_ms=100)])
    await world.model.script(USE_THE_TOOL, [Call(calls=(ToolUse(name="weather", arguments='{"city": "Paris"}'),))])
    await world.model.script(NAME_THE_COLOUR, [Say(text="It is red.")], match="contains")


def sitting_at(world: World, *arguments: str, **variables: str) -> AbstractAsyncContextManager[PseudoTerminal]:
    return at_a_terminal(
        [sys.executable, "-m", "bot", "init", *arguments],
        cwd=world.folder,
        env=world.variables | VARIABLES | {"LANG": "en_US.UTF-8", "LC_ALL": "", "TZ": "Europe/Berlin"} | variables,
        rows=100,
        columns=160,
    )


async def test_from_an_empty_folder_to_a_conversation(world: World) -> None:
    await able_model(world)
    async with sitting_at(world, "--set", f"channels.telegram.base_url={world.telegram.root}") as terminal:
        await terminal.see("Where shall people write")
        terminal.type(ENTER)
        await terminal.see("Bot token")
        terminal.type(b"123456:" + b"x" * 35 + ENTER)
        await terminal.see("What now?")
        assert "(401)" in terminal.shown
        terminal.type(ENTER)  # type it again
        await terminal.see("Bot token", 2)
        terminal.type(world.telegram.token.encode() + ENTER)
        await terminal.see("Telegram: @antler_bot")
        await terminal.see("Which model answers?")
        terminal.type(UP + UP + ENTER)
        await terminal.see("URL of the server")
        terminal.type(world.model.base_url.encode() + ENTER)
        await terminal.see("API key")
        terminal.type(world.model.api_key.encode() + ENTER)
        await terminal.see("Name of the model")
        terminal.type(ENTER)
        await terminal.see("it sees pictures")
        await terminal.see("Where shall the agent's commands run?")
        terminal.type(ENTER)
        await terminal.see("Time zone")
        terminal.type(ESCAPE)
        await terminal.see("Where shall the agent's commands run?", 2)
        terminal.type(ENTER)
        await terminal.see("Time zone", 2)
        terminal.type(ENTER)
        await terminal.see("search the web?")
        terminal.type(ENTER)
        await terminal.see("read public web pages?")
        terminal.type(ENTER)
        await terminal.see("Write it?")
        assert not world.config_file.exists()
        terminal.type(ENTER)
        await terminal.see("What next?")
        assert "timezone: Europe/Berlin" in world.config_file.read_text()
        for secret in (world.telegram.token, world.model.api_key):
            assert secret not in terminal.shown
            assert secret not in world.config_file.read_text()
            assert secret in (world.folder / ".env").read_text()
        assert (world.folder / ".env").stat().st_mode & 0o777 == 0o600
        terminal.type(ENTER)
        await terminal.see("?start=")
        code = CODE.search(terminal.shown)
        assert code is not None
        assert "█▀" in terminal.shown  # the link again, for a phone
        await world.telegram.user_says(f"/start {code[1]}")
        await world.telegram.wait_for_text(ALICE, "You are now my administrator")
        await world.telegram.user_says("does it work?")
        await world.telegram.wait_for_text(ALICE, "You said: does it work?")
        terminal.type(CTRL_C)
        assert await terminal.ends() == 0


@dataclass
class AsWritten(Everywhere):
    """A gateway whose config is there already."""

    def write_config(self) -> None:
        assert self.config_file.exists()


async def test_a_script_sets_up_every_platform_and_each_is_claimed_and_answers(
    telegram_process: SimulatorProcess, world: World, tmp_path: Path
) -> None:
    await able_model(world)
    with simulators(telegram_process) as processes:
        async with everywhere(processes, world.model, tmp_path) as all_of_them:
            platforms = {account: all_of_them.platforms[account] for account in PLATFORMS}
            here = AsWritten(all_of_them.telegram, world.model, tmp_path, platforms=platforms)
            code, output = await here.command("init", "--yes", *flags_for(here), "--base-url", world.model.base_url)
            assert code == 0, output
            assert output.count("✓") == len(PLATFORMS) + 4  # and what the model can do
            async with here:
                for platform in platforms.values():
                    await here.wait_for_log(f"    {platform.account}:  ")
                    claim = re.search(rf"    {platform.account}:  ([2-9A-Z-]{{14}})", here.log)
                    assert claim is not None
                    await platform.say(f"my code is {claim[1]}", ADA)
                    await shows(platform, ADA, "You are now my administrator")
                    await platform.say("does it work?", ADA)
                    await shows(platform, ADA, "You said: does it work?")
                assert "open https://slack.com/app_redirect?app=" in here.log


def flags_for(world: Everywhere) -> list[str]:
    """What a script says for these accounts; the secrets are in the environment."""
    flags = ["--model", "sim", "--secret-env", "model.api_key=MODEL_KEY"]
    for account, platform in world.platforms.items():
        flags += ["--platform", account]
        for key, value in platform.settings.items():
            if str(value).startswith("$"):
                flags += ["--secret-env", f"{account}.{key}={value[1:]}"]
            elif key != "type":
                flags += ["--set", f"channels.{account}.{key}={json.dumps(value)}"]
    return flags


async def test_beside_a_running_gateway_it_does_not_start_another(world: World) -> None:
    async with world, sitting_at(world) as terminal:
        await terminal.see("There is a config already")
        terminal.type(ENTER)
        await terminal.see("Where shall people write")
        terminal.type(b" " + UP + b" " + ENTER)  # the terminal instead of Telegram
        await terminal.see("Which model answers?")
        terminal.type(UP + ENTER)
        for question in ("commands run?", "Time zone", "search the web?", "read public web pages?", "Write it?"):
            await terminal.see(question)
            terminal.type(ENTER)
        await terminal.see("Antler is running")
        assert await terminal.ends() == 0
        assert set(yaml.safe_load(world.config_file.read_text())["channels"]) == {"telegram", "console"}


async def test_ctrl_c_leaves_nothing_behind(world: World) -> None:
    before = sorted(world.folder.iterdir())
    async with sitting_at(world, "--language", "zh") as terminal:
        await terminal.see("大家在哪里和 Antler 对话")
        terminal.type(ENTER)
        await terminal.see("机器人 token")
        terminal.type(b"half a tok" + CTRL_C)
        assert await terminal.ends() == 130
        assert "没有写入任何内容" in terminal.shown
        assert terminal.is_sane()
    assert sorted(world.folder.iterdir()) == before
