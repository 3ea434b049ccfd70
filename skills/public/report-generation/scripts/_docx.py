"""A report as a Word file: cover, contents, captions that Word counts, links to notes and sources."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import docx
from _markdown import Block, Report, Span, is_sources, plain, spans
from _parts import bookmark, cell_shade, field, hyperlink, keep_with_next, language, repeat_row, style_fonts
from _words import words
from docx.enum.section import WD_SECTION
from docx.enum.table import WD_TABLE_ALIGNMENT
from docx.enum.text import WD_ALIGN_PARAGRAPH
from docx.shared import Cm, Pt, RGBColor

if TYPE_CHECKING:
    from pathlib import Path

INK, ACCENT, GREY = RGBColor(0x22, 0x2B, 0x36), RGBColor(0x1F, 0x4E, 0x79), RGBColor(0x5A, 0x66, 0x72)
PAPERS = {"a4": (21.0, 29.7), "letter": (21.59, 27.94)}
"""Centimetres."""
MARGIN, WIDEST, HIGHEST = 2.5, 16.0, 18.0
SHADES = {"note": "EAF2F8", "key": "E8F5EE", "warning": "FDF0E6", "decision": "FFF7DB"}


class Writer:
    """Writes one report; `count` says afterwards what is in it."""

    def __init__(self, report: Report, folder: Path) -> None:
        self.report, self.folder = report, folder
        self.words = words(report.language)
        self.file = docx.Document()
        self.count = {"headings": 0, "tables": 0, "figures": 0, "notes": 0, "sources": 0}
        self._marks = 0
        self._in_sources = False

    def write(self, path: Path) -> None:
        """Raises OSError."""
        self._page()
        self._styles()
        self._properties()
        self._cover()
        if self.report.about.get("toc", "true").lower() not in ("false", "no"):
            self._contents()
        for number, block in enumerate(self.report.blocks):
            previous = self.report.blocks[number - 1] if number else None
            self._block(block, previous)
        self._notes()
        self._footer()
        self.file.save(str(path))

    def _page(self) -> None:
        section = self.file.sections[0]
        wide, high = PAPERS[self.report.about.get("paper", "a4").lower()]
        section.page_width, section.page_height = Cm(wide), Cm(high)
        section.left_margin = section.right_margin = section.top_margin = section.bottom_margin = Cm(MARGIN)

    def _styles(self) -> None:
        styles = self.file.styles
        normal = styles["Normal"]
        style_fonts(normal, "Calibri", "Microsoft YaHei")
        normal.font.size, normal.font.color.rgb = Pt(11), INK
        normal.paragraph_format.space_after, normal.paragraph_format.line_spacing = Pt(7), 1.15
        language(normal, {"zh": "zh-CN", "de": "de-DE"}.get(self.report.language, "en-US"))
        for level, size, before in ((1, 18, 22), (2, 14, 16), (3, 12, 12), (4, 11, 10)):
            style = styles[f"Heading {level}"]
            style_fonts(style, "Calibri", "Microsoft YaHei")
            style.font.size, style.font.bold, style.font.italic, style.font.color.rgb = Pt(size), True, False, ACCENT
            style.paragraph_format.space_before, style.paragraph_format.space_after = Pt(before), Pt(6)
        caption = styles["Caption"]
        style_fonts(caption, "Calibri", "Microsoft YaHei")
        caption.font.size, caption.font.bold, caption.font.color.rgb = Pt(9.5), False, GREY

    def _properties(self) -> None:
        about, properties = self.report.about, self.file.core_properties
        properties.title, properties.author = about.get("title", ""), about.get("author", "")
        properties.subject, properties.comments = about.get("subtitle", ""), ""
        properties.created = properties.modified = datetime.now()

    def _cover(self) -> None:
        about = self.report.about
        for _ in range(7):
            self.file.add_paragraph()
        self._line(about.get("organisation", ""), 12, GREY)
        self._line(about.get("title", ""), 30, ACCENT, bold=True)
        self._line(about.get("subtitle", ""), 15, GREY)
        self.file.add_paragraph()
        for key in ("author", "date", "version", "status"):
            self._line(about.get(key, ""), 12, INK)
        self.file.add_section(WD_SECTION.NEW_PAGE)

    def _line(self, text: str, size: float, color: RGBColor, *, bold: bool = False) -> None:
        if text:
            run = self.file.add_paragraph().add_run(text)
            run.font.size, run.font.color.rgb, run.bold = Pt(size), color, bold

    def _contents(self) -> None:
        """A field that Word can renew, filled with links already, for readers on a phone never renew it."""
        headings = [block for block in self.report.blocks if block.kind == "heading" and block.level <= 2]
        if len(headings) < 3:
            return
        title = self.file.add_paragraph().add_run(self.words["toc"])
        title.font.size, title.bold, title.font.color.rgb = Pt(18), True, ACCENT
        first = None
        for block in headings:
            paragraph = self.file.add_paragraph()
            paragraph.paragraph_format.left_indent = Cm(0.7 * (block.level - 1))
            paragraph.paragraph_format.space_after = Pt(3)
            if first is None:
                field(paragraph, r'TOC \o "1-2" \n \h \z \u', open_only=True)
                first = paragraph
            hyperlink(paragraph, f"#heading-{block.line}", plain(block.text), look=None)
        field(paragraph, "", close_only=True)
        self.file.add_page_break()

    def _block(self, block: Block, previous: Block | None) -> None:
        if block.kind == "heading":
            self._heading(block)
        elif block.kind == "item":
            self._item(block)
        elif block.kind == "table":
            self._table(block)
        elif block.kind == "image":
            self._image(block)
        elif block.kind == "callout":
            self._callout(block)
        elif block.kind == "code":
            self._code(block)
        elif block.kind == "break":
            self.file.add_page_break()
        elif block.kind == "quote":
            paragraph = self.file.add_paragraph(style="Intense Quote" if "Intense Quote" in self.file.styles else None)
            self._runs(paragraph, block.text)
        elif block.kind != "rule":
            self._runs(self.file.add_paragraph(), block.text)

    def _heading(self, block: Block) -> None:
        paragraph = self.file.add_heading(level=min(block.level, 4))
        self._runs(paragraph, block.text)
        bookmark(paragraph, f"heading-{block.line}", self._mark())
        self._in_sources = is_sources(block)
        self.count["headings"] += 1

    def _mark(self) -> int:
        self._marks += 1
        return self._marks

    def _item(self, block: Block) -> None:
        """Numbers are text: what the writer counted stays, also where a list is interrupted."""
        paragraph = self.file.add_paragraph()
        left = 0.7 * (block.level + 1)
        paragraph.paragraph_format.left_indent, paragraph.paragraph_format.first_line_indent = Cm(left), Cm(-0.6)
        paragraph.paragraph_format.space_after = Pt(3)
        paragraph.paragraph_format.tab_stops.add_tab_stop(Cm(left))
        paragraph.add_run(f"{block.ordered}.\t" if block.ordered else "•\t" if block.level == 0 else "–\t")
        self._runs(paragraph, block.text)
        if self._in_sources and block.ordered:
            bookmark(paragraph, f"source-{block.ordered}", self._mark())
            self.count["sources"] += 1

    def _runs(self, paragraph: Any, text: str, *, bold: bool = False) -> None:
        for span in spans(text, bold=bold):
            if span.raised:
                self._note(paragraph, span)
            elif span.link:
                hyperlink(paragraph, span.link, span.text, bold=span.bold)
            else:
                run = paragraph.add_run(span.text)
                run.bold, run.italic = span.bold or None, span.italic or None
                if span.code:
                    run.font.name, run.font.size = "Consolas", Pt(9.5)

    def _note(self, paragraph: Any, span: Span) -> None:
        number = list(self.report.notes).index(span.text) + 1 if span.text in self.report.notes else span.text
        hyperlink(paragraph, span.link, str(number), raised=True)

    def _table(self, block: Block) -> None:
        self.count["tables"] += 1
        self._caption("table", block.caption, above=True)
        head, *rows = block.rows
        table = self.file.add_table(rows=1, cols=len(head), style="Table Grid")
        table.alignment = WD_TABLE_ALIGNMENT.CENTER
        right = [_is_figures([row[at] for row in rows if at < len(row)]) for at in range(len(head))]
        self._row(table.rows[0], head, right, head=True)
        repeat_row(table.rows[0])
        for number, row in enumerate(rows):
            added = table.add_row()
            self._row(added, row, right, shade="F5F7F9" if number % 2 else "")
        self.file.add_paragraph().paragraph_format.space_after = Pt(4)

    def _row(self, row: Any, cells: list[str], right: list[bool], *, head: bool = False, shade: str = "") -> None:
        for at, cell in enumerate(row.cells):
            paragraph = cell.paragraphs[0]
            paragraph.paragraph_format.space_after = Pt(2)
            self._runs(paragraph, cells[at] if at < len(cells) else "", bold=head)
            for run in paragraph.runs:
                run.font.size = Pt(9.5)
            if right[at]:
                paragraph.alignment = WD_ALIGN_PARAGRAPH.RIGHT
            if head or shade:
                cell_shade(cell, "DCE6F0" if head else shade)

    def _caption(self, kind: str, text: str, *, above: bool = False) -> None:
        paragraph = self.file.add_paragraph(style="Caption")
        paragraph.add_run(f"{self.words[kind]} ").bold = True
        field(
            paragraph,
            f"SEQ {'Table' if kind == 'table' else 'Figure'} \\* ARABIC",
            str(self.count[f"{kind}s"]),
            bold=True,
        )
        if text:
            paragraph.add_run(". ").bold = True
            self._runs(paragraph, text)
        if above:
            keep_with_next(paragraph)

    def _image(self, block: Block) -> None:
        self.count["figures"] += 1
        picture = self.file.add_picture(str(self.folder / block.target))
        scale = min(Cm(WIDEST) / picture.width, Cm(HIGHEST) / picture.height, 1.0)
        picture.width, picture.height = round(picture.width * scale), round(picture.height * scale)
        picture._inline.docPr.set("descr", plain(block.caption))  # what a screen reader says
        keep_with_next(self.file.paragraphs[-1])
        self._caption("figure", block.caption)

    def _callout(self, block: Block) -> None:
        table = self.file.add_table(rows=1, cols=1)
        cell = table.rows[0].cells[0]
        cell_shade(cell, SHADES[block.kind_of])
        cell.paragraphs[0].add_run(f"{self.words[block.kind_of]}. ").bold = True
        self._runs(cell.paragraphs[0], block.text)
        self.file.add_paragraph().paragraph_format.space_after = Pt(2)

    def _code(self, block: Block) -> None:
        table = self.file.add_table(rows=1, cols=1)
        cell_shade(table.rows[0].cells[0], "F3F4F6")
        run = table.rows[0].cells[0].paragraphs[0].add_run(block.text)
        run.font.name, run.font.size = "Consolas", Pt(9)
        self.file.add_paragraph().paragraph_format.space_after = Pt(2)

    def _notes(self) -> None:
        if not self.report.notes:
            return
        self.file.add_heading(self.words["notes"], level=2)
        for number, (name, text) in enumerate(self.report.notes.items(), 1):
            paragraph = self.file.add_paragraph(f"{number}. ")
            self._runs(paragraph, text)
            bookmark(paragraph, f"note-{name}", self._mark())
        self.count["notes"] = len(self.report.notes)

    def _footer(self) -> None:
        """On all pages but the cover: what it is, and how far one has read."""
        section = self.file.sections[-1]
        section.footer.is_linked_to_previous = False
        paragraph = section.footer.paragraphs[0]
        paragraph.alignment = WD_ALIGN_PARAGRAPH.RIGHT
        paragraph.add_run(f"{self.report.about.get('title', '')[:70]}   {self.words['page']} ")
        field(paragraph, "PAGE", "2")
        paragraph.add_run(f" {self.words['of']} ")
        field(paragraph, "NUMPAGES", "2")
        for run in paragraph.runs:
            run.font.size, run.font.color.rgb = Pt(8.5), GREY


def _is_figures(cells: list[str]) -> bool:
    """Whether a column is numbers, which stand to the right."""
    filled = [plain(cell).strip() for cell in cells if cell.strip() not in ("", "-", "–", "n/a")]
    return bool(filled) and all(
        cell.strip("+-−–~≈<>%€$£¥ ").replace(",", "").replace(".", "").replace(" ", "")[:1].isdigit()
        and sum(c.isalpha() for c in cell) <= 3
        for cell in filled
    )
