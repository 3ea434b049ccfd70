"""Outages: administrators are notified once of what has stopped working, and once when it works again.

A notice that reaches no administrator waits for the next account that works; until then it is in the log and in
/status. Reported outages that are not over are kept in a file, so that the next process reports their end.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from bot.operations.health import Part, Problem
from bot.texts.markdown import plain
from channels.base import ConnectionState

if TYPE_CHECKING:
    from pathlib import Path

    from bot.access.admins import Admins
    from bot.operations.health import Condition, HealthService
    from bot.tasks import Tasks
    from bot.texts.catalogue import Texts
    from channels.base import Clock


log = logging.getLogger(__name__)
LOOK_SECONDS = 10.0
"""Seconds between two checks of the health of all parts."""
GRACE = 45.0
"""Seconds for which a lost connection, a busy provider, or a restart of the only worker is not reported: most recover
within them."""
OFTEN_PASSING = (Problem.NO_CONNECTION, Problem.MODEL_FAILING, Problem.NO_WORKER)
MANY = 3
"""Outages of one part within a day after which each further one has to last for GRACE_AFTER_MANY first."""
GRACE_AFTER_MANY = 300.0
FORGOTTEN_AFTER = timedelta(days=30)
"""Age after which an earlier process's report is dropped: its account or model is gone."""
OF_ACCOUNTS = (Part.RECEIVING, Part.SENDING)
WORKING = (ConnectionState.CONNECTING, ConnectionState.CONNECTED)
"""States of an account that has said hello: its adapter may be about to call itself connected."""

NAME = "outages.json"


@dataclass(frozen=True, slots=True)
class ToldOutage:
    """What administrators were told about the newest outage of one part. problems: empty once they know that it is
    over. on: the day on which they were told. number: of the part's outages on its day."""

    began: datetime
    number: int
    problems: tuple[Problem, ...]
    on: str


class Told:
    """The outages that administrators know of, in a file that the next process reads; it holds no data about people."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.outages = self._read()
        self._changed = self._warned = False

    def add(self, key: tuple[Part, str], problem: Problem, began: datetime, number: int, on: str) -> None:
        known = self.outages.get(key)
        before = () if known is None or known.number != number else known.problems
        began = began if known is None or known.number != number else min(known.began, began)
        self.outages[key] = ToldOutage(began, number, tuple(dict.fromkeys((*before, problem))), on)
        self._changed = True
        self.keep()

    def over(self, key: tuple[Part, str], on: str) -> None:
        """Record that they know of its end, too. The outage still counts for the rest of the day."""
        if key in self.outages:
            self.outages[key] = replace(self.outages[key], problems=(), on=on)
            self._changed = True
            self.keep()

    def forget(self, key: tuple[Part, str]) -> None:
        self._changed = self.outages.pop(key, None) is not None or self._changed

    def keep(self) -> None:
        """Write what has changed; where that fails, it is retried at the next call."""
        if not self._changed:
            return
        rows = [
            {"part": part, "name": name, "problems": each.problems, "began": each.began.isoformat()}
            | {"number": each.number, "on": each.on}
            for (part, name), each in self.outages.items()
        ]
        beside = self._path.with_suffix(".new")
        try:
            beside.write_text(json.dumps(rows), encoding="utf-8")
            os.replace(beside, self._path)
            self._changed = self._warned = False
        except OSError as error:
            if not self._warned:
                log.warning("%s cannot be written for now: %s", self._path.name, error.strerror)
            self._warned = True

    def _read(self) -> dict[tuple[Part, str], ToldOutage]:
        """The outages in the file; none where it is missing or unreadable."""
        try:
            rows = json.loads(self._path.read_text(encoding="utf-8"))
            return {(Part(row["part"]), str(row["name"])): _told_outage(row) for row in rows}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError) as error:
            log.warning("%s cannot be read: %s", self._path.name, type(error).__name__)
            return {}


def _told_outage(row: dict[str, Any]) -> ToldOutage:
    """Parse a row of the file. Raises ValueError, TypeError, KeyError."""
    began = datetime.fromisoformat(row["began"])
    if began.tzinfo is None:
        raise ValueError("a time without a zone")
    return ToldOutage(began, int(row["number"]), tuple(map(Problem, row["problems"])), str(row["on"]))


@dataclass(slots=True, eq=False)
class _Outage:
    """An outage. began: monotonic. told: problems that became news. inherited: reported by an earlier process."""

    began: float
    number: int
    told: set[Problem] = field(default_factory=set)
    inherited: bool = False


@dataclass(slots=True, eq=False)
class _Notice:
    """One piece of news. lasted: seconds, for an outage that is over, else None. telling: an attempt is under way."""

    condition: Condition
    key: str
    began: float
    number: int
    lasted: float | None = None
    telling: bool = False


class Outages:
    """Watches the health of the process and notifies administrators. folder: data_dir."""

    def __init__(self, health: HealthService, admins: Admins, tasks: Tasks, clock: Clock, folder: Path) -> None:
        self._health = health
        self._admins = admins
        self._tasks = tasks
        self._clock = clock
        self._known: dict[str, None] = {}
        self._open: dict[tuple[Part, str], _Outage] = {}
        self._counted: Counter[tuple[Part, str]] = Counter()
        self._counted_on = clock.now().date()
        self._notices: list[_Notice] = []
        self._told = Told(folder / NAME)
        for key, told in tuple(self._told.outages.items()):
            self._inherit(key, told)

    def _inherit(self, key: tuple[Part, str], told: ToldOutage) -> None:
        """Take over an earlier process's outage: it is reported again on another day, and its end in any case."""
        now = self._clock.now()
        today = told.on == f"{now:%Y-%m-%d}"
        if now - told.began > FORGOTTEN_AFTER or not (told.problems or today):
            self._told.forget(key)
            return
        self._counted[key] = told.number + 1
        if told.problems:
            began = self._clock.monotonic() - (now - told.began).total_seconds()
            self._open[key] = _Outage(began, told.number, set(told.problems) if today else set(), inherited=True)

    async def serve(self) -> None:
        """Run until cancelled."""
        while True:
            self.look()
            await self._clock.sleep(LOOK_SECONDS)

    async def know_admins(self) -> None:
        """Remember where administrators are reached, for when nothing can be looked up; runs until cancelled."""
        while True:
            for account in list(self._known):
                await self._admins.learn(account)
            await self._clock.sleep(LOOK_SECONDS)

    def connected(self, account: str) -> None:
        """The platform has accepted the account: send pending notices."""
        self._known[account] = None
        self.look()

    def gone(self, account: str) -> None:
        """The account is gone from the config: forget its outages, for whose end no one waits any more."""
        for part in OF_ACCOUNTS:
            self._open.pop((part, account), None)
            self._told.forget((part, account))
        of_it = {(part, account) for part in OF_ACCOUNTS}
        self._notices = [each for each in self._notices if each.telling or each.condition.key not in of_it]
        self._known.pop(account, None)

    def look(self) -> None:
        """Find out what is new, and begin to report it. Returns at once."""
        self._new_day()
        conditions = self._health.conditions()
        now = self._clock.monotonic()  # read last, so that conditions which just began are not in the future
        for condition in conditions:
            if condition.problem is None:
                self._well(condition, now)
            else:
                self._ill(condition, condition.problem, now)
        self._told.keep()
        for notice in self._notices:
            if not notice.telling:
                notice.telling = True
                self._tasks.spawn(f"notice {notice.key}", self._tell(notice))

    def _new_day(self) -> None:
        if self._clock.now().date() != self._counted_on:
            self._counted_on = self._clock.now().date()
            self._counted.clear()

    def _ill(self, condition: Condition, problem: Problem, now: float) -> None:
        outage = self._open.get(condition.key)
        if outage is None:
            if now - condition.since < self._grace(condition):
                return
            number = self._counted[condition.key]
            self._counted[condition.key] += 1
            outage = self._open[condition.key] = _Outage(condition.since, number)
        if problem not in outage.told and self._is_news(condition, outage, now):
            outage.told.add(problem)
            about = {"event": "outage", "part": str(condition.part), "problem": str(problem)}
            log.warning("failing: %s (%s)", _named(condition), condition.detail or problem, extra=about)
            self._notices.append(_Notice(condition, self._key(condition, outage), condition.since, outage.number))

    def _is_news(self, condition: Condition, outage: _Outage, now: float) -> bool:
        """Whether an ongoing outage is worth reporting; an account that was just started is not connected yet."""
        if condition.problem is not Problem.NO_CONNECTION:
            return True
        return Problem.STOPPED not in outage.told and now - condition.since >= GRACE

    def _grace(self, condition: Condition) -> float:
        if self._counted[condition.key] >= MANY:
            return GRACE_AFTER_MANY
        return GRACE if condition.problem in OFTEN_PASSING else 0.0

    def _well(self, condition: Condition, now: float) -> None:
        outage = self._open.get(condition.key)
        if outage is None or (outage.inherited and not condition.proven):
            return
        del self._open[condition.key]
        lasted = now - outage.began
        about = {"event": "outage_over", "part": str(condition.part), "seconds": round(lasted)}
        log.warning("works again: %s, after %.0f s", _named(condition), lasted, extra=about)
        # A notice not sent during the outage is obsolete, except for how long the outage lasted.
        same = condition.key
        self._notices = [each for each in self._notices if each.telling or each.condition.key != same]
        notice = _Notice(condition, self._key(condition, outage), outage.began, outage.number, lasted)
        self._notices.append(notice)

    def _key(self, condition: Condition, outage: _Outage) -> str:
        """A key that is the same on the same day for the same reason, so that a supervisor restarting antler over and
        over makes no noise; a second outage in one process has another key."""
        why = condition.detail if condition.problem is Problem.STOPPED else ""
        what = hashlib.sha256(f"{condition.problem}:{why}:{outage.number}".encode()).hexdigest()[:16]
        return f"outage:{condition.part}:{condition.name}:{self._clock.now():%Y-%m-%d}:{what}"

    async def _tell(self, notice: _Notice) -> None:
        told = 0
        try:
            for account in self._through(notice.condition):
                told += await self._tell_on(account, notice)
                if told and notice.condition.part in OF_ACCOUNTS:
                    break
        finally:
            notice.telling = False
            if told and notice in self._notices:
                self._notices.remove(notice)
            if told:
                self._note(notice)

    def _note(self, notice: _Notice) -> None:
        now, key, problem = self._clock.now(), notice.condition.key, notice.condition.problem
        if problem is not None:
            began = now - timedelta(seconds=self._clock.monotonic() - notice.began)
            self._told.add(key, problem, began, notice.number, f"{now:%Y-%m-%d}")
        elif key not in self._open:
            self._told.over(key, f"{now:%Y-%m-%d}")

    async def _tell_on(self, account: str, notice: _Notice) -> int:
        """The number of administrators of the account that were reached."""

        def text(texts: Texts) -> str:
            if notice.lasted is not None:
                return over_text(notice.condition, notice.lasted, texts)
            return outage_text(notice.condition, self._clock.monotonic() - notice.began, texts)

        if self._health.store_works:
            return await self._admins.tell(account, notice.key, text)
        return await self._admins.tell_unrecorded(account, notice.key, text)

    def _through(self, condition: Condition) -> list[str]:
        """Accounts that can deliver the notice now. One that may itself be the problem comes last, and only where all
        that is known is that one of its answers is late."""
        ill = {each.name: each.problem for each in self._health.conditions() if each.part is Part.SENDING}
        states = {each.account: each.state for each in self._health.connections()}
        own = condition.name if condition.part in OF_ACCOUNTS and not condition.healthy else None
        # An account that receives but cannot store reports itself broken, and can still send.
        usable = WORKING if self._health.store_works else (*WORKING, ConnectionState.RETRYING)
        able = [account for account in self._known if states.get(account) in usable and ill.get(account) is None]
        others = [account for account in able if account != own]
        return [*others, own] if own in self._known and condition.problem is Problem.LATE else others


def outage_text(condition: Condition, age: float, texts: Texts) -> str:
    """A notice for administrators of what has stopped working, in Markdown."""
    detail = plain(condition.detail)
    return texts.outages[condition.problem or ""].format(
        name=condition.told_name, detail=detail, why=f" ({detail})" if detail else "", age=texts.duration(age)
    )


def over_text(condition: Condition, lasted: float, texts: Texts) -> str:
    """A notice of what works again."""
    return texts.outages_over[condition.part].format(name=condition.told_name, age=texts.duration(lasted))


def _named(condition: Condition) -> str:
    return f"{condition.part} {condition.told_name}".rstrip()
