"""What is wrong with a configuration is told all at once, with file, line, key and the nearest right word."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from bot.settings import ConfigError, load
from tests.bot.settings_files import CHANNELS, TOKEN, found, problems_of
from tests.tables import table

if TYPE_CHECKING:
    from pathlib import Path


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    text = f"""\
    data_dir: ./file/data
    databse: {{}}
    models:
      - {{name: main, model: gpt, base_url: api.example.com, api_key: $NO_SUCH_KEY}}
      - {{name: main, use: no_such_package:Model, model: x, api_key: "<your key>", context_window: lots}}
    channels:
      telegram: {{tokn: x, rate: {{per_secnd: 1}}}}
      one: {{type: telegram, token: "{TOKEN}"}}
      two: {{type: telegram, token: "{TOKEN}"}}
      three: {{type: telegram, token: "12:short"}}
      four: {{type: telegrm}}
      five: {{type: telegram, token: "123456:replace-me"}}
      six:
      Seven: {{type: console}}
      one: {{}}
    """
    assert found(tmp_path, text) == {
        "data_dir": f"1: cannot be created: {tmp_path}/file is not a folder",
        "databse": "2: unknown key; did you mean database?",
        "models[0].api_key": "4: environment variable NO_SUCH_KEY is not set; set it where antler starts",
        "models[0].base_url": "4: has no scheme; start it with https:// or http://",
        "models[1].name": "5: is the same as that of models[0]",
        "models[1].use": (
            f"5: its Python package is not installed; perhaps: {sys.executable} -m pip install no-such-package"
        ),
        "models[1].api_key": "5: is still the example's placeholder; put your own value there, or remove the line",
        "models[1].context_window": "5: should be a whole number",
        "channels.telegram.tokn": "7: unknown key; did you mean token?",
        "channels.telegram.token": "7: is missing",
        "channels.telegram.rate.per_secnd": "7: unknown key; did you mean per_second?",
        "channels.one": "8: this account is configured twice (lines 8 and 15); give each account its own id",
        "channels.two.token": "9: is a duplicate account: the same token as channels.one; keep one of the two",
        "channels.three.token": (
            "10: not a bot token: expected digits, a colon and at least 30 letters, digits, _ or -"
        ),
        "channels.four.type": "11: unknown platform; did you mean telegram?",
        "channels.five.token": "12: is still the example's placeholder; put your own value there, or remove the line",
        "channels.six": "13: the id does not name a platform; add type: one of console, feishu, slack, telegram, wecom",
        "channels.Seven": "14: an account id should match [a-z0-9][a-z0-9_-]{0,31}; write it as seven",
    }


def test_a_problem_reads_as_one_line(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, CHANNELS + "limits: {run_secnds: 1}\n")
    assert str(problem) == f"{tmp_path}/config.yaml:2: limits.run_secnds: unknown key; did you mean run_seconds?"
    assert str(ConfigError([problem, problem])).count("\n") == 1


def test_workers_need_a_server(tmp_path: Path) -> None:
    assert found(tmp_path, CHANNELS + "workers: {enabled: true}\n") == {
        "workers.enabled": "2: needs PostgreSQL; set database.url"
    }


def test_workers_find_memories_in_the_database(tmp_path: Path) -> None:
    server = "workers: {enabled: true}\ndatabase: {url: postgresql://host/db}\n"
    assert found(tmp_path, CHANNELS + server + "memory: {storage: file}\n") == {
        "memory.storage": "4: is for one process; workers need auto or database"
    }


@table(
    ("line", "key", "message"),
    [
        (
            "conversations: {busy: quee}",
            "conversations.busy",
            "should be 'queue', 'collect', 'steer', 'interrupt', 'rollback' or 'reject'; did you mean queue?",
        ),
        ("log: {format: jsn}", "log.format", "should be 'text' or 'json'; did you mean json?"),
        ("network: {proxy: 'socks5://h:1'}", "network.proxy", "should be http://host:port"),
        ("network: {ca_file: nowhere.pem}", "network.ca_file", "cannot be read: No such file"),
        ("summarization: {max_messages: 10, keep: 10}", "summarization.keep", "should be less than max_messages"),
        ("models: []", "models", "has no entry"),
        ("models: [{name: a, model: b, api_key: ''}]", "models[0].api_key", "is empty; put the provider's key there"),
        (
            "models: [{name: a, model: b, base_url: 'https://x.example/v1/chat/completions/'}]",
            "models[0].base_url",
            "is the address of one call, not of the service; leave out the /chat/completions at its end",
        ),
        ("access: {groups: {allow: ['telegram:100123']}}", "access.groups.allow[0]", "is not a group id; copy it from"),
        ("models: [{name: m, model: x, tmeout: 1}]", "models[0].tmeout", "unknown key; did you mean timeout?"),
        ("models: {}", "models", "should be a list"),
        ("models: [{use: demo}]", "models[0].name", "is missing"),
        ("models: [{name: m}]", "models[0].model", "is missing: the name that the provider gives the model"),
        ("models: [{name: m, model: x, use: ChatOpenAI}]", "models[0].use", "should be module:Class"),
        ("models: [{name: m, model: x, base_url: ''}]", "models[0].base_url", "is empty"),
        ("models: [{name: m, model: x, base_url: 'https://'}]", "models[0].base_url", "has no host"),
        ("models: [{name: m, model: x, base_url: 'http://h:PORT'}]", "models[0].base_url", "has no host, or no valid"),
        ('models: [{name: m, model: x, base_url: "http://h\\n/v1"}]', "models[0].base_url", "has no host, or no valid"),
        ("models: [{name: m, use: demo, fallbacks: [m]}]", "models[0].fallbacks[0]", "is the model itself"),
        (
            "models: [{name: m, use: demo, fallbacks: [other]}, {name: othr, use: demo}]",
            "models[0].fallbacks[0]",
            "unknown model; did you mean othr?",
        ),
        (
            "models: [{name: m, use: demo, fallbacks: [o, o]}, {name: o, use: demo, fallbacks: [m]}]",
            "models[0].fallbacks[1]",
            "is listed twice",
        ),
        (
            "models: [{name: m, use: demo, when_thinking_enabled: {a: 1}}]",
            "models[0].when_thinking_enabled",
            "has no effect without supports_thinking: true",
        ),
        ("access: yes", "access", "should be a mapping"),
        ("timezone: Berlin", "timezone", "use a name such as Europe/Berlin"),
        ("http: {hooks: {ci: {chat: 'telegram:1', secret: short}}}", "http.hooks.ci.secret", "is shorter than 16"),
        ("data_dir: ''", "data_dir", "is empty"),
        (f"limits: {{concurrent_runs: {'9' * 5000}}}", "limits.concurrent_runs", "is too large"),
        ("network: {no_proxy: [10.0.0.0/33]}", "network.no_proxy[0]", "a network such as 10.0.0.0/8"),
        ("network: {no_proxy: 'localhost, http://h'}", "network.no_proxy[1]", "should be a host name"),
        ("models: [{name: m, model: x, base_url: 'http://a..b/v1'}]", "models[0].base_url", "has no host, or no valid"),
        ("data_dir: ${HOME", "data_dir", "has a ${ that is not of the form"),
        ("agents: {}", "agents", "unknown key"),
    ],
)
def test_each_fault_has_its_message(tmp_path: Path, line: str, key: str, message: str) -> None:
    assert message in found(tmp_path, CHANNELS + line + "\n")[key]


def test_a_shared_folder_that_cannot_be_written_to_is_found(tmp_path: Path) -> None:
    """The files of conversations may be on another file system than the rest of the data folder."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "threads").symlink_to("/proc")  # read-only for root, too
    (message,) = found(tmp_path, CHANNELS + "data_dir: data\n").values()
    assert "cannot be written to" in message
    assert message.endswith("/data/threads")


def test_no_account_is_a_problem(tmp_path: Path) -> None:
    assert "no account is configured" in found(tmp_path, "locale: en\n")["channels"]
    assert "no account is configured" in found(tmp_path, "channels: {}\n")["channels"]
    assert "no account is configured" in found(tmp_path, "channels:\n")["channels"]


@table(
    ("text", "line", "message"),
    [
        ("", None, "is empty"),
        ("# nothing\n", None, "is empty"),
        ("- a\n- b\n", 1, "should be a mapping"),
        ("just text\n", 1, "should be a mapping"),
        ("channels:\n\ttelegram: {}\n", 2, "a tab is used"),
        ("a: b: c\n", 1, "a colon is not allowed here"),
        ("a: [1, 2\nb: 3\n", 2, "a bracket"),
        ("a: 'open\n", 2, "a quote is not closed"),
        ("a:\n  b: 1\n c: 2\n", 3, "the indentation is wrong"),
        ("a: *\n", 1, "begins with *"),
        ("a: *word\n", 1, "begins with *"),
        ("a: &word x\n", 1, "begins with &"),
        ("a: @name\n", 1, "begins with a character that is special"),
        ("a: 1\n---\nb: 2\n", 2, "more than one document"),
        ("a: \x00\n", 1, "a control character"),
        ("[" * 3000, None, "is nested too deeply"),
        ("a: 1\n? [b, c]\n: 2\n", 2, "a key is not a word"),
    ],
)
def test_what_is_not_yaml_is_told_kindly(tmp_path: Path, text: str, line: int | None, message: str) -> None:
    (problem,) = problems_of(tmp_path, text)
    assert message in problem.message
    assert problem.line == line
    assert problem.key == ""


def test_a_tag_is_a_value_that_lacks_quotes(tmp_path: Path) -> None:
    text = CHANNELS + "locale: !secret\nlog: !!python/object/apply:os.system [ls]\n"
    problems = found(tmp_path, text)
    assert problems["locale"] == problems["log"].replace("3:", "2:") == "2: begins with !; put it in quotes"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: cannot be read: No such file or directory"):
        load(tmp_path / "nowhere.yaml", {})
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load(tmp_path, {})
    (tmp_path / "latin.yaml").write_bytes(b"name: \xe4\n")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        load(tmp_path / "latin.yaml", {})
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbf" + CHANNELS.encode())
    assert list(load(tmp_path / "bom.yaml", {}).channels) == ["telegram"]


ODD_VALUES = ("[1, 2]", "{a: 1}", "null", "7", "[[]]", '""', "text")
PLACES = (
    "access",
    "access.allow",
    "access.groups",
    "channels",
    "channels.telegram",
    "channels.telegram.type",
    "channels.telegram.token",
    "channels.telegram.access",
    "channels.telegram.rate",
    "models",
    "network",
    "database",
)


@table("value", ODD_VALUES)
@table("place", PLACES)
def test_a_value_of_any_shape_anywhere_is_no_crash(tmp_path: Path, place: str, value: str) -> None:
    text = value
    for key in reversed(place.split(".")):
        text = f"{{{key}: {text}}}"
    # The unknown key makes sure that there is something to find.
    assert "surplus" in found(tmp_path, f"{text[:-1]}, surplus: 1}}")
