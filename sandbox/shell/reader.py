"""Reads a shell command line: its programs and their words, as far as shell_script.py needs them.

Quotes, escapes, substitutions, here-documents and simple variables are seen through. It is no shell: what it does not
know stays as it was written.
"""

from __future__ import annotations

import re

from sandbox.shell.parts import LONGEST, Command, Script, Unreadable, Word, names
from sandbox.shell.words import WordReader

_LONGEST_VALUE = 1000
"""Of a variable: `a=$a$a` doubles it each time."""
_RESERVED = names("if then else elif fi do done while until for in case esac { } ! select function coproc")
_OPERATOR = re.compile(r"\|\||&&|\|&|;;&?|;&|[;|\n()]|&(?!>)")
_REDIRECTION = re.compile(r"(?:\d*|&(?=>))(?:<<<|<<-?|<>|>>|>\||>&|<&|[<>](?!\())")
ASSIGNMENT = re.compile(r"(\w+)\+?=(.*)", re.DOTALL)
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")


def parsed(text: str) -> Script:
    """Raises Unreadable."""
    if len(text) > LONGEST:
        raise Unreadable("it is too long")
    return _Reader(text, {}, 0).script()


class _Reader(WordReader):
    """Reads one script."""

    def __init__(self, text: str, known: dict[str, str], depth: int) -> None:
        super().__init__(text, known, depth)
        self._documents: list[tuple[Command, Word]] = []
        self._naming: Command | None = None

    def script(self, end: str = "") -> Script:
        """Up to `end`, which is taken, or to the end of the text."""
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
        """What ends the command, "" at the end of the text; None: something was added to the command."""
        self._blanks()
        if self._at >= len(self._text):
            if end:
                raise Unreadable(f"there is no {end}", unfinished=True)
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
        """Whether there is a command after its assignments, which are remembered."""
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
            if mark.bare:  # then what is substituted in it runs, whoever reads it
                body = Word()
                self._below(command.given)._double(body, closing="")
                command.reads.append(Word("", body.inner))
        self._documents.clear()


def _split(word: Word) -> list[str]:
    """The words that an unquoted one becomes: of `a${IFS}b` and `{a,b}` two."""
    if word.inner:
        return [word.text]
    match = _BRACES.fullmatch(word.text)
    if match is not None:
        return match[1].split(",")
    return word.text.split() if " " in word.text else [word.text]
