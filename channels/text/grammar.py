"""The Markdown that Antler reads: CommonMark with tables, ~~strikethrough~~, ||spoilers|| and <br>.

Used by `parse` only. It leaves out what would let a later line change how earlier text looks, because a reply grows
while people read it: link reference definitions and underlined headings. Raw HTML is shown as it is written.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt
from markdown_it.rules_block import blockquote, list_block, table
from markdown_it.rules_inline.state_inline import Delimiter, StateInline

if TYPE_CHECKING:
    from collections.abc import Callable

    from markdown_it.rules_block import StateBlock

    BlockRule = Callable[[StateBlock, int, int, bool], bool]

# Quotes and lists deeper than this are text; the parser's own limit would drop what is inside.
_MAX_LEVEL = 10
# A longer line is no table header, so that a line's look cannot change long after it was shown.
_MAX_TABLE_HEADER = 500
_MAX_TABLE_PIPES = 40
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_PAIRED = {"~": ("s_open", "s_close"), "|": ("spoiler_open", "spoiler_close")}


def build() -> MarkdownIt:
    """A parser whose inline content stays unparsed (`inline` tokens without children), so that it can be cached."""
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 100})
    parser.enable("table")
    parser.disable(["reference", "lheading", "html_block", "html_inline", "inline", "text_join"])
    containers = ["paragraph", "reference", "blockquote", "list"]
    parser.block.ruler.at("blockquote", _shallow(blockquote), {"alt": containers})
    parser.block.ruler.at("list", _shallow(list_block), {"alt": containers[:3]})
    parser.block.ruler.at("table", _modest_table, {"alt": containers[:2]})
    parser.inline.add_terminator_char("|")
    parser.inline.ruler.before("autolink", "line_break", _line_break)
    parser.inline.ruler.at("emphasis", _emphasis)
    parser.inline.ruler.before("emphasis", "paired", _paired)
    parser.inline.ruler2.before("emphasis", "paired", _pair)
    # Every link is parsed as one; `inline` decides which may be followed.
    parser.validateLink = lambda url: True  # type: ignore[method-assign]  # the documented way to replace the check
    return parser


def _shallow(rule: BlockRule) -> BlockRule:
    def bounded(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        return state.level < _MAX_LEVEL and rule(state, start, end, silent)

    return bounded


def _modest_table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    header = state.src[state.bMarks[start] : state.eMarks[start]]
    if len(header) > _MAX_TABLE_HEADER or header.count("|") > _MAX_TABLE_PIPES:
        return False
    if start + 1 < end and state.eMarks[start + 1] - state.bMarks[start + 1] > _MAX_TABLE_HEADER:
        return False
    return table(state, start, end, silent)


def _line_break(state: StateInline, silent: bool) -> bool:
    """<br>, which models write into table cells."""
    match = _BREAK.match(state.src, state.pos)
    if match is None:
        return False
    if not silent:
        state.push("hardbreak", "br", 0)
    state.pos = match.end()
    return True


def _is_east_asian(char: str) -> bool:
    return char > "\u2e7f" and unicodedata.east_asian_width(char) in "WF"


def _flanking(state: StateInline, start: int) -> tuple[bool, bool, int]:
    """Whether a run of marks may open and close, and its length.

    CommonMark wants a space outside a mark that has punctuation inside. Chinese and Japanese put none, so there
    `**你好，**世界` would not become bold; next to an East Asian character no space is asked for.
    """
    scanned = state.scanDelims(start, True)
    end = start + scanned.length
    before = state.src[start - 1] if start > 0 else " "
    after = state.src[end] if end < state.posMax else " "
    opens = scanned.can_open or (_is_east_asian(before) and not after.isspace())
    closes = scanned.can_close or (_is_east_asian(after) and not before.isspace())
    return opens, closes, scanned.length


def _emphasis(state: StateInline, silent: bool) -> bool:
    marker = state.src[state.pos]
    if silent or marker not in "*_":
        return False
    if marker == "*":
        opens, closes, length = _flanking(state, state.pos)
    else:
        opens, closes, length = state.scanDelims(state.pos, False)
    for _ in range(length):
        _delimiter(state, marker, opens, closes, length)
    state.pos += length
    return True


def _paired(state: StateInline, silent: bool) -> bool:
    """Marks that come in twos: ~~ and ||. An odd one is text."""
    marker = state.src[state.pos]
    if silent or marker not in _PAIRED:
        return False
    opens, closes, length = _flanking(state, state.pos)
    if length < 2:
        return False
    if length % 2:
        state.push("text", "", 0).content = marker
    for _ in range(length // 2):
        _delimiter(state, marker * 2, opens, closes, 0)
    state.pos += length
    return True


def _delimiter(state: StateInline, mark: str, opens: bool, closes: bool, length: int) -> None:
    state.push("text", "", 0).content = mark
    state.delimiters.append(
        Delimiter(marker=ord(mark[0]), length=length, token=len(state.tokens) - 1, end=-1, open=opens, close=closes)
    )


def _pair(state: StateInline) -> None:
    """Turns the marks that found each other into tokens, on every level."""
    nested = [meta["delimiters"] for meta in state.tokens_meta if meta and "delimiters" in meta]
    for delimiters in [state.delimiters, *nested]:
        for opener in delimiters:
            kinds = _PAIRED.get(chr(opener.marker))
            if kinds is None or opener.end == -1:
                continue
            for delimiter, kind, nesting in zip((opener, delimiters[opener.end]), kinds, (1, -1), strict=True):
                token = state.tokens[delimiter.token]
                token.type, token.content, token.nesting = kind, "", nesting
