"""All texts of the page in the browser, by part: each part is a module with one table per language.

A test checks that the tables of a part have the same keys and the same `{name}` placeholders.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.texts import DEFAULT, LANGUAGES
from bot.texts.page import chat, panel, shell, sources

if TYPE_CHECKING:
    from collections.abc import Mapping

PARTS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "chat": chat.TEXTS,
    "client": shell.CLIENT,
    "panel": panel.TEXTS,
    "shell": shell.TEXTS,
    "sources": sources.TEXTS,
}
"""part -> language -> key -> text."""
NAMES = {"en": "English", "zh": "中文"}
"""Each language's own name."""
TAGS = {"en": "en", "zh": "zh-Hans"}
"""Values of the `lang` attribute, by which browsers choose glyphs and voices."""


@dataclass(frozen=True, slots=True)
class Words:
    """The page's texts in one language; templates use it as `t`."""

    language: str

    def __call__(self, key: str, **values: object) -> str:
        """The text of "part.key" with its placeholders filled. Raises KeyError for an unknown key."""
        part, _, name = key.partition(".")
        text = PARTS[part][self.language][name]
        return text.format(**values) if values else text

    def part(self, name: str) -> Mapping[str, str]:
        return PARTS[name][self.language]

    @property
    def tag(self) -> str:
        return TAGS[self.language]

    @property
    def names(self) -> Mapping[str, str]:
        return NAMES


def words(language: str) -> Words:
    """The texts of a language; the default's for an unknown one."""
    return Words(language if language in LANGUAGES else DEFAULT)


def accepted(header: str, default: str = DEFAULT) -> str:
    """The first available language of an Accept-Language header, in its order (browsers sort by preference)."""
    for entry in header.split(",")[:20]:
        prefix = entry.strip().lower()[:2]
        if prefix in LANGUAGES:
            return prefix
    return default


__all__ = ["NAMES", "PARTS", "Words", "accepted", "words"]
