"""Parses the text of one paragraph, heading or cell: marks, code, links. Also defines the parser's rules.

The syntax is CommonMark with tables, ~~strikethrough~~, ||spoilers||, TeX formulas and <br>, without the features that
let a later line change how earlier text looks, because a reply grows while people read it: link reference definitions
and underlined headings. Raw HTML is shown verbatim. Long text is parsed in independent windows, so that a mark that
closes late cannot change what was shown long before, and so that no input takes more than linear time.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt
from markdown_it.rules_block import blockquote, list_block, table
from markdown_it.rules_inline.state_inline import Delimiter, StateInline

from channels.text.blocks import (
    Bold,
    Code,
    Inline,
    Inlines,
    Italic,
    LineBreak,
    Link,
    Spoiler,
    Strike,
    Text,
    plain,
)
from channels.text.sanitize import is_safe_link, sanitize
from channels.text.split import safe_cut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from markdown_it.rules_block import StateBlock
    from markdown_it.token import Token

    BlockRule = Callable[[StateBlock, int, int, bool], bool]


WINDOW_UNITS = 1500
"""The longest text that is parsed as one window, in UTF-16 units."""
WINDOW_MARKS = 60
"""The maximum number of marks in a window; two marks make at most one formatted span."""
_WINDOW_LINES = 40
_MAX_DEPTH = 12
_COUNTED = re.compile(r"\*+|_+|~~|\|\||`+|[\[\]<>\n]|[\U00010000-\U0010ffff]")
_PARITY = re.compile(r"\*+|~~|\|\||`+")
_SPACES = (re.compile(r"\n"), re.compile(r"(?<=[.!?:;])\s|(?<=[。！？；])"), re.compile(r"\s"))
_WRAPPERS: dict[str, Callable[[Inlines], Inline]] = {
    "strong": Bold,
    "em": Italic,
    "s": Strike,
    "spoiler": Spoiler,
}

# Quotes and lists nested deeper than this are text; the parser's own limit would drop their content.
_MAX_LEVEL = 10
# A longer line is not a table header, so that the look of a line cannot change long after it was shown.
_MAX_TABLE_HEADER = 500
_MAX_TABLE_PIPES = 40
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_FORMULAS = {r"\(": r"\)", r"\[": r"\]", "$$": "$$"}
# What distinguishes a formula from escaped brackets, between which signs may be escaped too.
IN_FORMULAS = re.compile(r"(?<!\\)(?:\\[A-Za-z]|[\^_{=])")
_PAIRED = {"~": ("s_open", "s_close"), "|": ("spoiler_open", "spoiler_close")}


def parse_inlines(source: str) -> Inlines:
    """The nodes of one leaf's text."""
    return tuple(node for window in windows(source) for node in _parse_window(window))


def windows(source: str) -> Iterator[str]:
    """Pieces that together are the text; where a piece ends depends only on the text before its end."""
    start = 0
    while start < len(source):
        limit = _window_limit(source, start)
        if limit is None:
            yield source[start:]
            return
        end = start + _window_cut(source[start:limit])
        yield source[start:end]
        start = end


def _window_limit(source: str, start: int) -> int | None:
    """Where the window that begins at `start` is full, None if the rest of the text fits."""
    marks = lines = extra = 0
    for match in _COUNTED.finditer(source, start, start + WINDOW_UNITS + 2):
        run = match.group()
        if match.start() - start + extra >= WINDOW_UNITS:
            break
        if run == "\n":
            lines += 1
        elif run > "\uffff":
            extra += 1
        else:
            marks += (len(run) + 1) // 2 if run[0] in "*_" else 1
        if marks > WINDOW_MARKS or lines > _WINDOW_LINES:
            return max(match.start(), start + 1)
    limit = start + WINDOW_UNITS - extra
    return limit if limit < len(source) else None


def _window_cut(window: str) -> int:
    """The best place to end a full window: after a line, a sentence or a word, if possible outside of all marks."""
    half = len(window) // 2
    for pattern in _SPACES:
        ends = [match.end() for match in pattern.finditer(window, half)]
        for end in ends[:-9:-1]:
            if _is_balanced(window[:end]):
                return end
    ends = [match.end() for match in _SPACES[-1].finditer(window, half)]
    return ends[-1] if ends else max(1, safe_cut(window, len(window)))


def _is_balanced(text: str) -> bool:
    odd: set[str] = set()
    for match in _PARITY.finditer(text):
        odd ^= {match.group()}
    return not odd and text.count("[") == text.count("]") and not re.search(r"\]\([^)\s]*$", text)


@lru_cache(maxsize=2048)
def _parse_window(source: str) -> Inlines:
    body = source.strip()
    if not body:
        return _separator(source)
    tokens: list[Token] = []
    MARKDOWN.inline.parse(body, MARKDOWN, {}, tokens)
    start = source.index(body[0])
    lead, tail = source[:start], source[start + len(body) :]
    return (*_separator(lead), *_Tree(tokens).nodes(), *_separator(tail))


def _separator(space: str) -> Inlines:
    """The nodes that replace the whitespace at a window's edge."""
    if not space:
        return ()
    return (LineBreak(),) if "\n" in space else (Text(" "),)


class _Tree:
    """Folds the parser's flat tokens into nodes."""

    def __init__(self, tokens: Sequence[Token], *, in_link: bool = False) -> None:
        self._tokens = tokens
        self._in_link = in_link
        # One list of finished nodes per open mark, with what the mark will become; None if it produces no node.
        self._open: list[tuple[list[Inline], Callable[[Inlines], Inlines] | None]] = [([], None)]

    def nodes(self) -> Inlines:
        for token in self._tokens:
            self._take(token)
        while len(self._open) > 1:
            self._close()
        return tuple(self._open[0][0])

    def _take(self, token: Token) -> None:
        match token.type:
            case "text" | "text_special":
                self._text(sanitize(token.content))
            case "softbreak" | "hardbreak":
                self._add(LineBreak())
            case "code_inline":
                self._add(Code(sanitize(token.content).replace("\t", " ").replace("\n", " ")))
            case "image":
                self._image(token)
            case _ if token.nesting == 1:
                self._open.append(([], self._wrapper(token)))
            case _ if token.nesting == -1 and len(self._open) > 1:
                self._close()
            case _:
                self._text(sanitize(token.content))

    def _wrapper(self, token: Token) -> Callable[[Inlines], Inlines] | None:
        if len(self._open) > _MAX_DEPTH:
            return None
        if token.type == "link_open":
            self._in_link = True
            url = str(token.attrGet("href") or "")
            return lambda children: linked(url, children)
        kind = _WRAPPERS[token.type.removesuffix("_open")]
        return lambda children: (kind(children),) if children else ()

    def _close(self) -> None:
        children, wrap = self._open.pop()
        for node in wrap(tuple(children)) if wrap else children:
            self._add(node)
        self._in_link = self._in_link and len(self._open) > 1

    def _image(self, token: Token) -> None:
        """Add an image, which is never fetched: its description as a link to it."""
        alt = plain(_Tree(token.children or [], in_link=True).nodes()).strip()
        if self._in_link:
            self._text(alt)
            return
        for node in linked(str(token.attrGet("src") or ""), (Text(alt),) if alt else ()):
            self._add(node)

    def _text(self, text: str) -> None:
        nodes = self._open[-1][0]
        for index, line in enumerate(text.split("\n")):
            if index:
                self._add(LineBreak())
            if not line:
                continue
            if nodes and isinstance(nodes[-1], Text):
                nodes[-1] = Text(nodes[-1].text + line)
            else:
                nodes.append(Text(line))

    def _add(self, node: Inline) -> None:
        if isinstance(node, Text):
            self._text(node.text)
        else:
            self._open[-1][0].append(node)


def linked(url: str, children: Inlines) -> Inlines:
    """A link if the scheme is allowed; else the label and, if it adds information, the address as text."""
    url = sanitize(url).replace("\n", "").strip()
    label = plain(children).strip()
    if is_safe_link(url):
        return (Link(url, children if label else (Text(url),)),)
    if not url or url == label:
        return children
    return (*children, Text(f" ({url})" if label else url))


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
    parser.inline.ruler.before("escape", "formula", _formula)
    parser.inline.ruler.at("emphasis", _emphasis)
    parser.inline.ruler.before("emphasis", "paired", _paired)
    parser.inline.ruler2.before("emphasis", "paired", _pair)
    # Every link is parsed as one; `linked` decides which may be followed.
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
    """Parse <br>, which models write into table cells."""
    match = _BREAK.match(state.src, state.pos)
    if match is None:
        return False
    if not silent:
        state.push("hardbreak", "br", 0)
    state.pos = match.end()
    return True


def _formula(state: StateInline, silent: bool) -> bool:
    """Parse a TeX formula as code, since Markdown would remove its backslashes and underscores."""
    start = state.pos + 2
    closing = _FORMULAS.get(state.src[state.pos : start])
    end = -1 if closing is None else state.src.find(closing, start, state.posMax)
    if end == -1 or not IN_FORMULAS.search(state.src, start, end):
        return False
    if not silent:
        state.push("code_inline", "code", 0).content = state.src[start:end].strip()
    state.pos = end + 2
    return True


def _is_east_asian(char: str) -> bool:
    return char > "\u2e7f" and unicodedata.east_asian_width(char) in "WF"


def _flanking(state: StateInline, start: int) -> tuple[bool, bool, int]:
    """Whether a run of marks may open and close, and its length.

    CommonMark requires a space outside a mark that has punctuation inside. Chinese and Japanese use no spaces, so
    `**你好，**世界` would not become bold; next to an East Asian character no space is required.
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
    """Parse the marks made of two characters: ~~ and ||. An odd one is text."""
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
    """Turn matched pairs of marks into tokens, on every level."""
    nested = [meta["delimiters"] for meta in state.tokens_meta if meta and "delimiters" in meta]
    for delimiters in [state.delimiters, *nested]:
        for opener in delimiters:
            kinds = _PAIRED.get(chr(opener.marker))
            if kinds is None or opener.end == -1:
                continue
            for delimiter, kind, nesting in zip((opener, delimiters[opener.end]), kinds, (1, -1), strict=True):
                token = state.tokens[delimiter.token]
                token.type, token.content, token.nesting = kind, "", nesting


MARKDOWN = build()
