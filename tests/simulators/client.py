"""Shared parts of the platforms' test clients: control requests, reading records, waiting for results."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import httpx

from tests.simulators.journal import HELD, PENDING
from tests.simulators.seen import Json, SeenRecord

LONGEST_POLL = 30.0
LATEST = 1 << 60
"""A journal position after every change."""
# No read time-out: long polls end by themselves, and a simulator that dies closes its connections.
HTTP_TIMEOUT = httpx.Timeout(10.0, read=None)
SeenT = TypeVar("SeenT", bound=SeenRecord)
T = TypeVar("T")


class SimulatorError(AssertionError):
    """The test requested something that does not exist, or the code under test did what must fail any test."""


class WaitTimeoutError(AssertionError):
    """An awaited result did not happen; the text shows what did."""


@asynccontextmanager
async def control_connection(ca_file: Path | None = None) -> AsyncIterator[httpx.AsyncClient]:
    """A client for `ask`. ca_file: the authority that signed the simulator's certificate, None for plain HTTP."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
    verify = ssl.create_default_context(cafile=ca_file) if ca_file else False
    async with httpx.AsyncClient(trust_env=False, timeout=HTTP_TIMEOUT, limits=limits, verify=verify) as http:
        yield http


async def ask(http: httpx.AsyncClient, root: str, route: str, spec: Json) -> Json:
    """Send a request to the control side; raises SimulatorError if it reports a mistake."""
    # json.dumps, not httpx: it escapes lone surrogates, which some tests inject.
    answer = await http.post(f"{root}/control/{route}", content=json.dumps(spec))
    if answer.status_code != httpx.codes.OK:
        raise SimulatorError(f"{route}: {answer.text}")
    result: Json = answer.json()
    return result


def now() -> float:
    """The running loop's time in seconds."""
    return asyncio.get_running_loop().time()


async def first_found(
    look: Callable[[int, float], Awaitable[Json]],
    find: Callable[[Json], T | None],
    timeout: float,
    transcript: Callable[[], Awaitable[str]],
) -> T:
    """Wait for the message that `find` returns from the view of a chat; raises WaitTimeoutError.

    look(revision, wait) gives the view once it is newer than a revision, or after `wait` seconds.
    """
    deadline = now() + timeout
    revision, wait = -1, 0.0
    while True:
        view = await look(revision, wait)
        found = find(view)
        if found is not None:
            return found
        revision = view["revision"]
        wait = min(deadline - now(), LONGEST_POLL)
        if wait <= 0:
            raise WaitTimeoutError(f"no such message within {timeout} s; the chat:\n{await transcript()}")


class SimulatorClient(Generic[SeenT]):
    """One account's view of a simulator. account: names it in each request. seen: makes its records."""

    patience: ClassVar[float] = 10.0
    """Default timeout of `wait_for_record`, in seconds."""

    def __init__(self, root: str, http: httpx.AsyncClient, account: Json, seen: Callable[..., SeenT]) -> None:
        self.root = root
        self._http = http
        self._account = account
        self._seen = seen
        self._position = 0
        self._records: dict[int, SeenT] = {}

    def owns(self, record: SeenT) -> bool:
        """Whether a record belongs to this account."""
        raise NotImplementedError

    async def _ask(self, route: str, **spec: Any) -> Json:
        return await ask(self._http, self.root, route, {**self._account, **spec})

    async def clear_faults(self) -> None:
        """Forget all queued faults of this account."""
        await self._ask("clear-faults")

    async def release(self) -> None:
        """Continue everything that `faults.hold` stopped."""
        await self._ask("release")

    async def count_showing(self, text: str) -> int:
        """How many messages of bots in direct chats show exactly this text; cheap for the simulator."""
        return int((await self._ask("showing", text=text))["count"])

    async def tally(self) -> dict[tuple[str, str], int]:
        """Finished requests by (method, outcome), those of other accounts included."""
        return {(row["method"], row["outcome"]): row["count"] for row in (await self._ask("tally"))["counts"]}

    async def keep_lean(self, lean: bool = True) -> None:
        """Count requests without recording them, so that hours of traffic fit into memory."""
        await self._ask("lean", lean=lean)

    async def wait_for_record(
        self, predicate: Callable[[SeenT], bool], timeout: float | None = None, *, since: int = 0
    ) -> SeenT:
        """The first matching record from index `since` on; records are checked again when they change."""
        timeout = self.patience if timeout is None else timeout
        deadline = now() + timeout
        position = self._position
        candidates = [record for record in self._records.values() if record.index >= since]
        while True:
            for record in candidates:
                if predicate(record):
                    return record
            remaining = deadline - now()
            if remaining <= 0:
                latest = ", ".join(f"{r.title} ({r.outcome})" for r in list(self._records.values())[-20:])
                raise WaitTimeoutError(f"no such record within {timeout} s; the latest: {latest}")
            position, fresh = await self._read_records(position, min(remaining, LONGEST_POLL))
            candidates = [record for record in fresh if record.index >= since]

    async def _all_records(self) -> list[SeenT]:
        """All records of this account so far, in order of arrival."""
        await self._read_records(self._position, 0.0)
        return list(self._records.values())

    async def _skip_records(self) -> None:
        """Skip the records from before this client."""
        self._position = (await self._ask("records", after=LATEST))["position"]

    async def _read_records(self, position: int, wait: float) -> tuple[int, list[SeenT]]:
        """Merge the changes after a position, waiting up to `wait` seconds for one; returns the new position too."""
        answer = await self._ask("records", after=position, wait=wait)
        mine = [record for record in (self._seen(**fields) for fields in answer["records"]) if self.owns(record)]
        for record in mine:
            known = self._records.get(record.index)
            # Two waits may overlap: an outdated answer must not overwrite a newer state.
            if known is None or known.outcome in (PENDING, HELD):
                self._records[record.index] = record
        self._position = max(self._position, answer["position"])
        return answer["position"], mine


class StagedClient(SimulatorClient[SeenT]):
    """A client of a platform whose clock tests can advance and that reports what must fail any test."""

    async def advance(self, seconds: float) -> None:
        """Advance the platform's clock: everything that has an age there gets older."""
        await self._ask("clock", seconds=seconds)

    async def verify(self, *, everybody: bool = False) -> None:
        """Raise SimulatorError if the account (or any) did what must fail any test, such as an unknown method."""
        if problems := await self.problems(everybody=everybody):
            raise SimulatorError("; ".join(problems))

    async def problems(self, *, everybody: bool = False) -> list[str]:
        """The same as a list, for tests that provoke them; reading clears them."""
        answer = await self._ask("problems", **(dict.fromkeys(self._account) if everybody else {}))
        return [str(problem) for problem in answer["problems"]]
