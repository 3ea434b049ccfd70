"""What a report says by itself, in the languages that it is written in."""

from __future__ import annotations

_KEYS = ("toc", "figure", "table", "notes", "page", "of", "key", "note", "warning", "decision")
_SAID = {
    "en": ("Contents", "Figure", "Table", "Notes", "Page", "of", "Key point", "Note", "Warning", "Decision needed"),
    "de": (
        "Inhalt",
        "Abbildung",
        "Tabelle",
        "Anmerkungen",
        "Seite",
        "von",
        "Kernpunkt",
        "Hinweis",
        "Achtung",
        "Entscheidung",
    ),
    "zh": ("目录", "图", "表", "注释", "第", "/", "要点", "说明", "注意", "待决策"),
}
WORDS = {language: dict(zip(_KEYS, said, strict=True)) for language, said in _SAID.items()}


def words(language: str) -> dict[str, str]:
    """Those of a language; English for others."""
    return WORDS.get(language, WORDS["en"])
