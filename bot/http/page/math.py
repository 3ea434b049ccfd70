"""TeX formulas as MathML, which browsers display by themselves: nothing to load, nothing to run."""

from __future__ import annotations

import html
import re
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from channels.text.inline import IN_FORMULAS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from xml.etree.ElementTree import Element

LONGEST = 2000
"""Characters of a formula; a longer one is shown as written."""
FIRST_MARK = 0xE000
MOST_MARKS = 0xF8FF - FIRST_MARK + 1
"""Each formula is replaced by one character of the private use area while its text is read as Markdown."""

_PRIVATE = re.compile(f"[{chr(FIRST_MARK)}-{chr(FIRST_MARK + MOST_MARKS - 1)}]")
_QUOTED = re.compile(r"%E[EF]%[89AB][0-9A-F]%[89AB][0-9A-F]")
_OPENING = re.compile(r"(?<!\\)(?:\$\$|\\\[|\\\(|(?<![\w$])\$(?=[^\s$]))")
_CLOSING = {"$$": re.compile(r"\$\$"), r"\[": re.compile(r"\\\]"), r"\(": re.compile(r"\\\)"),
            "$": re.compile(r"(?<=[^\s\\$])\$(?![\w$])")}  # fmt: skip
_INLINE = ("$", r"\(")
_TAGS = frozenset(
    """math mrow mi mn mo ms mtext mspace mfrac msqrt mroot msub msup msubsup munder mover munderover mtable mtr mtd
    mstyle mpadded mphantom menclose""".split()  # noqa: SIM905  # a list of so many quotes reads worse
)
_ATTRIBUTES = frozenset(
    """display stretchy fence separator form accent accentunder linethickness columnalign columnlines columnspacing
    rowlines rowspacing mathvariant displaystyle scriptlevel minsize maxsize width height depth lspace rspace
    movablelimits largeop symmetric notation""".split()  # noqa: SIM905  # as above
)
_VALUE = re.compile(r"[\w .%+-]{1,60}")


def take_out(text: str) -> tuple[str, list[str]]:
    """The text with a mark in place of each formula, and the formulas as written, including their dollars.

    Code keeps its dollars: `put_back` restores them where a mark is in code.
    """
    text = _PRIVATE.sub("\ufffd", text)
    if "$" not in text and "\\" not in text:
        return text, []
    pieces: list[str] = []
    found: list[str] = []
    missing: set[str] = set()
    clear: dict[str, int] = {}  # up to where each sign has no closing one, to avoid repeated searches
    start = 0
    for opening in _OPENING.finditer(text):
        sign = opening.group()
        if opening.start() < start or sign in missing or len(found) == MOST_MARKS:
            continue
        limit = min(len(text), opening.end() + LONGEST)
        closing = _CLOSING[sign].search(text, max(opening.end(), clear.get(sign, 0)), limit)
        clear[sign] = limit - 1 if closing is None else closing.start()
        if closing is None:
            if limit == len(text):
                missing.add(sign)
            continue
        inside = text[opening.end() : closing.start()]
        if not inside.strip() or "`" in inside or "\n\n" in inside or (sign in _INLINE and "\n" in inside):
            continue
        if sign == r"\[" and IN_FORMULAS.search(inside) is None:
            continue
        pieces += (text[start : opening.start()], chr(FIRST_MARK + len(found)))
        found.append(text[opening.start() : closing.end()])
        start = closing.end()
    return "".join((*pieces, text[start:])), found


def put_back(text: str, formulas: Sequence[str]) -> str:
    """The text with the formulas as written, for code."""
    return _PRIVATE.sub(lambda found: _formula(found.group(), formulas), text) if formulas else text


def put_back_address(url: str, formulas: Sequence[str]) -> str:
    """The address of a link as written: there the marks are percent-encoded."""
    return _QUOTED.sub(lambda found: quote(put_back(unquote(found.group()), formulas)), url) if formulas else url


def with_formulas(text: str, formulas: Sequence[str]) -> str:
    """HTML of plain text: escaped, its marks as MathML."""
    if not formulas:
        return html.escape(text)
    pieces: list[str] = []
    start = 0
    for mark in _PRIVATE.finditer(text):
        pieces += (html.escape(text[start : mark.start()]), mathml(_formula(mark.group(), formulas)))
        start = mark.end()
    return "".join((*pieces, html.escape(text[start:])))


def _formula(mark: str, formulas: Sequence[str]) -> str:
    number = ord(mark) - FIRST_MARK
    return formulas[number] if number < len(formulas) else ""


@lru_cache(maxsize=512)
def mathml(source: str) -> str:
    """The HTML of a formula with its delimiters; its source in a code element where it cannot be parsed."""
    display = source.startswith(("$$", r"\["))
    tex = source[2:-2] if source.startswith(("$$", "\\")) else source[1:-1]
    try:
        if r"\newcommand" in tex:
            raise ValueError("commands of their own can grow without end")
        from latex2mathml.converter import Converter

        element = Converter(display="block" if display else "inline").convert_to_element(tex)
        shown = _written(element)
    except Exception:  # its parser raises all kinds of errors
        return f'<code class="tex">{html.escape(tex.strip())}</code>'
    if display:
        return f'<span class="formula" role="group" tabindex="0">{shown}</span>'
    return shown


def _written(element: Element) -> str:
    """MathML of elements known to be harmless; any other element is left out, while its content stays."""
    inside = html.escape(html.unescape(element.text or "")) + "".join(
        _written(child) + html.escape(html.unescape(child.tail or "")) for child in element
    )
    if element.tag not in _TAGS:
        return inside
    attributes = "".join(
        f' {name}="{value}"'
        for name, value in element.attrib.items()
        if name in _ATTRIBUTES and _VALUE.fullmatch(value)
    )
    return f"<{element.tag}{attributes}>{inside}</{element.tag}>"
