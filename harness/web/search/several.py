"""All configured engines as one: queried concurrently, failures reported and left out, the rest merged."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.errors import ToolSetupError, imported
from harness.web.addresses import WebError
from harness.web.search.config import ENGINES
from harness.web.search.merging import merged
from harness.web.search.port import ANSWER, Reach, SearchFailed, down

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.ports import Clock
    from harness.web.guard import Route
    from harness.web.search.config import SearchSettings
    from harness.web.search.port import Found, SearchEngine

log = logging.getLogger(__name__)
PAUSE_SECONDS = 60.0
"""How long a failed engine is not queried while another one answers."""
GRACE = 10.0
"""Extra seconds beyond the search's limit, for an operator's own engine that ignores it; the others do not."""


@dataclass(slots=True)
class Named:
    """An engine and its name in answers. place: its key in the config. own: it is not one of Antler's. paused_until:
    see PAUSE_SECONDS."""

    name: str
    place: str
    engine: SearchEngine
    own: bool = False
    paused_until: float = 0.0


@dataclass(frozen=True, slots=True)
class Searched:
    """found: merged, best first. failed: (an engine's name, why it gave nothing), as in "cannot be reached now"."""

    found: list[Found]
    failed: tuple[tuple[str, str], ...] = ()


def make_engines(settings: SearchSettings, route: Callable[[str], Route], clock: Clock) -> list[Named]:
    """The configured engines. Raises ToolSetupError, whose text names the key."""
    made: list[Named] = []
    for place, each in settings.asked.items():
        kind = engine_class(each.use, place)
        reach = Reach(route=route, seconds=settings.timeout, place=place, clock=clock)
        try:
            engine = kind(each, reach)
        except (TypeError, ValueError, KeyError) as error:
            raise ToolSetupError(f"{place}.use: {each.use} cannot be created from its settings: {error}") from error
        made.append(Named(_name(each.use, [known.name for known in made]), place, engine, own=each.use not in ENGINES))
    return made


def engine_class(use: str, place: str) -> Any:
    """The class of an engine. Raises ToolSetupError."""
    found = imported(ENGINES.get(use, use), f"{place}.use")
    if not callable(getattr(found, "search", None)) or not callable(getattr(found, "close", None)):
        raise ToolSetupError(f"{place}.use: {use} is not a search engine: it needs search() and close()")
    return found


def _name(use: str, known: Sequence[str]) -> str:
    name = use.rpartition(":")[2]
    same = sum(each == name or each.startswith(f"{name} ") for each in known)
    return f"{name} {same + 1}" if same else name


class Several:
    """seconds: for a whole search."""

    def __init__(self, engines: Sequence[Named], clock: Clock, seconds: float) -> None:
        self._engines = engines
        self._clock = clock
        self._seconds = seconds

    async def search(self, query: str, most: int, whose: str) -> Searched:
        """Query all of them. Raises WebError only if none answers."""
        now = self._clock.monotonic()
        ready = [each for each in self._engines if each.paused_until <= now] or list(self._engines)
        told = await asyncio.gather(*(self._asked(each, query, most, whose) for each in ready))
        failures = [(each, one) for each, one in zip(ready, told, strict=True) if isinstance(one, WebError)]
        lists = [one for one in told if not isinstance(one, WebError)]
        if not lists:
            raise _nothing([(each.name, one) for each, one in failures])
        for each, _ in failures:
            each.paused_until = self._clock.monotonic() + PAUSE_SECONDS
        failed = [(each.name, _reason(one)) for each, one in failures]
        failed += [(each.name, "failed a moment ago") for each in self._engines if each not in ready]
        return Searched(merged(lists, most), tuple(failed))

    async def _asked(self, each: Named, query: str, most: int, whose: str) -> list[Found] | WebError:
        try:
            async with asyncio.timeout(self._seconds + GRACE if each.own else None):
                return await each.engine.search(query, most, whose)
        except WebError as error:
            return error
        except TimeoutError:
            return down()
        except Exception:
            # An operator's own engine may raise anything, and none may fail the others.
            log.exception("search engine %s (%s) failed", each.name, each.place)
            return SearchFailed("failed")

    async def close(self) -> None:
        for each in self._engines:
            await each.engine.close()


def _reason(error: WebError) -> str:
    return error.reason if isinstance(error, SearchFailed) else str(error)


def _nothing(failures: Sequence[tuple[str, WebError]]) -> WebError:
    if len(failures) == 1:
        return failures[0][1]
    told = "; ".join(f"{name} {_reason(error)}" for name, error in failures)
    return WebError(f"No search service answered: {told}. {ANSWER}")
