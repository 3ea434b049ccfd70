"""Parses a reply's Markdown into the tree of `blocks`. Adapters call `parse`; it never raises and drops no text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, cast

from channels.text.blocks import (
    Align,
    Block,
    CodeBlock,
    Heading,
    Inlines,
    ListBlock,
    ListItem,
    Paragraph,
    Quote,
    Rule,
    Table,
)
from channels.text.inline import MARKDOWN, parse_inlines, windows
from channels.text.sanitize import sanitize

if TYPE_CHECKING:
    from markdown_it.token import Token

_TASK = re.compile(r"\[([ xX])\](?:\s+|$)")
_LANGUAGE = re.compile(r"[\w+#.-]{1,32}")
_ALIGN = re.compile(r"text-align:(left|center|right)")
_TAB = 4
_BORDER = re.compile(r"(?<!\n)\n\n++(?=\S)")
"""Matches only at the first of several empty lines, so that many of them are scanned once."""
# Long enough that few segments are needed, short enough that the unsettled rest is parsed quickly.
_SEGMENT = 1500
_SEGMENT_TRIES = 4
_MARK = re.compile(r"\\.|`+|\*+|~~|\|\||_+", re.DOTALL)
# A mark with nothing after it yet, or half of a closing mark.
_DANGLING = re.compile(r"(?:(?<=\s)|^)[*_~|`!\[]+$|(?<!\*)\*$|(?<!~)~$|(?<!\|)\|$|`{1,2}$")
_OPEN_LINK = re.compile(r"!?\[([^\[\]\n]*)\]\([^()\s]*$")


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Blocks that no later text can change. The same text gives the same object, so it can serve as a cache key."""

    blocks: tuple[Block, ...]


def parse(markdown: str, *, growing: bool = False) -> tuple[Block, ...]:
    """The blocks of a reply.

    growing: more text will follow, so marks that are open at the end count as closed there. Fences need no such
    treatment: CommonMark closes them at the end of the text.
    """
    return tuple(block for segment in segments(markdown, growing=growing) for block in segment.blocks)


def segments(markdown: str, *, growing: bool = False) -> list[Segment]:
    """The same blocks in segments; all but the last are cached, so that only the end of a growing reply is parsed."""
    source = sanitize(markdown)
    found: list[Segment] = []
    start = 0
    while (settled := _settled(source, start)) is not None:
        segment, start = settled
        found.append(segment)
    return [*found, Segment(read_blocks(source[start:], growing=growing, continued=start > 0))]


def _settled(source: str, start: int) -> tuple[Segment, int] | None:
    """The segment that begins at `start` and where it ends; None while it can still change.

    It ends at an empty line below a top-level paragraph or rule: any kind of block that follows starts fresh there.
    """
    tries = islice(_BORDER.finditer(source, start + _SEGMENT), _SEGMENT_TRIES)
    for border in tries:
        segment = _segment(source[start : border.end()], start > 0)
        if segment.blocks and isinstance(segment.blocks[-1], Paragraph | Rule):
            return segment, border.end()
    return None


@lru_cache(maxsize=128)
def _segment(source: str, continued: bool) -> Segment:
    return Segment(read_blocks(source, continued=continued))


def read_blocks(source: str, *, growing: bool = False, continued: bool = False) -> tuple[Block, ...]:
    """The blocks of sanitized text, parsed as a whole. continued: an empty line precedes it."""
    tokens = MARKDOWN.parse(source)
    if growing:
        _close_last_leaf(tokens)
    return _Reader(source.split("\n"), continued).blocks(_tree(tokens))


def _close_last_leaf(tokens: list[Token]) -> None:
    for token in reversed(tokens):
        if token.type == "inline":
            # Only the last window may change, because it is the only one that is parsed again.
            *complete, last = windows(token.content) if token.content else [""]
            token.content = "".join(complete) + close_open_marks(last)
        if token.nesting >= 0:
            return


@dataclass(slots=True, eq=False)
class _Node:
    """An opening token or a leaf, with its content."""

    token: Token
    children: list[_Node] = field(default_factory=list)


def _tree(tokens: list[Token]) -> list[_Node]:
    roots: list[_Node] = []
    levels = [roots]
    for token in tokens:
        if token.nesting < 0:
            levels.pop()
            continue
        node = _Node(token)
        levels[-1].append(node)
        if token.nesting > 0:
            levels.append(node.children)
    return roots


class _Reader:
    """Converts the parser's nodes into ours. lines: the source, to find where blank lines were."""

    def __init__(self, lines: list[str], continued: bool) -> None:
        self._lines = lines
        self._continued = continued

    def blocks(self, nodes: list[_Node]) -> tuple[Block, ...]:
        return tuple(map(self._block, nodes))

    def _block(self, node: _Node) -> Block:
        token = node.token
        spaced = self._blank_before(token)
        match token.type:
            case "heading_open":
                return Heading(int(token.tag[1]), _leaf(node), spaced)
            case "fence" | "code_block":
                return CodeBlock(_language(token.info), _code(token.content), spaced)
            case "bullet_list_open":
                return ListBlock(tuple(map(self._item, node.children)), None, spaced)
            case "ordered_list_open":
                start = int(str(token.attrs.get("start", 1)))
                return ListBlock(tuple(map(self._item, node.children)), start, spaced)
            case "blockquote_open":
                return Quote(self.blocks(node.children), spaced)
            case "table_open":
                return self._table(node, spaced)
            case "hr":
                return Rule(spaced)
            case _:
                return Paragraph(_leaf(node), spaced)

    def _item(self, node: _Node) -> ListItem:
        checked = None
        if node.children and node.children[0].token.type == "paragraph_open":
            leaf = node.children[0].children[0].token
            task = _TASK.match(leaf.content)
            if task is not None:
                checked = task.group(1) != " "
                leaf.content = leaf.content[task.end() :]
        return ListItem(self.blocks(node.children), checked, self._blank_before(node.token))

    def _table(self, node: _Node, spaced: bool) -> Table:
        header, *rows = (row.children for section in node.children for row in section.children)
        start, end = node.token.map or (0, 0)
        return Table(
            header=tuple(map(_leaf, header)),
            rows=tuple(tuple(map(_leaf, row)) for row in rows),
            align=tuple(map(_align, header)),
            source="\n".join(line.strip() for line in self._lines[start:end]),
            blank_before=spaced,
        )

    def _blank_before(self, token: Token) -> bool:
        first = token.map[0] if token.map else 0
        return not self._lines[first - 1].strip(" \t>") if first else self._continued


def _leaf(node: _Node) -> Inlines:
    return tuple(part for child in node.children for part in parse_inlines(child.token.content))


def _language(info: str) -> str:
    """The language name that a fence's info string begins with, "" if none."""
    words = info.replace("{", " ").replace("}", " ").split()
    match = _LANGUAGE.match(words[0].lstrip(".")) if words else None
    return match.group() if match else ""


def _code(content: str) -> str:
    """Code with tabs expanded: platforms show a tab as one space, and indentation matters."""
    lines = content.removesuffix("\n").split("\n")
    return "\n".join(line.expandtabs(_TAB) if "\t" in line else line for line in lines)


def _align(cell: _Node) -> Align:
    match = _ALIGN.match(str(cell.token.attrs.get("style", "")))
    return cast("Align", match.group(1)) if match else "left"


def close_open_marks(source: str) -> str:
    """The text with the marks closed that are open at its end, and a link with an incomplete address as its label."""
    stack = open_marks(source)
    if stack[-1:] and stack[-1][0] == "`":
        return source.rstrip("`") + stack[-1] if source.strip("`") else ""
    source = _OPEN_LINK.sub(r"\1", source)
    if stack or _DANGLING.search(source):
        trimmed = _DANGLING.sub("", source)
        if trimmed != source:
            stack = open_marks(trimmed)
            source = trimmed
    if not stack:
        return source
    return source.rstrip() + "".join(reversed(stack))


def open_marks(source: str) -> list[str]:
    """The marks that are open at the end, outermost first; an open code span is last, no mark counts inside it."""
    stack: list[str] = []
    for match in _MARK.finditer(source):
        run = match.group()
        if stack and stack[-1][0] == "`":
            if run == stack[-1]:
                stack.pop()
            continue
        if run[0] == "\\":
            continue
        before = source[match.start() - 1] if match.start() else " "
        after = source[match.end()] if match.end() < len(source) else " "
        _apply(stack, run, before, after)
    return stack


def _apply(stack: list[str], run: str, before: str, after: str) -> None:
    for mark in _marks(run):
        if mark in stack and not before.isspace():
            del stack[stack.index(mark) :]
        elif mark not in stack and not after.isspace() and _may_open(run, before):
            stack.append(mark)


def _marks(run: str) -> tuple[str, ...]:
    if run[0] in "`~|":
        return (run,)
    return {1: (run,), 2: (run,), 3: (run[:2], run[:1])}.get(len(run), ())


def _may_open(run: str, before: str) -> bool:
    """Whether a run may open a mark. Inside a word a single * or _ is more likely a plain character."""
    return (len(run) > 1 and run[0] != "_") or run[0] == "`" or not before.isalnum()
