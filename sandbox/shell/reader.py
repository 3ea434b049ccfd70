"""Reader of shell command lines: the programs that one runs and their words, for the audit and the approval rules.

Quotes, escapes, substitutions, here-documents and simple variables are resolved. It is no shell: unknown syntax stays
as it was written.

Why no library: bashlex is under the GPL. tree-sitter-bash 0.25.1 was tried on the cases of the tests: it silently
splits a word at an escaped line break (`r\\<newline>m -rf /` is a program r), has no brace expansion and refuses
`5<>file` and two here-documents in a line, and its time grows with the square of the text (a pipeline of 32 000 words
took 41 seconds). The expansion of words (variables, escapes, IFS) would still have been ours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

LONGEST = 100_000
DEEPEST = 12
"""Maximum depth of substitutions within substitutions, and of shells within shells."""


def names(text: str) -> frozenset[str]:
    """The words of a text as a set."""
    return frozenset(text.split())


class Unreadable(Exception):
    """A script cannot be read; the text says why. unfinished: it ends in a construct; the shell would refuse it too."""

    def __init__(self, text: str, *, unfinished: bool = False) -> None:
        super().__init__(text)
        self.unfinished = unfinished


@dataclass(slots=True)
class Word:
    """A word. text: without its quotes. inner: the scripts substituted in it. bare: no part of it was quoted."""

    text: str = ""
    inner: list[Script] = field(default_factory=list)
    bare: bool = True


@dataclass(slots=True)
class Command:
    """One program with its words. reads, writes: redirected files. given: the text of a here-document."""

    words: list[Word] = field(default_factory=list)
    reads: list[Word] = field(default_factory=list)
    writes: list[Word] = field(default_factory=list)
    given: str = ""

    @property
    def name(self) -> str:
        """The program's name without its folder."""
        return self.words[0].text.rpartition("/")[2] if self.words else ""

    @property
    def arguments(self) -> list[str]:
        return [word.text for word in self.words[1:]]

    @property
    def plain(self) -> list[str]:
        return [text for text in self.arguments if not text.startswith("-")]

    def has(self, letter: str, *long: str) -> bool:
        """Whether an option is given, short (alone or among others) or long."""
        return any(
            text in long or (text.startswith("-") and not text.startswith("--") and letter in text[1:])
            for text in self.arguments
        )


@dataclass(slots=True)
class Script:
    """Commands by pipeline; those of substitutions are in the words that contain the substitutions."""

    pipelines: list[list[Command]] = field(default_factory=list)


_LONGEST_VALUE = 1000
"""Maximum length of a variable's value: `a=$a$a` doubles it each time."""
_RESERVED = names("if then else elif fi do done while until for in case esac { } ! select function coproc")
_OPERATOR = re.compile(r"\|\||&&|\|&|;;&?|;&|[;|\n()]|&(?!>)")
_REDIRECTION = re.compile(r"(?:\d*|&(?=>))(?:<<<|<<-?|<>|>>|>\||>&|<&|[<>](?!\())")
ASSIGNMENT = re.compile(r"(\w+)\+?=(.*)", re.DOTALL)
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?[-=+?]([^}$`]{0,200}))?\})")
_ANSI = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{1,4})|(.))", re.DOTALL)
_ANSI_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}
_KNOWN = {"HOME": "~", "PWD": ".", "IFS": " "}


def parsed(text: str) -> Script:
    """Parse a script. Raises Unreadable."""
    if len(text) > LONGEST:
        raise Unreadable("it is too long")
    return _Reader(text, {}, 0).script()


class _Reader:
    """Reads one script. known: variables whose value is set in it."""

    def __init__(self, text: str, known: dict[str, str], depth: int) -> None:
        if depth > DEEPEST:
            raise Unreadable("it is nested too deeply")
        self._text = text
        self._at = 0
        self._known = known
        self._depth = depth
        self._documents: list[tuple[Command, Word]] = []
        self._naming: Command | None = None

    def script(self, end: str = "") -> Script:
        """Read up to `end`, which is consumed, or to the end of the text."""
        script, pipeline, command = Script(), list[Command](), Command()
        groups = 0
        while True:
            operator = self._operator(command, end)
            if operator is None:
                continue
            if self._is_whole(command):
                pipeline.append(command)
            command = Command()
            if operator not in ("|", "|&") and pipeline:
                script.pipelines.append(pipeline)
                pipeline = []
            if operator == "\n":
                self._take_documents()
            groups += (operator == "(") - (operator == ")")
            if not operator or (operator == end and groups < 0):
                return script

    def _operator(self, command: Command, end: str) -> str | None:
        """The operator that ends the command, "" at the end of the text; None: something was added to the command."""
        self._blanks()
        if self._at >= len(self._text):
            if end:
                raise Unreadable(f"{end} is missing", unfinished=True)
            return ""
        if (redirection := _REDIRECTION.match(self._text, self._at)) is not None:
            self._at = redirection.end()
            self._redirect(command, redirection.group().lstrip("0123456789&"))
        elif (found := _OPERATOR.match(self._text, self._at)) is not None:
            self._at = found.end()
            return found.group()
        else:
            self._add(command, self._word())
        return None

    def _is_whole(self, command: Command) -> bool:
        """Whether there is a command after its assignments, which are recorded."""
        while command.words and (match := ASSIGNMENT.fullmatch(command.words[0].text)):
            self._known[match[1]] = match[2][:_LONGEST_VALUE]
            command.reads.append(Word("", command.words.pop(0).inner))
        return bool(command.words or command.writes or command.reads)

    def _blanks(self) -> None:
        while self._at < len(self._text):
            if self._text.startswith("\\\n", self._at):
                self._at += 2
            elif self._text[self._at] in " \t\r":
                self._at += 1
            elif self._text[self._at] == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            else:
                return

    def _add(self, command: Command, word: Word) -> None:
        if word.bare and not command.words and word.text in _RESERVED:
            self._naming = command if word.text in ("function", "coproc") else None
            return
        if word.bare and self._naming is command and len(command.words) == 1 and word.text in _RESERVED:
            command.words.clear()  # `function f {`, `coproc f {`: the first word was a name
            return
        for text in _split(word) if word.bare else [word.text]:
            command.words.append(Word(text, word.inner, word.bare))

    def _redirect(self, command: Command, sign: str) -> None:
        self._blanks()
        if self._at >= len(self._text):
            return
        word = self._word()
        if sign in ("<<", "<<-"):
            self._documents.append((command, word))
        elif sign == "<<<":
            command.given = word.text
            command.reads.append(Word("", word.inner))
        elif sign.startswith("<"):
            command.reads.append(word)
        elif not (sign == ">&" and word.text.isdigit()):
            command.writes.append(word)

    def _take_documents(self) -> None:
        for command, mark in self._documents:
            lines: list[str] = []
            while self._at < len(self._text):
                end = self._text.find("\n", self._at)
                end = len(self._text) if end < 0 else end
                line, self._at = self._text[self._at : end], end + 1
                if line.strip("\t") == mark.text:
                    break
                lines.append(line)
            command.given = "\n".join(lines)
            if mark.bare:  # then substitutions in it run, whatever reads it
                body = Word()
                self._below(command.given)._double(body, closing="")
                command.reads.append(Word("", body.inner))
        self._documents.clear()

    def _word(self) -> Word:
        word = Word()
        begun = self._at
        while self._at < len(self._text):
            text, at = self._text, self._at
            sign = text[at]
            if sign in " \t\r\n;|&()" or (sign in "<>" and not text.startswith("(", at + 1)):
                break
            if sign in "<>" or text.startswith("$(", at):
                self._at += 2
                word.inner.append(self._inner(")"))
            elif sign == "\\":
                word.text += "" if text.startswith("\n", at + 1) else text[at + 1 : at + 2]
                word.bare, self._at = False, at + 2
            elif sign in "'\"`" or text.startswith("$'", at):
                self._quoted(word)
            else:
                self._plain(word)
        if self._at == begun:  # a special character that begins nothing
            word.text, self._at = self._text[begun], begun + 1
        return word

    def _quoted(self, word: Word) -> None:
        sign = self._text[self._at]
        if sign == "`":
            word.inner.append(self._below(self._until("`", 1).replace("\\`", "`")).script())
            return
        word.bare = False
        if sign == "'":
            word.text += self._until("'", 1, escapes=False)
        elif sign == "$":
            word.text += _ANSI.sub(_ansi, self._until("'", 2))
        else:
            self._double(word)

    def _double(self, word: Word, closing: str = '"') -> None:
        """Read text with substitutions, up to `closing` or, if that is "", to the end."""
        self._at += len(closing)
        while self._at < len(self._text):
            text, at = self._text, self._at
            if text[at] == closing:
                self._at += 1
                return
            if text.startswith("$(", at):
                self._at += 2
                word.inner.append(self._inner(")"))
            elif text[at] == "`":
                self._quoted(word)
            elif text[at] == "\\" and text[at + 1 : at + 2] in ("$", "`", '"', "\\", "\n"):
                word.text += text[at + 1].strip("\n")
                self._at += 2
            else:
                self._plain(word, stop='"`\\')
        if closing:
            raise Unreadable("a quote is not closed", unfinished=True)

    def _plain(self, word: Word, stop: str = " \t\r\n;|&()<>'\"`\\") -> None:
        """Read literal text and variables."""
        match = _VARIABLE.match(self._text, self._at)
        if match is not None:
            name = match[1] or match[2]
            word.text += self._known.get(name, _KNOWN.get(name, match[3] if match[3] is not None else match.group()))
            self._at = match.end()
            if len(word.text) > LONGEST:
                raise Unreadable("it is too long")
            return
        end = self._at + 1
        while end < len(self._text) and self._text[end] not in stop and self._text[end] != "$":
            end += 1
        word.text += self._text[self._at : end]
        self._at = end

    def _inner(self, end: str) -> Script:
        reader = self._below(self._text)
        reader._at = self._at
        script = reader.script(end)
        self._at = reader._at
        return script

    def _below(self, text: str) -> _Reader:
        return _Reader(text, self._known, self._depth + 1)

    def _until(self, sign: str, skip: int, *, escapes: bool = True) -> str:
        start = at = self._at + skip
        while at < len(self._text) and self._text[at] != sign:
            at += 2 if escapes and self._text[at] == "\\" else 1
        if at >= len(self._text):
            raise Unreadable("a quote is not closed", unfinished=True)
        self._at = at + 1
        return self._text[start:at]


def _split(word: Word) -> list[str]:
    """The words that an unquoted one expands to: two for `a${IFS}b` and for `{a,b}`."""
    if word.inner:
        return [word.text]
    match = _BRACES.fullmatch(word.text)
    if match is not None:
        return match[1].split(",")
    return word.text.split() if " " in word.text else [word.text]


def _ansi(match: re.Match[str]) -> str:
    if match[4] is not None:
        return _ANSI_LETTERS.get(match[4], match[4])
    return chr(int(match[2], 8) if match[2] else int(match[1] or match[3], 16))
