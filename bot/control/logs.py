"""Logging setup: text for people or one JSON object per line, always redacted, libraries kept quiet.

The log holds no words of people (docs/privacy.md), but an exception's text may: parsed input, a row that a constraint
rejected, a request repeated by a provider. So exceptions are formatted with `described`, not with `str`.
"""

from __future__ import annotations

import asyncio
import copy
import fcntl
import json
import logging
import os
import sys
import threading
import time
import traceback
from collections import deque
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import datetime
from io import FileIO, TextIOWrapper
from itertools import pairwise
from logging.handlers import RotatingFileHandler
from typing import TYPE_CHECKING, Literal

from pydantic import ValidationError
from sqlalchemy.exc import DBAPIError

from bot.redaction import RedactingFormatter, Redactor
from bot.settings.sections import LOG_FILE, LogSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from types import TracebackType

    from bot.settings import Settings
    from harness.ports import AuditEntry

    ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


OURS = ("bot", "channels", "harness", "sandbox")
FIXED = (
    ArithmeticError,
    AttributeError,
    EOFError,
    ImportError,
    MemoryError,
    NameError,
    NotImplementedError,
    RecursionError,
    RuntimeError,
    TypeError,
    UnicodeError,
    json.JSONDecodeError,
)
"""Exceptions whose texts name code and places, never the data being processed."""
DATA_EXCEPTIONS = "22"
"""The class of SQLSTATE whose messages contain the rejected value (PostgreSQL docs, appendix A)."""

NAME = "audit.jsonl"
MOST_BYTES = 10_000_000
"""A file that would exceed this is renamed to NAME.1, the one before to NAME.2 and so on."""
SET_ASIDE = 9
LOCK_SECONDS = 2.0
"""Seconds that a line waits for other processes that share the file."""


class AuditFile:
    """AuditLog port, writing to a file. path: of the file, 0600. redact: removes known secrets from every line."""

    def __init__(
        self, path: Path, redact: Callable[[str], str], *, most_bytes: int = MOST_BYTES, set_aside: int = SET_ASIDE
    ) -> None:
        self._path = path
        self._redact = redact
        self._most_bytes = most_bytes
        self._set_aside = set_aside
        self._lock = threading.Lock()

    async def append(self, entry: AuditEntry) -> None:
        """See the port. The line has reached the kernel when this returns."""
        fields = {name: value for name, value in asdict(entry).items() if value not in ("", None)}
        fields["at"] = entry.at.isoformat(timespec="milliseconds")
        line = self._redact(json.dumps(fields, ensure_ascii=False)) + "\n"
        await asyncio.to_thread(self._write, line.encode("utf-8", "backslashreplace"))

    def _write(self, line: bytes) -> None:
        with self._lock:
            descriptor = self._opened()
            size = os.fstat(descriptor).st_size
            if size and size + len(line) > self._most_bytes:
                try:
                    self._rotate()
                finally:
                    os.close(descriptor)
                descriptor = self._opened()
                size = os.fstat(descriptor).st_size
            try:
                _write_all(descriptor, line)
            except OSError:
                os.ftruncate(descriptor, size)  # half a line would spoil the next one
                raise
            finally:
                os.close(descriptor)

    def _opened(self) -> int:
        """Open the file, which no other process writes or rotates until it is closed."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        while True:
            descriptor = os.open(self._path, flags, 0o600)
            _lock(descriptor)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.lstat(self._path)):
                    return descriptor
            os.close(descriptor)  # another process has just rotated it

    def _rotate(self) -> None:
        names = [self._path, *(self._path.with_name(f"{self._path.name}.{n}") for n in range(1, self._set_aside + 1))]
        for old, new in reversed(list(pairwise(names))):
            if old.exists():
                old.replace(new)


def _lock(descriptor: int) -> None:
    """Wait for other processes that share the file; not for a frozen one, nor where locks are unavailable."""
    until = time.monotonic() + LOCK_SECONDS
    with suppress(OSError):
        while time.monotonic() < until:
            with suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            time.sleep(0.005)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def described(error: BaseException) -> str:
    """The form of an exception in the log: its type, and its text where that holds no words of people."""
    kind = type(error).__name__
    text = _text(error)
    if text is None:
        return f"{kind} (text not logged)" if str(error) else kind
    return f"{kind}: {text}" if text else kind


def _text(error: BaseException) -> str | None:
    """The text of an exception; None where its content is unknown."""
    match error:
        case _ if type(error).__module__.partition(".")[0] in OURS:
            return str(error)
        case ValidationError():
            lines = error.errors(include_input=False, include_url=False, include_context=False)
            return "; ".join(f"{'.'.join(map(str, line['loc']))}: {line['msg']}" for line in lines)
        case DBAPIError():
            return described(error.orig) if error.orig is not None else ""
        case OSError():
            return error.strerror or "" if error.filename is not None else str(error)
    match type(error).__module__.partition(".")[0]:
        case "sqlite3":
            return str(error)  # names tables and columns only
        case "psycopg" | "psycopg_pool":
            # Only the first line; "DETAIL:" and "CONTEXT:" below hold the row.
            state, line = getattr(error, "sqlstate", None) or "", str(error).partition("\n")[0]
            return state if state.startswith(DATA_EXCEPTIONS) else f"{line} {state}".rstrip()
    return str(error) if isinstance(error, FIXED) else None


def _lines(error: BaseException, seen: set[int]) -> list[str]:
    """The lines of a traceback, causes first."""
    seen.add(id(error))
    lines: list[str] = []
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None and id(cause) not in seen:
        how = "the direct cause of" if error.__cause__ is not None else "being handled during"
        lines += [*_lines(cause, seen), "", f"This was {how} the following:", ""]
    if error.__traceback__ is not None:
        frames = traceback.format_list(traceback.extract_tb(error.__traceback__))
        lines += ["Traceback (most recent call last):", *"".join(frames).rstrip("\n").split("\n")]
    lines.append(described(error))
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions:
            lines += [f"  {line}" for line in _lines(member, seen) if id(member) in seen]
    return lines


def _local(record: logging.LogRecord) -> datetime:
    """The time of the record, in the time zone of this machine."""
    return datetime.fromtimestamp(record.created).astimezone()


def _argument(value: object) -> object:
    """An argument of a record; an exception is shown as `described`, one of our own as its text."""
    if not isinstance(value, BaseException):
        return value
    return str(value) if type(value).__module__.partition(".")[0] in OURS else described(value)


class _Wordless(logging.Formatter):
    """Formats a record and its exceptions without the words of people that these may hold."""

    def formatException(self, ei: ExcInfo) -> str:
        return "" if ei[1] is None else "\n".join(_lines(ei[1], set()))

    def format(self, record: logging.LogRecord) -> str:
        record = copy.copy(record)
        record.exc_text = None  # as another formatter rendered the exception
        if isinstance(record.args, tuple):
            record.args = tuple(_argument(value) for value in record.args)
        if record.name == "asyncio" and record.exc_info:
            # Below its first line is the task with its exception, as `repr` shows it.
            record.msg, record.args = record.getMessage().partition("\n")[0], ()
        return self.formatted(record)

    def formatted(self, record: logging.LogRecord) -> str:
        return super().format(record)


FIELDS = (
    *("event", "account", "conversation", "run", "person", "model", "state", "tokens", "seconds", "first_words"),
    *("tool", "by", "part", "problem", "action", "what"),
)
"""What a record may carry besides its text, as `extra`; `event` is the kind of event. Never words of people."""


class JsonFormatter(_Wordless):
    """One JSON object per line, so a newline in a message cannot forge a second record; with the record's FIELDS."""

    def formatted(self, record: logging.LogRecord) -> str:
        entry = {
            "time": _local(record).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        known = vars(record)
        entry |= {name: known[name] for name in FIELDS if known.get(name) not in (None, "")}
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


class TextFormatter(_Wordless):
    """`2026-11-23 09:05:01+01:00 INFO bot.process.app: ...`, with control characters of foreign text escaped; only
    records start a line."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        return _local(record).isoformat(" ", timespec="seconds")

    def formatted(self, record: logging.LogRecord) -> str:
        text = super().formatted(record)
        if text.isprintable():
            return text
        text = "".join(c if c in "\n\t" or c.isprintable() else f"\\x{ord(c):02x}" for c in text)
        return text.replace("\n", "\n    ")


class RecentErrors(logging.Handler):
    """Keeps the first lines of the newest errors, for `antler status`."""

    KEPT = 5
    LONGEST = 300

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: deque[str] = deque(maxlen=self.KEPT)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record).partition("\n")[0][: self.LONGEST])


def recent_errors() -> Sequence[str]:
    """The newest errors in this process's log, oldest first."""
    kept = (handler for handler in logging.getLogger().handlers if isinstance(handler, RecentErrors))
    return [line for handler in kept for line in handler.lines]


def configure(level: str, format_name: Literal["text", "json"], redact: Redactor) -> None:
    """Replace the root handler. Libraries log from WARNING on: at INFO httpx prints URLs, which hold tokens."""
    root = logging.getLogger()
    errors = RecentErrors()
    errors.setFormatter(RedactingFormatter(TextFormatter(), redact))
    root.handlers[:] = [logging.StreamHandler(sys.stderr), errors]
    sys.excepthook = _unexpected_end
    threading.excepthook = _thread_ended
    root.setLevel(logging.WARNING)
    follow(level, format_name, redact)


def follow(level: str, format_name: Literal["text", "json"], redact: Redactor) -> None:
    """Log at another level, or in another format, to the same destinations."""
    form = RedactingFormatter(JsonFormatter() if format_name == "json" else TextFormatter(), redact)
    for handler in logging.getLogger().handlers:
        if not isinstance(handler, RecentErrors):
            handler.setFormatter(form)
    for name in OURS:
        logging.getLogger(name).setLevel(level.upper())


FILE_BYTES, EARLIER_FILES = 10_000_000, 5


class _LogFile(RotatingFileHandler):
    def shouldRollover(self, record: logging.LogRecord) -> bool:
        """Whether the file has reached its size, without the length of the record, which would have to be formatted and
        redacted for that alone. A file that was moved away or deleted is first replaced by a new one."""
        if self.stream is None:
            return False
        opened = os.fstat(self.stream.fileno())
        with suppress(FileNotFoundError):
            if os.path.samestat(opened, os.stat(self.baseFilename)):
                return opened.st_size >= self.maxBytes
        former, self.stream = self.stream, self._open()
        former.close()
        return False

    def _open(self) -> TextIOWrapper:
        """Open the file, readable by its owner alone whatever the umask is: commands write to it too."""
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        return TextIOWrapper(FileIO(descriptor, "a"), self.encoding, self.errors, line_buffering=True)

    def handleError(self, record: logging.LogRecord) -> None:
        """Do nothing: with a full disk stderr still has the line, and a traceback would show unredacted text."""


def keep(folder: Path, format_name: Literal["text", "json"], redact: Redactor, *, alone: bool = False) -> None:
    """Write the log also to a file in the folder, which only this process may use. Raises OSError.

    alone: to the file only, since log lines would break up what a person types at the terminal.
    """
    file, root = _file(folder, format_name, redact), logging.getLogger()
    if alone:
        root.handlers[0] = file
    else:
        root.addHandler(file)


def _file(folder: Path, format_name: Literal["text", "json"], redact: Redactor) -> _LogFile:
    file = _LogFile(
        folder / LOG_FILE, maxBytes=FILE_BYTES, backupCount=EARLIER_FILES, encoding="utf-8", errors="backslashreplace"
    )
    file.setFormatter(RedactingFormatter(JsonFormatter() if format_name == "json" else TextFormatter(), redact))
    return file


@contextmanager
def written(settings: Settings) -> Iterator[None]:
    """Log to the gateway's file within the block, for a command that works on the data while no gateway runs. The
    caller holds the data folder's lock. Nothing is logged where the file cannot be written, where log.file is off, or
    for a user who does not own the folder, since the gateway could not write to that user's file."""
    root, ours, file = logging.getLogger(), logging.getLogger("bot"), None
    with suppress(OSError):
        if settings.log.file and settings.data_dir.stat().st_uid == os.geteuid():
            file = _file(settings.data_dir, settings.log.format, Redactor(settings.secrets()))
    if file is None:
        yield
        return
    level, handlers = ours.level, list[logging.Handler]([file])
    if not root.handlers and logging.lastResort is not None:
        handlers.append(logging.lastResort)  # warnings still reach the terminal
    for handler in handlers:
        root.addHandler(handler)
    ours.setLevel(settings.log.level.upper())
    try:
        yield
    finally:
        ours.setLevel(level)
        for handler in handlers:
            root.removeHandler(handler)
        file.close()


class _HandingOn(logging.Handler):
    """Passes records to the root logger in a publishable form: redacted, without words of people."""

    def __init__(self, redact: Redactor) -> None:
        super().__init__()
        self.setFormatter(RedactingFormatter(_Wordless("%(message)s"), redact))

    def emit(self, record: logging.LogRecord) -> None:
        told = copy.copy(record)
        told.msg, told.args = self.format(record), ()
        told.exc_info = told.exc_text = told.stack_info = None
        logging.getLogger().handle(told)


@contextmanager
def handed_on(redact: Redactor) -> Iterator[None]:
    """Pass the gateway's log to that of the embedding program within the block, with secrets and words of people
    removed before any of the program's handlers sees them."""
    handler = _HandingOn(redact)
    loggers = [logging.getLogger(name) for name in OURS]
    before = [logger.propagate for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, propagates in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.propagate = propagates


def adopt(wanted: LogSettings, folder: Path, redact: Redactor) -> None:
    """Log according to these settings from now on. A log that is written to a file alone stays there."""
    follow(wanted.level, wanted.format, redact)
    root = logging.getLogger()
    files = [handler for handler in root.handlers if isinstance(handler, _LogFile)]
    for file in files:
        if not wanted.file and file is not root.handlers[0]:
            root.removeHandler(file)
            file.close()
    if wanted.file and not files:
        try:
            keep(folder, wanted.format, redact)
        except OSError as error:
            logging.getLogger("bot").warning("log.file: cannot log to a file: %s", error.strerror)


def _unexpected_end(kind: type[BaseException], error: BaseException, place: TracebackType | None) -> None:
    if isinstance(error, Exception):
        logging.getLogger("bot").critical("antler exits because of an unexpected error", exc_info=error)
        for handler in logging.getLogger().handlers:
            if isinstance(handler, logging.FileHandler):
                print(f"antler exits because of an unexpected error; see {handler.baseFilename}", file=sys.stderr)


def _thread_ended(what: threading.ExceptHookArgs) -> None:
    if isinstance(what.exc_value, Exception):
        name = what.thread.name if what.thread is not None else "unknown"
        logging.getLogger("bot").error("thread %s failed", name, exc_info=what.exc_value)


def complain(reason: object, code: int = 1) -> int:
    """Print on the terminal why a command cannot do its work; returns its exit code."""
    print(f"antler: {reason}", file=sys.stderr)
    return code
