"""Files made by the agent, beside the chat: the list of a chat's files, and a preview of each.

Nothing of a file ever runs here: anything but pictures and sounds is read as text and written like any other text, web
pages and SVG as their source.
"""

from __future__ import annotations

import asyncio
import csv
import io
import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal

from fastapi import Request  # noqa: TC002  # read by FastAPI
from fastapi.responses import HTMLResponse  # noqa: TC002  # read by FastAPI
from markupsafe import Markup

from bot.http.auth import SignedIn, requires
from bot.http.errors import not_found
from bot.http.page.code import coloured, language_of_file
from bot.http.page.markup import pieces
from bot.http.page.messages import INLINE_PICTURES, INLINE_SOUNDS, MARKDOWN, TABLES, icon_of, type_of
from bot.http.page.view import language_of
from bot.texts.page import Words, words
from channels.adapter import open_regular
from channels.errors import Rejected
from channels.text.sanitize import sanitize
from harness.text.plain import encoding_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fastapi import APIRouter

    from bot.http.page.view import Pages
    from bot.http.parts import HttpParts
    from channels.message import OutboundFile

MOST_READ = 256 * 1024
"""Bytes of a file that are shown."""
MOST_MARKDOWN = 100_000
"""Characters that are shown as Markdown."""
MOST_HEAD = 10_000
"""Characters of a table by which its delimiter is guessed."""
MOST_ROWS, MOST_COLUMNS, LONGEST_CELL = 200, 40, 300
MOST_DAMAGED = 0.05
"""Share of undecodable characters above which a file is not text."""
DELIMITERS = "\t;|,"
"""The last one is also written in numbers and names."""
RUNNABLE = frozenset({".html", ".htm", ".xhtml", ".svg"})
_NUMBER = re.compile(r"[+\-−]?[\d.,\s]*\d\s*[%€$£¥]?")

Looks = Literal["picture", "sound", "prose", "table", "code", "none"]


@dataclass(frozen=True, slots=True)
class Preview:
    """The preview of a file. pieces: of Markdown, or a single one of plain text. rows: of a table, its head first, each
    cell with whether it is a number. is_cut: there is more of it. is_source: it could run, and is shown as source."""

    looks: Looks
    pieces: Sequence[Markup] = ()
    rows: Sequence[Sequence[tuple[str, bool]]] = ()
    is_cut: bool = False
    is_source: bool = False


def add_artifacts(router: APIRouter, parts: HttpParts, pages: Pages) -> None:
    """Add the routes for the pieces of a page that show the files of a chat."""
    talk = parts.web

    @router.get("/c/{chat}/files", dependencies=[requires("read")])
    async def listed(request: Request, caller: SignedIn, chat: str) -> HTMLResponse:
        found = [(each, each.file) for each in await talk.files(caller, chat)]

        def told() -> list[dict[str, str]]:
            return [
                _told(each.message_id, file) | {"at": each.at.isoformat()} for each, file in found if file is not None
            ]

        files = await asyncio.to_thread(told)
        return pages.html(request, "artifacts.html", caller, chat=chat, files=files)

    @router.get("/c/{chat}/files/{message_id}", dependencies=[requires("read")])
    async def one(request: Request, caller: SignedIn, chat: str, message_id: str) -> HTMLResponse:
        file, t = await talk.file(caller, chat, message_id), words(language_of(request))
        told = await asyncio.to_thread(_told, message_id, file)
        shown = await asyncio.to_thread(preview, file.path, file.name, file.mime_type, t)
        return pages.html(request, "artifact.html", caller, chat=chat, file=told, shown=shown)


def preview(path: Path, name: str, mime_type: str, t: Words) -> Preview:
    """The preview of a file; may block. One that is no text has none. Raises HttpProblem where it is not kept any
    more."""
    if mime_type in INLINE_PICTURES:
        return Preview("picture")
    if mime_type in INLINE_SOUNDS:
        return Preview("sound")
    suffix = PurePath(name.casefold()).suffix
    try:
        with open_regular(path) as file:
            content = file.read(MOST_READ + 1)
    except (OSError, Rejected):
        raise not_found("the file is no longer kept") from None
    is_cut = len(content) > MOST_READ
    text = _text(content[:MOST_READ], cut=is_cut)
    if text is None:
        return Preview("none")
    if suffix in MARKDOWN:
        is_cut = is_cut or len(text) > MOST_MARKDOWN
        return Preview("prose", pieces(text[:MOST_MARKDOWN], t), is_cut=is_cut)
    if suffix in TABLES and (table := _table(text, suffix, is_cut=is_cut)) is not None:
        return table
    shown = Markup(coloured(language_of_file(name), text))
    return Preview("code", [shown], is_cut=is_cut, is_source=suffix in RUNNABLE)


def _text(content: bytes, *, cut: bool) -> str | None:
    """The text of a file, None where it is not text."""
    encoding = encoding_of(content, cut=cut)
    if not encoding:
        return None
    text = content.decode(encoding, "replace")
    return None if text.count("\ufffd") > MOST_DAMAGED * len(text) + 1 else sanitize(text)


def _table(text: str, suffix: str, *, is_cut: bool) -> Preview | None:
    """The text as a table, None where it cannot be read as one."""
    head = text[:MOST_HEAD]
    lines = [line for line in head.split("\n")[:10] if line.strip()]
    usual = (each for each in DELIMITERS if all(each in line for line in lines))
    delimiter = "\t" if suffix == ".tsv" else next(usual, "") or max(DELIMITERS, key=head.count)
    found: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            if len(found) > MOST_ROWS:
                is_cut = True
                break
            if row:
                found.append(row)
    except csv.Error:
        return None
    if not found:
        return None
    columns = min(max(map(len, found)), MOST_COLUMNS)
    is_cut = is_cut or any(len(row) > columns for row in found)
    rows = [[_cell(cell) for cell in (*row[:columns], *[""] * (columns - len(row)))] for row in found]
    return Preview("table", rows=rows, is_cut=is_cut)


def _cell(text: str) -> tuple[str, bool]:
    shown = text if len(text) <= LONGEST_CELL else f"{text[:LONGEST_CELL]}…"
    return shown, _NUMBER.fullmatch(shown.strip()) is not None


def _told(message_id: str, file: OutboundFile) -> dict[str, str]:
    """The description of a file for templates; may block. size: "" where the file is no longer kept."""
    try:
        size = told_size(file.path.stat().st_size)
    except OSError:
        size = ""
    icon, kind = icon_of(file.name, file.mime_type), type_of(file.name)
    return {"id": message_id, "name": file.name, "icon": icon, "type": kind, "size": size}


def told_size(size: int) -> str:
    """Return a size as people read it, in units of 1000."""
    amount = float(size)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 10 else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"
