"""What an answer is held to: each check looks at what was seen of one situation and says what is wrong with it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

_LINK = re.compile(r"https?://[^\s<>()\[\]\"'`]+")
_WORD = re.compile(r"[^\W\d_]+")
_SENTENCE_END = re.compile(r"[.!?。！？]+(?=\s|$)")  # the last three: Chinese and Japanese
_ITEM = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+\S", re.MULTILINE)
_FEWEST_LETTERS = 12
"""A shorter text is of no language that anybody could tell."""
_COMMON = {
    "de": "der die das und ist nicht ein eine ich sie es für mit auf den dem von zu wie auch du kann",
    "en": "the and is not a an i you it for with on of to as are this that can in be",
    "es": "el la los las y es no un una que de en con por para se está como lo",
    "fr": "le la les et est pas un une je vous il pour avec sur de des du que ce dans",
}
"""Frequent words that tell a language among those of the situations."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the model made. arguments: their JSON text, as the model wrote it."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of one situation. calls: in order, those of subagents included. answer: the words of all messages of
    the bot. files: the names of those it sent."""

    calls: tuple[ToolCall, ...] = ()
    answer: str = ""
    files: tuple[str, ...] = ()


class Check(Protocol):
    """One thing that an answer is held to."""

    def problem(self, seen: Seen) -> str:
        """What is wrong, in a sentence; "" when nothing is."""


@dataclass(frozen=True)
class Calls:
    """One of these tools is called. having: a text that stands in the arguments of that call."""

    names: tuple[str, ...]
    having: str = ""

    def problem(self, seen: Seen) -> str:
        wanted = [call for call in seen.calls if call.name in self.names]
        if not wanted:
            return f"called {_named(seen.calls)} instead of {' or '.join(self.names)}"
        if all(self.having.casefold() not in call.arguments.casefold() for call in wanted):
            return f"called {wanted[0].name} without {self.having!r}"
        return ""


@dataclass(frozen=True)
class DoesNotCall:
    """None of these tools is called; without names, none at all. having: only calls with this text count."""

    names: tuple[str, ...] = ()
    having: str = ""

    def problem(self, seen: Seen) -> str:
        wrong = [
            call for call in seen.calls if (not self.names or call.name in self.names) and self.having in call.arguments
        ]
        return f"called {_named(wrong)}" if wrong else ""


@dataclass(frozen=True)
class Says:
    """One of these texts stands in the answer, in any case of letters."""

    texts: tuple[str, ...]

    def problem(self, seen: Seen) -> str:
        answer = seen.answer.casefold()
        return (
            "" if any(text.casefold() in answer for text in self.texts) else f"does not say {' or '.join(self.texts)}"
        )


@dataclass(frozen=True)
class DoesNotSay:
    """None of these texts stands in the answer."""

    texts: tuple[str, ...]

    def problem(self, seen: Seen) -> str:
        said = [text for text in self.texts if text.casefold() in seen.answer.casefold()]
        return f"says {' and '.join(said)}" if said else ""


@dataclass(frozen=True)
class SpeaksLanguage:
    """The answer is in a language: de, en, es, fr, zh or ja."""

    language: str

    def problem(self, seen: Seen) -> str:
        spoken = language_of(seen.answer)
        return "" if spoken == self.language else f"speaks {spoken or 'no language that can be told'}"


@dataclass(frozen=True)
class AtMost:
    """The answer's length, in words or in sentences; 0: that does not matter."""

    words: int = 0
    sentences: int = 0

    def problem(self, seen: Seen) -> str:
        words, sentences = len(seen.answer.split()), len(_SENTENCE_END.findall(seen.answer.strip()))
        if not words:
            return "says nothing"
        if self.words and words > self.words:
            return f"has {words} words, more than {self.words}"
        if self.sentences and sentences > self.sentences:
            return f"has {sentences} sentences, more than {self.sentences}"
        return ""


@dataclass(frozen=True)
class ListsItems:
    """The answer has a list of so many items."""

    count: int

    def problem(self, seen: Seen) -> str:
        count = len(_ITEM.findall(seen.answer))
        return "" if count == self.count else f"lists {count} items instead of {self.count}"


@dataclass(frozen=True)
class SendsFile:
    """A file whose name ends like this is sent."""

    ending: str

    def problem(self, seen: Seen) -> str:
        if any(name.endswith(self.ending) for name in seen.files):
            return ""
        return f"sends {', '.join(seen.files) or 'no file'} instead of one that ends with {self.ending}"


@dataclass(frozen=True)
class SendsNoFile:
    """No file is sent."""

    def problem(self, seen: Seen) -> str:
        return f"sends {', '.join(seen.files)}" if seen.files else ""


@dataclass(frozen=True)
class Cites:
    """A link with this text in it stands in the answer."""

    text: str

    def problem(self, seen: Seen) -> str:
        return "" if any(self.text in link for link in links(seen.answer)) else f"does not link to {self.text}"


@dataclass(frozen=True)
class CitesOnly:
    """Every link of the answer begins with one of these; none at all is well, too."""

    beginnings: tuple[str, ...] = ()

    def problem(self, seen: Seen) -> str:
        invented = [link for link in links(seen.answer) if not link.startswith(self.beginnings)]
        return f"links to {invented[0]}, which it has not read" if invented else ""


@dataclass(frozen=True)
class Asks:
    """It asks back instead of doing something."""

    def problem(self, seen: Seen) -> str:
        asks = any(call.name == "ask_clarification" for call in seen.calls) or "?" in seen.answer
        return "" if asks else "asks nothing"


def links(text: str) -> list[str]:
    """The addresses in a text, without the punctuation behind them."""
    return [found.rstrip(".,;:!?*_") for found in _LINK.findall(text)]


def language_of(text: str) -> str:
    """The language that a text is mostly in, by its script or its frequent words; "" when it cannot be told."""
    letters = [letter for letter in _LINK.sub("", text) if letter.isalpha()]
    kana = sum("\u3040" <= letter <= "\u30ff" for letter in letters)
    han = sum("\u4e00" <= letter <= "\u9fff" for letter in letters)
    if kana + han > len(letters) / 4:  # one such sign says as much as several letters
        return "ja" if kana > han / 10 else "zh"
    if len(letters) < _FEWEST_LETTERS:
        return ""
    words = [word.casefold() for word in _WORD.findall(text)]
    counts = {name: sum(word in common.split() for word in words) for name, common in _COMMON.items()}
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] else ""


def _named(calls: tuple[ToolCall, ...] | list[ToolCall]) -> str:
    return ", ".join(call.name for call in calls) or "no tool"
