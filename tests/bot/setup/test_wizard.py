"""The wizard, through prompt_toolkit's own pipe: real questions, real keys, the simulators behind them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from bot.settings.load import SettingsSource
from bot.settings.yamlfile import read_yaml
from bot.setup.files import ConfigFiles, Draft
from bot.setup.questions import Questions
from bot.setup.wizard import Left, Wizard
from bot.texts import texts_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from prompt_toolkit.input import PipeInput

    from tests.simulators.feishu.client import FeishuSimulator
    from tests.simulators.slack.client import SlackSimulator
    from tests.simulators.telegram.client import TelegramSimulator
    from tests.simulators.wecom.client import WecomSimulator

UP, DOWN, ENTER, SPACE, ESCAPE, CTRL_C = "\x1b[A", "\x1b[B", "\r", " ", "\x1b", "\x03"
REST = [
    ("Which model", UP + ENTER),  # the last one: none yet
    ("commands run?", ENTER),
    ("Time zone", ENTER),
    ("search the web", ENTER),
    ("read public web pages", ENTER),
    ("Write it?", ENTER),
]
"""The questions behind the accounts, answered as they are proposed."""


class Person(Questions):
    """Answers each question with the next keys. script: (words of the question, keys)."""

    def __init__(self, keyboard: PipeInput, script: list[tuple[str, str]]) -> None:
        super().__init__(texts_for("en").setup)
        self._keyboard = keyboard
        self.script = list(script)

    def _type(self, question: str) -> None:
        words, keys = self.script.pop(0)
        assert words in question
        self._keyboard.send_text(keys)

    async def choose(self, text: str, choices: Mapping[str, str], default: str | None = None) -> str:
        self._type(text)
        return await super().choose(text, choices, default)

    async def several(self, text: str, *given: Any) -> list[str]:
        self._type(text)
        return await super().several(text, *given)

    async def text(self, text: str, default: str = "") -> str:
        self._type(text)
        return await super().text(text, default)

    async def secret(self, text: str) -> str:
        self._type(text)
        return await super().secret(text)


@pytest.fixture
def keyboard() -> Iterator[PipeInput]:
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        yield pipe


async def talked(
    folder: Path,
    keyboard: PipeInput,
    script: list[tuple[str, str]],
    preset: Mapping[str, Any],
    env: Mapping[str, str] | None = None,
    said: list[str] | None = None,
) -> list[str]:
    """What the wizard said, until it has written. said: a list that gets it, for a wizard that does not write."""
    draft = Draft()
    said = [] if said is None else said
    for key, value in preset.items():
        draft.set(key, value)
    person = Person(keyboard, script)
    files = ConfigFiles(folder / "config.yaml", env or {})
    wizard = Wizard(files, person, said.append, texts_for("en"), preset=draft, environment=env or {})
    try:
        await wizard.run()
    finally:
        if said:
            print("\n".join(said))
    assert person.script == []
    return said


def written(folder: Path) -> dict[str, Any]:
    """The config as Antler reads it, which finds no fault with it."""
    SettingsSource(folder / "config.yaml").read()
    return read_yaml((folder / "config.yaml").read_text()).values


async def test_slack_with_a_filled_in_app_and_what_its_tokens_lack(
    slack: SlackSimulator, tmp_path: Path, keyboard: PipeInput
) -> None:
    await slack.configure(scopes=["chat:write", "im:history", "app_mentions:read"])
    script = [
        ("Where shall people", SPACE + DOWN + SPACE + ENTER),
        ("xoxb", slack.app_token + ENTER),  # the two are mixed up
        ("xapp", slack.bot_token + ENTER),
        ("What now", ENTER),
        ("xoxb", slack.bot_token + ENTER),
        ("xapp", slack.app_token + ENTER),
        *REST,
    ]
    said = "\n".join(await talked(tmp_path, keyboard, script, {"channels.slack.base_url": slack.api_url}))
    assert "https://api.slack.com/apps?new_app=1&manifest_yaml=display_information%3A" in said
    assert "this is an app-level token" in said
    assert "lacks the scope files:write: files cannot be sent" in said
    assert written(tmp_path)["channels"]["slack"] == {
        "base_url": slack.api_url,
        "bot_token": "$SLACK_BOT_TOKEN",
        "app_token": "$SLACK_APP_TOKEN",
    }
    assert slack.bot_token not in said


async def test_feishu_by_a_scanned_code(feishu: FeishuSimulator, tmp_path: Path, keyboard: PipeInput) -> None:
    await feishu.scanned()
    script = [("Where shall people", SPACE + DOWN + DOWN + SPACE + ENTER), ("connect Feishu", ENTER), *REST]
    said = "\n".join(await talked(tmp_path, keyboard, script, {"channels.feishu.domain": feishu.domain}))
    assert "user_code=SIMU-LATE" in said
    assert "█▀" in said
    entry = written(tmp_path)["channels"]["feishu"]
    assert (entry["app_id"], entry["app_secret"]) == (feishu.app_id, "$FEISHU_APP_SECRET")
    assert feishu.app_secret in (tmp_path / ".env").read_text()
    assert feishu.app_secret not in said


async def test_feishu_by_id_and_secret_when_the_code_was_refused(
    feishu: FeishuSimulator, tmp_path: Path, keyboard: PipeInput
) -> None:
    await feishu.scanned(error="access_denied", error_description="no")
    script = [
        ("Where shall people", SPACE + DOWN + DOWN + SPACE + ENTER),
        ("connect Feishu", ENTER),
        ("App ID", feishu.app_id + ENTER),
        ("App Secret", feishu.app_secret + ENTER),
        *REST,
    ]
    said = "\n".join(await talked(tmp_path, keyboard, script, {"channels.feishu.domain": feishu.domain}))
    assert "No app was created: AppAccessDeniedError: access_denied: no" in said
    assert written(tmp_path)["channels"]["feishu"]["app_id"] == feishu.app_id


async def test_wecom_and_a_secret_that_the_environment_has(
    wecom: WecomSimulator, tmp_path: Path, keyboard: PipeInput
) -> None:
    script = [
        ("Where shall people", SPACE + DOWN + DOWN + DOWN + SPACE + ENTER),
        ("Bot ID", wecom.bot_id + ENTER),
        ("Secret", ENTER),
        *REST,
    ]
    env = {"WECOM_SECRET": wecom.secret}
    said = "\n".join(await talked(tmp_path, keyboard, script, {"channels.wecom.url": wecom.url}, env))
    assert "WECOM_SECRET is taken from the environment" in said
    assert written(tmp_path)["channels"]["wecom"]["secret"] == "$WECOM_SECRET"


async def test_a_second_time_adds_and_keeps_what_is_there(
    telegram: TelegramSimulator, tmp_path: Path, keyboard: PipeInput
) -> None:
    other = await telegram.add_bot("424242:" + "y" * 35, username="other_bot")
    (tmp_path / "config.yaml").write_text(
        f"# mine\nchannels:\n  telegram:\n    token: $T # the first\n    base_url: {telegram.root}\n"
        "models: [{name: old, use: demo}]\n"
    )
    (tmp_path / ".env").write_text(f"# kept\nT={telegram.token}\n")
    script = [
        ("What now", ENTER),
        ("Where shall people", ENTER),
        ("What now", DOWN + ENTER),
        ("Bot token", other.token + ENTER),
        *REST,
    ]
    preset = {"channels.telegram-2.base_url": telegram.root}
    said = "\n".join(await talked(tmp_path, keyboard, script, preset))
    assert "@other_bot" in said
    text = (tmp_path / "config.yaml").read_text()
    assert text.startswith("# mine")
    assert "# the first" in text
    config = written(tmp_path)
    assert list(config["channels"]) == ["telegram", "telegram-2"]
    assert config["channels"]["telegram-2"]["token"] == "$TELEGRAM_BOT_TOKEN_2"
    assert config["models"] == [{"name": "old", "use": "demo"}]
    env = (tmp_path / ".env").read_text()
    assert env.splitlines() == ["# kept", f"T={telegram.token}", f"TELEGRAM_BOT_TOKEN_2={other.token}"]


@pytest.mark.parametrize("leave", [CTRL_C, DOWN + ENTER])
async def test_who_leaves_or_says_no_at_the_end_has_written_nothing(
    tmp_path: Path, keyboard: PipeInput, leave: str
) -> None:
    script = [("Where shall people", SPACE + UP + SPACE + ENTER), *REST[:-1], ("Write it?", leave)]
    with pytest.raises((Left, KeyboardInterrupt)):
        await talked(tmp_path, keyboard, script, {})
    assert os.listdir(tmp_path) == []


async def test_escape_goes_back_to_the_question_before(tmp_path: Path, keyboard: PipeInput) -> None:
    script = [
        ("Where shall people", SPACE + UP + SPACE + ENTER),
        *REST[:2],
        ("Time zone", "\x15Nowhere/At-all" + ENTER),
        ("Time zone", ESCAPE),
        ("commands run?", UP + ENTER),  # files only
        ("Time zone", "\x15Asia/Shanghai" + ENTER),
        ("search the web", DOWN + ENTER),
        ("read public", ESCAPE),
        ("search the web", DOWN + ENTER),
        ("read public", DOWN + ENTER),
        ("Write it?", ENTER),
    ]
    said = await talked(tmp_path, keyboard, script, {})
    assert "Nowhere/At-all is no time zone; it is written like Europe/Berlin." in said
    assert written(tmp_path) == {
        "channels": {"console": {}},
        "sandbox": {"use": "off"},
        "timezone": "Asia/Shanghai",
        "web": {"search": {"provider": "duckduckgo"}, "fetch": {"enabled": True}},
    }


async def test_what_no_config_can_hold_is_asked_for_again_or_left_out(tmp_path: Path, keyboard: PipeInput) -> None:
    script = [
        ("Where shall people", ENTER),
        ("Bot token", "nonsense" + ENTER),
        ("What now", ENTER),  # again
        ("Bot token", "nonsense" + ENTER),
        ("What now", DOWN + ENTER),  # it cannot be kept
        ("Where shall people", SPACE + UP + SPACE + ENTER),
        ("Which model", UP + UP + ENTER),
        ("URL of the server", "127.0.0.1:11434/v1" + ENTER),
        ("API key", ENTER),
        ("Name of the model", "m" + ENTER),
        ("What now", DOWN + ENTER),  # there is only: again
        ("Which model", DOWN + ENTER),
        *REST[1:3],
        ("search the web", UP + ENTER),
        ("Key of Tavily", ENTER),
        ("Key of Tavily", "tvly-1" + ENTER),
        *REST[4:],
    ]
    said = "\n".join(await talked(tmp_path, keyboard, script, {"channels.telegram.locale": "en"}))
    assert "✗ token: not a bot token" in said
    assert "✗ models[0].base_url: has no scheme; start it with https://" in said
    assert "Nothing was typed." in said
    assert written(tmp_path)["channels"] == {"console": {}}


async def test_a_faulty_config_is_told_at_once_and_ends_nothing(tmp_path: Path, keyboard: PipeInput) -> None:
    (tmp_path / "config.yaml").write_text("channels: {console: {}}\nlimits: {concurent_runs: 1}\n")
    fault = f"{tmp_path}/config.yaml:2: limits.concurent_runs: unknown key; did you mean concurrent_runs?"
    console = SPACE + UP + SPACE + ENTER
    script = [("What now", ENTER), ("Where shall people", console), REST[0], ("Where shall people", CTRL_C)]
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        await talked(tmp_path, keyboard, script, {}, said=said)
    assert said.count(fault) == 2


async def test_other_credentials_are_tried_where_the_account_is(
    telegram: TelegramSimulator, tmp_path: Path, keyboard: PipeInput
) -> None:
    (tmp_path / "config.yaml").write_text(
        "channels: {telegram: {token: $T, base_url: $ROOT, locale: zh}}\nmodels: [{name: old, use: demo}]\n"
    )
    script = [
        ("What now", ENTER),
        ("Where shall people", ENTER),
        ("What now", ENTER),
        ("Bot token", telegram.token + ENTER),
        *REST,
    ]
    (tmp_path / ".env").write_text(f"ROOT={telegram.root}\n")
    said = await talked(tmp_path, keyboard, script, {})
    assert any("channels.telegram.token: environment variable T is not set" in each for each in said)
    assert "✓ Telegram: @antler_bot" in said
    account = {"token": "$TELEGRAM_BOT_TOKEN", "base_url": "$ROOT", "locale": "zh"}
    assert written(tmp_path)["channels"]["telegram"] == account
