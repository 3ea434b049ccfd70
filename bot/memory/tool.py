"""What people read of a memory (the numbered list in a chat, the export), and `antler memory`: asked over the control
socket while antler runs, else done on the store itself.

What is in a memory is shown only by `show` and `export`, which name one; the list has hashed keys, sizes and dates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from bot.clock import SystemClock
from bot.control.wherever import do_wherever
from bot.memory.keeping import make_book
from bot.store import Store
from bot.store.identity import folder_name
from bot.texts import DEFAULT, texts_for
from bot.texts.commands import unmarked
from bot.texts.markdown import inline, plain
from harness.memory.model import CATEGORIES, summaries
from harness.memory.port import MemoryUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bot.memory.book import MemoryBook
    from bot.settings import Settings
    from harness.memory.port import StoredMemory

    Answer = tuple[str, bool]
    """What to print, and whether it is what was asked for."""
    from collections.abc import Sequence

    from bot.texts.catalogue import Texts
    from harness.memory.model import Fact, Memory


KEY = 12
"""Signs of a hashed key that the list shows, and from which on one is understood."""

SHOWN = 100
"""Facts and summaries of one list."""


@dataclass(frozen=True, slots=True)
class Item:
    """A fact or a summary. key: the fact's id, the summary's name. group: the heading that it stands below."""

    key: str
    group: str
    text: str
    until: str = ""


def items_of(memory: Memory, texts: Texts) -> list[Item]:
    """All of it in the order of the list: facts by their categories, then the summaries."""
    by_category = sorted(memory.facts, key=lambda fact: CATEGORIES.index(fact.category))
    items = [_fact(fact, texts) for fact in by_category]
    told = [(name, known.summary) for name, known in summaries(memory).items() if known.summary]
    return items + [Item(name, texts.memory_summary[name], text) for name, text in told]


def listed(items: Sequence[Item], numbers: Mapping[str, int], texts: Texts) -> str:
    """The list as Markdown, each item with its number, below its headings."""
    lines, group = [], ""
    for item in items[:SHOWN]:
        if item.group != group:
            group = item.group
            lines += ["", f"*{group}*", ""]  # a list with another number than 1 needs the empty line
        lines.append(line(numbers[item.key], item, texts))
    if len(items) > SHOWN:
        lines += ["", texts.memory["more"].format(count=len(items) - SHOWN)]
    return "\n".join(lines).strip()


def line(number: int, item: Item, texts: Texts) -> str:
    """One line of the list."""
    until = texts.memory["until"].format(date=item.until) if item.until else ""
    return texts.memory["line"].format(number=number, text=_shown(item.text)) + until


def found(items: Sequence[Item], words: str) -> list[Item]:
    """Those in which every one of the words stands, in upper or lower case."""
    wanted = words.casefold().split()
    return [item for item in items if all(word in f"{item.text} {item.group}".casefold() for word in wanted)]


def asked(words: str) -> str:
    """What was searched for, as it is said again."""
    return f"`{inline(words)}`"


def as_markdown(memory: Memory, title: str, texts: Texts) -> str:
    """The export that people read."""
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
    """The text on one line, without Markdown's meaning or control characters."""
    return plain("".join(sign for sign in " ".join(text.split()) if sign.isprintable()))


class MemoryTool:
    def __init__(self, book: MemoryBook) -> None:
        self._book = book

    async def do(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """An operation of the control socket: {"do": ..., "key": ...} to {"text": ..., "done": ...}."""
        try:
            text, done = await self._answer(str(request.get("do")), str(request.get("key", "")))
        except MemoryUnavailable as error:
            text, done = str(error), False
        return {"text": text, "done": done}

    async def _answer(self, do: str, key: str) -> Answer:
        known = await self._book.owners()
        if do == "list":
            return _table(known), True
        if do not in ("show", "export", "forget"):
            return "the running antler is of another version: restart it", False
        found = [stored for stored in known if _is_key(key, stored.owner)]
        if len(found) != 1:
            return f"{key} is the key of {len(found) or 'no'} {'memories' if found else 'memory'}", False
        owner = found[0].owner
        if do == "forget":
            gone = await self._book.forget_all(owner)
            return f"forgotten: {gone.facts} facts, and {gone.turns} turns that were still to be learnt from", True
        memory = await self._book.show(owner)
        if do == "export":
            return memory.to_json().rstrip(), True
        return unmarked(as_markdown(memory, owner, texts_for(DEFAULT)).rstrip()), True


def run(settings: Settings, do: Literal["list", "show", "export", "forget"], key: str = "") -> int:
    """The command line: do it wherever the data is held now, print the answer; returns the exit code."""
    return do_wherever(settings, "memory", {"do": do, "key": key}, _do_it_here)


async def _do_it_here(settings: Settings, request: Mapping[str, Any]) -> dict[str, Any]:
    store = await Store.open(settings.database_url, clock=SystemClock())
    try:
        return await MemoryTool(make_book(settings, store)).do(request)
    finally:
        await store.close()


def _is_key(key: str, owner: str) -> bool:
    """A hashed key, or the beginning of one, or the owner's id itself."""
    return key == owner or (len(key) >= KEY and folder_name(owner).startswith(key.lower()))


def _table(known: list[StoredMemory]) -> str:
    if not known:
        return "nobody is remembered"
    lines = [f"{'key':<{KEY}}  {'bytes':>8}  updated"]
    for stored in sorted(known, key=lambda each: folder_name(each.owner)):
        at = stored.updated_at.strftime("%Y-%m-%d %H:%M") if stored.updated_at is not None else "unknown"
        lines.append(f"{folder_name(stored.owner)[:KEY]:<{KEY}}  {stored.size:>8}  {at}")
    return "\n".join(lines)
