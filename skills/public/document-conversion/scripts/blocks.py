"""Markdown as blocks and pieces of text: what the writers of Word, HTML and PDF have in common."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from markdown_it import MarkdownIt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from markdown_it.token import Token

# Text with a deep indent is no code, and a line of --- makes no heading of the text above it.
_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable(["code", "lheading"])
_PARSER.normalizeLink = lambda url: url  # type: ignore[method-assign]  # paths of files stay as they are
_PARSER.validateLink = lambda url: True  # type: ignore[method-assign]
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_SPACED_PICTURE = re.compile(r"^(\s*!\[[^\]]*\]\()([^<>()\"\s][^<>()\"\n]* [^<>()\"\n]*)(\)\s*)$", re.MULTILINE)
"""A picture whose path has spaces, which Markdown wants in angle brackets."""
_LISTS = ("bullet_list_open", "bullet_list_close", "ordered_list_open", "ordered_list_close")
_PICTURES = (["image"], ["image", "softbreak"])
_LOOKS = {"strong": "bold", "em": "italic", "s": "struck"}


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


def parse(text: str) -> list[Block]:
    """The blocks of a Markdown text, in order; lists are flat, with levels. Comments are left out."""
    text = _SPACED_PICTURE.sub(r"\1<\2>\3", _COMMENT.sub("", text))
    return list(_blocks(_PARSER.parse(text)))


def _blocks(tokens: list[Token]) -> Iterator[Block]:
    lists = quotes = 0
    item: int | None = None
    """Number of the list item whose text comes next."""
    rows: list[list[tuple[Piece, ...]]] = []
    for before, token in zip([None, *tokens], tokens, strict=False):
        kind = token.type
        lists += (kind in _LISTS) * token.nesting
        quotes += kind.startswith("blockquote") * token.nesting
        if kind == "list_item_open":
            item = int(token.info or 0)
        elif kind == "list_item_close":
            item = None
        elif kind == "tr_open":
            rows.append([])
        elif kind == "table_close":
            yield Block("table", rows=tuple(map(tuple, rows)))
            rows = []
        elif kind == "hr":
            yield Block("rule")
        elif kind == "fence":
            yield Block("code", text=token.content.removesuffix("\n"))
        elif kind == "inline" and rows:
            rows[-1].append(_pieces(token.children or (), breaks=True))
        elif kind == "inline" and before is not None and before.type == "heading_open":
            yield Block("heading", _pieces(token.children or ()), level=int(before.tag[1]))
        elif kind == "inline" and item is not None:
            yield Block("item", _pieces(token.children or ()), level=lists - 1, number=item)
            item = None
        elif kind == "inline":
            yield from _paragraph(token, "quote" if quotes else "text")


def _paragraph(token: Token, kind: str) -> Iterator[Block]:
    """The blocks of a paragraph: a line with nothing but a picture is one of its own."""
    lines: list[list[Token]] = [[]]
    for child in token.children or []:
        lines[-1].append(child)
        if child.type == "softbreak":
            lines.append([])
    for alone, group in groupby(lines, lambda line: [child.type for child in line][:2] in _PICTURES):
        if alone:
            yield from (Block("picture", text=line[0].content, target=str(line[0].attrs["src"])) for line in group)
        else:
            yield Block(kind, _pieces(chain.from_iterable(group)))


def _pieces(children: Iterable[Token], *, breaks: bool = False) -> tuple[Piece, ...]:
    """The pieces of a paragraph. breaks: <br> is a line break, as in the cells of a table."""
    look = Piece("")
    pieces: list[Piece] = []
    for child in children:
        name, _, end = child.type.rpartition("_")
        if child.type == "text":
            pieces.append(look._replace(text=child.content.replace("<br>", "\n") if breaks else child.content))
        elif child.type in ("softbreak", "hardbreak"):
            pieces.append(look._replace(text=" " if child.type == "softbreak" else "\n"))
        elif child.type == "code_inline":
            pieces.append(look._replace(text=child.content.strip(), code=True))
        elif child.type == "image":
            pieces.append(look._replace(text=f"[{child.content or 'picture'}]"))
        elif name == "link":
            look = look._replace(link=str(child.attrs["href"]) if end == "open" else "")
        elif name in _LOOKS:
            look = look._replace(**{_LOOKS[name]: end == "open"})
    return tuple(piece for piece in pieces if piece.text)


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
