"""What a platform's Markdown can do, and the inside of a line written in it: marks, code spans, links.

Marks are only put where CommonMark's rules see them; where a neighbour forbids it, punctuation moves out of the mark,
and when that does not help the text comes without the mark.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import quote

from channels.text.blocks import Bold, Code, Italic, LineBreak, Link, Spoiler, Strike, Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from channels.text.blocks import Inline, Inlines


Mark: TypeAlias = Literal["strike", "bold", "italic"]
_ORDER: tuple[Mark, ...] = ("strike", "bold", "italic")
_SIGNS: dict[Mark, str] = {"strike": "~~", "bold": "**", "italic": "*"}
_KINDS: dict[type[Inline], Mark] = {Bold: "bold", Italic: "italic", Strike: "strike"}
_TICKS = re.compile("`+")
# Characters that would end an address, or a table cell, too early.
_UNSAFE_IN_ADDRESS = re.compile(r"""[\s()<>\[\]|`"'\\*~]""")
# Line beginnings that start another block: a heading, a list, a task, a quote, a fence, an underline or rule, a table.
_BLOCK_START = re.compile(
    r"(?P<before>\d{1,9}(?=[.)](?:\s|$)))?"
    r"(?P<sign>(?<=\d)[.)]|\#(?=\#{0,5}(?:\s|$))|[-+*](?=\s|$)|\[(?=[ xX]\])|>|`(?=``)|~(?=~~)|=(?==*\s*$)"
    r"|[-:|](?=[-:|\s]*$)|[*_](?=[*_\s]*$))"
)

# A backslash that would escape something, code, emphasis, strikethrough, links. An underscore inside a word and an
# asterisk with spaces around it are not marks.
_MARKS = re.compile(r"\\(?=[!-/:-@\[-`{-~\s]|$)|[`\[\]~]|\*(?!(?<=\s\*)\s)|_(?!(?<=\w_)\w)")


@dataclass(frozen=True, slots=True)
class Run:
    """Text of one style. url: of the link that it is in."""

    text: str
    marks: frozenset[Mark] = frozenset()
    code: bool = False
    url: str = ""

    def of(self, text: str) -> Run:
        """Another text in the same style."""
        return Run(text, self.marks, self.code, self.url)


_PLAIN = Run("")


def runs_of(inlines: Inlines, dialect: Dialect, room: int, style: Run = _PLAIN) -> Iterator[Run]:
    """The nodes as runs, "\\n" alone for a line break. room: units that a link's address may take."""
    for node in inlines:
        match node:
            case Text(text):
                yield style.of(text)
            case LineBreak():
                yield Run("\n")
            case Code(text):
                yield replace(style, text=text, code=True)
            case Link(url, children):
                yield from _link(url, children, dialect, room, style)
            case Spoiler(children):  # only Telegram has them
                yield from runs_of(children, dialect, room, style)
            case Bold(children) | Italic(children) | Strike(children):
                marks = style.marks | {_KINDS[type(node)]}
                yield from runs_of(children, dialect, room, replace(style, marks=marks))


def _link(url: str, children: Inlines, dialect: Dialect, room: int, style: Run) -> Iterator[Run]:
    if dialect.measure(write_link("", url)) <= room:
        yield from runs_of(children, dialect, room, replace(style, url=url))
        return
    yield from runs_of(children, dialect, room, style)
    if children != (Text(url),):
        yield Run(f" ({url})")


def write_link(label: str, url: str) -> str:
    """A Markdown link. label: already Markdown."""
    return f"[{label}]({_UNSAFE_IN_ADDRESS.sub(lambda match: quote(match.group(), safe=''), url)})"


def longest_ticks(text: str) -> int:
    """The length of the longest run of backticks."""
    return max(map(len, _TICKS.findall(text)), default=0) if "`" in text else 0


def write_line(runs: Sequence[Run], dialect: Dialect) -> str:
    """A line of text that does not start another block, without spaces at its ends."""
    text = write_runs(runs, dialect).strip()
    first = next((run for run in runs if run.text.strip()), None)
    if first is None or first.marks or first.code or first.url:
        return text
    match = _BLOCK_START.match(text)
    if match is None:
        return text
    return text[: match.start("sign")] + dialect.literal(match["sign"]) + text[match.end() :]


def write_runs(runs: Sequence[Run], dialect: Dialect) -> str:
    writer = _Writer(dialect)
    links = [(url, list(group)) for url, group in groupby(_merged(runs), key=lambda run: run.url)]
    text = ""
    for index, (url, group) in enumerate(links):
        if url:
            text += write_link(writer.marked(group, frozenset(), "[", "]"), url)
            continue
        after = "[" if index + 1 < len(links) else ""
        text += writer.marked(group, frozenset(), text[-1:], after)
    return text


def _merged(runs: Sequence[Run]) -> Iterator[Run]:
    for (marks, code, url), group in groupby(runs, key=lambda run: (run.marks, run.code, run.url)):
        text = "".join(run.text for run in group)
        if text:
            yield Run(text, marks, code, url)


def _is_sign(char: str) -> bool:
    """Whether CommonMark considers the character punctuation."""
    return unicodedata.category(char)[0] in "PS"


def _may_touch(inside: str, outside: str) -> bool:
    """Whether a mark between the two characters is recognized as a mark."""
    if not inside or inside.isspace():
        return False
    return not _is_sign(inside) or not outside or outside.isspace() or _is_sign(outside)


class _Writer:
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def marked(self, runs: Sequence[Run], done: frozenset[Mark], before: str, after: str) -> str:
        """The runs with their marks. done: marks already around them. before, after: the characters outside."""
        text = ""
        index = 0
        while index < len(runs):
            kind, end = _outermost(runs, index, done)
            if kind is None:
                text += self._plain(runs[index])
            else:
                following = _first(runs[end]) if end < len(runs) else after
                if kind in ("bold", "italic") and text.endswith("*") and not text.endswith("\\*"):
                    # Two adjacent runs of asterisks would be read as one.
                    text += self.marked(runs[index:end], done | {"bold", "italic"}, text[-1:], following)
                else:
                    text += self._wrapped(kind, runs[index:end], done | {kind}, text[-1:] or before, following)
            index = end
        return text

    def _wrapped(self, kind: Mark, runs: Sequence[Run], done: frozenset[Mark], before: str, after: str) -> str:
        sign = _SIGNS[kind]
        lead = tail = ""
        while True:
            space, runs, space_behind = _trimmed(runs)
            lead, tail = lead + space, space_behind + tail
            if not runs:
                return lead + tail
            inner = self.marked(runs, done, sign[0], sign[0])
            edges = inner.strip("*") if sign[0] == "*" else inner
            outside = (lead[-1:] or before, tail[:1] or after)
            if not _may_touch(edges[:1], outside[0]):
                moved, runs = self._without(runs, 0)
                lead += moved
            elif not _may_touch(edges[-1:], outside[1]):
                moved, runs = self._without(runs, -1)
                tail = moved + tail
            else:
                return lead + sign + inner + sign + tail
            if not moved:
                return lead + inner + tail

    def _without(self, runs: Sequence[Run], edge: Literal[0, -1]) -> tuple[str, list[Run]]:
        """Markdown of the code or punctuation moved out of a mark at one edge ("" if neither), and the rest."""
        run, left = runs[edge], list(runs)
        if run.code:
            left.pop(edge)
            return self._plain(run), left
        if not _is_sign(run.text[edge]):
            return "", left
        left[edge] = run.of(run.text[:-1] if edge else run.text[1:])
        return self._dialect.escape(run.text[edge]), left

    def _plain(self, run: Run) -> str:
        if not run.code:
            return self._dialect.escape(run.text)
        body = self._dialect.escape_code(run.text)
        fence = "`"
        while fence in _TICKS.findall(body):
            fence += "`"
        if body[:1] == "`" or body[-1:] == "`" or (body[:1] == body[-1:] == " " and body.strip()):
            body = f" {body} "
        return fence + body + fence


def _outermost(runs: Sequence[Run], index: int, done: frozenset[Mark]) -> tuple[Mark | None, int]:
    """The mark that extends furthest from runs[index], and where it ends."""
    best: Mark | None = None
    furthest = index + 1
    for kind in _ORDER:
        if kind in done or kind not in runs[index].marks:
            continue
        end = index + 1
        while end < len(runs) and kind in runs[end].marks:
            end += 1
        if best is None or end > furthest:
            best, furthest = kind, end
    return best, furthest


def _first(run: Run) -> str:
    return "`" if run.code else run.text[:1]


def _trimmed(runs: Sequence[Run]) -> tuple[str, list[Run], str]:
    """The leading space, the runs without space at their ends, the trailing space."""
    left = list(runs)
    before = behind = ""
    while left and not left[0].code:
        text = left[0].text.lstrip()
        before += left[0].text[: len(left[0].text) - len(text)]
        if text:
            left[0] = left[0].of(text)
            break
        left.pop(0)
    while left and not left[-1].code:
        text = left[-1].text.rstrip()
        behind = left[-1].text[len(text) :] + behind
        if text:
            left[-1] = left[-1].of(text)
            break
        left.pop()
    return before, left, behind


def backslashed(char: str) -> str:
    """The character with a backslash before it, which CommonMark shows literally."""
    return "\\" + char


def escape_marks(text: str, literal: Callable[[str], str] = backslashed) -> str:
    """The text with `literal` applied to what CommonMark would read as marks inside a line. For `Dialect.escape`.

    HTML's special characters (& < >) and any other syntax of a platform are left to the adapter.
    """
    return _MARKS.sub(lambda match: literal(match.group()), text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One platform's Markdown. Create it once and keep it: it is a key of the cache of rendered text.

    measure: size of a page's text in the platform's own unit; measure(a + b) <= measure(a) + measure(b).
    escape: plain text -> text that is shown literally and cannot mention anyone; called with pieces of a line.
    escape_code: the same for the content of code spans and blocks.
    tables: how many one page may hold; further ones become code blocks with aligned columns. None: any number.
    table_columns: a wider table also becomes such a code block. table_rows, table_units: how many rows of a table
    (including its header), and how much of their text, one page may hold; the table continues on the next page.
    blocks: how many blocks (paragraphs, headings, lists, ...) one page may hold.
    task_lists: if False, a task's state is shown as a character.
    literal: one character -> the same character, literal where it would begin a heading, a list or the like.
    """

    measure: Callable[[str], int]
    escape: Callable[[str], str]
    escape_code: Callable[[str], str]
    tables: int | None = None
    table_columns: int | None = None
    table_rows: int | None = None
    table_units: int | None = None
    blocks: int | None = None
    task_lists: bool = True
    literal: Callable[[str], str] = backslashed
