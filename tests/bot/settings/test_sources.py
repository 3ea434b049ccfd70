"""Where settings come from: file, environment, command line, variables; and which one wins."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError
from sqlalchemy.engine import make_url

from bot.settings import Settings, load
from bot.settings.load import data_dir_of
from channels.registry import config_class
from tests.bot.settings_files import CHANNELS, TOKEN, found, problems_of, settings_of, write


def test_without_a_file_there_is_the_terminal_and_the_demo_model() -> None:
    settings = load(None, {})
    assert list(settings.channels) == ["console"]
    assert [model.use for model in settings.models] == ["demo"]
    assert settings.data_dir == Path("data").absolute()
    assert settings == Settings.default()


def test_command_line_over_environment_over_file_over_default(tmp_path: Path) -> None:
    text = CHANNELS + "limits: {run_seconds: 1, model_calls: 1, concurrent_runs: 1}\n"
    env = {"ANTLER__LIMITS__RUN_SECONDS": "2", "ANTLER__LIMITS__MODEL_CALLS": "2"}
    limits = load(write(tmp_path, text), env, {"limits.run_seconds": "3"}).limits
    assert (limits.run_seconds, limits.model_calls, limits.concurrent_runs) == (3, 2, 1)
    assert limits.queued_per_conversation == 20


def test_data_dir_is_relative_to_the_file_that_names_it(tmp_path: Path) -> None:
    assert settings_of(tmp_path, CHANNELS).data_dir == tmp_path / "data"
    assert settings_of(tmp_path, CHANNELS + "data_dir: ./deep/er\n").data_dir == tmp_path / "deep/er"
    assert settings_of(tmp_path, CHANNELS, {"ANTLER__DATA_DIR": "here"}).data_dir == Path("here").absolute()


@pytest.mark.parametrize(
    ("written", "env", "expected"),
    [
        ("data_dir: kept\nlimits: {run_seconds: soon}\n", {}, "kept"),
        ("channels: {telegram: {token: $NOT_SET}}\n", {}, "data"),
        ("data_dir: $NOT_SET\n", {}, None),
        ("data_dir: [1]\n", {}, None),
        ("data_dir: {\n", {}, None),
        ("data_dir: {\n", {"ANTLER__DATA_DIR": "/srv/kept"}, "/srv/kept"),
        ("data_dir: $NOT_SET\n", {"ANTLER__DATA_DIR": "/srv/kept"}, "/srv/kept"),
    ],
)
def test_a_fault_elsewhere_hides_no_data_dir(
    tmp_path: Path, written: str, env: dict[str, str], expected: str | None
) -> None:
    path = write(tmp_path, written)
    assert data_dir_of(path, env) == (tmp_path / expected if expected else None)
    assert data_dir_of(path, env, {"data_dir": "/srv/else"}) == Path("/srv/else")


def test_the_environment_reaches_an_account_with_a_dash(tmp_path: Path) -> None:
    other = TOKEN.replace("A", "B")
    text = f'channels: {{support-bot: {{type: telegram, token: "{TOKEN}"}}}}\n'
    settings = settings_of(tmp_path, text, {"ANTLER__CHANNELS__SUPPORT_BOT__TOKEN": other})
    assert settings.secrets() == {other}


def test_the_environment_takes_lists_as_json(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, CHANNELS, {"ANTLER__ACCESS__ALLOW": '["telegram:12"]'})
    assert settings.access.allow == ("telegram:12",)


def test_an_unknown_variable_is_named(tmp_path: Path) -> None:
    assert found(tmp_path, CHANNELS, {"ANTLER__LIMITS__RUN_SECS": "1", "ANTLER_OTHER": "x"}) == {
        "ANTLER__LIMITS__RUN_SECS": "None: unknown key; did you mean run_seconds?"
    }
    (problem,) = problems_of(tmp_path, CHANNELS, {"ANTLER__CHANELS__X": "1"})
    assert str(problem) == "environment: ANTLER__CHANELS__X: unknown key; did you mean channels?"


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("$NAME", "antler"),
        ("${NAME}", "antler"),
        ("a-$NAME-b", "a-antler-b"),
        ("${MISSING:-other}", "other"),
        ("${EMPTY:-other}", "other"),
        ("$EMPTY", ""),
        ("$$NAME", "$NAME"),
        ("5$ and $$5", "5$ and $5"),
    ],
)
def test_variables(tmp_path: Path, written: str, value: str) -> None:
    text = CHANNELS + f"models: [{{name: m, use: demo, display_name: '{written}'}}]\n"
    settings = settings_of(tmp_path, text, {"NAME": "antler", "EMPTY": ""})
    assert settings.models[0].display_name == value


def test_the_environments_own_values_are_not_expanded(tmp_path: Path) -> None:
    env = {"ANTLER__MODELS": '[{"name": "m", "use": "demo", "display_name": "$HOME"}]'}
    assert settings_of(tmp_path, CHANNELS, env).models[0].display_name == "$HOME"


def test_words_and_ids_stay_what_they_are(tmp_path: Path) -> None:
    text = CHANNELS + "access: {groups: {answer: off}}\nconversations: {group_context: on}\n"
    settings = settings_of(tmp_path, text)
    assert (settings.access.groups.answer, settings.conversations.group_context) == ("off", "on")
    assert "leading zero" in found(tmp_path, CHANNELS + "access: {allow: [telegram:0123]}\n")["access.allow[0]"]


def test_a_section_with_all_keys_commented_out_is_left_out(tmp_path: Path) -> None:
    assert settings_of(tmp_path, CHANNELS + "access:\n  # allow: []\n").access.allow == ()


def test_an_account_keeps_its_platforms_settings_and_overrides_the_common_ones(tmp_path: Path) -> None:
    text = f"""
    channels:
      telegram: {{token: "{TOKEN}", streaming: draft, rate: {{per_second: 5}}, locale: zh, proxy: "http://proxy:3128",
                 access: {{allow: [12], groups: {{answer: always}}}}, conversations: {{group_scope: speaker}}}}
      console:
    access: {{allow: ["telegram:7"], admins: ["telegram:7"], groups: {{members: listed}}}}
    """
    settings = settings_of(tmp_path, text)
    channel = settings.channels["telegram"]
    assert isinstance(channel.adapter, config_class("telegram"))
    assert channel.adapter.model_dump()["streaming"] == "draft"
    access = settings.access_for("telegram")
    assert (access.allow, access.admins) == (("telegram:12",), ("telegram:7",))
    assert (access.groups.members, access.groups.answer) == ("listed", "always")
    assert settings.access_for("console") == settings.access
    assert settings.conversations_for("telegram").group_scope == "speaker"
    assert settings.conversations_for("console").group_scope == "chat"
    assert (settings.locale_for("telegram"), settings.locale_for("console")) == ("zh", "auto")
    assert settings.account_route("telegram", "https://api.example.com").proxy == "http://proxy:3128"
    assert settings.account_route("console", "https://api.example.com").proxy is None


def test_settings_are_frozen() -> None:
    settings = Settings.default()
    with pytest.raises(ValidationError):
        settings.locale = "en"


def test_the_database_url_is_sqlalchemys(tmp_path: Path) -> None:
    assert settings_of(tmp_path, CHANNELS).database_url == f"sqlite:///{tmp_path}/data/antler.db"
    settings = settings_of(tmp_path, CHANNELS + "database: {url: 'postgres://u:p@h/d'}\n")
    assert settings.database_url == "postgresql+psycopg://u:p@h/d"
    assert "for SQLite leave it out" in found(tmp_path, CHANNELS + "database: {url: mysql://h/d}\n")["database.url"]


@pytest.mark.parametrize("url", ["u:canary/d", "u:p@canary@h/d", "u:p@h:canary/d", "h:/d"])
def test_no_part_of_a_password_is_taken_for_the_database_server(tmp_path: Path, url: str) -> None:
    said = found(tmp_path, CHANNELS + f"database: {{url: 'postgresql://{url}'}}\n")["database.url"]
    assert "write @ as %40" in said
    assert "canary" not in said


@pytest.mark.parametrize(
    "url", ["", "/d", "h", "u@h/d", "u@tenant:p/q?#:r@h:5432/d", "u:p%40q@[::1]:5432/d?a=b@c", "h,i:5432/d"]
)
def test_a_database_url_that_sqlalchemy_can_read_is_accepted(tmp_path: Path, url: str) -> None:
    settings = settings_of(tmp_path, CHANNELS + f"database: {{url: 'postgresql://{url}'}}\n")
    assert "@" not in (make_url(settings.database_url).host or "")
