"""`antler logs`: prints the newest lines of the gateway's log files, and new ones as they are written."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import IO, TYPE_CHECKING

from bot.settings.sections import LOG_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NO_FILE = (
    "{file} does not exist: nothing has run here yet, or log.file is off. For a service, `antler service logs` shows "
    "the journal; for a container, use `docker logs`"
)
LOOK_SECONDS = 0.3
NEWEST = 100
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
AT = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[+-]\d\d:?\d\d) ")


class BadTime(ValueError):
    """Text that is no time; the message lists the accepted forms."""


def begin_of(text: str) -> datetime:
    """Parse a time: an age (90s, 30m, 2h, 3d, 1w), or ISO 8601, local without a zone. Raises BadTime."""
    if ago := re.fullmatch(r"(\d{1,6})([smhdw])", text):
        return datetime.now(UTC) - timedelta(**{UNITS[ago[2]]: int(ago[1])})
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadTime(f"{text!r} is not a time: use 30m, 2h, 3d, 2026-11-23 or 2026-11-23T10:00") from None


def show(folder: Path, lines: int | None, begin: datetime | None, *, follow: bool) -> int:
    """Print the newest lines (None: all), only those from `begin` on, then with `follow` new ones; returns the exit
    code."""
    file = folder / LOG_FILE
    if not file.exists() and not follow:
        print(f"antler: {NO_FILE.format(file=file)}", file=sys.stderr)
        return 1
    try:
        with suppress(KeyboardInterrupt):
            at_end = _print_newest(file, lines, begin)
            if follow:
                _follow(file, at_end)
    except BrokenPipeError:  # `antler logs | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _print_newest(file: Path, lines: int | None, begin: datetime | None) -> tuple[int, int]:
    """Print the newest lines. Returns where the file ended: its inode number, and how many of its bytes were read."""
    newest: deque[str] = deque(maxlen=lines)
    ended = (0, 0)
    for each in reversed(list(_files(file))):
        with suppress(FileNotFoundError), each.open("rb") as log:
            newest.extend(line.decode("utf-8", "replace") for line in log)
            ended = (os.fstat(log.fileno()).st_ino, log.tell())
    counts = begin is None
    for line in newest:
        # A line without a time, such as one of a traceback, belongs to the line above.
        counts = counts or ((at := _time_of(line)) is not None and begin is not None and at >= begin)
        if counts:
            sys.stdout.write(line)
    sys.stdout.flush()
    return ended


def _files(file: Path) -> Iterator[Path]:
    """The log file and its rotated predecessors, newest first."""
    for number in count():
        each = file if number == 0 else file.with_name(f"{file.name}.{number}")
        if number and not each.exists():
            return
        yield each


def _time_of(line: str) -> datetime | None:
    found = AT.match(line)
    with suppress(ValueError, KeyError, TypeError):
        return datetime.fromisoformat(found[1] if found else json.loads(line)["time"])
    return None


def _follow(file: Path, at_end: tuple[int, int]) -> None:
    """Print what is appended, also after the file was rotated."""
    number, read = at_end
    former = file.with_name(f"{file.name}.1")
    while True:
        with suppress(FileNotFoundError), file.open("rb") as log:
            now = os.fstat(log.fileno()).st_ino
            if now != number:
                with suppress(FileNotFoundError), former.open("rb") as before:
                    if os.fstat(before.fileno()).st_ino == number:
                        _print_rest(before, read)
                number, read = now, 0
            read = _print_rest(log, read)
        time.sleep(LOOK_SECONDS)


def _print_rest(log: IO[bytes], read: int) -> int:
    log.seek(read)
    for line in log:
        sys.stdout.write(line.decode("utf-8", "replace"))
    sys.stdout.flush()
    return log.tell()
