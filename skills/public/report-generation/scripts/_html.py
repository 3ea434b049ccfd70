"""A report as one HTML file, pictures and style in it, fit for phones and for printing to PDF; for build_report.py."""

from __future__ import annotations

import base64
import mimetypes
from html import escape
from pathlib import Path

from _markdown import Block, Report, is_sources, plain, spans
from _words import words

STYLE = Path(__file__).resolve().parents[1] / "assets" / "report.css"
META = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'


class Writer:
    """Writes one report."""

    def __init__(self, report: Report, folder: Path) -> None:
        self.report, self.folder, self.words = report, folder, words(report.language)
        self.tables = self.figures = 0
        self._in_sources = False

    def write(self, path: Path) -> None:
        """Raises OSError."""
        about = self.report.about
        body = [self._cover(), self._contents()]
        blocks = self.report.blocks
        at = 0
        while at < len(blocks):
            end = at + 1
            if blocks[at].kind == "item":
                while end < len(blocks) and blocks[end].kind == "item":
                    end += 1
                body.append(self._list(blocks[at:end]))
            else:
                body.append(self._block(blocks[at]))
            at = end
        body.append(self._notes())
        title = f"<title>{escape(about.get('title', 'Report'))}</title>"
        style = STYLE.read_text(encoding="utf-8")
        page = "\n".join(part for part in body if part)
        language = escape(self.report.language)
        head = f"{META}{title}<style>{style}</style>"
        whole = (
            f'<!doctype html>\n<html lang="{language}"><head>{head}</head>\n<body><main>\n{page}\n</main></body></html>'
        )
        path.write_text(whole + "\n", encoding="utf-8")

    def _cover(self) -> str:
        about = self.report.about
        lines = [
            escape(about[key]) for key in ("author", "organisation", "date", "version", "status") if about.get(key)
        ]
        subtitle = f'<p class="subtitle">{escape(about["subtitle"])}</p>' if about.get("subtitle") else ""
        title = f'<h1 class="title">{escape(about.get("title", ""))}</h1>'
        return f'<header>{title}{subtitle}<p class="about">{" · ".join(lines)}</p></header>'

    def _contents(self) -> str:
        headings = [block for block in self.report.blocks if block.kind == "heading" and block.level <= 2]
        if len(headings) < 3 or self.report.about.get("toc", "true").lower() in ("false", "no"):
            return ""
        lines = "".join(
            f'<li class="level{b.level}"><a href="#heading-{b.line}">{escape(plain(b.text))}</a></li>' for b in headings
        )
        return f"<nav><p>{self.words['toc']}</p><ul>{lines}</ul></nav>"

    def _block(self, block: Block) -> str:
        text = self._inline(block.text)
        match block.kind:
            case "heading":
                self._in_sources = is_sources(block)
                level = min(block.level + 1, 6)
                return f'<h{level} id="heading-{block.line}">{text}</h{level}>'
            case "table":
                return self._table(block)
            case "image":
                return self._image(block)
            case "callout":
                return f'<aside class="{block.kind_of}"><strong>{self.words[block.kind_of]}.</strong> {text}</aside>'
            case "quote":
                return f"<blockquote>{text}</blockquote>"
            case "code":
                return f"<pre><code>{escape(block.text)}</code></pre>"
            case "break":
                return '<div class="break"></div>'
            case "rule":
                return "<hr>"
            case _:
                return f"<p>{text}</p>"

    def _inline(self, text: str) -> str:
        parts = []
        for span in spans(text):
            shown = escape(span.text)
            if span.raised:
                number = list(self.report.notes).index(span.text) + 1 if span.text in self.report.notes else span.text
                shown = f"<sup>{number}</sup>"
            for tag, on in (("code", span.code), ("em", span.italic), ("strong", span.bold)):
                shown = f"<{tag}>{shown}</{tag}>" if on else shown
            safe = span.link.startswith(("#", "http://", "https://", "mailto:"))
            parts.append(f'<a href="{escape(span.link)}">{shown}</a>' if span.link and safe else shown)
        return "".join(parts)

    def _list(self, items: list[Block]) -> str:
        """Items of any depth; numbers as the writer counted them."""
        lines = []
        for item in items:
            mark = f"{item.ordered}." if item.ordered else "•" if item.level == 0 else "–"
            name = f' id="source-{item.ordered}"' if self._in_sources and item.ordered else ""
            look = f'{name} style="margin-left:{1.4 * item.level}em"'
            lines.append(f'<li{look}><span class="mark">{mark}</span>{self._inline(item.text)}</li>')
        return f'<ul class="items">{"".join(lines)}</ul>'

    def _table(self, block: Block) -> str:
        self.tables += 1
        head, *rows = block.rows
        cells = "".join(f"<th>{self._inline(cell)}</th>" for cell in head)
        body = "".join("<tr>" + "".join(f"<td>{self._inline(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        caption = f"<figcaption>{self.words['table']} {self.tables}. {self._inline(block.caption)}</figcaption>"
        table = f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"
        return f'<figure class="table">{caption}<div class="wide">{table}</div></figure>'

    def _image(self, block: Block) -> str:
        self.figures += 1
        path = self.folder / block.target
        kind = mimetypes.guess_type(path.name)[0] or "image/png"
        data = base64.b64encode(path.read_bytes()).decode()
        caption = f"{self.words['figure']} {self.figures}. {self._inline(block.caption)}"
        picture = f'<img alt="{escape(plain(block.caption))}" src="data:{kind};base64,{data}">'
        return f"<figure>{picture}<figcaption>{caption}</figcaption></figure>"

    def _notes(self) -> str:
        if not self.report.notes:
            return ""
        lines = "".join(
            f'<li id="note-{escape(name)}">{self._inline(text)}</li>' for name, text in self.report.notes.items()
        )
        return f"<h2>{self.words['notes']}</h2><ol>{lines}</ol>"
