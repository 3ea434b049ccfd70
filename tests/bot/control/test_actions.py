"""What administrators do is in the log: who, to whom, where, and nobody's words."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bot.control import actions
from bot.control.actions import MACHINE, Action, log_action, tell
from bot.control.lock import DataDirLock
from bot.control.logs import JsonFormatter
from bot.settings import Settings
from bot.texts import texts_for
from tests.bot.conversations.test_policies import bubble, press
from tests.bot.core import ANN, BOB, core

if TYPE_CHECKING:
    from collections.abc import Iterator

EN = texts_for("en")
MONITORING = Path(__file__).parents[3] / "docs/monitoring.md"
ASKED = ("action", "by", "account", "conversation", "person", "what")


@pytest.fixture(autouse=True)
def _everything_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.INFO, "bot"):
        yield


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, ...]]:
    """The actions since the last look, each by the fields of ASKED that it has."""
    assert "secret" not in caplog.text
    records = [vars(record) for record in caplog.records if getattr(record, "event", "") == actions.EVENT]
    caplog.clear()
    return [tuple(str(record[name]) for name in ASKED if record[name]) for record in records]


async def test_what_an_administrator_does_to_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with core(tmp_path) as c:
        where, bob = ("memory", "memory:g"), "memory:2"
        c.harness.hold("my secret plan")
        await c.say("my secret plan", BOB, "g")
        await c.say("another secret", BOB, "g")
        await c.say("/queue", ANN, "g")
        await c.clock.advance(2)
        await press(c, bubble(c, -1, "g"), "1 · Drop", ANN, "g")
        assert told(caplog) == [("drop", "memory:1", *where, bob)]
        await c.say("more", BOB, "g")
        await c.say("/queue clear", ANN, "g")
        await c.clock.advance(2)
        assert told(caplog) == [("drop", "memory:1", *where, bob)]
        gate = c.harness.hold("and this")
        await c.say("and this", BOB, "g")
        await c.say("/queue", ANN, "g")
        await c.clock.advance(2)
        await press(c, bubble(c, -1, "g"), "1 · Run now", ANN, "g")
        assert told(caplog) == [("run_next", "memory:1", *where, bob), ("stop", "memory:1", *where, bob)]
        await c.clock.advance(2)
        await c.say("/stop", ANN, "g")
        await c.clock.advance(2)
        assert told(caplog) == [("stop", "memory:1", *where, bob)]
        gate.set()
        await c.say("/retry", ANN, "g")
        await c.answered()
        await c.say("/undo", ANN, "g")
        await c.clock.advance(2)
        assert [action for action, *_ in told(caplog)] == ["retry", "undo"]


async def test_what_a_person_does_with_their_own_is_no_action(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with core(tmp_path) as c:
        for person in (ANN, BOB):
            c.harness.hold(f"hello {person}")
            await c.say(f"hello {person}", person)
            await c.say("one more", person)
            for command in ("queue clear", "stop", "undo", "new", "models other", "verbose full", "timezone UTC"):
                await c.say(f"/{command}", person)
                await c.clock.advance(2)
        assert told(caplog) == []


async def test_what_changes_a_group_is_told_with_what_was_chosen(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with core(tmp_path) as c:
        for command in ("/models other", "/verbose full", "/timezone Asia/Tokyo", "/new a secret title"):
            await c.say(command, ANN, "g")
            await c.clock.advance(2)
        await c.say("/models", ANN, "g")
        await c.clock.advance(2)
        shown = bubble(c, -1, "g")
        await c.press(shown.message_id, shown.part.buttons[0][0].data, ANN, "g")
        await c.clock.advance(2)
        by = ("memory:1", "memory", "memory:g")
        assert told(caplog) == [
            ("model", *by, "other"),
            ("progress", *by, "full"),
            ("timezone", *by, "Asia/Tokyo"),
            ("new_thread", *by),
            ("model", *by, "main"),
        ]


def settings_of(folder: Path, **log: Any) -> Settings:
    return Settings.model_validate({"channels": {"console": {}}, "data_dir": folder, "log": log})


def test_a_command_is_in_the_log_also_while_nothing_runs(tmp_path: Path) -> None:
    settings, file = settings_of(tmp_path, format="json"), tmp_path / "antler.log"
    before = logging.getLogger().handlers[:], logging.getLogger("bot").level
    tell(settings, Action.SKILL_REMOVE, what="tidy")
    entry = json.loads(file.read_text())
    assert (entry["event"], entry["action"], entry["by"], entry["what"]) == (
        actions.EVENT,
        "skill_remove",
        MACHINE,
        "tidy",
    )
    assert file.stat().st_mode & 0o777 == 0o600
    assert (logging.getLogger().handlers, logging.getLogger("bot").level) == before
    with DataDirLock(tmp_path):  # a process that has not opened its socket yet
        tell(settings, Action.SKILL_REMOVE, what="tidy")
    tell(settings_of(tmp_path, file=False), Action.SKILL_REMOVE, what="tidy")
    assert len(file.read_text().splitlines()) == 1


async def test_the_running_process_logs_for_a_command(caplog: pytest.LogCaptureFixture) -> None:
    done = await actions.operation({"action": "backup", "what": "x" * 1000, "words": "a secret", "by": "somebody"})
    assert done["done"] is True
    assert told(caplog) == [("backup", MACHINE, "x" * actions.LONGEST)]
    assert (await actions.operation({"action": "something else"}))["done"] is False
    assert told(caplog) == []


def test_a_line_of_json_has_the_fields(caplog: pytest.LogCaptureFixture) -> None:
    log_action(Action.STOP, "a:1", account="a", conversation="a:g", person="a:2", run="r")
    entry = json.loads(JsonFormatter().format(caplog.records[-1]))
    assert entry["message"] == "stop of a:2 in a:g, by a:1"
    assert {name: entry[name] for name in ("event", "action", "by", "account", "conversation", "person", "run")} == {
        "event": "admin_action",
        "action": "stop",
        "by": "a:1",
        "account": "a",
        "conversation": "a:g",
        "person": "a:2",
        "run": "r",
    }
    assert "what" not in entry


def test_the_page_on_monitoring_has_every_action() -> None:
    page = MONITORING.read_text()
    assert [action for action in Action if f"`{action}`" not in page] == []
