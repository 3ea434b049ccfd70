"""What a shell script consists of, as shell_reader.py reads it; for the tests of what is suspicious too."""

from __future__ import annotations

from dataclasses import dataclass, field

LONGEST = 100_000
DEEPEST = 12
"""Substitutions within substitutions, and shells within shells."""


def names(text: str) -> frozenset[str]:
    """The words of a text as a set."""
    return frozenset(text.split())


class Unreadable(Exception):
    """The text says why. unfinished: the script ends within something; the shell would refuse it too."""

    def __init__(self, text: str, *, unfinished: bool = False) -> None:
        super().__init__(text)
        self.unfinished = unfinished


@dataclass(slots=True)
class Word:
    """text: without its quotes. inner: the scripts that are substituted in it. bare: nothing of it was quoted."""

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
        """Without its folder."""
        return self.words[0].text.rpartition("/")[2] if self.words else ""

    @property
    def arguments(self) -> list[str]:
        return [word.text for word in self.words[1:]]

    @property
    def plain(self) -> list[str]:
        """The arguments that are no options."""
        return [text for text in self.arguments if not text.startswith("-")]

    def has(self, letter: str, *long: str) -> bool:
        """Whether an option is given, short (alone or among others) or long."""
        return any(
            text in long or (text.startswith("-") and not text.startswith("--") and letter in text[1:])
            for text in self.arguments
        )


@dataclass(slots=True)
class Script:
    """Commands by pipeline; those of substitutions stand in the words that they are substituted in."""

    pipelines: list[list[Command]] = field(default_factory=list)
