"""Mistakes that people make, a config or a state of the machine each, and what `antler doctor` says of them.

Nobody is asked over the network here: test_online.py has what platforms and models say.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from bot.clock import SystemClock
from bot.control.lock import DataDirLock
from bot.control.server import SOCKET
from bot.doctor.doctor import EXIT_CONFIG, examine
from bot.doctor.findings import EXIT_ERRORS, EXIT_WARNINGS, Severity
from bot.settings.load import SettingsSource
from bot.store import Store
from tests.bot.settings_files import TOKEN, write
from tests.harness.skills.writing import put_skill

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
CODES = {ERROR: EXIT_ERRORS, WARNING: EXIT_WARNINGS, NOTE: 0}
KEY = "sk-0123456789abcdef"

TELEGRAM = "channels: {telegram: {token: $BOT_TOKEN, access: {allow: [1]}}}\n"
CONSOLE = "channels: {console: {}}\n"
ZONE = "timezone: Europe/Berlin\n"
OFF = "sandbox: {use: 'off'}\n"
OPEN_LINE = "base_url: 'http://keys.example.org/v1', api_key: $KEY"
QUIET = CONSOLE + ZONE + OFF
"""A config without a fault, whose checks are quick."""


def model(settings: str = "") -> str:
    return f"models: [{{name: main, model: m, base_url: 'https://models.example.org/v1'{settings}}}]\n"


@dataclass(frozen=True)
class Mistake:
    """A config that cannot be used. says, remedy: parts of the finding at `what`."""

    name: str
    config: str
    what: str
    says: str
    remedy: str = ""


CONFIGS = [
    Mistake("nothing in the file", "", "config.yaml", "is empty"),
    Mistake("a bracket left open", "channels: {telegram: {token: x}\n", "config.yaml:2", "is not closed"),
    Mistake("a tab", "channels:\n\ttelegram: {}\n", "config.yaml:2", "a tab is used", "correct"),
    Mistake("a misspelt section", "channls: {}\n", "channls", "unknown key", "did you mean channels?"),
    Mistake(
        "a variable that is not set",
        "channels: {telegram: {token: $NO_TOKEN}}\n",
        "channels.telegram.token",
        "environment variable NO_TOKEN is not set",
        "set it where antler starts",
    ),
    Mistake(
        "a placeholder left",
        "channels: {telegram: {token: <your token>}}\n",
        "channels.telegram.token",
        "is still the example's placeholder",
        "put your own value there",
    ),
    Mistake(
        "half a Telegram token",
        "channels: {telegram: {token: '123456789'}}\n",
        "channels.telegram.token",
        "not a bot token: expected digits, a colon and at least 30 letters",
    ),
    Mistake(
        "Slack's tokens swapped",
        "channels: {slack: {bot_token: xapp-1-A0123-0123456789, app_token: xoxb-0123456789-abcdef}}\n",
        "channels.slack.bot_token",
        "this is an app-level token",
    ),
    Mistake(
        "a Slack user's token",
        "channels: {slack: {bot_token: xoxp-0123456789-abcdef, app_token: xapp-1-A0123-0123456789}}\n",
        "channels.slack.bot_token",
        "this is a user token",
    ),
    Mistake(
        "something else for a Feishu app",
        "channels: {feishu: {app_id: a123456, app_secret: abcdef}}\n",
        "channels.feishu.app_id",
        'not an app id: app ids begin with "cli_"',
    ),
    Mistake(
        "a Feishu domain without a scheme",
        "channels: {feishu: {app_id: cli_a123456, app_secret: abcdef, domain: larksuite.com}}\n",
        "channels.feishu.domain",
        "expected feishu, lark, or a root URL",
    ),
    Mistake("no WeCom secret", "channels: {wecom: {bot_id: b, secret: ''}}\n", "channels.wecom.secret", "is empty"),
    Mistake(
        "a misspelt platform",
        "channels: {support: {type: telegramm, token: $BOT_TOKEN}}\n",
        "channels.support.type",
        "did you mean telegram?",
    ),
    Mistake(
        "an account without a platform",
        "channels: {support: {token: $BOT_TOKEN}}\n",
        "channels.support",
        "the id does not name a platform",
        "add type: one of",
    ),
    Mistake("no account", "channels: {}\n", "channels", "no account is configured", "the terminal is"),
    Mistake(
        "one bot twice",
        "channels: {telegram: {token: $BOT_TOKEN}, other: {type: telegram, token: $BOT_TOKEN}}\n",
        "channels.other.token",
        "is a duplicate account",
        "keep one of the two",
    ),
    Mistake(
        "a group's id without its minus",
        "channels: {telegram: {token: $BOT_TOKEN, access: {groups: {allow: [1001234567890]}}}}\n",
        "channels.telegram.access.groups.allow[0]",
        "is not a group id",
        "with its sign",
    ),
    Mistake(
        "a person of no account",
        TELEGRAM + "access: {allow: ['telegramm:1']}\n",
        "access.allow[0]",
        "belongs to an account that is not configured",
        "did you mean telegram?",
    ),
    Mistake(
        "a person without an account",
        TELEGRAM + "access: {allow: [123]}\n",
        "access.allow[0]",
        "has no account prefix",
        'write it as "telegram:<id>"',
    ),
    Mistake("open to everyone", TELEGRAM + "access: {dm: open}\n", "access", "need i_accept_public: true"),
    Mistake(
        "an agent that is not there",
        "channels: {console: {agent: desk}}\n",
        "channels.console.agent",
        "unknown agent",
        "known: default",
    ),
    Mistake(
        "the address of a call",
        CONSOLE + "models: [{name: main, model: m, base_url: 'https://api.example.org/v1/chat/completions'}]\n",
        "models[0].base_url",
        "is the address of one call",
        "leave out the /chat/completions at its end",
    ),
    Mistake("an empty key", CONSOLE + model(", api_key: ''"), "models[0].api_key", "is empty", "put the provider's"),
    Mistake(
        "an address without a scheme",
        CONSOLE + "models: [{name: main, model: m, base_url: 'localhost:11434/v1'}]\n",
        "models[0].base_url",
        "has no scheme",
        "start it with https://",
    ),
    Mistake(
        "a class without its module",
        CONSOLE + "models: [{name: main, model: m, use: ChatOpenAI}]\n",
        "models[0].use",
        "should be module:Class",
    ),
    Mistake(
        "a class whose package is missing",
        CONSOLE + "models: [{name: main, model: m, use: 'langchain_nowhere:ChatNowhere'}]\n",
        "models[0].use",
        "its Python package is not installed",
        "pip install langchain-nowhere",
    ),
    Mistake("a model without a model", CONSOLE + "models: [{name: main}]\n", "models[0].model", "is missing"),
    Mistake(
        "a fallback that is no model",
        CONSOLE + model(", fallbacks: [smal]"),
        "models[0].fallbacks[0]",
        "unknown model",
    ),
    Mistake(
        "a title's model that is none",
        CONSOLE + model() + "title: {model: mian}\n",
        "title.model",
        "unknown model",
        "did you mean main?",
    ),
    Mistake(
        "the address of a transcription",
        CONSOLE + "transcription: {model: w, base_url: 'https://api.example.org/v1/audio/transcriptions'}\n",
        "transcription.base_url",
        "is the address of one call",
        "leave out the /audio/transcriptions",
    ),
    Mistake(
        "a transcription without its key",
        CONSOLE + "transcription: {model: w, api_key: ''}\n",
        "transcription.api_key",
        "is empty",
        "put the provider's key there",
    ),
    Mistake("a city for a time zone", CONSOLE + "timezone: Berlin\n", "timezone", "is not a time zone"),
    Mistake(
        "a proxy without a scheme",
        CONSOLE + "network: {proxy: 'proxy.corp:3128'}\n",
        "network.proxy",
        "should be http://host:port",
    ),
    Mistake(
        "a CA file that holds none",
        CONSOLE + "network: {ca_file: config.yaml}\n",
        "network.ca_file",
        "contains no PEM certificate",
    ),
    Mistake(
        "a misspelt sandbox",
        CONSOLE + "sandbox: {use: bubblewarp}\n",
        "sandbox.use",
        "unknown provider",
        "did you mean bubblewrap?",
    ),
    Mistake(
        "a mount that is not there",
        CONSOLE + "sandbox: {mounts: [{host: /no/such/folder, path: /mnt/reports}]}\n",
        "sandbox.mounts[0].host",
        "is not a folder on this machine",
    ),
    Mistake(
        "a budget of money without prices",
        CONSOLE + model() + "budgets: {gateway_day: {money: 5}}\n",
        "budgets.gateway_day.money",
        "has no effect: no model has a price",
        "see models[].price",
    ),
    Mistake(
        "a summary that keeps everything",
        CONSOLE + "summarization: {max_messages: 10, keep: 20}\n",
        "summarization.keep",
        "should be less than max_messages",
    ),
    Mistake("a file for a folder", CONSOLE + "data_dir: config.yaml\n", "data_dir", "is a file, not a folder"),
    Mistake(
        "another database",
        CONSOLE + "database: {url: 'mysql://u:p@h/d'}\n",
        "database.url",
        "should be postgresql://",
        "config.yaml.example has an example of `database`",
    ),
    Mistake("a server without a program", CONSOLE + "mcp_servers: {a: {args: [x]}}\n", "mcp_servers.a", "a command"),
    Mistake(
        "a tool whose package is missing",
        CONSOLE + "tools: [{use: 'no_such_package:tool'}]\n",
        "tools[0].use",
        "its Python package is not installed",
    ),
    Mistake("agents that are not there", CONSOLE + "agents_dir: nowhere\n", "agents_dir", "is not a folder"),
    Mistake(
        "a policy that is none", CONSOLE + "conversations: {busy: wait}\n", "conversations.busy", "should be 'queue', "
    ),
]


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_TOKEN"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("BOT_TOKEN", TOKEN)
    monkeypatch.setenv("KEY", KEY)


@pytest.mark.parametrize("mistake", CONFIGS, ids=lambda mistake: mistake.name)
async def test_a_config_that_cannot_be_used(mistake: Mistake, tmp_path: Path) -> None:
    diagnosis, code = await examine(SettingsSource(write(tmp_path, mistake.config)), fix=False, ask=False)
    assert code == EXIT_CONFIG
    (found,) = [
        finding
        for group in diagnosis.groups
        for finding in group.findings
        if finding.what.endswith(mistake.what) and mistake.says in finding.says
    ]
    assert found.severity is ERROR
    assert found.remedy
    assert mistake.remedy in found.remedy
    assert TOKEN not in diagnosis.to_text("utf-8")


def data_folder(folder: Path) -> Path:
    data = folder / "data"
    data.mkdir(mode=0o700)
    return data


def opened_to_others(folder: Path) -> None:
    data_folder(folder).chmod(0o755)


def somebody_elses(folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(data_folder(folder), 12345, 12345)


def left_socket(folder: Path) -> None:
    (data_folder(folder) / SOCKET).touch()


def damaged(folder: Path) -> None:
    (data_folder(folder) / "antler.db").write_bytes(b"This is no database, however long one looks at it. " * 100)


def newer(folder: Path) -> None:
    with sqlite3.connect(data_folder(folder) / "antler.db") as db:
        db.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
        db.execute("INSERT INTO alembic_version VALUES ('9999')")
    db.close()


def used(folder: Path) -> None:
    async def make() -> None:
        await (await Store.open(f"sqlite:///{data_folder(folder) / 'antler.db'}", clock=SystemClock())).close()

    asyncio.run(make())


def broken_skill(folder: Path) -> None:
    put_skill(data_folder(folder) / "skills" / "custom", "tidy", "Tidies.").write_text("no front matter")


def proxy_of_the_environment(folder: Path) -> None:
    os.environ["HTTPS_PROXY"] = "http://proxy.corp:3128"


def no_preparation(folder: Path) -> None:
    pass


def held(folder: Path) -> AbstractContextManager[None]:
    return DataDirLock(folder / "data")


def untouched(folder: Path) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(frozen=True)
class State:
    """A config that can be used, and a machine. before: puts it into the state. during: holds meanwhile."""

    name: str
    config: str
    severity: Severity
    what: str
    says: str
    remedy: str
    before: Callable[[Path], None] = no_preparation
    during: Callable[[Path], AbstractContextManager[None]] = untouched
    open_config: bool = False


STATES = [
    State(
        "a class that its package has not",
        QUIET + "models: [{name: main, model: m, use: 'langchain_openai:ChatOpenAy'}]\n",
        ERROR,
        "models[0]",
        "model main: langchain_openai has no class ChatOpenAy",
        "correct models[0]",
    ),
    State(
        "a tool that its module has not",
        QUIET + "tools: [{use: 'os:nothing'}]\n",
        ERROR,
        "tools[0].use",
        "os has no nothing",
        "correct tools[0].use",
    ),
    State(
        "a program that is not there",
        QUIET + "mcp_servers: {files: {command: no-such-program}}\n",
        ERROR,
        "mcp_servers.files.command",
        "the program no-such-program was not found on this machine",
        "install it, or give its full path",
    ),
    State(
        "a program that is no server",
        QUIET + "mcp_servers: {files: {command: 'true'}}\n",
        ERROR,
        "mcp_servers.files",
        "does not start: its process has ended",
        "run its command by hand",
    ),
    State(
        "a secret in the file",
        QUIET + model(f", api_key: {KEY}"),
        WARNING,
        "config.yaml:4: models[0].api_key",
        "is written in plain text",
        "write $NAME here",
    ),
    State(
        "a secret in a file for all",
        QUIET + model(f", api_key: {KEY}"),
        WARNING,
        "config",
        "contains secrets and others can read it",
        "chmod 600 ",
        open_config=True,
    ),
    *(
        State(
            f"a key on an open line: {key}",
            QUIET + text,
            WARNING,
            key,
            "sends its api_key to keys.example.org without encryption",
            "start it with https://",
        )
        for key, text in {
            "knowledge.embeddings.base_url": f"knowledge: {{embeddings: {{{OPEN_LINE}, model: m}}}}\n",
            "knowledge.services[0].base_url": (
                f"knowledge: {{services: [{{name: w, use: dify, {OPEN_LINE}, datasets: [d]}}]}}\n"
            ),
            "web.fetch.reader.url": "web: {fetch: {reader: {url: 'http://keys.example.org/', api_key: $KEY}}}\n",
        }.items()
    ),
    State(
        "a key on an open line",
        QUIET + "models: [{name: main, model: m, base_url: 'http://models.example.org/v1', api_key: $KEY}]\n",
        WARNING,
        "models[0].base_url",
        "sends its api_key to models.example.org without encryption",
        "start it with https://",
    ),
    State(
        "a proxy in the environment",
        QUIET + model(),
        NOTE,
        "HTTPS_PROXY",
        "Antler ignores proxies from the environment",
        "set network.proxy: $HTTPS_PROXY",
        before=proxy_of_the_environment,
    ),
    State("no time zone", CONSOLE + OFF, NOTE, "timezone", "is UTC by default", "set timezone: "),
    State("no model", QUIET, NOTE, "models", "the demo model answers", "add one"),
    State(
        "everybody, on purpose",
        "channels: {telegram: {token: $BOT_TOKEN, access: {dm: open, i_accept_public: true}}}\n" + ZONE + OFF,
        NOTE,
        "channels.telegram",
        "answers everyone",
        "",
    ),
    State(
        "nobody",
        "channels: {telegram: {token: $BOT_TOKEN}}\n" + ZONE + OFF,
        NOTE,
        "channels.telegram",
        "no one has access yet",
        "antler pair --claim",
        before=used,
    ),
    State(
        "data that others can read",
        QUIET,
        WARNING,
        "data_dir",
        "is open to other users of this machine (mode 755)",
        "chmod 700 ",
        before=opened_to_others,
    ),
    State(
        "data of another user",
        QUIET,
        ERROR,
        "data_dir",
        "belongs to user 12345",
        "run antler as that user",
        before=somebody_elses,
    ),
    State(
        "a process that hangs",
        QUIET,
        ERROR,
        "data_dir",
        f"process {os.getpid()} holds",
        f"kill {os.getpid()}",
        during=held,
    ),
    State("a dead process's socket", QUIET, NOTE, SOCKET, "left over from a dead process", "rm ", before=left_socket),
    State("a damaged database", QUIET, ERROR, "database", "is damaged", "restore a copy", before=damaged),
    State("a newer database", QUIET, ERROR, "database", "revision 9999, which is newer", "that version", before=newer),
    State(
        "a database server that is not there",
        QUIET + "database: {url: 'postgresql://antler:hunter2hunter2@127.0.0.1:1/antler'}\n",
        ERROR,
        "database.url",
        "Connection refused",
        "whether the server runs",
    ),
    State(
        "a host that runs nothing",
        CONSOLE + ZONE + "sandbox: {use: host}\n",
        WARNING,
        "sandbox host",
        "commands are refused: the provider host runs none by default",
        "choose bubblewrap, landlock or docker",
    ),
    State(
        "a container daemon that is not there",
        CONSOLE + ZONE + "sandbox: {use: docker, docker: {host: 'unix:///no/such.sock'}}\n",
        WARNING,
        "sandbox docker",
        "commands are refused: the Docker daemon cannot be reached",
        "start the daemon (systemctl start docker), or set sandbox.docker.host",
    ),
    State(
        "a page for others without its address",
        QUIET + "http: {listen: '0.0.0.0:0', behind_proxy: true}\n",
        WARNING,
        "http.url",
        "an address that others cannot open",
        "set it to the address that users open",
    ),
    State(
        "a page for others without TLS",
        QUIET + "http: {listen: '0.0.0.0:0', behind_proxy: true, url: 'http://bots.example.org'}\n",
        ERROR,
        "http.url",
        "has no TLS",
        "start it with https://",
    ),
    State(
        "a page on an address of another machine",
        QUIET + "http: {listen: '192.0.2.1:8642', behind_proxy: true, url: 'https://bots.example.org'}\n",
        ERROR,
        "http.listen",
        "cannot listen on 192.0.2.1:8642 (cannot assign requested address",
        "choose another port",
    ),
    State(
        "a certificate that is not there",
        QUIET + "http: {listen: '127.0.0.1:0', tls: {cert: no.crt, key: no.key}}\n",
        ERROR,
        "http.tls",
        "cannot be used: No such file or directory",
        "set cert to the certificate",
    ),
    State("a broken skill", QUIET, WARNING, "skills", "tidy", "antler skills validate", before=broken_skill),
    State(
        "a skill that is not there",
        QUIET + "skills: {disabled: [no-such]}\n",
        WARNING,
        "skills",
        "skills.disabled: no skill no-such here",
        "antler skills validate",
    ),
]


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
def test_a_state_of_the_machine(state: State, tmp_path: Path) -> None:
    file = write(tmp_path, state.config)
    file.chmod(0o644 if state.open_config else 0o600)
    state.before(tmp_path)
    with state.during(tmp_path):
        diagnosis, code = asyncio.run(examine(SettingsSource(file), fix=False, ask=False))
    findings = [finding for group in diagnosis.groups for finding in group.findings]
    told = [finding for finding in findings if finding.what.endswith(state.what) and state.says in finding.says]
    assert [finding.severity for finding in told] == [state.severity], [str(finding) for finding in findings]
    assert state.remedy in told[0].remedy
    assert code == CODES[max(finding.severity for finding in findings)]
    assert max(finding.severity for finding in findings) is max(state.severity, NOTE)
    text = diagnosis.to_text("utf-8")
    assert KEY not in text
    assert "hunter2" not in text
