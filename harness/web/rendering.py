"""Pages that plain HTTP does not provide: documents by the sandbox's converter, scripts by its browser, and what
neither can read by a reader service."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import shlex
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Protocol

import httpx

from harness.files import documents
from harness.files.slots import FairSlots
from harness.web.addresses import WebError
from harness.web.readable import Page
from harness.web.search.port import ApiClient, SearchFailed
from harness.web.sections import first_heading
from sandbox.base import RESULTS, Problem, SandboxError, contents

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.web.config import ReaderSettings
    from harness.web.fetch import Fetched
    from harness.web.guard import Route
    from sandbox.base import Sandbox

log = logging.getLogger(__name__)
_OFFICE = "application/vnd.openxmlformats-officedocument"
KINDS = {
    "application/pdf": ".pdf",
    "application/x-pdf": ".pdf",
    f"{_OFFICE}.wordprocessingml.document": ".docx",
    f"{_OFFICE}.presentationml.presentation": ".pptx",
    f"{_OFFICE}.spreadsheetml.sheet": ".xlsx",
    "application/vnd.ms-excel": ".xls",
    "application/epub+zip": ".epub",
    "application/vnd.ms-outlook": ".msg",
    "application/msword": ".doc",
    "application/vnd.ms-powerpoint": ".ppt",
    "application/rtf": ".rtf",
    "application/vnd.oasis.opendocument.text": ".odt",
    "application/vnd.oasis.opendocument.spreadsheet": ".ods",
    "application/vnd.oasis.opendocument.presentation": ".odp",
}
"""Media types of documents, with the extensions by which the converter recognizes them."""
_UNTOLD = frozenset({"", "application/octet-stream", "binary/octet-stream", "application/zip", "application/download"})
"""Uninformative media types; then the address's extension counts."""
_WEB = frozenset({".html", ".htm"})
DOCUMENT_SECONDS = 60.0
"""Time limit for one document, once its turn has come."""
BROWSER_SECONDS = 45.0
SCRIPT_SECONDS = 10
"""Limit on the browser's own time for a page's scripts; that time advances while nothing happens."""
BROWSERS_AT_ONCE = 1
MOST_HTML = 5_000_000
NOT_INSTALLED = 127
_BROWSE = """
for name in chromium-headless-shell chromium chromium-browser google-chrome; do
    browser=$(command -v $name) && break
done
[ -n "$browser" ] || exit 127
# Debian's programs in /usr/bin are scripts that read /etc/chromium.d, which sandboxes do not have.
case $browser in /usr/bin/*) [ -x "/usr/lib/chromium/$name" ] && browser=/usr/lib/chromium/$name ;; esac
home=$(mktemp -d) || exit
trap 'rm -rf "$home"' EXIT
ulimit -v unlimited 2>/dev/null
"$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-extensions --no-first-run \
--mute-audio --hide-scrollbars --user-data-dir="$home" ${{https_proxy:+--proxy-server="$https_proxy"}} \
--virtual-time-budget={budget} --dump-dom {url} 2>/dev/null | head -c {most} >{result}
test -s {result}
"""
_TITLE, _BODY = "Title: ", "Markdown Content:\n"


def document_suffix(kind: str, url: str) -> str:
    """The extension of a document, by its media type or else by its address; "" for anything else."""
    if kind in KINDS:
        return KINDS[kind]
    if kind not in _UNTOLD:
        return ""
    suffix = PurePosixPath(httpx.URL(url).path).suffix.lower()
    return suffix if suffix in documents.KINDS - _WEB else ""


class Held(Protocol):
    """A sandbox that is acquired on demand: a run's, or one of the gateway's own."""

    async def get(self) -> Sandbox:
        """The sandbox. Raises SandboxError; the next call tries again."""
        ...


class Documents:
    """Reads documents inside the threads' sandboxes."""

    def __init__(self, *, seconds: float = DOCUMENT_SECONDS) -> None:
        self._seconds = seconds
        self._room = FairSlots(documents.AT_ONCE)

    async def page(self, fetched: Fetched, suffix: str, sandbox: Held | None, whose: str) -> Page:
        """The document as Markdown, its tables as tables. Raises WebError."""
        if suffix in documents.NOT_READ:
            raise WebError(f"This is a type of document that cannot be read here ({suffix}). Use another source.")
        if sandbox is None or fetched.body is None:
            raise WebError("This is a document, and no sandbox is available to read it. Use another source.")
        try:
            async with self._room.slot(whose), asyncio.timeout(self._seconds):
                text = await self._text(await sandbox.get(), fetched.body, suffix)
        except TimeoutError:
            raise WebError(f"The document could not be read: {documents.too_slow(self._seconds)}.") from None
        except SandboxError as error:
            log.warning("web document not converted: %s %s", error, error.hint)
            raise WebError("The document could not be read: the sandbox does not work now.") from None
        name = PurePosixPath(httpx.URL(fetched.url).path).name
        return Page(url=fetched.url, title=first_heading(text) or name, text=text, cut=False)

    async def _text(self, sandbox: Sandbox, body: bytes, suffix: str) -> str:
        place = f"{RESULTS}/web-{hashlib.sha256(body).hexdigest()[:16]}"
        written = await sandbox.write_file(f"{place}{suffix}", body)
        if isinstance(written, Problem):
            raise WebError(f"The document could not be put into the sandbox ({written.code}). Use another source.")
        reason = await documents.convert(
            sandbox, f"{place}{suffix}", f"{place}.txt", seconds=self._seconds, discard=True
        )
        if reason:
            raise WebError(f"The document could not be read: {reason}. Use another source.")
        return await _contents(sandbox, f"{place}.txt", documents.MOST_BYTES)


async def _contents(sandbox: Sandbox, path: str, most: int) -> str:
    body = await contents(sandbox, path, most)
    if isinstance(body, Problem):
        raise WebError(f"The text could not be read from the sandbox ({body.code}). Use another source.")
    return body.decode("utf-8", "replace")


class Browser:
    """Opens pages with the sandboxes' chromium, over their network. hosts: reachable by commands, None for unknown."""

    def __init__(self, hosts: Sequence[str] | None, *, seconds: float = BROWSER_SECONDS) -> None:
        self._hosts = hosts
        self._seconds = seconds
        self._room = FairSlots(BROWSERS_AT_ONCE)
        self._missing = False

    def reaches(self, url: str) -> bool:
        """Whether an attempt is worthwhile."""
        if self._missing:
            return False
        host = httpx.URL(url).host
        return self._hosts is None or any(
            host == name or (name.startswith("*.") and host.endswith(name[1:])) for name in self._hosts
        )

    async def html(self, url: str, sandbox: Held, whose: str) -> bytes | None:
        """The page's HTML after its scripts have run; None if that is not available."""
        result = f"{RESULTS}/web-{hashlib.sha256(url.encode()).hexdigest()[:16]}.txt"
        command = _BROWSE.format(
            url=shlex.quote(url), result=shlex.quote(result), budget=SCRIPT_SECONDS * 1000, most=MOST_HTML
        )
        try:
            async with self._room.slot(whose), asyncio.timeout(self._seconds):
                box = await sandbox.get()
                if isinstance(await box.write_file(result, b""), Problem):  # its folder may not exist yet
                    return None
                ended = await box.execute_command(command, timeout=self._seconds)
                if ended.exit_code == 0:
                    return (await _contents(box, result, MOST_HTML)).encode()
        except (TimeoutError, WebError):
            return None
        except SandboxError as error:
            log.warning("browser not started in a sandbox: %s %s", error, error.hint)
            return None
        if ended.exit_code == NOT_INSTALLED:
            self._missing = True
            log.warning("web.fetch.browser is auto, but the sandbox has no chromium")
        return None


class ReaderService:
    """A service as in ReaderSettings. It answers with Markdown, possibly preceded by the header of Jina's Reader."""

    def __init__(self, settings: ReaderSettings, route: Callable[[str], Route], seconds: float) -> None:
        self._url = settings.url if settings.url.endswith(("/", "=")) else f"{settings.url}/"
        self._key = settings.api_key.get_secret_value() if settings.api_key is not None else ""
        self._api = ApiClient(route(self._url), seconds, "text/plain")

    async def page(self, url: str, whose: str) -> Page | None:
        """The page as the service reads it; None if it gives nothing."""
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        try:
            answer = await self._api.ask(self._api.build("GET", self._url + url, headers=headers), whose)
        except (SearchFailed, httpx.InvalidURL):
            return None
        text = answer.body.decode("utf-8", "replace")
        if not text.strip():
            return None
        head, divider, body = text.partition(_BODY)
        if not divider or not head.startswith(_TITLE):
            return Page(url=url, title=first_heading(text), text=text, cut=False)
        return Page(url=url, title=head.removeprefix(_TITLE).partition("\n")[0].strip()[:300], text=body, cut=False)

    async def close(self) -> None:
        await self._api.close()
