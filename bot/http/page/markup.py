"""Markdown of an answer as HTML: made from the tree from which all platforms are written, with everything escaped.

No HTML of an answer passes: tags and attributes are written here, other content is text or a checked link.
"""

from __future__ import annotations

import html
from functools import lru_cache
from typing import TYPE_CHECKING

from markupsafe import Markup

from bot.http.page.code import coloured
from bot.http.page.math import put_back, put_back_address, take_out, with_formulas
from channels.text.blocks import (
    Bold,
    Code,
    CodeBlock,
    Heading,
    Italic,
    LineBreak,
    Link,
    ListBlock,
    Paragraph,
    Quote,
    Rule,
    Spoiler,
    Strike,
    Table,
    Text,
)
from channels.text.parse import Segment, segments
from channels.text.sanitize import sanitize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bot.texts.page import Words
    from channels.text.blocks import Block, Inlines, ListItem

_TOP_LEVEL = 3
"""The heading level for an answer's first level: the page's and the chat's are above it."""


def pieces(markdown: str, t: Words, *, growing: bool = False) -> list[Markup]:
    """The HTML of an answer, in pieces of which all but the last stay the same while it grows.

    growing: more of it follows, so what is open at its end counts as closed.
    """
    return list(_pieces(markdown, t, growing))


@lru_cache(maxsize=8)
def _pieces(markdown: str, t: Words, growing: bool) -> tuple[Markup, ...]:
    """Cached for the case that the same growing answer is open more than once."""
    source, formulas = take_out(sanitize(markdown))
    found = [segment for segment in segments(source, growing=growing) if segment.blocks]
    last = len(found) - 1 if growing else len(found)
    return tuple(_piece(segment, tuple(formulas), t, place < last) for place, segment in enumerate(found))


@lru_cache(maxsize=512)
def _piece(segment: Segment, formulas: tuple[str, ...], t: Words, settled: bool) -> Markup:
    """One piece. Cached, as the settled pieces of a growing answer are requested with each of its words. The growing
    block has no colours: all of it would be processed again each time."""
    if settled:
        return Markup(_Writer(t, formulas).blocks(segment.blocks))
    whole = _Writer(t, formulas).blocks(segment.blocks[:-1])
    return Markup(whole + _Writer(t, formulas, colours=False).blocks(segment.blocks[-1:]))


class _Writer:
    def __init__(self, t: Words, formulas: tuple[str, ...], *, colours: bool = True) -> None:
        self._t = t
        self._formulas = formulas
        self._colours = colours

    def blocks(self, blocks: Sequence[Block]) -> str:
        return "".join(map(self._block, blocks))

    def _block(self, block: Block) -> str:
        match block:
            case Heading(level, inlines):
                tag = f"h{min(level + _TOP_LEVEL - 1, 6)}"
                return f'<{tag} class="level-{level}">{self._inlines(inlines)}</{tag}>'
            case Paragraph(inlines):
                return f"<p>{self._inlines(inlines)}</p>"
            case CodeBlock(language, text):
                return self._code(language, text)
            case ListBlock(items, start):
                inside = "".join(map(self._item, items))
                tag = "ul" if start is None else "ol"
                number = "" if start in (None, 1) else f' start="{start}"'
                return f'<{tag} dir="auto"{number}>{inside}</{tag}>'
            case Quote(blocks):
                return f'<blockquote dir="auto">{self.blocks(blocks)}</blockquote>'
            case Table():
                return self._table(block)
            case Rule():
                return "<hr>"

    def _code(self, language: str, text: str) -> str:
        name = html.escape(language or self._t("chat.code"))
        copy = html.escape(self._t("chat.copy_code"))
        source = put_back(text, self._formulas)
        code = coloured(language, source) if self._colours else html.escape(source, quote=False)
        return (
            f'<figure class="code-block"><figcaption><span>{name}</span>'
            f'<button type="button" class="copy" data-copy><span class="label">{copy}</span></button></figcaption>'
            f'<pre tabindex="0"><code>{code}</code></pre></figure>'
        )

    def _item(self, item: ListItem) -> str:
        # A tight item is its text without a paragraph around it.
        first, *rest = item.blocks or (Paragraph(()),)
        if isinstance(first, Paragraph):
            inside = self._inlines(first.inlines) + self.blocks(rest)
        else:
            inside = self.blocks(item.blocks)
        if item.checked is None:
            return f"<li>{inside}</li>"
        mark = "☑" if item.checked else "☐"
        return f'<li class="task"><span class="task-mark">{mark}</span> {inside}</li>'

    def _table(self, table: Table) -> str:
        head = "".join(
            f'<th scope="col"{_aligned(align)}>{self._inlines(cell)}</th>'
            for cell, align in zip(table.header, table.align, strict=True)
        )
        rows = "".join(
            "<tr>"
            + "".join(
                f"<td{_aligned(align)}>{self._inlines(cell)}</td>" for cell, align in zip(row, table.align, strict=True)
            )
            + "</tr>"
            for row in table.rows
        )
        return (
            f'<div class="table-wrap" tabindex="0"><table class="table"><thead><tr>{head}</tr></thead>'
            f"<tbody>{rows}</tbody></table></div>"
        )

    def _inlines(self, inlines: Inlines) -> str:
        pieces: list[str] = []
        for node in inlines:
            match node:
                case Text(text):
                    pieces.append(with_formulas(text, self._formulas))
                case LineBreak():
                    pieces.append("<br>")
                case Code(text):
                    pieces.append(f"<code>{html.escape(put_back(text, self._formulas))}</code>")
                case Bold(children):
                    pieces.append(f"<strong>{self._inlines(children)}</strong>")
                case Italic(children):
                    pieces.append(f"<em>{self._inlines(children)}</em>")
                case Strike(children):
                    pieces.append(f"<s>{self._inlines(children)}</s>")
                case Spoiler(children):
                    label = html.escape(self._t("chat.spoiler"))
                    pieces.append(
                        f'<span class="spoiler" role="button" tabindex="0" aria-label="{label}">'
                        f"{self._inlines(children)}</span>"
                    )
                case Link(url, children):
                    address = html.escape(put_back_address(url, self._formulas))
                    pieces.append(
                        f'<a href="{address}" target="_blank" rel="noopener noreferrer nofollow">'
                        f"{self._inlines(children)}</a>"
                    )
        return "".join(pieces)


def _aligned(align: str) -> str:
    return "" if align == "left" else f' class="{align}"'
