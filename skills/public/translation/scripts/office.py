"""The paragraphs of .docx and .pptx files: read with tags for what looks different, written back in place.

`<2>bold</2>` is a piece whose look differs from most of its paragraph, or a link; `<x3/>` stands for what is no text: a
picture, a footnote, a field.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lxml import etree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
NOTES = ("/footnotes", "/endnotes")
_TAGS = re.compile(r"<(/?)(\d+)>|<x(\d+)/>")
_STAYS = {"pPr", "bookmarkStart", "bookmarkEnd", "endParaRPr"}
_DROPPED = {"proofErr", "lastRenderedPageBreak"}


@dataclass(frozen=True)
class Dialect:
    """How a format names things."""

    space: str

    def tag(self, name: str) -> str:
        return self.space + name


WORD, SLIDES = Dialect(W), Dialect(A)


@dataclass
class Piece:
    """look: what tells it from others, "" for what is no text. element: the first of its look."""

    look: str
    text: str
    element: Any
    link: bool = False
    others: list[Any] = field(default_factory=list)
    """Elements whose text was joined to it."""


class Paragraph:
    """One paragraph as text with tags."""

    def __init__(self, element: Any, dialect: Dialect) -> None:
        self._element, self._dialect = element, dialect
        self._pieces = _joined(list(self._read()))
        sizes: Counter[str] = Counter()
        for piece in self._pieces:
            if piece.look and not piece.link:
                sizes[piece.look] += len(piece.text)
        self._base = sizes.most_common(1)[0][0] if sizes else ""

    @property
    def text(self) -> str:
        """ "" when there is nothing to translate."""
        if not any(re.search(r"[^\W\d_]", piece.text) for piece in self._pieces):
            return ""
        return "".join(self._tagged(number, piece) for number, piece in enumerate(self._pieces, 1))

    def _tagged(self, number: int, piece: Piece) -> str:
        if not piece.look:
            return f"<x{number}/>"
        return piece.text if piece.look == self._base and not piece.link else f"<{number}>{piece.text}</{number}>"

    def _read(self) -> Iterator[Piece]:
        look = "plain"
        for child in self._element:
            name = etree.QName(child).localname
            if name in _STAYS or name in _DROPPED:
                continue
            if name == "r" and self._is_text(child):
                look = self._look(child)
                yield Piece(look, self._text(child), child)
            elif name == "br" and self._dialect is SLIDES:
                yield Piece(look, "\n", child)
            elif name == "hyperlink" and all(self._is_text(run) for run in child):
                yield Piece("link" + str(child.attrib), "".join(self._text(run) for run in child), child, link=True)
            else:
                yield Piece("", "", child)

    def _is_text(self, run: Any) -> bool:
        known = {"rPr", "t", "tab", "br", "lastRenderedPageBreak", "noBreakHyphen"}
        return etree.QName(run).localname == "r" and all(
            etree.QName(child).localname in known and not child.get(self._dialect.tag("type")) for child in run
        )

    def _look(self, run: Any) -> str:
        properties = run.find(self._dialect.tag("rPr"))
        if properties is None:
            return "plain"
        plain = copy.deepcopy(properties)
        for each in [each for each in plain if etree.QName(each).localname in ("lang", "noProof")]:
            plain.remove(each)
        for key in ("lang", "dirty", "err"):
            plain.attrib.pop(key, None)
        return etree.tostring(plain, method="c14n").decode() if len(plain) or plain.attrib else "plain"

    def _text(self, run: Any) -> str:
        signs = {"tab": "\t", "br": "\n", "noBreakHyphen": "-"}
        return "".join(
            each.text or "" if etree.QName(each).localname == "t" else signs.get(etree.QName(each).localname, "")
            for each in run
        )

    def replace(self, text: str) -> None:
        """With the translation, whose tags are those of `text`."""
        for piece in self._pieces:
            for element in (piece.element, *piece.others):
                self._element.remove(element)
        for child in [each for each in self._element if etree.QName(each).localname in _DROPPED]:
            self._element.remove(child)
        base = next((piece for piece in self._pieces if piece.look == self._base and not piece.link), None)
        end = self._element.find(self._dialect.tag("endParaRPr"))
        for element in self._made(text, base):
            if end is not None:
                end.addprevious(element)
            else:
                self._element.append(element)

    def _made(self, text: str, base: Piece | None) -> Iterator[Any]:
        current, at = base, 0
        for found in [*_TAGS.finditer(text), None]:
            part = text[at : found.start()] if found is not None else text[at:]
            if part:
                yield from self._run(current or self._pieces[0], part)
            if found is None:
                return
            at = found.end()
            if found[3]:
                yield self._pieces[int(found[3]) - 1].element
            else:
                current = base if found[1] else self._pieces[int(found[2]) - 1]

    def _run(self, piece: Piece, text: str) -> Iterator[Any]:
        model = next(piece.element.iter(self._dialect.tag("r")), None)
        if piece.link and model is not None:
            link = copy.deepcopy(piece.element)
            for each in list(link):
                link.remove(each)
            link.append(self._filled(model, text))
            yield link
        elif self._dialect is SLIDES:
            for number, line in enumerate(text.split("\n")):
                if number:
                    yield etree.Element(A + "br")
                if line:
                    yield self._filled(model, line)
        else:
            yield self._filled(model, text)

    def _filled(self, model: Any, text: str) -> Any:
        tag = self._dialect.tag
        run = etree.Element(tag("r"))
        properties = model.find(tag("rPr")) if model is not None else None
        if properties is not None:
            run.append(copy.deepcopy(properties))
        for part in re.split(r"([\t\n])", text) if self._dialect is WORD else [text]:
            if part in ("\t", "\n"):
                etree.SubElement(run, tag("tab" if part == "\t" else "br"))
            elif part:
                child = etree.SubElement(run, tag("t"))
                child.text = part
                if self._dialect is WORD:
                    child.set("{http://www.w3.org/XML/1998/namespace}space", "preserve")
        return run


def _joined(pieces: list[Piece]) -> list[Piece]:
    """Neighbours of one look are one piece: programs part sentences where nobody sees it."""
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if last is not None and piece.look and last.look == piece.look and not (last.link or piece.link):
            last.text += piece.text
            last.others.append(piece.element)
        else:
            joined.append(piece)
    return joined


def docx(path: Path) -> tuple[list[Paragraph], Callable[[str], None]]:
    """Body, tables, text boxes, headers, footers, foot and end notes; and how to save it."""
    import docx as package

    document = package.Document(str(path))
    roots = [document.element.body]
    for section in document.sections:
        edges = (section.header, section.footer, section.first_page_header, section.first_page_footer)
        roots += [edge._element for edge in edges if not edge.is_linked_to_previous]
    notes = [each.target_part for each in document.part.rels.values() if each.reltype.endswith(NOTES)]
    parsed = [(part, etree.fromstring(part.blob)) for part in notes]
    roots += [root for _, root in parsed]

    def save(target: str) -> None:
        for part, root in parsed:  # the package keeps these as bytes
            part._blob = etree.tostring(root, xml_declaration=True, encoding="UTF-8", standalone=True)
        document.save(target)

    return [Paragraph(each, WORD) for root in roots for each in root.iter(W + "p")], save


def pptx(path: Path) -> tuple[list[Paragraph], Callable[[str], None]]:
    """Shapes, tables, groups and notes, slide by slide."""
    from pptx import Presentation

    deck = Presentation(str(path))
    roots = []
    for slide in deck.slides:
        roots.append(slide.shapes._spTree)
        if slide.has_notes_slide:
            roots.append(slide.notes_slide.notes_text_frame._txBody)
    return [Paragraph(each, SLIDES) for root in roots for each in root.iter(A + "p")], deck.save
