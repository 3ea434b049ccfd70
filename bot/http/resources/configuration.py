"""The config file as administrators see it: masked, checked with a change, and what the change would do.

Secrets never leave the process: they are replaced by numbered marks, which stand for them in a text that comes back.
Writing the file is for who controls this machine alone (a link of `antler web`), since a config names programs to run.
"""

from __future__ import annotations

import asyncio
import difflib
import hashlib
import re
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.access.admission import OPERATOR
from bot.http.errors import HttpProblem
from bot.operations.reload import change
from bot.settings.problems import ConfigError
from harness.files.durable import write_atomically

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bot.http.auth import Caller
    from bot.http.parts import HttpParts
    from bot.operations.reload import Change, Reloader
    from bot.settings import Settings
    from bot.settings.load import SettingsSource

LONGEST = 400_000
"""Characters of a config file."""
MARK = re.compile(r"__masked_(\d{1,4})__")
SHORTEST_SECRET = 4
"""Shorter values would mask half of the file."""
_NAMED = re.compile(
    r"(?P<key>[\w.-]*(?:token(?!s|_url)|secret|passw|api_?key|credential|authorization)[\w-]*[\"']?\s*[:=]\s*)"
    r"(?P<value>(?![\s\"']*\$)(?:\"[^\"\n]+\"|'[^'\n]+'|[^\s#,}\]]+))",
    re.IGNORECASE,
)
"""What stands behind a key that sounds like a secret, in comments too; a reference to a variable stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing to mend. line: from 1, None where it is not in the file. Never holds a value."""

    line: int | None
    key: str
    message: str
    suggestion: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """text: the file with its secrets masked, "" where there is none (the built-in default) or it cannot be read. base:
    names this state of it. faults: of the file. pending: what of it does not hold here, and why. writable: the caller
    may write it from here."""

    file: str
    text: str
    base: str
    faults: tuple[Fault, ...]
    pending: str
    writable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What a changed text would do. diff: unified, masked. applied: keys that would hold at once; restart: that need a
    restart."""

    valid: bool
    faults: tuple[Fault, ...]
    diff: tuple[str, ...]
    applied: tuple[str, ...]
    restart: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What came of writing it. kept: nothing was changed."""

    kept: bool
    text: str


class Masked:
    """A text whose secrets are replaced by numbered marks."""

    def __init__(self, text: str, secrets: Sequence[str]) -> None:
        self._values: list[str] = []
        known = sorted((s for s in secrets if len(s) >= SHORTEST_SECRET and s in text), key=len, reverse=True)
        if known:
            text = re.sub("|".join(map(re.escape, known)), lambda found: self._mark(found[0]), text)
        self.text = _NAMED.sub(self._mask_named, text)

    def _mask_named(self, found: re.Match[str]) -> str:
        value = found["value"]
        return found[0] if MARK.search(value) else found["key"] + self._mark(value)

    def _mark(self, value: str) -> str:
        if value not in self._values:
            self._values.append(value)
        return f"__masked_{self._values.index(value) + 1}__"

    def restored(self, text: str) -> str:
        """A text with the secrets in place of their marks. Raises LookupError for a mark of no secret."""

        def value(found: re.Match[str]) -> str:
            number = int(found[1])
            if not 1 <= number <= len(self._values):
                raise LookupError(found[0])
            return self._values[number - 1]

        return MARK.sub(value, text)


class ConfigFile:
    """Reads, checks and writes the file that the process was started with."""

    def __init__(self, parts: HttpParts) -> None:
        self._parts = parts

    async def read(self, caller: Caller) -> Configuration:
        """The file as it is now."""
        source, path = self._source()
        if path is None:
            return Configuration(file="", text="", base="", faults=(), pending=self._pending(), writable=False)
        text = await asyncio.to_thread(_text, path)
        masked, faults = await asyncio.to_thread(self._mask, source, text)
        return Configuration(
            file=path.name,
            text=masked.text,
            base=_base(text),
            faults=faults,
            pending=self._pending(),
            writable=caller.person == OPERATOR and not caller.is_program,
        )

    async def check(self, text: str, base: str) -> Checked:
        """What is wrong with a changed text, and what it would change. base: of the text that it was made from."""
        return await asyncio.to_thread(self._check, text, base)

    async def apply(self, caller: Caller, text: str, base: str) -> Applied:
        """Write a text that is without fault, and have it hold. A config that the parts refuse is taken back."""
        if caller.person != OPERATOR or caller.is_program:
            raise HttpProblem(
                403, "not_from_here", "a config is written only by who opened this page with a link of `antler web`"
            )
        reloader = self._parts.reloader
        checked = await self.check(text, base)
        if not checked.valid or reloader is None:
            return Applied(kept=True, text="\n".join(_told(fault) for fault in checked.faults))
        source, path = self._source()
        assert path is not None  # `check` would have raised
        before = await asyncio.to_thread(_text, path)
        whole = (await asyncio.to_thread(self._mask, source, before))[0].restored(text)
        holds = self._parts.tasks.spawn("config from the page", _hold(reloader, path, whole, before, caller.person))
        # What was begun is done to its end, whatever becomes of the request: its own listener may be what changes.
        return await asyncio.shield(holds)

    def _check(self, text: str, base: str) -> Checked:
        source, path = self._source()
        if path is None:
            raise HttpProblem(409, "no_file", "antler runs without a config file; `antler init` makes one")
        if len(text) > LONGEST:
            raise HttpProblem(413, "too_large", f"a config has at most {LONGEST} characters")
        before = _text(path)
        if base != _base(before):
            raise HttpProblem(409, "changed", "the file has changed meanwhile: load it again")
        masked, _ = self._mask(source, before)
        try:
            whole = masked.restored(text)
        except LookupError as error:
            fault = Fault(
                line=None, key="", message=f"{error.args[0]} stands for no secret", suggestion="write a value"
            )
            return Checked(valid=False, faults=(fault,), diff=(), applied=(), restart=())
        shown = Masked(text, [])
        diff = difflib.unified_diff(masked.text.splitlines(), shown.text.splitlines(), "now", "then", lineterm="", n=2)
        settings, faults = self._settings(source, whole)
        step = self._step(settings)
        return Checked(
            valid=settings is not None,
            faults=faults,
            diff=tuple(diff),
            applied=step.applied if step is not None else (),
            restart=step.restart if step is not None else (),
        )

    def _mask(self, source: SettingsSource, text: str) -> tuple[Masked, tuple[Fault, ...]]:
        """The text without the secrets that hold, those that it names itself, and all that sounds like one."""
        settings, faults = self._settings(source, text)
        secrets = set(self._parts.settings().secrets()) | (set(settings.secrets()) if settings is not None else set())
        return Masked(text, sorted(secrets)), faults

    def _settings(self, source: SettingsSource, text: str) -> tuple[Settings | None, tuple[Fault, ...]]:
        try:
            return source.would_be(text), ()
        except ConfigError as error:
            return None, tuple(
                Fault(line=each.line, key=each.key, message=each.message, suggestion=each.suggestion)
                for each in error.problems
            )

    def _step(self, settings: Settings | None) -> Change | None:
        return None if settings is None else change(self._parts.settings(), settings)

    def _source(self) -> tuple[SettingsSource, Path | None]:
        if self._parts.reloader is None:
            raise HttpProblem(409, "no_file", "this gateway has no config that could be read again")
        source = self._parts.reloader.source
        return source, source.path

    def _pending(self) -> str:
        """What of the file on disk does not hold here, "" when all does."""
        last = self._parts.reloader.last if self._parts.reloader is not None else None
        return str(last) if last is not None and (last.restart or not last.complete) else ""


async def _hold(reloader: Reloader, path: Path, text: str, before: str, by: str) -> Applied:
    """Write the text and have it hold, or take it back."""
    await asyncio.to_thread(_write, path, text)
    outcome = await reloader.reload(by)
    if outcome.problems:
        await asyncio.to_thread(_write, path, before)
        await reloader.reload(by)
    return Applied(kept=bool(outcome.problems), text=str(outcome))


def _told(fault: Fault) -> str:
    where = "" if fault.line is None else f"line {fault.line}: "
    more = f"; {fault.suggestion}" if fault.suggestion else ""
    return f"{where}{fault.key}: {fault.message}{more}" if fault.key else f"{where}{fault.message}{more}"


def _base(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise HttpProblem(409, "unreadable", "the config file is not UTF-8 text") from None
    except OSError as error:
        raise HttpProblem(409, "unreadable", f"the config file cannot be read: {error.strerror}") from None


def _write(path: Path, text: str) -> None:
    try:
        write_atomically(path.resolve(), text.encode(), mode=stat.S_IMODE(path.stat().st_mode))
    except OSError as error:
        raise HttpProblem(409, "not_writable", f"the config file cannot be written: {error.strerror}") from None
