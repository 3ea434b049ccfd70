"""The control side of the simulators, /control/...: the calling convention, and the routes that platforms share.

JSON in and out. Long polls take `wait` in seconds. A mistake of the test is a 400 with {"error": ...}.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from aiohttp import web

from tests.simulators.clock import Clock
from tests.simulators.faults import FaultQueue
from tests.simulators.journal import Journal
from tests.simulators.problems import Problems
from tests.simulators.signals import Signal

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Json = dict[str, Any]
Action = Callable[[Json], Awaitable[Any]]
FaultT = TypeVar("FaultT")
SettingsT = TypeVar("SettingsT", bound="DataclassInstance")


class ControlError(Exception):
    """A test requested something impossible; the control side answers 400 with this text."""


class Routes(Protocol):
    """A group of routes."""

    def actions(self) -> dict[str, Action]:
        """The routes by name; each takes the request's JSON object and returns one."""


def add_routes(app: web.Application, *groups: Routes) -> None:
    """Add all control routes to the application."""
    for group in groups:
        for name, action in group.actions().items():
            app.router.add_post(f"/control/{name}", _handler(action))


def _handler(action: Action) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        try:
            result = await action(json.loads(body) if body else {})
        except ControlError as mistake:
            return web.Response(status=400, body=json.dumps({"error": str(mistake)}).encode())
        return web.Response(body=json.dumps(result).encode(), content_type="application/json")

    return handle


class JournalRoutes:
    """Routes that read the received requests."""

    def __init__(self, journal: Journal[Any]) -> None:
        self._journal = journal

    def actions(self) -> dict[str, Action]:
        return {"records": self._records, "tally": self._tally, "lean": self._lean}

    async def _records(self, spec: Json) -> Json:
        """Return the records that are new or changed since a position."""
        position, records = await self._journal.since(int(spec["after"]), float(spec.get("wait", 0)))
        return {"position": position, "records": records}

    async def _tally(self, spec: Json) -> Json:
        """Count the finished requests of all accounts by method and outcome."""
        counts = self._journal.tally.items()
        return {"counts": [{"method": method, "outcome": outcome, "count": n} for (method, outcome), n in counts]}

    async def _lean(self, spec: Json) -> Json:
        """Start (or stop) counting requests instead of recording them."""
        self._journal.lean = bool(spec["lean"])
        return {}


class FaultRoutes(Generic[FaultT]):
    """Routes that queue faults. account, place: read from a request whose calls are meant, and which (None: all)."""

    def __init__(
        self,
        faults: FaultQueue[FaultT],
        kind: Callable[..., FaultT],
        released: Signal,
        account: Callable[[Json], str | int],
        place: Callable[[Json], str | int | None] = lambda spec: None,
    ) -> None:
        self._faults = faults
        self._kind = kind
        self._released = released
        self._account = account
        self._place = place

    def actions(self) -> dict[str, Action]:
        return {"faults": self._add, "clear-faults": self._clear, "release": self._release}

    async def _add(self, spec: Json) -> Json:
        """Apply a fault to the next `times` calls of a method, after `skip` calls."""
        fault = self._kind(**spec["fault"])
        times, skip = int(spec["times"]), int(spec["skip"])
        self._faults.add(self._account(spec), spec["method"], fault, place=self._place(spec), times=times, skip=skip)
        return {}

    async def _clear(self, spec: Json) -> Json:
        """Forget all queued faults of the account."""
        self._faults.clear(self._account(spec))
        return {}

    async def _release(self, spec: Json) -> Json:
        """Continue everything that faults hold."""
        self._released.fire()
        return {}


class StageRoutes:
    """Routes for the clock and the problems that fail a test. account: the request's member for their account."""

    def __init__(self, clock: Clock, problems: Problems, account: str) -> None:
        self._clock = clock
        self._problems = problems
        self._account = account

    def actions(self) -> dict[str, Action]:
        return {"clock": self._turn, "problems": self._take_problems}

    async def _turn(self, spec: Json) -> Json:
        """Advance the platform's clock."""
        self._clock.advance(float(spec["seconds"]))
        return {"now": self._clock.now()}

    async def _take_problems(self, spec: Json) -> Json:
        """Return and clear the problems of this account and of unknown ones (None: of all)."""
        return {"problems": self._problems.take(spec[self._account])}


def with_changes(settings: SettingsT, spec: Json) -> SettingsT:
    """The settings with the members that a request contains; absent ones stay."""
    known = {field.name for field in fields(settings)}
    return replace(settings, **{name: value for name, value in spec.items() if name in known})
