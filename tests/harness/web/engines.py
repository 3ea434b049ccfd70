"""Search engines in front of their simulators, for tests."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from harness.web.search.config import EngineSettings
from harness.web.search.port import Reach
from harness.web.search.several import engine_class
from tests.harness.support import TurnedClock
from tests.simulators.proxy.authority import PrivateAuthority
from tests.simulators.proxy.server import ProxyServer
from tests.simulators.web import engines as simulated
from tests.simulators.web.site import Site

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from harness.web.search.port import SearchEngine
    from tests.simulators.web.engines import Engine

ANN = "telegram:1"
PLACE = "web.search.engines[0]"
SIMULATORS: dict[str, type[Engine]] = {
    "searxng": simulated.SearxngEngine,
    "tavily": simulated.TavilyEngine,
    "brave": simulated.BraveEngine,
    "serper": simulated.SerperEngine,
    "exa": simulated.ExaEngine,
    "jina": simulated.JinaEngine,
    "arxiv": simulated.ArxivEngine,
    "wikipedia": simulated.WikipediaEngine,
}
"""All but duckduckgo, whose package has an address of its own."""


def reach(
    seconds: float = 15, *, proxy: str | None = None, ca_file: Path | None = None, clock: TurnedClock | None = None
) -> Reach:
    return Reach(route=lambda url: (proxy, ca_file), seconds=seconds, place=PLACE, clock=clock or TurnedClock())


def settings_of(use: str, site: Site, **more: Any) -> EngineSettings:
    key = getattr(SIMULATORS[use], "key", None)
    return EngineSettings.model_validate({"use": use, "base_url": site.url(""), "api_key": key} | more)


@asynccontextmanager
async def engine(use: str, clock: TurnedClock | None = None, **more: Any) -> AsyncIterator[tuple[SearchEngine, Any]]:
    """(the engine, its simulator)."""
    simulator: Any = SIMULATORS[use]()
    async with Site(own=simulator.answers()).serve() as site:
        made = engine_class(use, PLACE)(settings_of(use, site, **more), reach(clock=clock))
        try:
            yield made, simulator
        finally:
            await made.close()


@asynccontextmanager
async def duckduckgo(folder: Path, **settings: Any) -> AsyncIterator[tuple[SearchEngine, simulated.DuckDuckGoEngine]]:
    """The package's own requests, through a proxy that leads its host to the simulator, with a private authority."""
    authority = PrivateAuthority.create(folder)
    made = authority.issue("html.duckduckgo.com")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.cert, made.key)
    simulator, proxy = simulated.DuckDuckGoEngine(), ProxyServer()
    server = await asyncio.start_server(proxy.handle, "127.0.0.1", 0)
    async with server, Site(own=simulator.answers()).serve(tls=context) as site:
        proxy.routes["html.duckduckgo.com:443"] = site.port
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        kind = engine_class("duckduckgo", PLACE)
        engine = kind(EngineSettings(use="duckduckgo", **settings), reach(proxy=address, ca_file=authority.cert))
        try:
            yield engine, simulator
        finally:
            await engine.close()
