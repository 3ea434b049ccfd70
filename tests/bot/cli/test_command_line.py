"""The `antler` command: exit codes, and what it prints."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

from tests.bot.settings_files import CHANNELS, TOKEN, write
from tests.harness.skills.writing import put_skill

ROOT = Path(__file__).parents[3]
NOBODY = 65534
"""A user to whom nothing belongs."""


def antler(*arguments: str, cwd: Path, said: str = "", user: int | None = None) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith("ANTLER__")}
    env["PYTHONPATH"] = str(ROOT)
    command = [sys.executable, "-m", "bot", *arguments]
    return subprocess.run(
        command, cwd=cwd, env=env, input=said, capture_output=True, text=True, timeout=60, check=False, user=user
    )


def test_check_config_says_what_would_run(tmp_path: Path) -> None:
    write(tmp_path, CHANNELS + 'access: {allow: ["telegram:1", "telegram:2"]}\n')
    done = antler("check-config", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "config.yaml" in done.stdout
    assert "account   telegram (telegram)" in done.stdout
    assert "2 persons" in done.stdout
    assert done.stdout.endswith("OK\n")
    assert TOKEN not in done.stdout
    assert not (tmp_path / "data").exists()


def test_check_config_lists_all_problems_and_leaves_with_78(tmp_path: Path) -> None:
    write(tmp_path, "channls: {}\nlimits: {run_seconds: soon}\n")
    done = antler("check-config", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (78, "")
    assert "config.yaml:1: channls: unknown key; did you mean channels?" in done.stderr
    assert "config.yaml:2: limits.run_seconds: should be a number" in done.stderr
    assert done.stderr.endswith("3 configuration problems; nothing was started\n")


def test_a_start_without_a_usable_agent_says_why_in_one_line(tmp_path: Path) -> None:
    write(tmp_path, "channels: {console: {}}\nsandbox: {use: 'off'}\ntools: [{use: 'os:nothing'}]\n")
    done = antler("run", cwd=tmp_path, said="hello\n")
    assert done.returncode == 78
    assert "tools[0].use: os has no nothing; antler stops\n" in done.stderr
    assert "Traceback" not in done.stderr


MODEL = "{name: main, model: m, base_url: http://127.0.0.1:9/v1"


def test_check_config_builds_the_models_and_looks_for_programs(tmp_path: Path) -> None:
    write(
        tmp_path,
        CHANNELS
        + f"models:\n  - {MODEL}, use: 'langchain_openai:ChatOpenAy'}}\n"
        + "mcp_servers: {files: {command: no-such-program}, off: {command: no-such-either, enabled: false}}\n",
    )
    done = antler("check-config", cwd=tmp_path)
    assert done.returncode == 78
    assert done.stderr.splitlines() == [
        "models[0]: model main: langchain_openai has no class ChatOpenAy; correct models[0] in the config",
        "mcp_servers.files.command: the program no-such-program was not found on this machine; install it, or give its "
        "full path",
    ]
    assert "OK" not in done.stdout


def test_check_config_finds_what_a_start_would_miss(tmp_path: Path) -> None:
    package = tmp_path / "antler-0.1.0.dist-info"  # found first, because the command runs in its folder
    package.mkdir()
    (package / "METADATA").write_text(
        "Metadata-Version: 2.4\nName: antler\nVersion: 0.1.0\n"
        "Requires-Dist: no-such-package>=1; extra == 'acp'\nRequires-Dist: no-such-either; extra == 'scale'\n"
    )
    write(
        tmp_path,
        "channels: {console: {}}\nacp_agents: {helper: {command: helper}}\ntools: [{use: 'os:nothing'}]\n"
        "guardrails: {use: 'nowhere:Rules'}\nspeech: {model: m, use: 'nowhere:Speaker'}\n"
        "knowledge: {services: [{name: a, use: 'nowhere:Service', base_url: 'http://a', datasets: [a]}]}\n"
        "http: {listen: '127.0.0.1:0', tls: {cert: no.pem, key: no.pem}}\n",
    )
    done = antler("check-config", cwd=tmp_path)
    assert done.returncode == 78
    tool, rules, speaker, service, certificate, missing = done.stderr.splitlines()
    assert tool == "tools[0].use: os has no nothing; correct tools[0].use in the config"
    absent = "nowhere cannot be imported: No module named 'nowhere'"
    assert rules == f"guardrails.use: {absent}; correct guardrails.use in the config"
    assert speaker == f"speech.use: {absent}; correct speech.use in the config"
    assert service == f"knowledge.services[0].use: {absent}; correct knowledge.services[0].use in the config"
    assert certificate.startswith("http.tls: cannot be used: No such file or directory; set cert to")
    assert missing.startswith("no-such-package: is not installed (the extra antler[acp]); run: ")


def test_check_config_points_at_secrets_that_are_written_into_the_file(tmp_path: Path) -> None:
    key = "sk-0123456789abcdef"
    write(tmp_path, f"channels: {{console: {{}}}}\nmodels:\n  - {MODEL}, api_key: {key}}}\n")
    done = antler("check-config", cwd=tmp_path)
    assert done.returncode == 0
    assert ":3: models[0].api_key: is written in plain text; put it into an environment variable" in done.stdout
    assert key not in done.stdout
    write(tmp_path, f"channels: {{console: {{}}}}\nmodels:\n  - {MODEL}, api_key: '${{PATH}}'}}\n")
    assert "warning" not in antler("check-config", cwd=tmp_path).stdout


def test_status_says_how_to_ask_when_the_config_does_not_tell_where(tmp_path: Path) -> None:
    write(tmp_path, "data_dir: {\n")
    done = antler("status", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (78, "")
    assert done.stderr.endswith("1 configuration problem; to query a running antler, give its --data-dir\n")


def test_run_starts_nothing_with_a_bad_configuration(tmp_path: Path) -> None:
    done = antler("run", "--config", "nowhere.yaml", cwd=tmp_path)
    assert done.returncode == 78
    assert "nowhere.yaml: cannot be read: No such file or directory" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_config_or_a_data_folder_of_another_user_is_a_problem_of_the_config(tmp_path: Path) -> None:
    closed, data = tmp_path / "closed", tmp_path / "data"
    closed.mkdir()
    config = write(closed, CHANNELS)
    data.mkdir()
    for folder in (closed, data):
        folder.chmod(0)
    user = NOBODY if os.geteuid() == 0 else None
    try:
        for place, message in (
            (("--config", str(config)), "config.yaml: cannot be read: Permission denied"),
            (("--data-dir", str(data)), "--data-dir: cannot be written to: Permission denied"),
        ):
            for command in ("run", "status", "doctor"):
                done = antler(command, *place, cwd=Path("/"), user=user)
                assert done.returncode == 78, done.stderr
                assert message in " ".join((done.stdout + done.stderr).split())
        done = antler("init", "--yes", "--platform", "console", "--config", str(config), cwd=Path("/"), user=user)
        assert (done.returncode, done.stderr.endswith("or cannot be written to\n")) == (2, True)
    finally:
        for folder in (closed, data):
            folder.chmod(0o700)


def test_restore_names_its_own_option(tmp_path: Path) -> None:
    write(tmp_path, CHANNELS)
    (tmp_path / "a.tar.gz").touch()
    done = antler("restore", "a.tar.gz", "--to", "a.tar.gz", cwd=tmp_path)
    assert (done.returncode, "--to" in done.stderr, "--data-dir" in done.stderr) == (2, True, False)
    done = antler("restore", "a.tar.gz", "--to", "/dev/null/data", cwd=tmp_path)
    assert done.returncode == 78
    assert done.stderr.startswith("command line: --to: cannot be created: /dev/null is not a folder")


def test_without_a_data_folder_there_is_nothing_to_back_up(tmp_path: Path) -> None:
    write(tmp_path, CHANNELS)
    done = antler("backup", "a.tar.gz", cwd=tmp_path)
    assert (done.returncode, "data does not exist, so there is nothing to back up" in done.stderr) == (1, True)
    assert not (tmp_path / "a.tar.gz").exists()


def test_more_lines_of_the_log_than_there_can_be_are_a_wrong_number(tmp_path: Path) -> None:
    write(tmp_path, CHANNELS)
    done = antler("logs", "-n", "9" * 20, cwd=tmp_path)
    assert (done.returncode, "--lines" in done.stderr, "Traceback" in done.stderr) == (2, True, False)


def test_run_names_a_lock_that_it_cannot_open(tmp_path: Path) -> None:
    write(tmp_path, CHANNELS)
    (tmp_path / "data" / "antler.lock").mkdir(parents=True)  # root could open any file
    done = antler("run", cwd=tmp_path)
    assert done.returncode == 78
    assert done.stderr.startswith(f"antler: {tmp_path}/data/antler.lock: Is a directory; the data folder")


def test_options_win_and_are_named_when_wrong(tmp_path: Path) -> None:
    write(tmp_path, CHANNELS)
    assert f"data      {tmp_path}/elsewhere" in antler("check-config", "--data-dir", "elsewhere", cwd=tmp_path).stdout
    done = antler("run", "--log-level", "loud", cwd=tmp_path)
    assert done.returncode == 78
    assert "command line: --log-level: should be 'debug', 'info', 'warning' or 'error'" in done.stderr


def test_without_a_file_the_built_in_default_is_checked(tmp_path: Path) -> None:
    done = antler("check-config", cwd=tmp_path)
    assert done.returncode == 0
    assert "built-in default" in done.stdout
    assert "model     demo" in done.stdout


def test_manifest_prints_what_a_platform_wants_pasted(tmp_path: Path) -> None:
    done = antler("manifest", "slack", "--name", "Buddy", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "name: Buddy" in done.stdout
    assert "display_name: Antler" in antler("manifest", "slack", cwd=tmp_path).stdout


def test_manifest_says_where_there_is_none(tmp_path: Path) -> None:
    done = antler("manifest", "console", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "antler: console has no app manifest; only slack does\n"
    done = antler("manifest", "carrier-pigeon", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("antler: unknown platform 'carrier-pigeon'; known platforms: console, feishu")


def test_a_skill_is_checked(tmp_path: Path) -> None:
    put_skill(tmp_path / "sources", "tidy", "Tidies.", model="big")
    done = antler("skills", "validate", "sources", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "tidy:\n  SKILL.md: model: unknown key\n")


def test_prompt_prints_its_groups_with_their_tokens_and_a_total(tmp_path: Path) -> None:
    write(tmp_path, CHANNELS + "sandbox: {use: 'off'}\nmemory: {enabled: false}\nschedules: {enabled: false}\n")
    done = antler("prompt", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    groups = re.findall(r"^=== (.+) \((\d+) tokens\)$", done.stdout, re.MULTILINE)
    names = [name for name, _ in groups]
    assert names == ["role", "soul", "thinking", "abilities", "subagents", "style", "input", "place"]
    total = re.search(r"^total +(\d+)  estimated", done.stdout, re.MULTILINE)
    assert total is not None
    assert int(total[1]) == sum(int(size) for _, size in groups)
    assert "private chat with one person on Telegram" in done.stdout
    for missing in ("there is no sandbox", "there is no schedule", "there is no memory", "use the web. What"):
        assert missing in done.stdout
    assert not (tmp_path / "data").exists()


def test_prompt_follows_the_agent_and_names_what_to_change(tmp_path: Path) -> None:
    write(tmp_path, CHANNELS + "sandbox: {use: 'off'}\n")
    folder = tmp_path / "agents" / "desk"
    folder.mkdir(parents=True)
    (folder / "SOUL.md").write_text("You are the support desk.")
    assert "You are the support desk." in antler("prompt", "--agent", "desk", cwd=tmp_path).stdout
    unknown = antler("prompt", "--agent", "desc", cwd=tmp_path)
    assert unknown.returncode == 1
    assert "--agent: no agent desc in agents_dir" in unknown.stderr
    assert "available: default, desk" in unknown.stderr
    unread = antler("prompt", "--chat", "telegram:1", cwd=tmp_path)
    assert unread.returncode == 1
    assert "--chat: no database in data_dir" in unread.stderr


def test_every_list_can_be_read_by_programs(tmp_path: Path) -> None:
    write(tmp_path, CHANNELS + 'access: {allow: ["telegram:1"]}\n')
    allowed = antler("access", "allow", "telegram:2", cwd=tmp_path)
    assert allowed.returncode == 0
    config, granted = json.loads(antler("access", "list", "--json", cwd=tmp_path).stdout)
    assert (config["subject"], config["state"], config["key"]) == ("telegram:1", "allowed", "access.allow")
    assert (granted["subject"], granted["kind"], granted["by"]) == ("telegram:2", "person", "antler on the machine")
    assert granted["since"].endswith("+00:00")
    assert json.loads(antler("memory", "list", "--json", cwd=tmp_path).stdout) == []
    assert json.loads(antler("skills", "waiting", "--json", cwd=tmp_path).stdout) == []
    skills = json.loads(antler("skills", "list", "--json", cwd=tmp_path).stdout)
    assert {skill["origin"] for skill in skills} == {"public"}
    assert all(skill["on"] and skill["description"] for skill in skills)


def test_help_lists_the_commands_in_groups_and_the_version_is_an_option(tmp_path: Path) -> None:
    shown = antler("--help", cwd=tmp_path).stdout
    groups = re.findall(r"^╭─ (.+?) ─+╮$", shown, re.MULTILINE)
    assert groups == ["Options", "Serve", "Set up", "Chats and people", "Data and versions"]
    version = antler("--version", cwd=tmp_path)
    assert (version.returncode, version.stdout) == (0, antler("version", cwd=tmp_path).stdout)
    assert re.fullmatch(r"antler \d+\.\d+\.\d+\S*\n", version.stdout)


def test_a_message_is_read_from_the_standard_input_and_kept_for_the_next_start(tmp_path: Path) -> None:
    write(tmp_path, CHANNELS)
    command = [sys.executable, "-m", "bot", "send", "telegram:7", "-", "--anyway"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, input="zwölf\nlines\n", capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "telegram:7: antler is not running; the message is sent at its next start\n"
    with sqlite3.connect(tmp_path / "data/antler.db") as database:
        ((chat, body),) = database.execute("SELECT chat, body FROM outbox").fetchall()
    assert (chat, json.loads(body)["text"]) == ("7", "zwölf\nlines")
    empty = antler("send", "telegram:7", "--anyway", cwd=tmp_path)
    assert (empty.returncode, empty.stdout) == (1, "")
    assert empty.stderr == "antler: there is nothing to send: the text is empty\n"
