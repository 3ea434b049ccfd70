"""`antler forget PERSON`: done by the running gateway via the control socket, else recorded for the next start."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import TYPE_CHECKING, Any

from bot.control.actions import MACHINE, Action, log_action
from bot.control.lock import do_there_or_here
from bot.control.server import ANSWER_SECONDS
from bot.forgetting.erasing import whose
from bot.forgetting.service import summary
from bot.settings.sections import check_identity
from bot.store import Store, forgetting
from bot.store.forgetting import DeletionKind, DeletionRow

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from datetime import datetime

    from sqlalchemy import Connection

    from bot.forgetting.service import Forgetting
    from bot.settings import Settings
    from bot.store.retrying import RetryingStore

    NamesGroup = Callable[[str, str], bool | None]

WAIT_SECONDS = ANSWER_SECONDS - 1.5
RECORDED = "{person}: recorded; antler is not running and will delete the data at its next start"
UNDER_WAY = "{person}: deletion in progress; the log reports its completion"
IS_GROUP = "{person} is a group, so its threads belong to no single person; its administrators can use /threads delete"
COPIES = "the copies {names} in {folder} are unchanged; delete them when you no longer need them"
DONE = "{person}: deleted: {counts}. Access, usage counts and the audit log stay"


class ForgettingTool:
    """The operation. accounts: of the config; persons of other accounts have no data. names_group: see Settings."""

    def __init__(
        self, store: RetryingStore, service: Forgetting, accounts: Collection[str], names_group: NamesGroup
    ) -> None:
        self._store = store
        self._service = service
        self._accounts = accounts
        self._names_group = names_group

    async def do(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """An operation of the control socket: {"person": ...} to {"text": ..., "done": ...}."""
        person = str(request.get("person", ""))
        problem = refusal(person, self._accounts, self._names_group)
        if problem is not None:
            return {"text": problem, "done": False}
        row = deletion(person, self._store.clock.now())
        if not await self._store.write(lambda tx: _asked(tx, row)):
            return {"text": IS_GROUP.format(person=person), "done": False}
        _log(row)
        await self._service.begin(row)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAIT_SECONDS):
                counts = summary(await self._service.finished(row.id))
                told = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count) or "nothing was stored"
                return {"text": DONE.format(person=person, counts=told), "done": True}
        return {"text": UNDER_WAY.format(person=person), "done": True}


def _asked(tx: Connection, row: DeletionRow) -> bool:
    """Record a deletion; False for a group, whose threads belong to no single person."""
    if forgetting.is_group(tx, whose(row)):
        return False
    forgetting.ask_deletion(tx, row)
    return True


def refusal(person: str, accounts: Collection[str], names_group: NamesGroup) -> str | None:
    """Why an id is not of a person who can be forgotten; None if it is."""
    try:
        check_identity(person)
    except ValueError as error:
        return f"{person} {error}"
    account, _, native = person.partition(":")
    if not native:
        return f"{person} is not one person; give the person as account:id"
    if account not in accounts:
        return f"{person} is not in any of the accounts ({', '.join(accounts)})"
    return IS_GROUP.format(person=person) if names_group(account, native) else None


def deletion(person: str, now: datetime) -> DeletionRow:
    """The deletion of everything about a person, without a report in a chat."""
    return DeletionRow(
        id=secrets.token_hex(8),
        kind=DeletionKind.PERSON,
        subject=person,
        account=person.partition(":")[0],
        asked_by=MACHINE,
        asked_at=now,
    )


def run(settings: Settings, person: str) -> int:
    """The command line: run it where the data is currently held and print the answer; returns the exit code."""
    code = do_there_or_here(settings, "forget", {"person": person}, _recorded)
    if code == 0:
        _tell_of_copies(settings)
    return code


async def _recorded(settings: Settings, store: Store, request: Mapping[str, Any]) -> dict[str, Any]:
    """Record it: only a gateway, which has the agent's history and files open, can delete them."""
    person = str(request["person"])
    problem = refusal(person, settings.channels, settings.names_group)
    if problem is None:
        row = deletion(person, store.clock.now())
        if await store.write(lambda tx: _asked(tx, row)):
            _log(row)
        else:
            problem = IS_GROUP.format(person=person)
    return {"text": problem or RECORDED.format(person=person), "done": problem is None}


def _tell_of_copies(settings: Settings) -> None:
    """List copies of the database left by upgrades; deleting them is up to the operator."""
    copies = sorted(copy.name for copy in settings.data_dir.glob("*.bak"))
    if copies:
        print(COPIES.format(names=", ".join(copies), folder=settings.data_dir))


def _log(row: DeletionRow) -> None:
    log_action(Action.FORGET_PERSON, row.asked_by, account=row.account, person=row.subject)
