"""Fetched content as readable text: HTML as Markdown, other text unchanged; for the tool web_fetch."""

from __future__ import annotations

import asyncio
import codecs
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import httpx

from harness.files.helpers import HelperFailed, Helpers
from harness.text.plain import encoding_of
from harness.web.addresses import WebError

if TYPE_CHECKING:
    from harness.web.fetch import Fetched

HELPER = Path(__file__).with_name("readable_helper.py")
PAGE_SECONDS = 10.0
SNIFFED = 1024
PIECE = 64 * 1024

_HTML = frozenset({"text/html", "application/xhtml+xml"})
_PROSE = _HTML | {"", "text/markdown", "text/x-markdown"}
_MARKDOWN = frozenset({".md", ".markdown"})
_TEXT = frozenset(
    {
        *("application/json", "application/xml", "application/javascript", "application/x-javascript"),
        *("application/yaml", "application/x-yaml", "application/toml", "application/x-ndjson", "application/sql"),
    }
)
_CHARSETS = frozenset(
    {
        *("utf-8", "utf-16", "utf-16-le", "utf-16-be", "ascii", "gb2312", "gbk", "gb18030", "big5", "big5hkscs"),
        *("shift_jis", "cp932", "euc_jp", "iso2022_jp", "euc_kr", "cp949", "koi8-r", "koi8-u", "tis-620", "cp874"),
        *(f"cp125{number}" for number in range(9)),
        *(f"iso8859-{number}" for number in range(1, 17) if number != 12),
    }
)
"""Python knows more, some of which are slow on hostile bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A readable page. url: after redirects. title: "" if there is none. cut: there is more, of which nothing was read.
    scripted: it says next to nothing, and a script may write the rest. kind: its media type, as far as it matters to
    the reader."""

    url: str
    title: str
    text: str
    cut: bool
    scripted: bool = False
    kind: str = ""

    @property
    def is_prose(self) -> bool:
        """Whether a line that begins with # is a heading: in programs it is a comment."""
        is_text = is_readable(self.kind) and self.kind not in _PROSE
        return not is_text or PurePosixPath(httpx.URL(self.url).path).suffix.lower() in _MARKDOWN


NO_TEXT = "The page has no text; perhaps a script would write it, but scripts are not run here. Use another source."


class Reader:
    """Makes pages from fetched content. page_seconds: time limit for one, once its turn has come. close: ends the
    processes."""

    def __init__(self, *, page_seconds: float = PAGE_SECONDS) -> None:
        self._page_seconds = page_seconds
        self._helpers = Helpers(HELPER)

    async def page(self, fetched: Fetched, whose: str) -> Page:
        """Make a page. whose: the person it is done for: one person's slow pages do not hold up those of others. The
        text of a scripted page may be "". Raises WebError for content that is not text, or cannot be made readable."""
        body = fetched.body
        if body is None or (not fetched.kind and b"\0" in body[:SNIFFED]):
            raise WebError(unreadable(fetched.kind, fetched.size))
        if fetched.kind in _HTML or (not fetched.kind and _looks_like_html(body)):
            return await self._html(fetched, body, whose)
        return Page(url=fetched.url, title="", text=await _decoded(body, fetched.charset), cut=fetched.cut)

    async def _html(self, fetched: Fetched, body: bytes, whose: str) -> Page:
        question = {"charset": fetched.charset, "url": fetched.url}
        try:
            answer = await self._helpers.call(question, body, seconds=self._page_seconds, whose=whose)
        except (TimeoutError, HelperFailed):
            raise WebError("The page takes too long to read. Use another source.") from None
        text, scripted = str(answer["text"]), bool(answer["scripted"])
        if not text.strip() and not scripted:
            raise WebError(NO_TEXT)
        cut = fetched.cut or bool(answer["cut"])
        return Page(url=fetched.url, title=str(answer["title"]), text=text, cut=cut, scripted=scripted)

    async def close(self) -> None:
        await self._helpers.close()


def is_readable(kind: str) -> bool:
    """Whether a media type is text; a missing one is determined later."""
    return not kind or kind.startswith("text/") or kind in _HTML | _TEXT or kind.endswith(("+json", "+xml"))


def unreadable(kind: str, size: int | None) -> str:
    """The answer to a model that tried to read something that is not text."""
    if kind == "application/pdf":
        named = "a PDF"
    elif kind.startswith(("image/", "audio/", "video/")):
        named = f"{'an' if kind[0] in 'ai' else 'a'} {kind.partition('/')[0]}"
    else:
        named = f"a file ({kind})" if kind else "a file"
    told = f" of {size / 1_000_000:.1f} MB" if size is not None and size >= 50_000 else ""
    return (
        f"This is {named}{told}, which web_fetch cannot read here. Look for a page that says the same, or ask the "
        "person to send the file: what people send can be read."
    )


def _looks_like_html(body: bytes) -> bool:
    begin = body[:SNIFFED].lstrip().lower()
    return begin.startswith((b"<!doctype html", b"<html", b"<head", b"<body")) or b"<html" in begin


async def _decoded(body: bytes, charset: str) -> str:
    """The text, in an encoding that is guessed if it is not declared; decoded in pieces, since invalid bytes are slow,
    and a whole page would block everything else."""
    try:
        name = codecs.lookup(charset or await asyncio.to_thread(encoding_of, body) or "utf-8").name
    except (LookupError, ValueError):
        name = "utf-8"
    if name == "utf-16" and not body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        name = "utf-16-le"  # as in bytes.decode; the incremental decoder rejects it
    decoder = codecs.getincrementaldecoder(name if name in _CHARSETS else "utf-8")(errors="replace")
    parts = []
    for start in range(0, len(body), PIECE):
        parts.append(decoder.decode(body[start : start + PIECE]))
        await asyncio.sleep(0)
    return "".join([*parts, decoder.decode(b"", final=True)])
