"""`antler logs`: the newest lines of the log's files, those since a time, and those that come."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bot.cli.logs import BadTime, begin_of, show
from bot.control import logs
from bot.redaction import Redactor
from tests.bot.settings_files import write
from tests.simulators.process import heed_interrupts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal

ROOT = Path(__file__).parents[3]
SECRET = "sk-0123456789abcdef"


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Path]:
    """A folder in which this process keeps its log."""
    root, found = logging.getLogger(), [*logging.getLogger().handlers]
    yield tmp_path
    for handler in [*root.handlers]:
        if handler not in found:
            root.removeHandler(handler)
            handler.close()


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_is_logged_is_shown_with_its_day(
    kept: Path, form: Literal["text", "json"], capsys: pytest.CaptureFixture[str]
) -> None:
    logs.keep(kept, form, Redactor([SECRET]))
    before = datetime.now(UTC).replace(microsecond=0)
    logging.getLogger("bot.test").warning("the key is %s", SECRET)
    try:
        raise RuntimeError("within")
    except RuntimeError:
        logging.getLogger("bot.test").exception("it failed")
    assert show(kept, 100, before, follow=False) == 0
    shown = capsys.readouterr().out
    assert ("the key is" in shown, "it failed" in shown, "RuntimeError: within" in shown) == (True, True, True)
    assert SECRET not in shown
    assert before.astimezone().strftime("%Y-%m-%d") in shown
    assert show(kept, 100, before + timedelta(hours=1), follow=False) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("taken", ["deleted", "moved"])
def test_a_file_that_somebody_takes_away_is_begun_anew(kept: Path, taken: str) -> None:
    logs.keep(kept, "text", Redactor([SECRET]))
    log, log_file = logging.getLogger("bot.test"), kept / "antler.log"
    log.warning("first")
    if taken == "moved":
        log_file.rename(kept / "by-logrotate")
    else:
        log_file.unlink()
    log.warning("second")
    log.warning("third")
    assert [line.rpartition(" ")[2] for line in log_file.read_text().splitlines()] == ["second", "third"]
    assert log_file.stat().st_mode & 0o777 == 0o600


class Counting(Redactor):
    """texts: how many were redacted."""

    texts = 0

    def __call__(self, text: str) -> str:
        self.texts += 1
        return super().__call__(text)


def test_a_full_file_is_set_aside_and_no_record_is_formatted_for_that(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "FILE_BYTES", 1000)
    redact = Counting([SECRET])
    logs.keep(kept, "text", redact)
    for number in range(30):
        logging.getLogger("bot.test").warning("line %d of a hundred characters or so %s", number, "." * 60)
    *full, last = [kept / name for name in ("antler.log.3", "antler.log.2", "antler.log.1", "antler.log")]
    assert "".join(file.read_text() for file in (*full, last)).count("line ") == redact.texts == 30
    assert all(file.stat().st_size >= 1000 for file in full)


def lines(first: int, last: int) -> str:
    at = datetime(2026, 11, 23, tzinfo=UTC)
    stamps = ((number, at + timedelta(hours=number)) for number in range(first, last))
    return "".join(f"{when.isoformat(' ')} INFO bot: line {number}\n    more\n" for number, when in stamps)


def test_the_newest_lines_of_all_files_and_those_since_a_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, first in (("antler.log.2", 0), ("antler.log.1", 3), ("antler.log", 6)):
        (tmp_path / name).write_text(lines(first, first + 3))
    assert show(tmp_path, 8, None, follow=False) == 0
    assert capsys.readouterr().out == lines(5, 9)
    assert show(tmp_path, None, begin_of("2026-11-23T02:30+00:00"), follow=False) == 0
    assert capsys.readouterr().out == lines(3, 9)
    assert show(tmp_path, 0, None, follow=False) == 0
    assert capsys.readouterr().out == ""


def test_times_are_ago_or_written_out() -> None:
    for text, ago in (("90s", timedelta(seconds=90)), ("2h", timedelta(hours=2)), ("3d", timedelta(days=3))):
        assert abs(datetime.now(UTC) - ago - begin_of(text)) < timedelta(seconds=30)
    assert begin_of("2026-11-23") == datetime(2026, 11, 23).astimezone(UTC)
    for wrong in ("yesterday", "2", "0001-01-01T00:00+23:59", "h2"):
        with pytest.raises(BadTime, match="use 30m"):
            begin_of(wrong)


def test_a_log_that_grows_and_is_set_aside_is_followed_without_a_gap(tmp_path: Path) -> None:
    write(tmp_path, "channels: {console: {}}\n")
    log = tmp_path / "data" / "antler.log"
    log.parent.mkdir()
    log.write_text("old\n")
    command = [sys.executable, "-m", "bot", "logs", "--follow", "-n", "1"]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True, preexec_fn=heed_interrupts
    ) as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "old\n"
        with log.open("a") as file:
            file.write("first\n")
        assert following.stdout.readline() == "first\n"
        with log.open("a") as file:
            file.write("last of the old\n")
        log.rename(log.with_name("antler.log.1"))
        log.write_text("new\n")
        assert [following.stdout.readline() for _ in range(2)] == ["last of the old\n", "new\n"]
        following.send_signal(2)
        assert following.wait(20) == 0


def test_without_a_file_it_says_where_else_to_look(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert show(tmp_path, 10, None, follow=False) == 1
    said = capsys.readouterr()
    assert (said.out, "`antler service logs`" in said.err, "log.file" in said.err) == ("", True, True)


def test_a_line_that_cannot_be_written_is_shown_nowhere_unredacted(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.keep(kept, "text", Redactor([SECRET]))
    record = logging.makeLogRecord({"msg": "one of %s", "args": (SECRET, SECRET), "levelno": logging.ERROR})
    logging.getLogger().handlers[-1].handle(record)
    assert SECRET not in capsys.readouterr().err
