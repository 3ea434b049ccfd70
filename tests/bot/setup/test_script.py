"""`antler init --yes`: flags and the environment instead of a person."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from bot.settings import ConfigError
from bot.setup.files import ConfigFiles, Draft
from bot.setup.script import WrongFlags, read_flags
from harness.models.probe import COUNT, NAME_THE_COLOUR, USE_THE_TOOL
from tests.simulators.model.scripts import Call, Say, Status, ToolUse
from tests.simulators.process import child_environment

if TYPE_CHECKING:
    from pathlib import Path

    from tests.simulators.model.client import ModelSimulator
    from tests.simulators.telegram.client import TelegramSimulator


async def antler(folder: Path, *arguments: str, **variables: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bot", "init", *arguments),
        cwd=folder,
        env=child_environment() | {"TZ": "UTC", "LANG": "en_US.UTF-8"} | variables,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


async def test_flags_and_the_environment_make_a_config(
    telegram: TelegramSimulator, simulator: ModelSimulator, tmp_path: Path
) -> None:
    await simulator.script(COUNT, [Say(text="one two three", delay_ms=100)])
    await simulator.script(USE_THE_TOOL, [Call(calls=(ToolUse(name="weather", arguments="{}"),))])
    await simulator.script(NAME_THE_COLOUR, [Say(text="Blue.")], match="contains")
    code, output = await antler(
        tmp_path,
        *("--yes", "--platform", "telegram", "--secret-env", "telegram.token=MY_TOKEN"),
        *("--set", f"channels.telegram.base_url={telegram.root}", "--set", "access.admins=['telegram:1']"),
        *("--base-url", simulator.base_url, "--model", "sim", "--secret-env", "model.api_key=MY_KEY"),
        MY_TOKEN=telegram.token,
        MY_KEY=simulator.api_key,
    )
    assert code == 0, output
    assert "does not see pictures" in output
    assert yaml.safe_load((tmp_path / "config.yaml").read_text()) == {
        "access": {"admins": ["telegram:1"]},
        "channels": {"telegram": {"base_url": telegram.root, "token": "$TELEGRAM_BOT_TOKEN"}},
        "models": [{"name": "main", "model": "sim", "base_url": simulator.base_url, "api_key": "$MODEL_API_KEY"}],
    }
    assert (tmp_path / ".env").stat().st_mode & 0o777 == 0o600
    assert telegram.token not in output
    assert simulator.api_key not in output


def test_files_that_are_extended_keep_their_owner_and_the_config_its_readers(tmp_path: Path) -> None:
    written = [tmp_path / "config.yaml", tmp_path / ".env"]
    owner = 10001 if os.geteuid() == 0 else os.geteuid()
    for file, text in zip(written, ("channels: {console: {}}\n", "A=1\n"), strict=True):
        file.write_text(text)
        file.chmod(0o644)
        os.chown(file, owner, -1)
    ConfigFiles(written[0], {}).write(Draft({"locale": "zh"}, {"B": "2"}))
    assert "locale: zh" in written[0].read_text()
    found = [(file.stat().st_mode & 0o777, file.stat().st_uid) for file in written]
    assert found == [(0o644, owner), (0o600, owner)]


async def test_an_account_has_its_own_settings_of_flags_and_of_the_config(
    telegram: TelegramSimulator, tmp_path: Path
) -> None:
    token = {"TELEGRAM_BOT_TOKEN": telegram.token, "ROOT": telegram.root}
    flags = ("channels.telegram.base_url=$ROOT", "channels.telegram.proxy=direct", "channels.telegram.locale=zh")
    settings = [word for flag in flags for word in ("--set", flag)]
    code, output = await antler(tmp_path, "--yes", *settings, **token)
    assert code == 0, output
    code, output = await antler(tmp_path, "--yes", "--set", "network.proxy=http://127.0.0.1:9", **token)
    assert code == 0, output
    assert output.startswith("✓ Telegram: @antler_bot")
    config = yaml.safe_load((tmp_path / "config.yaml").read_text())
    assert config["channels"]["telegram"] == {
        **{"base_url": "$ROOT", "proxy": "direct", "locale": "zh"},
        "token": "$TELEGRAM_BOT_TOKEN",
    }
    code, output = await antler(tmp_path, "--yes", "--set", "network.proxy=nowhere", **token)
    assert code == 78
    assert "config.yaml: network.proxy: should be http://host:port" in output


async def test_a_file_or_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / ".config.yaml.new").mkdir()  # in the way of what is renamed at the end
    code, output = await antler(tmp_path, "--yes", "--platform", "console")
    assert (code, output.splitlines()[-1]) == (1, f"antler: {tmp_path}/config.yaml: Is a directory")
    code, output = await antler(tmp_path, "--yes", "--platform", "console", "--config", "none/config.yaml")
    assert (code, output) == (2, f"antler: the folder {tmp_path}/none does not exist, or cannot be written to\n")


async def test_what_does_not_work_is_said_and_nothing_is_written(
    telegram: TelegramSimulator, simulator: ModelSimulator, tmp_path: Path
) -> None:
    await simulator.script(COUNT, [Status(status=401)])
    code, output = await antler(
        tmp_path,
        *("--yes", "--set", f"channels.telegram.base_url={telegram.root}", "--base-url", simulator.base_url),
        *("--model", "sim"),
        TELEGRAM_BOT_TOKEN="123456:" + "x" * 35,
        MODEL_API_KEY="wrong-key-of-mine",
    )
    assert code == 1
    assert "(401)" in output
    assert "set models[0].api_key" in output
    assert "wrong-key-of-mine" not in output
    assert "Nothing was written" in output
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "antler init --yes with"),
        (("--yes",), "give --platform"),
        (("--yes", "--platform", "telegram"), "set TELEGRAM_BOT_TOKEN in the environment"),
        (("--yes", "--platform", "feishu"), "set FEISHU_APP_ID and FEISHU_APP_SECRET in the environment"),
        (("--yes", "--platform", "irc"), "irc is not one of telegram, slack"),
        (("--yes", "--platform", "console", "--provider", "doubao"), "--model NAME is required"),
        (("--yes", "--platform", "console", "--provider", "openai"), "set OPENAI_API_KEY in the environment"),
    ],
)
async def test_what_is_missing_is_named(tmp_path: Path, arguments: tuple[str, ...], expected: str) -> None:
    names = ("TELEGRAM_BOT_TOKEN", "FEISHU_APP_ID", "FEISHU_APP_SECRET", "OPENAI_API_KEY")
    code, output = await antler(tmp_path, *arguments, **dict.fromkeys(names, ""))
    assert (code, expected in output) == (2, True), output
    assert os.listdir(tmp_path) == []


def test_a_secret_is_not_taken_from_the_command_line() -> None:
    for key in ("channels.telegram.token", "channels.feishu-2.app_secret", "transcription.api_key"):
        with pytest.raises(WrongFlags, match="other users can see"):
            read_flags((), (), None, None, None, [f"{key}=abc"])
    assert read_flags((), (), None, None, None, ["transcription.api_key=$KEY"]).settings


@pytest.mark.parametrize("text", ["a: [", "- a list", "channels: {a: 1, a: 2}"])
def test_a_config_that_cannot_be_added_to_is_named_and_stays(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"config\.yaml.*cannot be extended"):
        ConfigFiles(tmp_path / "config.yaml", {}).write(Draft({"locale": "zh"}, {"A": "b"}))
    assert sorted(os.listdir(tmp_path)) == ["config.yaml"]


@pytest.mark.parametrize("value", ["novalue", "=x", "channels.telegram.base_url={"])
def test_a_setting_that_cannot_be_read_is_refused(value: str) -> None:
    with pytest.raises(WrongFlags):
        read_flags((), (), None, None, None, [value])


@pytest.mark.parametrize("secret", ["plain-1:2_3", "with 'quotes' and \\ back", "dollar$HOME and #hash", "ends\\"])
def test_each_secret_is_read_back_as_it_was(tmp_path: Path, secret: str) -> None:
    from bot.settings.load import variables

    files = ConfigFiles(tmp_path / "config.yaml", {})
    files.write(Draft({"channels": {"console": {}}}, {"A": "first", "B": secret}))
    files.write(Draft({"locale": "zh"}, {"B": secret, "C": "x"}))
    assert variables(files.path, {}) == {"A": "first", "B": secret, "C": "x"}
    config: dict[str, Any] = yaml.safe_load(files.path.read_text())
    assert config == {"channels": {"console": {}}, "locale": "zh"}


def test_a_new_beginning_keeps_the_old_config(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("channels: {console: {}}\nlocale: en\n")
    files = ConfigFiles(tmp_path / "config.yaml", {})
    files.fresh = True
    files.write(Draft({"channels": {"console": {}}}))
    assert "locale" not in files.path.read_text()
    assert list(files.settings(Draft()).channels) == ["console"]
    assert "locale: en" in (tmp_path / "config.yaml.before").read_text()
