"""Markdown blocks as one HTML file that needs nothing else: style and pictures are inside."""

from __future__ import annotations

import base64
import html
import mimetypes
from typing import TYPE_CHECKING

from blocks import plain

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from blocks import Block, Piece
    from report import Report

PAGE = """<!doctype html>
<html lang="{language}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>
body {{ font: 1rem/1.55 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; color: #1f2933 }}
table {{ border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto }}
th, td {{ border: 1px solid #b8c2cc; padding: .35rem .6rem; text-align: left; vertical-align: top }}
th {{ background: #eef2f6 }}
pre {{ background: #f3f5f7; padding: .8rem; overflow-x: auto }} code {{ font-family: ui-monospace, monospace }}
blockquote {{ border-left: 4px solid #b8c2cc; margin-left: 0; padding-left: 1rem }} img {{ max-width: 100% }}
</style></head><body><main>
{body}
</main></body></html>
"""
LINKS = ("http://", "https://", "mailto:", "#")


def write(path: Path, blocks: list[Block], report: Report, *, folder: Path, title: str, language: str) -> None:
    """folder: where pictures are looked for."""
    body = "\n".join(_body(blocks, report, folder))
    path.write_text(PAGE.format(title=html.escape(title), language=html.escape(language), body=body), encoding="utf-8")


def _body(blocks: list[Block], report: Report, folder: Path) -> Iterator[str]:
    open_lists: list[str] = []
    for block in blocks:
        if block.kind == "item":
            yield from _item(block, open_lists)
            continue
        yield from _closed(open_lists, 0)
        if block.kind == "table":
            yield from _table(block)
        elif block.kind == "picture":
            yield _picture(block, report, folder)
        else:
            yield _simple(block)
    yield from _closed(open_lists, 0)


def _simple(block: Block) -> str:
    text = _pieces(block.pieces)
    match block.kind:
        case "heading":
            return f"<h{block.level}>{text}</h{block.level}>"
        case "code":
            return f"<pre><code>{html.escape(block.text)}</code></pre>"
        case "quote":
            return f"<blockquote><p>{text}</p></blockquote>"
        case "rule":
            return "<hr>"
        case _:
            return f"<p>{text}</p>"


def _item(block: Block, open_lists: list[str]) -> Iterator[str]:
    tag = "ol" if block.number else "ul"
    depth = block.level + 1
    yield from _closed(open_lists, depth)
    if len(open_lists) == depth and open_lists[-1] != tag:
        yield from _closed(open_lists, depth - 1)
    if len(open_lists) == depth:
        yield "</li>"
    while len(open_lists) < depth:
        open_lists.append(tag)
        start = f' start="{block.number}"' if block.number > 1 else ""
        yield f"<{tag}{start}>" + ("<li>" if len(open_lists) < depth else "")
    yield f"<li>{_pieces(block.pieces)}"


def _closed(open_lists: list[str], depth: int) -> Iterator[str]:
    while len(open_lists) > depth:
        yield f"</li></{open_lists.pop()}>"


def _table(block: Block) -> Iterator[str]:
    yield "<table>"
    for number, row in enumerate(block.rows):
        tag = "th" if number == 0 else "td"
        yield "<tr>" + "".join(f"<{tag}>{_pieces(cell)}</{tag}>" for cell in row) + "</tr>"
    yield "</table>"


def _picture(block: Block, report: Report, folder: Path) -> str:
    path = folder / block.target
    if "://" in block.target or not path.is_file():
        report.lose("pictures that are not here")
        return f"<p>[{html.escape(block.text or block.target)}]</p>"
    kind = mimetypes.guess_type(path.name)[0] or "image/png"
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<p><img alt="{html.escape(block.text)}" src="data:{kind};base64,{data}"></p>'


def _pieces(pieces: tuple[Piece, ...]) -> str:
    return "".join(_piece(piece) for piece in pieces)


def _piece(piece: Piece) -> str:
    text = html.escape(piece.text).replace("\n", "<br>")
    for wanted, tag in ((piece.code, "code"), (piece.bold, "strong"), (piece.italic, "em"), (piece.struck, "del")):
        text = f"<{tag}>{text}</{tag}>" if wanted else text
    if piece.link.startswith(LINKS):
        text = f'<a href="{html.escape(piece.link)}">{text}</a>'
    return text


def text_of(blocks: list[Block]) -> str:
    """As plain text, for .txt."""
    lines = []
    for block in blocks:
        if block.kind == "table":
            lines += ["\t".join(plain(cell) for cell in row) for row in block.rows]
        elif block.kind == "item":
            lines.append("  " * block.level + (f"{block.number}. " if block.number else "- ") + plain(block.pieces))
            continue
        elif block.kind == "picture":
            lines.append(f"[{block.text or 'picture'}]")
        elif block.kind != "rule":
            lines.append(block.text or plain(block.pieces))
        lines.append("")
    return "\n".join(lines).strip() + "\n"
