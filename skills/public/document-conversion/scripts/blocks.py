"""Markdown as blocks and pieces of text: what the writers of Word, HTML and PDF have in common."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

_ITEM = re.compile(r"^(\s*)(?:([-*+])|(\d{1,9})[.)])\s+(.*)$")
_FENCE = re.compile(r"^\s{0,3}(```+|~~~+)\s*(\S*)")
_HEADING = re.compile(r"^\s{0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
_RULE = re.compile(r"^\s{0,3}([-*_])(?:\s*\1){2,}\s*$")
_TABLE_LINE = re.compile(r"^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$")
_PICTURE = re.compile(r"^\s*!\[([^\]]*)\]\(\s*<?([^)>]+?)>?(?:\s+\"[^\"]*\")?\s*\)\s*$")
_INLINE = re.compile(
    r"(?P<escape>\\[\\`*_{}\[\]()#+\-.!|<>~])|(?P<code>`+)(?P<coded>.+?)(?P=code)"
    r"|!\[(?P<alt>[^\]]*)\]\([^)\s]+(?:\s+\"[^\"]*\")?\)"
    r"|\[(?P<label>[^\]]+)\]\(\s*<?(?P<target>[^)\s>]+)>?(?:\s+\"[^\"]*\")?\)|<(?P<auto>https?://[^>\s]+)>"
    r"|\*\*(?P<strong>(?:[^*]|\*(?!\*))+?)\*\*|__(?P<strong2>[^_]+?)__|~~(?P<gone>.+?)~~"
    r"|\*(?P<weak>[^*\s](?:[^*]*[^*\s])?)\*|(?<!\w)_(?P<weak2>[^_\s](?:[^_]*[^_\s])?)_(?!\w)",
    re.DOTALL,
)


class Piece(NamedTuple):
    """Text of one look. link: its target, or ""."""

    text: str
    bold: bool = False
    italic: bool = False
    code: bool = False
    struck: bool = False
    link: str = ""


@dataclass(frozen=True)
class Block:
    """kind: heading, text, item, quote, code, table, picture, rule. level: of a heading from 1, of an item from 0.
    number: of an item of a numbered list, else 0. text: of code, or a picture's alternative text. target: its path."""

    kind: str
    pieces: tuple[Piece, ...] = ()
    level: int = 0
    number: int = 0
    text: str = ""
    target: str = ""
    rows: tuple[tuple[tuple[Piece, ...], ...], ...] = ()


@dataclass
class _Reader:
    lines: list[str]
    at: int = 0
    blocks: list[Block] = field(default_factory=list)
    indents: list[int] = field(default_factory=list)
    """Of the lists that are open, outermost first."""

    def read(self) -> list[Block]:
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if not line.strip():
                self.at += 1
            elif not (self._code(line) or self._simple(line) or self._table(line) or self._item(line)):
                self._text()
        return self.blocks

    def _add(self, block: Block) -> bool:
        self.blocks.append(block)
        if block.kind != "item":
            self.indents = []
        return True

    def _code(self, line: str) -> bool:
        fence = _FENCE.match(line)
        if fence is None:
            return False
        end = next((n for n in range(self.at + 1, len(self.lines)) if self.lines[n].strip().startswith(fence[1])), None)
        last = len(self.lines) if end is None else end
        text = "\n".join(self.lines[self.at + 1 : last])
        self.at = last + 1
        return self._add(Block("code", text=text))

    def _simple(self, line: str) -> bool:
        """Blocks of one line, and quotes."""
        heading, picture = _HEADING.match(line), _PICTURE.match(line)
        if line.lstrip().startswith(">"):
            return self._quote()
        self.at += 1
        if heading is not None:
            return self._add(Block("heading", inline(heading[2]), level=len(heading[1])))
        if picture is not None:
            return self._add(Block("picture", text=picture[1], target=picture[2]))
        if _RULE.match(line):
            return self._add(Block("rule"))
        self.at -= 1
        return False

    def _quote(self) -> bool:
        lines = []
        while self.at < len(self.lines) and self.lines[self.at].lstrip().startswith(">"):
            lines.append(self.lines[self.at].lstrip()[1:].strip())
            self.at += 1
        for part in "\n".join(lines).split("\n\n"):
            self._add(Block("quote", inline(part)))
        return True

    def _table(self, line: str) -> bool:
        below = self.lines[self.at + 1] if self.at + 1 < len(self.lines) else ""
        if "|" not in line or "-" not in below or not _TABLE_LINE.match(below):
            return False
        rows = [_cells(line)]
        self.at += 2
        while self.at < len(self.lines) and "|" in self.lines[self.at]:
            rows.append(_cells(self.lines[self.at]))
            self.at += 1
        wide = len(rows[0])
        even = tuple(tuple(inline(cell) for cell in (*row, *[""] * wide)[:wide]) for row in rows)
        return self._add(Block("table", rows=even))

    def _item(self, line: str) -> bool:
        found = _ITEM.match(line)
        if found is None:
            return False
        indent = len(found[1].expandtabs(4))
        self.indents = [each for each in self.indents if each < indent + 1]
        if not self.indents or indent > self.indents[-1] + 1:
            self.indents.append(indent)
        self.at += 1
        text = [found[4], *self._rest(indented=True)]
        level = len(self.indents) - 1
        return self._add(Block("item", inline(" ".join(text)), level=level, number=int(found[3] or 0)))

    def _text(self) -> None:
        lines = [self.lines[self.at], *self._rest_after()]
        self._add(
            Block(
                "text",
                inline(
                    "\n".join(each.strip(" ") if not each.endswith("  ") else each.strip() + "\n" for each in lines)
                ),
            )
        )

    def _rest_after(self) -> list[str]:
        self.at += 1
        return self._rest()

    def _rest(self, *, indented: bool = False) -> list[str]:
        """Lines that go on what was begun."""
        lines = []
        while self.at < len(self.lines):
            line = self.lines[self.at]
            starts = (_ITEM, _FENCE, _HEADING, _RULE, _PICTURE)
            if not line.strip() or line.lstrip().startswith((">", "|")) or any(each.match(line) for each in starts):
                break
            lines.append(line.strip() if indented else line)
            self.at += 1
        return lines


def _cells(line: str) -> list[str]:
    line = line.strip().removeprefix("|")
    line = line[:-1] if line.endswith("|") and not line.endswith("\\|") else line
    return [cell.strip().replace("\\|", "|").replace("<br>", "\n") for cell in re.split(r"(?<!\\)\|", line)]


def parse(text: str) -> list[Block]:
    """The blocks of a Markdown text, in order; lists are flat, with levels. Comments are left out."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    return _Reader(text.replace("\r\n", "\n").split("\n")).read()


def inline(text: str, base: Piece | None = None) -> tuple[Piece, ...]:
    """The pieces of a paragraph. base: the look that they have in any case."""
    base = base or Piece("")
    pieces: list[Piece] = []
    at = 0
    for found in _INLINE.finditer(text):
        if found.start() > at:
            pieces.append(base._replace(text=_joined(text[at : found.start()])))
        pieces += _special(found, base)
        at = found.end()
    if at < len(text):
        pieces.append(base._replace(text=_joined(text[at:])))
    return tuple(pieces)


def _special(found: re.Match[str], base: Piece) -> tuple[Piece, ...]:
    if found["escape"]:
        return (base._replace(text=found["escape"][1:]),)
    if found["code"]:
        return (base._replace(text=found["coded"].strip(), code=True),)
    if found["alt"] is not None:
        return (base._replace(text=f"[{found['alt'] or 'picture'}]"),)
    if found["auto"]:
        return (base._replace(text=found["auto"], link=found["auto"]),)
    if found["label"]:
        return inline(found["label"], base._replace(link=found["target"]))
    for names, look in ((("strong", "strong2"), {"bold": True}), (("weak", "weak2"), {"italic": True})):
        inner = found[names[0]] or found[names[1]]
        if inner:
            return inline(inner, base._replace(**look))  # type: ignore[arg-type]
    return inline(found["gone"], base._replace(struck=True))


def _joined(text: str) -> str:
    """A single line break is a space; one after two spaces stays, as do those of table cells."""
    return re.sub(r"(?<!\n)\n(?!\n)", " ", text).replace("\n\n", "\n")


def plain(pieces: tuple[Piece, ...]) -> str:
    return "".join(piece.text for piece in pieces)


def counts(blocks: list[Block]) -> dict[str, int]:
    """For the report."""
    names = {
        "heading": "headings",
        "text": "paragraphs",
        "item": "list items",
        "table": "tables",
        "picture": "pictures",
        "code": "code blocks",
        "quote": "quotes",
    }
    return {name: sum(block.kind == kind for block in blocks) for kind, name in names.items()}


def table_as_markdown(rows: list[list[Any]]) -> str:
    """The first row as heading."""
    if not rows:
        return ""
    cells = [[" ".join(str("" if cell is None else cell).split()).replace("|", "\\|") for cell in row] for row in rows]
    head = ["| " + " | ".join(cells[0]) + " |", "|" + "---|" * len(cells[0])]
    return "\n".join([*head, *("| " + " | ".join(row) + " |" for row in cells[1:])]) + "\n"
