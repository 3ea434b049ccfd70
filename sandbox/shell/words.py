"""Reads the words of a shell script: quotes, escapes, variables, substitutions. The lower half of shell_reader.py."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

from sandbox.shell.parts import DEEPEST, LONGEST, Unreadable, Word

if TYPE_CHECKING:
    from sandbox.shell.parts import Script

_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?[-=+?]([^}$`]{0,200}))?\})")
_ANSI = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{1,4})|(.))", re.DOTALL)
_ANSI_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}
_KNOWN = {"HOME": "~", "PWD": ".", "IFS": " "}


class WordReader(ABC):
    """Reads words from a place in a text on. known: variables whose value stands in the script."""

    def __init__(self, text: str, known: dict[str, str], depth: int) -> None:
        if depth > DEEPEST:
            raise Unreadable("it is nested too deeply")
        self._text = text
        self._at = 0
        self._known = known
        self._depth = depth

    @abstractmethod
    def script(self, end: str = "") -> Script:
        """A script from here on, up to `end`, which is taken, or to the end of the text."""

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
        if self._at == begun:  # a sign that begins nothing
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
        """Text with substitutions, up to `closing` or, if that is "", to the end."""
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
        """What stands for itself, and variables."""
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

    def _below(self, text: str) -> Self:
        """A reader of what stands within this text."""
        return type(self)(text, self._known, self._depth + 1)

    def _until(self, sign: str, skip: int, *, escapes: bool = True) -> str:
        start = at = self._at + skip
        while at < len(self._text) and self._text[at] != sign:
            at += 2 if escapes and self._text[at] == "\\" else 1
        if at >= len(self._text):
            raise Unreadable("a quote is not closed", unfinished=True)
        self._at = at + 1
        return self._text[start:at]


def _ansi(match: re.Match[str]) -> str:
    if match[4] is not None:
        return _ANSI_LETTERS.get(match[4], match[4])
    return chr(int(match[2], 8) if match[2] else int(match[1] or match[3], 16))
