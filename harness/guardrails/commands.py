"""Whether a shell command fits the patterns of a rule: each command that it would run is looked at by itself. Pure.

A pattern that allows has to fit all of them, as they are written and as they run; and what a reader cannot know before
(a substitution, a variable that is set for the command, a file that it writes) is never allowed by one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.guardrails.patterns import fits_glob, fits_words
from sandbox.shell.reader import DEEPEST, Unreadable, parsed
from sandbox.shell.script import SHELLS, all_pipelines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sandbox.shell.reader import Command, Script, Word

NOWHERE = "/dev/null"
_FUNCTION = re.compile(r"\(\s*\)|(?:^|[\s;&|])function\s")
_PATTERN = re.compile(r"[*?]|\[[^\[]")
_SOURCING = frozenset({"source", ".", "eval", "trap"})
_INPUT = frozenset({"/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "-"})
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]|\\\Z")
"""Also a backslash behind which nothing comes, which the shell keeps and the reader does not."""


@dataclass(frozen=True, slots=True)
class Read:
    """What a command would run. plain: nothing of it is only known when it runs. begun: of the commands of which a word
    is only known then, those before it."""

    commands: tuple[tuple[str, ...], ...]
    plain: bool
    begun: tuple[tuple[str, ...], ...] = ()


def read(command: str) -> Read | None:
    """None: it cannot be read for sure."""
    if _CONTROL.search(command):
        return None
    try:
        script = parsed(command)
        written = [each for pipeline in _written(script) for each in pipeline]
        run = [each for pipeline in all_pipelines(script) for each in pipeline]
    except (Unreadable, RecursionError):
        return None
    commands = tuple(dict.fromkeys(_words(each) for each in (*written, *run) if each.words))
    if not commands:
        return None
    certain = "$" not in command and _FUNCTION.search(command) is None
    begun = {
        () if _takes_any(each) else _known(each)
        for each in run
        if _takes_any(each) or len(_known(each)) < len(each.words)
    }
    return Read(commands, certain and all(map(_is_plain, written)), tuple(begun))


def all_fit(patterns: Sequence[str], found: Read) -> bool:
    """For what is allowed: everything that would run fits one of the patterns."""
    return found.plain and all(_fits(patterns, words) for words in found.commands)


def one_fits(patterns: Sequence[str], found: Read) -> bool:
    """For what is held back: something of what would run fits."""
    return any(_fits(patterns, words) or _fits(patterns, _short(words)) for words in found.commands)


def one_may_fit(patterns: Sequence[str], found: Read | None) -> bool:
    """For what is held back: something of what would run fits, for all that can be known before."""
    return found is not None and any(_may_fit(pattern.split(), words) for pattern in patterns for words in found.begun)


def _may_fit(wanted: list[str], words: tuple[str, ...]) -> bool:
    if wanted[-1] != "*" and len(words) > len(wanted):
        return False
    return not words or any(all(map(fits_glob, wanted, each)) for each in (words, _short(words)))


def _known(command: Command) -> tuple[str, ...]:
    """Its words up to the first that is only known when it runs."""
    unknown = (place for place, word in enumerate(command.words) if _is_unknown(word, is_program=place == 0))
    return _words(command)[: next(unknown, None)]


def _is_unknown(word: Word, *, is_program: bool) -> bool:
    return bool(word.inner) or "$" in word.text or (is_program and word.bare and _PATTERN.search(word.text) is not None)


def _takes_any(command: Command) -> bool:
    """A shell that reads what it runs, as behind a pipe, or gets it from a word that is only known then."""
    if command.name not in SHELLS | _SOURCING:
        return False
    if any(_is_unknown(word, is_program=False) for word in command.words[1:]):
        return True
    if command.name in _SOURCING:
        return any(text in _INPUT for text in command.arguments)
    ends_in_c = re.fullmatch(r"-\w*c", command.arguments[-1]) is not None if command.arguments else False
    return ends_in_c or (all(text in _INPUT for text in command.plain) and not command.given)


def _fits(patterns: Sequence[str], words: tuple[str, ...]) -> bool:
    return any(fits_words(pattern, list(words)) for pattern in patterns)


def _short(words: tuple[str, ...]) -> tuple[str, ...]:
    """The program without its folder."""
    return (words[0].rpartition("/")[2], *words[1:])


def _words(command: Command) -> tuple[str, ...]:
    return tuple(word.text for word in command.words)


def _written(script: Script, depth: int = 0) -> Iterator[list[Command]]:
    if depth > DEEPEST:
        raise Unreadable("it is nested too deeply")
    for pipeline in script.pipelines:
        yield pipeline
        for command in pipeline:
            for word in (*command.words, *command.reads, *command.writes):
                for inner in word.inner:
                    yield from _written(inner, depth + 1)


def _is_plain(command: Command) -> bool:
    if any(word.inner for word in command.words) or command.given:
        return False
    # An assignment in front of a command stands among what it reads, without a name of its own.
    return not command.reads and all(word.text == NOWHERE and not word.inner for word in command.writes)
