"""All texts that people read in a chat, one file per language, chosen per message.

A language is a `Texts` value, so a missing text is a type error instead of a surprise in a chat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.texts.commands import marked
from bot.texts.en import EN
from bot.texts.zh import ZH

if TYPE_CHECKING:
    from bot.texts.catalogue import Texts

LANGUAGES: dict[str, Texts] = {"en": marked(EN), "zh": marked(ZH)}
DEFAULT = "en"

_HAN = range(0x4E00, 0xA000)


def language_of(fixed: str, platform_locale: str | None, text: str, default: str = DEFAULT) -> str:
    """The language to answer in: the fixed one, else the platform's, else the script of the text, else the default.

    fixed: the `locale` setting ("auto" leaves it open). platform_locale: as given by the platform, such as "zh-hans".
    """
    if fixed in LANGUAGES:
        return fixed
    if platform_locale and (prefix := platform_locale.lower()[:2]) in LANGUAGES:
        return prefix
    if any(ord(character) in _HAN for character in text[:200]):
        return "zh"
    return default


def texts_for(language: str) -> Texts:
    """The catalogue of a language; the default's for an unknown one."""
    return LANGUAGES.get(language, LANGUAGES[DEFAULT])


__all__ = ["DEFAULT", "LANGUAGES", "language_of", "texts_for"]
