"""The config file for administrators: masked, checked with a change, and the effects of that change.

Secrets never leave the process: they are replaced by numbered marks, which represent them in a text that is sent back.
Only a person who controls this machine (a link of `antler web`) may write the file, as it names programs to run.
"""

from __future__ import annotations

import asyncio
import difflib
import hashlib
import re
import stat
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bot.access.admission import OPERATOR
from bot.http.errors import HttpProblem
from bot.operations.reload import change
from bot.settings.problems import ConfigError
from bot.settings.yamlfile import scalars
from harness.files.durable import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from bot.http.auth import Caller
    from bot.http.parts import HttpParts
    from bot.operations.reload import Reloader
    from bot.settings import Settings
    from bot.settings.load import SettingsSource
    from bot.settings.yamlfile import Scalar

LONGEST = 400_000
"""Characters of a config file."""
MARK = re.compile(r"__masked_(\d{1,4})__")
SHORTEST_SECRET = 4
"""Shorter values would mask half of the file."""
SURELY_SECRET = 8
"""Letters and digits of a value that must not remain anywhere, not even as a part of a key."""
_SOUNDS = r"(?:token(?!s|_url)|secret|passw|api_?key|credential|authorization)"
_SECRET_KEY = re.compile(_SOUNDS, re.IGNORECASE)
_REFERENCE = re.compile(r"\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\})", re.ASCII)
_COMMENT = re.compile(r"#[^\r\n]*")
_NAMED = re.compile(
    rf"(?P<key>{_SOUNDS}[\w-]{{0,80}}[\"']?\s{{0,8}}[:=]\s{{0,8}})"
    r"(?P<value>(?![\s\"']{0,8}\$)(?:\"[^\"\n]+\"|'[^'\n]+'|[^\s#,}\]]+))",
    re.IGNORECASE,
)
"""In a comment or a value, the text after a key that sounds like a secret; a reference to a variable stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault to fix. line: from 1, None where it is not in the file. Never contains a value."""

    line: int | None
    key: str
    message: str
    suggestion: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The config file. text: with its secrets masked, "" where there is none (the built-in default) or it is withheld.
    base: identifies this version of it. faults: of the file. pending: what of it is not in force here, and why.
    writable: the caller may write it from here."""

    file: str
    text: str
    base: str
    faults: tuple[Fault, ...]
    pending: str
    writable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The effects of a changed text. diff: unified, masked. applied: keys that would take effect at once; restart:
    those that need a restart."""

    valid: bool
    faults: tuple[Fault, ...]
    diff: tuple[str, ...]
    applied: tuple[str, ...]
    restart: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The outcome of writing it. kept: nothing was changed."""

    kept: bool
    text: str


@dataclass(frozen=True, slots=True)
class Mark:
    """What a mark represents. raw: as written. value: its meaning. place: the path of the value that contains it, all
    items of a list being alike; or the whole comment with its marks, as shown."""

    raw: str
    value: str
    place: tuple[str, ...] | str


class Withheld(Exception):
    """A text cannot be shown without a secret."""


class Misplaced(Exception):
    """A mark is misplaced; the text says how."""


class Masked:
    """A YAML text whose secrets are replaced by numbered marks. Raises Withheld.

    secrets: the known ones; values of keys that sound like secrets are masked too. first: the number of the first mark.
    Existing marks in the text stay if `first` is greater than theirs.
    """

    def __init__(self, text: str, secrets: Iterable[str], first: int = 1) -> None:
        found = scalars(text)
        if found is None:
            raise Withheld("invalid YAML is not shown, as its secrets cannot be recognized")
        if any(int(mark[1]) >= first for mark in MARK.finditer(text)):
            raise Withheld("it contains something like __masked_1__, which stands for secrets here")
        self._first = first
        self._marks: list[Mark] = []
        self._secrets = sorted({s for s in secrets if len(s) >= SHORTEST_SECRET}, key=len, reverse=True)
        lines = {line.strip() for secret in self._secrets for line in secret.splitlines()}
        known = sorted({*self._secrets, *(s for s in lines if len(s) >= SHORTEST_SECRET)}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None
        shown, at = [], 0
        for each in found:
            shown += [self._gap(text[at : each.start]), self._scalar(each, text[each.start : each.end])]
            at = each.end
        self.text = "".join([*shown, self._gap(text[at:])])
        bare = _bare(MARK.sub("", self.text))
        if any(len(_bare(s)) >= SURELY_SECRET and _bare(s) in bare for s in self._secrets):
            raise Withheld("a secret also occurs where it cannot be masked, such as in a key")

    @property
    def count(self) -> int:
        return len(self._marks)

    def _scalar(self, each: Scalar, raw: str) -> str:
        if each.is_key or not each.value or _REFERENCE.fullmatch(each.value) or MARK.search(raw):
            return raw
        place = _place(each)
        means = each.value.replace("$$", "$")
        held = [secret for secret in self._secrets if secret in means or secret in each.value]
        held += [found["value"] for found in _NAMED.finditer(each.value)]
        if any(_SECRET_KEY.search(step) for step in place):
            # A quoted value keeps its quotes: only the content is masked.
            whole = raw[1:-1] if raw[1:-1] == each.value else raw
            return raw.replace(whole, self._mark(Mark(whole, each.value, place)))
        if not held:
            return raw
        if "\n" in raw or any(raw.count(secret) != each.value.count(secret) or secret not in raw for secret in held):
            return self._mark(Mark(raw, each.value, place))
        parts = re.compile("|".join(map(re.escape, sorted(held, key=len, reverse=True))))
        return parts.sub(lambda part: self._mark(Mark(part[0], part[0], place)), raw)

    def _gap(self, text: str) -> str:
        """Mask the text between the values: comments may contain secrets."""
        return _COMMENT.sub(lambda comment: self._comment(comment[0]), text) if "#" in text else text

    def _comment(self, text: str) -> str:
        made: list[str] = []

        def mark(raw: str) -> str:
            made.append(raw)
            return f"__masked_{self._first + len(self._marks) + len(made) - 1}__"

        def named(found: re.Match[str]) -> str:
            return found[0] if MARK.search(found["value"]) else found["key"] + mark(found["value"])

        if self._known is not None:
            text = self._known.sub(lambda found: mark(found[0]), text)
        text = _NAMED.sub(named, text)
        self._marks += [Mark(raw, raw, text) for raw in made]
        return text

    def _mark(self, mark: Mark) -> str:
        if mark not in self._marks:
            self._marks.append(mark)
        return f"__masked_{self._first + self._marks.index(mark)}__"

    def _of(self, found: re.Match[str]) -> Mark:
        number = int(found[1]) - self._first
        if not 0 <= number < len(self._marks):
            raise Misplaced(f"{found[0]} does not stand for a secret")
        return self._marks[number]

    def restored(self, text: str) -> str:
        """A text with the secrets in place of their marks; text that is not YAML is returned unchanged. Raises
        Misplaced for a mark of no secret, and for one that is not at its original place."""
        found = scalars(text)
        if found is None:
            return text
        at = 0
        for each in found:
            self._check(text[at : each.start], None)
            self._check(text[each.start : each.end], each)
            at = each.end
        self._check(text[at:], None)
        whole = MARK.sub(lambda mark: self._of(mark).raw, text)
        meant = [(each.path, MARK.sub(lambda mark: self._of(mark).value, each.value)) for each in found]
        if [(each.path, each.value) for each in scalars(whole) or ()] != meant:
            raise Misplaced("a mark stands for a value that does not fit there: leave its line unchanged")
        return whole

    def _check(self, text: str, within: Scalar | None) -> None:
        """Raise Misplaced for marks that were not issued here. within: None for text between the values."""
        comments = list(_COMMENT.finditer(text)) if within is None else []
        for found in MARK.finditer(text):
            mark = self._of(found)
            if within is not None:
                fits = not within.is_key and _place(within) == mark.place
            else:
                fits = any(c[0] == mark.place for c in comments if c.start() <= found.start() < c.end())
            if not fits:
                raise Misplaced(f"{found[0]} stands for a value, but only where it was issued")

    def hidden(self, text: str) -> str:
        """Another text about this one, with marks in place of the secrets."""
        by_value = {form: n for n, each in enumerate(self._marks, self._first) for form in (each.raw, each.value)}
        forms = {form.strip(" \"'") for each in by_value for form in (each, *each.splitlines())} | set(self._secrets)
        long = sorted((form for form in forms if len(form) >= SHORTEST_SECRET), key=len, reverse=True)

        def mark(found: re.Match[str]) -> str:
            number = next((n for value, n in by_value.items() if found[0] in value), None)
            return "__masked__" if number is None else f"__masked_{number}__"

        return re.sub("|".join(map(re.escape, long)), mark, text) if long else text


def _place(scalar: Scalar) -> tuple[str, ...]:
    return tuple("[]" if isinstance(step, int) else step for step in scalar.path)


def _bare(text: str) -> str:
    return "".join(filter(str.isalnum, text))


class ConfigFile:
    """Reads, checks and writes the file that the process was started with."""

    def __init__(self, parts: HttpParts) -> None:
        self._parts = parts

    async def read(self, caller: Caller) -> Configuration:
        """The current file."""
        source, path = self._source()
        if path is None:
            return Configuration(file="", text="", base="", faults=(), pending=self._pending(), writable=False)
        text = await asyncio.to_thread(_text, path)
        try:
            masked, faults = await asyncio.to_thread(self._mask, source, text)
        except Withheld as error:
            why = Fault(line=None, key="", message=f"the text is withheld: {error}", suggestion=_ON_THE_MACHINE)
            _, faults = await asyncio.to_thread(self._settings, source, text)
            told = (why, *(fault for fault in faults if not fault.key))  # a key may be what must not be shown
            return Configuration(file=path.name, text="", base=_base(text), faults=told, pending="", writable=False)
        return Configuration(
            file=path.name,
            text=masked.text,
            base=_base(text),
            faults=_hidden(masked, faults),
            pending=masked.hidden(self._pending()),
            writable=caller.person == OPERATOR and not caller.is_program,
        )

    async def check(self, text: str, base: str) -> Checked:
        """Find the faults of a changed text, and the effects of the change. base: of the text that was edited."""
        return await asyncio.to_thread(self._check, text, base)

    async def apply(self, caller: Caller, text: str, base: str) -> Applied:
        """Write a text without faults, and put it into force. A config that the parts refuse is undone."""
        if caller.person != OPERATOR or caller.is_program:
            raise HttpProblem(403, "not_from_here", "to write the config, open this page with a link of `antler web`")
        reloader = self._parts.reloader
        checked = await self.check(text, base)
        if not checked.valid or reloader is None:
            return Applied(kept=True, text="\n".join(_told(fault) for fault in checked.faults))
        source, path = self._source()
        assert path is not None  # otherwise `check` would have raised
        before = await asyncio.to_thread(_unchanged, path, base)
        masked = await asyncio.to_thread(self._masked, source, before)
        whole = masked.restored(text)
        holds = self._parts.tasks.spawn("config from the page", _hold(reloader, path, whole, caller.person))
        # Completed whatever becomes of the request: its own listener may be what changes.
        applied = await asyncio.shield(holds)
        return Applied(kept=applied.kept, text=masked.hidden(applied.text))

    def _check(self, text: str, base: str) -> Checked:
        source, path = self._source()
        if path is None:
            raise HttpProblem(409, "no_file", "antler runs without a config file; `antler init` creates one")
        if len(text) > LONGEST:
            text = f"a config may have at most {LONGEST} characters"
            raise HttpProblem(413, "too_large", text, most=f"{LONGEST // 1000} KB")
        before = _unchanged(path, base)
        masked = self._masked(source, before)
        try:
            whole = masked.restored(text)
        except Misplaced as error:
            fault = Fault(line=None, key="", message=str(error), suggestion="enter a value")
            return Checked(valid=False, faults=(fault,), diff=(), applied=(), restart=())
        try:
            shown = Masked(text, (), masked.count + 1).text
        except Withheld:
            shown = text
        diff = difflib.unified_diff(masked.text.splitlines(), shown.splitlines(), "now", "then", lineterm="", n=2)
        settings, faults = self._settings(source, whole)
        step = None if settings is None else change(self._parts.settings(), settings)
        return Checked(
            valid=settings is not None,
            faults=_hidden(masked, faults),
            diff=tuple(diff),
            applied=tuple(map(masked.hidden, step.applied)) if step is not None else (),
            restart=tuple(map(masked.hidden, step.restart)) if step is not None else (),
        )

    def _mask(self, source: SettingsSource, text: str) -> tuple[Masked, tuple[Fault, ...]]:
        """Mask the text: the secrets in force, those that it names itself, and all that sounds like one. Raises
        Withheld."""
        settings, faults = self._settings(source, text)
        secrets = set(self._parts.settings().secrets()) | (set(settings.secrets()) if settings is not None else set())
        return Masked(text, secrets), faults

    def _masked(self, source: SettingsSource, text: str) -> Masked:
        try:
            return self._mask(source, text)[0]
        except Withheld as error:
            raise HttpProblem(409, "withheld", f"the text is withheld: {error}; {_ON_THE_MACHINE}") from None

    def _settings(self, source: SettingsSource, text: str) -> tuple[Settings | None, tuple[Fault, ...]]:
        try:
            return source.would_be(text), ()
        except ConfigError as error:
            return None, tuple(
                Fault(line=each.line, key=each.key, message=each.message, suggestion=each.suggestion)
                for each in error.problems
            )

    def _source(self) -> tuple[SettingsSource, Path | None]:
        if self._parts.reloader is None:
            raise HttpProblem(409, "no_file", "this gateway has no config that could be reloaded")
        source = self._parts.reloader.source
        return source, source.path

    def _pending(self) -> str:
        """What of the file on disk is not in force here, "" for nothing."""
        last = self._parts.reloader.last if self._parts.reloader is not None else None
        return "" if last is None else last.pending


async def _hold(reloader: Reloader, path: Path, text: str, by: str) -> Applied:
    """Write the text and put it into force, or undo it."""
    former = await asyncio.to_thread(path.read_bytes)
    await asyncio.to_thread(_write, path, text.encode())
    outcome = await reloader.reload(by)
    if outcome.problems:
        await asyncio.to_thread(_write, path, former)
        await reloader.reload(by)
    return Applied(kept=bool(outcome.problems), text=str(outcome))


_ON_THE_MACHINE = "edit the file on its machine"


def _hidden(masked: Masked, faults: Iterable[Fault]) -> tuple[Fault, ...]:
    hide = masked.hidden
    return tuple(
        replace(each, key=hide(each.key), message=hide(each.message), suggestion=hide(each.suggestion))
        for each in faults
    )


def _told(fault: Fault) -> str:
    where = "" if fault.line is None else f"line {fault.line}: "
    more = f"; {fault.suggestion}" if fault.suggestion else ""
    return f"{where}{fault.key}: {fault.message}{more}" if fault.key else f"{where}{fault.message}{more}"


def _base(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _unchanged(path: Path, base: str) -> str:
    text = _text(path)
    if base != _base(text):
        raise HttpProblem(409, "changed", "the file has changed in the meantime: reload it")
    return text


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise HttpProblem(409, "unreadable", "the config file is not UTF-8 text") from None
    except OSError as error:
        raise HttpProblem(409, "unreadable", f"the config file cannot be read: {error.strerror}") from None


def _write(path: Path, text: bytes) -> None:
    try:
        write_atomically(path.resolve(), text, mode=stat.S_IMODE(path.stat().st_mode))
    except OSError as error:
        raise HttpProblem(409, "not_writable", f"the config file cannot be written: {error.strerror}") from None
