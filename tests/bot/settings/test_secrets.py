"""Secrets are collected for redaction, and no error path prints one."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

import pytest

from bot.settings import ConfigError, load
from bot.settings.summary import describe
from tests.bot.settings_files import CHANNELS, TOKEN, settings_of, write
from tests.tables import table

if TYPE_CHECKING:
    from pathlib import Path

CANARY = "c4n4ry-S3CRET"


def test_every_secret_of_the_tree_is_collected(tmp_path: Path) -> None:
    text = f"""
    channels: {{telegram: {{token: "{TOKEN}", proxy: "http://me:chann3l%21pw@proxy:1"}}, console: {{}}}}
    models: [{{name: m, model: x, api_key: sk-modelkey, base_url: "https://u:baseurlpw@host/v1"}}]
    network: {{proxy: "http://proxy.example:3128"}}
    database: {{url: "postgresql://antler:dbpassword@db/antler"}}
    mcp_servers:
      one: {{command: x, env: {{API_KEY: env-secret, REGION: production}}}}
      two: {{url: "https://h/mcp?key=urlsecret", headers: {{Authorization: Bearer header-secret}}}}
    """
    secrets = settings_of(tmp_path, text).secrets()
    wanted = {TOKEN, "sk-modelkey", "chann3l%21pw", "chann3l!pw", "u:baseurlpw", "baseurlpw", "dbpassword"}
    wanted |= {"env-secret", "https://h/mcp?key=urlsecret", "Bearer header-secret", "header-secret"}
    assert wanted <= secrets
    assert "production" not in secrets
    assert not secrets & {"", "http://proxy.example:3128"}


def test_neither_repr_nor_json_nor_summary_shows_a_secret(tmp_path: Path) -> None:
    text = f"""
    channels: {{telegram: {{token: "{TOKEN}", proxy: "http://me:{CANARY}@proxy:1"}}}}
    models: [{{name: m, model: x, api_key: {CANARY}}}]
    database: {{url: "postgresql://antler:{CANARY}@db/antler"}}
    """
    settings = settings_of(tmp_path, text)
    for shown in (repr(settings), str(settings), settings.model_dump_json(), describe(settings)):
        assert CANARY not in shown
        assert TOKEN not in shown


@table(
    "text",
    [
        f"channels: {{telegram: {{token: {CANARY}}}}}",
        f"channels: {{telegram: {{token: [{CANARY}]}}}}",
        f"channels: {{telegram: {CANARY}}}",
        f"channels: {{telegram: {{tokn: {CANARY}}}}}",
        f"channels: {{telegram: {{type: {CANARY}}}}}",
        f"channels: {{telegram: {{token: 'replace-me-{CANARY}'}}}}",
        f"channels: {{telegram: {{token: <{CANARY}>}}}}",
        f"channels: {{telegram: {{base_url: {CANARY}}}}}",
        f"channels: {{telegram: {{base_url: 'https://u:{CANARY}@'}}}}",
        f"channels: {{telegram: {{streaming: {CANARY}, rate: {CANARY}}}}}",
        "channels: {telegram: {token: 'x$c4n4ry'}}",
        f"channels: {{telegram: {{token: '${{{CANARY}}}'}}}}",
        CHANNELS + f"network: {{proxy: 'http://u:{CANARY}@:bad'}}",
        CHANNELS + f"network: {{ca_file: '/{CANARY}'}}",
        CHANNELS + f"database: {{url: 'mysql://u:{CANARY}@h/d'}}",
        CHANNELS + f"access: {{allow: ['{CANARY}', '{CANARY}:1', 'telegram:@{CANARY}'], dm: {CANARY}}}",
        CHANNELS + f"models: [{{name: m, model: x, use: {CANARY}, api_key: [{CANARY}]}}]",
        CHANNELS + f"models: [{{name: 'a {CANARY}', use: demo, context_window: {CANARY}}}]",
        CHANNELS + f"limits: {CANARY}",
        f"token: *{CANARY}",
        f"token: &{CANARY} x",
        f"token: !{CANARY}",
        f"token: !{CANARY} {{}}\nchannels: {{console: {{}}}}",
        f"token: @{CANARY}",
        f"token: '{CANARY}",
        f'token: "\\{CANARY}"',
        f"token: [{CANARY}",
        f"token: {CANARY}: x",
        f"%{CANARY}",
        f"{CANARY}",
    ],
)
def test_no_error_repeats_a_value(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path, text + "\n"), {})
    told = "".join(traceback.format_exception(caught.value)) + repr(caught.value.problems)
    assert CANARY not in told
    assert "c4n4ry" not in told


def test_no_error_repeats_a_variables_value(tmp_path: Path) -> None:
    env = {"SECRET": CANARY, "ANTLER__LIMITS__RUN_SECONDS": CANARY, "ANTLER__MODELS": f"[{CANARY}"}
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path, "channels: {telegram: {token: $SECRET, streaming: $SECRET}}\n"), env)
    assert len(caught.value.problems) == 4
    assert CANARY not in "".join(traceback.format_exception(caught.value))
