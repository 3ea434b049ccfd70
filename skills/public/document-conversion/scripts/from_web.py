"""HTML pages and EPUB books as Markdown. For pathways.py and from_word.py."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from bs4 import BeautifulSoup
from markdownify import ATX, MarkdownConverter
from packages import package
from report import CannotConvert, Report

if TYPE_CHECKING:
    from pathlib import Path

NAMESPACES = {"c": "urn:oasis:names:tc:opendocument:xmlns:container", "o": "http://www.idpf.org/2007/opf"}


def read(path: Path, report: Report, pictures: Path) -> str:
    """Pictures are not taken out of either."""
    return _book(path, report) if path.suffix.lower() == ".epub" else _page(path, report)


class _Writer(MarkdownConverter):  # type: ignore[misc]
    """A table's first row is its heading, also where the source does not say so: Markdown knows no other."""

    def convert_sup(self, _: Any, text: str, parent_tags: set[str]) -> str:
        return text

    def convert_br(self, _: Any, text: str, parent_tags: set[str]) -> str:
        return " " if parent_tags & {"td", "th"} else "  \n"


def html_as_markdown(text: str) -> str:
    """Without scripts, styles and forms."""
    soup = BeautifulSoup(text, "html.parser")
    for each in soup(["script", "style", "noscript", "template", "head", "form", "iframe", "svg"]):
        each.decompose()
    for cell in soup(["td", "th"]):
        for paragraph in cell("p"):
            paragraph.insert_after(" ")
            paragraph.unwrap()
    writer = _Writer(heading_style=ATX, bullets="-", table_infer_header=True, escape_asterisks=True)
    return re.sub(r"\n{3,}", "\n\n", writer.convert_soup(soup)).strip() + "\n"


def _page(path: Path, report: Report) -> str:
    raw = path.read_bytes()
    soup = BeautifulSoup(raw, "html.parser")
    report.lost["scripts"] = len(soup("script"))
    report.lost["forms"] = len(soup("form"))
    report.lost["frames and videos"] = len(soup(["iframe", "video", "audio"]))
    title = soup.title.get_text(strip=True) if soup.title is not None else ""
    text = html_as_markdown(str(soup))
    return text if not title or soup("h1") else f"# {title}\n\n{text}"


def _book(path: Path, report: Report) -> str:
    """Chapters in their reading order."""
    with package(path) as parts:
        try:
            container = ElementTree.fromstring(parts.read("META-INF/container.xml"))
            root = container.find(".//c:rootfile", NAMESPACES)
            opf = root.get("full-path", "") if root is not None else ""
            book = ElementTree.fromstring(parts.read(opf))
        except (KeyError, ElementTree.ParseError):
            raise CannotConvert(f"{path.name} is no EPUB that can be read; it may be copy-protected") from None
        files = {each.get("id"): each.get("href", "") for each in book.iterfind(".//o:item", NAMESPACES)}
        order = [files.get(each.get("idref"), "") for each in book.iterfind(".//o:itemref", NAMESPACES)]
        folder = PurePosixPath(opf).parent
        names = set(parts.namelist())
        chapters = [
            parts.read(str(folder / each)).decode("utf-8", "replace") for each in order if str(folder / each) in names
        ]
    report.kept["chapters"] = len(chapters)
    report.lost["pictures"] = sum(chapter.count("<img") for chapter in chapters)
    return "\n\n".join(html_as_markdown(chapter) for chapter in chapters)
