"""One page for a run: from those that the thread has already read, or loaded, made readable, and kept as a source."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from harness.web.addresses import Refused, WebError
from harness.web.fetch import Answered, Fetched, Fetcher
from harness.web.guard import GuardedTransport
from harness.web.manners import Manners, NotAsked, NotNow
from harness.web.readable import NO_TEXT, Page, Reader, is_readable, unreadable
from harness.web.rendering import Browser, Documents, ReaderService, document_suffix
from harness.web.sources import UNREACHABLE, Source, hash_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import httpx

    from harness.graph.signals import RunScope
    from harness.ports import Clock
    from harness.web.addresses import Rules
    from harness.web.config import FetchSettings
    from harness.web.guard import Resolve, Route
    from harness.web.rendering import Held
    from harness.web.sources import Sources

log = logging.getLogger(__name__)
MEGABYTE = 1_000_000
LINK_SECONDS = 15.0
LINK_TRIES = 2
"""Attempts: a connection may break once."""
LINK_PAUSE = 1.0


class Pages:
    """The pages for web_fetch. hosts: reachable by commands in the sandbox, () for none, None for unknown."""

    def __init__(
        self,
        settings: FetchSettings,
        rules: Rules,
        route: Callable[[str], Route],
        *,
        clock: Clock,
        sources: Sources,
        hosts: Sequence[str] | None = (),
        resolve: Resolve | None = None,
    ) -> None:
        self._settings = settings
        self._rules = rules
        self._clock = clock
        self._sources = sources
        self._transport = GuardedTransport(rules, route, resolve)
        self._fetcher = Fetcher(rules, self._transport, self._before)
        self._manners = Manners(self._fetcher.robots, clock, robots=settings.robots, interval=settings.host_interval)
        self._reader = Reader()
        self._documents = Documents()
        self._browser = Browser(hosts) if settings.browser == "auto" else None
        self._service = ReaderService(settings.reader, route, settings.timeout) if settings.reader is not None else None
        self._loading: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def page(self, url: str, scope: RunScope) -> Page:
        """The page, kept as a source of the run. Raises WebError."""
        address = str(self._rules.url(url.strip()).copy_with(fragment=None))
        thread_id = scope.ctx.thread_id
        lock = self._loading.setdefault((thread_id, address), asyncio.Lock())
        async with lock:  # concurrent requests for parts of one page load it once
            known = await self._sources.latest(thread_id, address)
            if known is not None and self._is_fresh(known[0]):
                source, text = known
                if source.run_id != scope.ctx.run_id:
                    await self._keep(replace(source, run_id=scope.ctx.run_id), text)
                return Page(url=source.address, title=source.title, text=text, cut=source.cut, kind=source.kind)
            page, kind = await self.load(address, scope.sandbox, scope.ctx.speaker.id)
            source = Source(
                thread_id=thread_id,
                run_id=scope.ctx.run_id,
                url=address,
                address=page.url,
                title=page.title,
                kind=kind,
                fetched_at=self._clock.now(),
                sha256=hash_of(page.text),
                characters=len(page.text),
                cut=page.cut,
            )
            await self._keep(source, page.text)
            return replace(page, kind=kind)

    async def gone(self, url: str, whose: str) -> str | None:
        """Why a page does not answer now, as its status or "unreachable"; "" if it does, None if politeness forbids the
        request. Its text is not read. Waits for the host's turn as long as that takes: the caller sets a limit."""
        tries = LINK_TRIES
        while tries:
            try:
                await self._fetcher.get(url, most=lambda kind: 0, seconds=LINK_SECONDS, whose=whose)
            except Answered as answered:
                return str(answered.status)
            except NotNow:
                await self._clock.sleep(LINK_PAUSE)
            except (NotAsked, Refused):
                return None
            except WebError:
                tries -= 1
            else:
                return ""
        return UNREACHABLE

    def _is_fresh(self, source: Source) -> bool:
        age = self._clock.now() - source.fetched_at
        return timedelta() <= age < timedelta(minutes=self._settings.cache_minutes)

    async def _keep(self, source: Source, text: str) -> None:
        try:
            await self._sources.keep(source, text)
        except OSError as error:  # such as a full disk: the page can still be read, just not cited
            log.warning("source not stored: %s", error.strerror)

    async def load(self, url: str, sandbox: Held | None, whose: str) -> tuple[Page, str]:
        """The current page and its media type; nothing is kept. sandbox: None: documents cannot be read. Raises
        WebError."""
        most = partial(self._most, url, sandbox is not None)
        fetched = await self._fetcher.get(url, most=most, seconds=self._settings.timeout, whose=whose)
        suffix = document_suffix(fetched.kind, url) or document_suffix(fetched.kind, fetched.url)
        try:
            if suffix:
                return await self._document(fetched, suffix, sandbox, whose), fetched.kind
            page = await self._reader.page(fetched, whose)
        except WebError:
            read = await self._by_service(fetched.url, whose)
            if read is None:
                raise
            return read, fetched.kind
        if page.scripted:
            page = await self._scripted(page, sandbox, whose)
        if not page.text.strip():
            raise WebError(NO_TEXT)
        return page, fetched.kind

    def _most(self, url: str, has_sandbox: bool, kind: str) -> int:
        if document_suffix(kind, url):
            return int(self._settings.max_document_mb * MEGABYTE) if has_sandbox else 0
        return int(self._settings.max_mb * MEGABYTE) if is_readable(kind) else 0

    async def _document(self, fetched: Fetched, suffix: str, sandbox: Held | None, whose: str) -> Page:
        if fetched.body is None:
            raise WebError(unreadable(fetched.kind, fetched.size))
        if fetched.cut:
            raise WebError(
                f"The document is larger than the {self._settings.max_document_mb:g} MB that are read. Use another "
                "source, or ask the person to send the file."
            )
        return await self._documents.page(fetched, suffix, sandbox, whose)

    async def _scripted(self, page: Page, sandbox: Held | None, whose: str) -> Page:
        """The page as a browser or the reader service sees it; unchanged if neither sees more."""
        found = None
        if self._browser is not None and sandbox is not None and self._browser.reaches(page.url):
            html = await self._browser.html(page.url, sandbox, whose)
            if html is not None:
                shown = Fetched(url=page.url, kind="text/html", charset="utf-8", body=html, size=len(html), cut=False)
                try:
                    found = await self._reader.page(shown, whose)
                except WebError:
                    found = None
        if found is None or len(found.text) <= len(page.text):
            found = await self._by_service(page.url, whose)
        return found if found is not None and len(found.text) > len(page.text) else page

    async def _by_service(self, url: str, whose: str) -> Page | None:
        """The page from the reader service. None if there is no service, it returns no page, or the address is
        forbidden by now: its host may resolve differently than when the page was fetched."""
        if self._service is None:
            return None
        try:
            await self._transport.check(self._rules.url(url))
        except Refused as error:
            log.info("the reader service is not asked for a page: %s", error)
            return None
        return await self._service.page(url, whose)

    async def _before(self, url: httpx.URL) -> None:
        await self._manners.before(url)

    async def close(self) -> None:
        """Close connections and processes; runs must have ended."""
        await self._transport.aclose()
        await self._reader.close()
        if self._service is not None:
            await self._service.close()
