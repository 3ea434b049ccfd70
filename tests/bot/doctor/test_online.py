"""What `antler doctor --online` says of accounts, models and other servers, asked over their real protocols."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from bot.doctor.doctor import examine
from bot.doctor.findings import EXIT_ERRORS, EXIT_WARNINGS, Severity, error, ok, warning
from bot.settings.load import SettingsSource
from channels.slack.config import SCOPES
from harness.models.probe import COUNT, NAME_THE_COLOUR, USE_THE_TOOL
from tests.simulators.model.scripts import Call, Say, Status, ToolUse
from tests.simulators.telegram import faults
from tests.simulators.transcription import faults as transcription_faults
from tests.simulators.web.engines import BraveEngine, SearxngEngine
from tests.simulators.web.site import Site

if TYPE_CHECKING:
    from pathlib import Path

    from bot.doctor.findings import Finding
    from tests.simulators.feishu.client import FeishuSimulator
    from tests.simulators.media.client import MediaSimulator
    from tests.simulators.model.client import ModelSimulator
    from tests.simulators.slack.client import SlackSimulator
    from tests.simulators.telegram.client import TelegramSimulator
    from tests.simulators.transcription.client import TranscriptionSimulator
    from tests.simulators.wecom.client import WecomSimulator

REFUSED_PORT = 1


@pytest.fixture
def ask(tmp_path: Path) -> Any:
    """Diagnoses a config with these sections online: the exit code, and the findings of a group."""

    async def asked(title: str, **sections: Any) -> tuple[int, list[Finding]]:
        quiet = {"channels": {"console": {}}, "timezone": "Europe/Berlin", "sandbox": {"use": "off"}}
        file = tmp_path / "config.yaml"
        file.write_text(yaml.safe_dump(quiet | sections))
        file.chmod(0o600)
        diagnosis, code = await examine(SettingsSource(file), fix=False, ask=True)
        assert "Nothing was queried" not in diagnosis.to_text("utf-8")
        return code, [finding for group in diagnosis.groups if group.title == title for finding in group.findings]

    return asked


async def test_an_account_that_works_is_named_as_its_platform_knows_it(ask: Any, telegram: TelegramSimulator) -> None:
    _, (found,) = await ask("Accounts", channels={"tg": {**_telegram(telegram), "type": "telegram"}})
    assert found.severity is Severity.OK
    assert found.says.startswith("Telegram knows it as antler_bot (")


async def test_a_revoked_telegram_token(ask: Any, telegram: TelegramSimulator) -> None:
    await telegram.fail("getMe", faults.unauthorized())
    code, (found,) = await ask("Accounts", channels={"telegram": _telegram(telegram)})
    assert code == EXIT_ERRORS
    assert found.severity is Severity.ERROR
    assert found.remedy.startswith("set channels.telegram.token to the token that @BotFather shows")
    assert telegram.token not in found.says


async def test_a_second_poller(ask: Any, telegram: TelegramSimulator) -> None:
    await telegram.fail("getUpdates", faults.conflict())
    _, found = await ask("Accounts", channels={"telegram": _telegram(telegram)})
    assert [finding.severity for finding in found] == [Severity.OK, Severity.ERROR]
    assert found[1].says == "another program fetches this bot's messages"


async def test_missing_scopes(ask: Any, slack: SlackSimulator) -> None:
    await slack.configure(scopes=[scope.name for scope in SCOPES if scope.name != "files:read"])
    section = {"bot_token": slack.bot_token, "app_token": slack.app_token, "base_url": slack.api_url}
    code, found = await ask("Accounts", channels={"slack": section})
    assert code == EXIT_WARNINGS
    assert found[0].says.startswith("Slack knows it as ")
    assert " in " in found[0].says
    assert found[1] == warning(
        "channels.slack",
        "channels.slack.bot_token lacks the scope files:read: attachments cannot be read",
        "add it under OAuth & Permissions, Scopes, and install the app again",
    )


async def test_an_app_of_another_tenant(ask: Any, feishu: FeishuSimulator) -> None:
    section = {"app_id": "cli_elsewhere1", "app_secret": feishu.app_secret, "domain": feishu.domain}
    code, (found,) = await ask("Accounts", channels={"feishu": section})
    assert code == EXIT_ERRORS
    assert "check domain (feishu or lark: an app exists on one of them only)" in found.remedy


async def test_a_wrong_secret(ask: Any, wecom: WecomSimulator) -> None:
    section = {"bot_id": wecom.bot_id, "secret": "not-the-secret", "url": wecom.url}
    code, (found,) = await ask("Accounts", channels={"wecom": section})
    assert code == EXIT_ERRORS
    assert "channels.wecom.secret" in found.remedy
    assert "not-the-secret" not in found.says


async def test_a_platform_that_cannot_be_reached(ask: Any, telegram: TelegramSimulator) -> None:
    section = _telegram(telegram) | {"base_url": f"http://127.0.0.1:{REFUSED_PORT}"}
    _, (found,) = await ask("Accounts", channels={"telegram": section})
    assert found.remedy == "check that this machine can reach 127.0.0.1, and check network.proxy"


async def test_a_model_that_works_and_one_that_is_not_there(ask: Any, model: ModelSimulator) -> None:
    await model.script(COUNT, (Say(text="one two three", delay_ms=5),))
    await model.script(USE_THE_TOOL, (Call(calls=(ToolUse(name="weather", arguments='{"city": "Paris"}'),)),))
    await model.script(NAME_THE_COLOUR, (Say(text="Red"),), match="contains")
    good = {"name": "main", "model": "sim", "base_url": model.base_url, "api_key": model.api_key}
    bad = good | {"name": "bad", "base_url": f"http://127.0.0.1:{REFUSED_PORT}/v1"}
    code, found = await ask("Models", models=[good | {"supports_vision": True}, bad])
    assert code == EXIT_ERRORS
    assert found[0].severity is Severity.OK
    assert found[0].says.startswith("streams, calls tools, sees; its first word arrived after ")
    assert found[1].what == "model bad"
    assert found[1].says.startswith("connection: ")
    assert found[1].remedy.startswith("check that this machine reaches models[1].base_url")


async def test_a_key_that_is_refused_is_not_repeated(ask: Any, model: ModelSimulator) -> None:
    await model.script(COUNT, (Status(status=401),))
    section = {"name": "main", "model": "sim", "base_url": model.base_url, "api_key": "sk-of-somebody-else"}
    _, (found,) = await ask("Models", models=[section])
    assert found.says.startswith("auth: ")
    assert found.remedy.startswith("set models[0].api_key to a key of this provider")
    assert "sk-of-somebody-else" not in found.says


async def test_a_model_that_the_provider_does_not_have(ask: Any, model: ModelSimulator) -> None:
    await model.script(COUNT, (Status(status=404),))
    section = {"name": "main", "model": "sim", "base_url": model.base_url, "api_key": model.api_key}
    _, (found,) = await ask("Models", models=[section])
    assert found.says.startswith("not found: ")
    assert found.remedy.startswith("set models[0].model to a name that the provider lists")


async def test_a_transcription_service(ask: Any, transcription: TranscriptionSimulator) -> None:
    section = {"model": "sim-voice", "base_url": transcription.base_url, "api_key": transcription.api_key}
    _, (found,) = await ask("Transcription", transcription=section)
    assert found == ok("transcription", "sim-voice accepts recordings")
    await transcription.fail(transcription_faults.error(401))
    code, (found,) = await ask("Transcription", transcription=section)
    assert code == EXIT_ERRORS
    assert found.remedy == "set transcription.api_key to a key of this provider"


async def test_services_of_speech_and_pictures(ask: Any, media: MediaSimulator) -> None:
    section = {"model": "sim-tts", "base_url": media.base_url, "api_key": media.api_key}
    _, (found,) = await ask("Speech", speech=section)
    assert found.says.startswith("sim-tts speaks as alloy")
    _, (found,) = await ask("Pictures", images=section | {"model": "sim-image"})
    assert found == ok("images", "sim-image is available; no picture was requested, as that would cost money")
    _, (found,) = await ask("Pictures", images=section | {"model": "other"})
    assert found.remedy == "correct images.model"
    for subject, key in (("Speech", "speech"), ("Pictures", "images")):
        code, (found,) = await ask(subject, **{key: section | {"api_key": "bad-key"}})
        assert code == EXIT_ERRORS
        assert (found.says, found.remedy) == (
            "the service refuses its API key",
            f"set {key}.api_key to a key of this provider",
        )


async def test_a_proxy_that_is_not_there(ask: Any) -> None:
    code, (found,) = await ask("Proxies", network={"proxy": f"http://u:hunter2hunter2@127.0.0.1:{REFUSED_PORT}"})
    assert code == EXIT_ERRORS
    assert found == error(
        "network.proxy",
        f"nothing answers at 127.0.0.1:{REFUSED_PORT} (Connection refused)",
        "correct network.proxy, or start the proxy",
    )


async def test_a_server_of_tools_elsewhere_that_is_not_there(ask: Any) -> None:
    code, (found,) = await ask("MCP servers", mcp_servers={"far": {"url": f"http://127.0.0.1:{REFUSED_PORT}/mcp"}})
    assert code == EXIT_ERRORS
    assert found.what == "mcp_servers.far"
    assert found.remedy.startswith("check mcp_servers.far.url, headers and oauth")


async def test_the_clock_is_compared_with_a_servers(ask: Any, model: ModelSimulator) -> None:
    section = {"name": "main", "model": "sim", "base_url": model.base_url, "api_key": model.api_key}
    _, found = await ask("Time", models=[section])
    assert ok("clock", "agrees with that of 127.0.0.1") in found


def _telegram(telegram: TelegramSimulator) -> dict[str, Any]:
    return {"token": telegram.token, "base_url": telegram.root}


async def test_search_engines_are_asked(ask: Any) -> None:
    searxng, brave = SearxngEngine(), BraveEngine()
    async with Site(own=searxng.answers()).serve() as one, Site(own=brave.answers()).serve() as other:
        engines = [
            {"use": "searxng", "base_url": one.url("")},
            {"use": "brave", "base_url": other.url(""), "api_key": "BSA-wrong-key"},
            {"use": "brave", "base_url": other.url(""), "api_key": brave.key},
        ]
        code, found = await ask("Search", web={"search": {"engines": engines}})
    assert code == EXIT_ERRORS
    assert [finding.severity for finding in found] == [Severity.OK, Severity.ERROR, Severity.OK]
    assert found[0].says.startswith("searxng answered in ")
    assert found[1].what == "web.search.engines[1]"
    assert "web.search.engines[1].api_key" in found[1].says
    assert "BSA-wrong-key" not in str(found)
    assert found[2].says.startswith("brave 2 answered in ")


async def test_a_search_engine_that_is_not_there(ask: Any) -> None:
    gone = {"provider": "searxng", "base_url": f"http://127.0.0.1:{REFUSED_PORT}"}
    _, (found,) = await ask("Search", web={"search": gone})
    assert found.severity is Severity.ERROR
    assert found.what == "web.search"
    assert found.says == "searxng cannot be reached now"
