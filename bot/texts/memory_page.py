"""A memory as shown to people: the numbered list in a chat, and the export. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.texts.markdown import inline, plain
from harness.memory.model import CATEGORIES, summaries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bot.texts.catalogue import Texts
    from harness.memory.model import Fact, Memory

SHOWN = 100
"""Maximum number of facts and summaries in one list."""


@dataclass(frozen=True, slots=True)
class Item:
    """A fact or a summary. key: the fact's id or the summary's name. group: its heading."""

    key: str
    group: str
    text: str
    until: str = ""


def items_of(memory: Memory, texts: Texts) -> list[Item]:
    """All items in the order of the list: facts by category, then the summaries."""
    by_category = sorted(memory.facts, key=lambda fact: CATEGORIES.index(fact.category))
    items = [_fact(fact, texts) for fact in by_category]
    told = [(name, known.summary) for name, known in summaries(memory).items() if known.summary]
    return items + [Item(name, texts.memory_summary[name], text) for name, text in told]


def listed(items: Sequence[Item], numbers: Mapping[str, int], texts: Texts) -> str:
    """The list as Markdown: numbered items below headings."""
    lines, group = [], ""
    for item in items[:SHOWN]:
        if item.group != group:
            group = item.group
            lines += ["", f"*{group}*", ""]  # a list that does not start with 1 needs the empty line
        lines.append(line(numbers[item.key], item, texts))
    if len(items) > SHOWN:
        lines += ["", texts.memory["more"].format(count=len(items) - SHOWN)]
    return "\n".join(lines).strip()


def line(number: int, item: Item, texts: Texts) -> str:
    """One line of the list."""
    until = texts.memory["until"].format(date=item.until) if item.until else ""
    return texts.memory["line"].format(number=number, text=_shown(item.text)) + until


def found(items: Sequence[Item], words: str) -> list[Item]:
    """The items that contain all of the words, ignoring case."""
    wanted = words.casefold().split()
    return [item for item in items if all(word in f"{item.text} {item.group}".casefold() for word in wanted)]


def asked(words: str) -> str:
    """The searched words, as repeated in the answer."""
    return f"`{inline(words)}`"


def as_markdown(memory: Memory, title: str, texts: Texts) -> str:
    """The export for people."""
    lines, group = [f"# {title.strip('*')}"], ""
    for item in items_of(memory, texts):
        if item.group != group:
            group = item.group
            lines += ["", f"## {group}", ""]
        until = texts.memory["until"].format(date=item.until) if item.until else ""
        lines.append(f"- {_shown(item.text)}{until}")
    return "\n".join(lines) + "\n"


def _fact(fact: Fact, texts: Texts) -> Item:
    until = fact.valid_until.isoformat() if fact.valid_until is not None else ""
    return Item(fact.id, texts.memory_category[fact.category], fact.content, until)


def _shown(text: str) -> str:
    """The text on one line, without active Markdown and control characters."""
    return plain("".join(sign for sign in " ".join(text.split()) if sign.isprintable()))
