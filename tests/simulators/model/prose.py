"""Deterministic Markdown of any length, with every construct that is difficult for renderers."""

from __future__ import annotations

_BLOCKS = (
    "## Section {n}\n\nSome *emphasis*, **strong words**, `inline code`, ~~struck~~ text, a ||spoiler|| and a "
    "[link](https://example.org/{n}). Snakes_in_names, 2 * 3 * 4 and a < b > c stay as they are.\n\n",
    "- first item {n}\n- second item\n  1. nested one\n  2. nested two\n- third item with `code`\n\n",
    '```python\ndef answer_{n}(question: str) -> str:\n    return f"{{question}} -> {n}"\n```\n\n',
    "> A quote of paragraph {n},\n> over two lines.\n\n",
    "| key | value |\n| --- | ----: |\n| n | {n} |\n| square | {square} |\n\n",
    "Ein Absatz mit Umlauten äöü, 中文字符, עברית, and an emoji 🦌 in paragraph {n}.\n\n",
)


def prose(length: int) -> str:
    """Exactly `length` characters; a construct at the end may be cut."""
    parts: list[str] = []
    total = number = 0
    while total < length:
        block = _BLOCKS[number % len(_BLOCKS)].format(n=number + 1, square=(number + 1) ** 2)
        parts.append(block)
        total += len(block)
        number += 1
    return "".join(parts)[:length]
