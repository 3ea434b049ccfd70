"""The few commands that the in-memory sandbox supports. It reports unknown ones, as a shell does.

Commands: cat, cd, echo, exit, false, ls, mkdir, printf, pwd, rm, seq, sleep, true. Between them: `;`, `&&`, `||`, new
lines; after them: `> file`, `>> file`, `>&2`, `2>&1`. Quotes and backslashes as in a shell; no variables, pipes, globs.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sandbox.base import WORKSPACE, ProblemCode
from sandbox.files.beneath import Refused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.simulators.sandbox.drive import Drive

_TOKEN = re.compile(
    r"""[ \t]*(?:
    (?P<merge>2>&1|>&2|1>&2)
  | (?P<mark>&&|\|\||>>|[;>\n])
  | (?P<word>(?:'[^']*'|"(?:[^"\\$`]|\\.)*"|\\.|[^\s;&|<>()$`'"\\*?~{\[])+)
  )""",
    re.VERBOSE | re.DOTALL,
)
_PIECE = re.compile(
    r"""'(?P<plain>[^']*)'|"(?P<quoted>(?:[^"\\]|\\.)*)"|\\(?P<escaped>.)|(?P<bare>[^'"\\]+)""", re.DOTALL
)
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\"}
_OPTIONS: dict[str, set[str]] = {"cat": set(), "cd": set(), "ls": set(), "mkdir": {"-p"}, "rm": {"-f"}}
_MOST_LISTED = 10_000
_AT_ONCE = 10_000
"""Lines of seq between two yields to the loop."""

_REASONS = {
    ProblemCode.NOT_FOUND: "No such file or directory",
    ProblemCode.IS_DIRECTORY: "Is a directory",
    ProblemCode.NOT_DIRECTORY: "Not a directory",
    ProblemCode.READ_ONLY: "Read-only file system",
    ProblemCode.FULL: "No space left on device",
    ProblemCode.TOO_LARGE: "File too large",
    ProblemCode.BAD_PATH: "File name too long",
    ProblemCode.OUTSIDE: "No such file or directory",
}


@dataclass(slots=True)
class _Step:
    """One command. after: the separator before it."""

    after: str
    words: list[str] = field(default_factory=list)
    target: str = ""
    append: bool = False


class _Failed(Exception):
    """A command failed. The text is its error output, "" for none; code: its exit code."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


class _Exit(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Shell:
    """One command line. tell: called with its output as it is produced."""

    def __init__(self, drive: Drive, tell: Callable[[bytes], None]) -> None:
        self._drive = drive
        self._tell = tell
        self._here = WORKSPACE

    async def run(self, line: str) -> int:
        """Run the line; returns the exit code."""
        code = 0
        try:
            for step in _parsed(line):
                if (step.after == "&&" and code) or (step.after == "||" and not code):
                    continue
                code = await self._step(step)
        except _Failed as failed:
            return self._say(failed)
        except _Exit as ended:
            return ended.code
        return code

    async def _step(self, step: _Step) -> int:
        name, arguments = step.words[0], step.words[1:]
        written = bytearray()
        code = 0
        try:
            async for piece in self._output(name, arguments):
                if not step.target:
                    self._tell(piece)
                elif len(written) <= self._drive.largest_file:  # More is not written and need not be buffered.
                    written += piece
        except _Failed as failed:
            code = self._say(failed)
        except Refused as refused:
            code = self._say(_explained(name, refused))
        if step.target:
            try:
                self._drive.write(self._path(step.target), bytes(written), append=step.append, expected=None)
            except Refused as refused:
                return self._say(_explained(step.target, refused))
        return code

    def _say(self, failed: _Failed) -> int:
        if str(failed):
            self._tell(f"{failed}\n".encode(errors="replace"))
        return failed.code

    async def _output(self, name: str, arguments: list[str]) -> AsyncIterator[bytes]:
        match name:
            case "sleep":
                await asyncio.sleep(_number(name, arguments))
            case "seq":
                first, last = _bounds(arguments)
                for begin in range(first, last + 1, _AT_ONCE):
                    yield b"".join(b"%d\n" % number for number in range(begin, min(begin + _AT_ONCE, last + 1)))
                    await asyncio.sleep(0)
            case "exit":
                raise _Exit(int(_number(name, arguments or ["0"])) & 0xFF)
            case "false":
                raise _Failed("")
            case _:
                yield self._simple(name, arguments)

    def _simple(self, name: str, arguments: list[str]) -> bytes:
        options = {argument for argument in arguments if argument.startswith("-")}
        if name in _OPTIONS and not options <= _OPTIONS[name]:
            raise _Failed(f"{name}: these options are not known here", 2)
        match name:
            case "true":
                return b""
            case "echo":
                newline = arguments[:1] != ["-n"]
                return (" ".join(arguments if newline else arguments[1:]) + "\n" * newline).encode()
            case "printf":
                return _printf(arguments)
            case "pwd":
                return f"{self._here}\n".encode()
            case "cat":
                return b"".join(self._drive.file(self._path(path)).data for path in arguments)
            case "ls":
                return self._listing(arguments or ["."])
            case "cd":
                self._here = self._folder(arguments[0] if arguments else WORKSPACE)
            case "mkdir":
                for path in arguments:
                    if path != "-p":
                        self._make_folder(path)
            case "rm":
                for path in arguments:
                    self._remove(path, silently="-f" in arguments)
            case _:
                raise _Failed(f"bash: {name}: command not found", 127)
        return b""

    def _path(self, path: str) -> str:
        return path if path.startswith("/") else f"{self._here}/{path}"

    def _folder(self, path: str) -> str:
        place = self._drive.place(self._path(path))
        if not self._drive.is_folder(place):
            raise Refused(ProblemCode.NOT_DIRECTORY if place.virtual in self._drive.files else ProblemCode.NOT_FOUND)
        return place.virtual

    def _listing(self, paths: list[str]) -> bytes:
        names = []
        for path in paths:
            place = self._drive.place(self._path(path))
            if place.virtual in self._drive.files:
                names.append(path)
            else:
                names += [entry.path.rpartition("/")[2] for entry in self._drive.listed(place.virtual, 1, _MOST_LISTED)]
        return "".join(f"{name}\n" for name in names).encode()

    def _make_folder(self, path: str) -> None:
        place = self._drive.place(self._path(path))
        if self._drive.roots[place.virtual_root]:
            raise Refused(ProblemCode.READ_ONLY)
        self._drive.make_folders(place.virtual)

    def _remove(self, path: str, *, silently: bool) -> None:
        if path == "-f":
            return
        place = self._drive.place(self._path(path))
        if self._drive.roots[place.virtual_root]:
            raise Refused(ProblemCode.READ_ONLY)
        if not self._drive.remove(place.virtual) and not silently:
            raise Refused(ProblemCode.IS_DIRECTORY if self._drive.is_folder(place) else ProblemCode.NOT_FOUND)


def _explained(name: str, refused: Refused) -> _Failed:
    return _Failed(f"{name}: {_REASONS.get(refused.code, str(refused.code))}")


def _number(name: str, arguments: list[str]) -> float:
    try:
        return max(0.0, float(arguments[0]))
    except (IndexError, ValueError):
        raise _Failed(f"{name}: a number is needed", 2) from None


def _bounds(arguments: list[str]) -> tuple[int, int]:
    try:
        numbers = [int(argument) for argument in arguments]
    except ValueError:
        numbers = []
    match numbers:
        case [last]:
            return 1, last
        case [first, last]:
            return first, last
        case _:
            raise _Failed("seq: one or two whole numbers are needed")


def _printf(arguments: list[str]) -> bytes:
    """Apply a format of plain text, %s, %% and simple escapes, once."""
    if not arguments:
        raise _Failed("printf: usage: printf format [arguments]", 2)
    values = iter(arguments[1:])

    def replacement(match: re.Match[str]) -> str:
        mark = match.group()
        if mark == "%s":
            return next(values, "")
        if mark == "%%":
            return "%"
        if mark[0] == "\\" and mark[1:] in _ESCAPES:
            return _ESCAPES[mark[1:]]
        raise _Failed(f"printf: {mark}: not known here")

    return re.sub(r"%.?|\\.?", replacement, arguments[0], flags=re.DOTALL).encode()


def _parsed(line: str) -> list[_Step]:
    """Parse a line. Raises _Failed for unsupported syntax."""
    steps = [_Step("")]
    at, end = 0, len(line.rstrip())
    redirected = ""
    while at < end:
        token = _TOKEN.match(line, at)
        if token is None:
            sign = line[at:].lstrip()[:1]
            raise _Failed(f"bash: {sign}: this sandbox keeps files in memory and knows simple commands only", 2)
        at = token.end()
        mark, word = token["mark"], token["word"]
        if word is not None and redirected:
            steps[-1].target, steps[-1].append = _word(word), redirected == ">>"
            redirected = ""
        elif redirected or (mark is not None and mark not in (">", ">>", "\n") and not steps[-1].words):
            raise _Failed(f"bash: syntax error near unexpected token `{mark or token['merge']}'", 2)
        elif word is not None:
            steps[-1].words.append(_word(word))
        elif mark in (">", ">>"):
            redirected = mark
        elif mark is not None and steps[-1].words:
            steps.append(_Step(mark))
    if redirected or (steps[-1].after in ("&&", "||") and not steps[-1].words):
        raise _Failed("bash: syntax error: unexpected end of file", 2)
    return [step for step in steps if step.words]


def _word(token: str) -> str:
    return "".join(_unquoted(piece) for piece in _PIECE.finditer(token))


def _unquoted(piece: re.Match[str]) -> str:
    if piece["quoted"] is not None:
        return re.sub(r'\\(["\\$`])', r"\1", piece["quoted"])
    return piece["plain"] or piece["escaped"] or piece["bare"] or ""
