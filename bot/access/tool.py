"""`antler pair` and `antler access`: over the control socket while antler runs, else on the store itself.

The list of entries is also that of /access in a chat.
"""

from __future__ import annotations

import unicodedata
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from bot.access import pairing
from bot.access.editor import AccessEditor, AccessRefused, problem
from bot.access.store import AccessStore, is_over, policy_of
from bot.control.actions import MACHINE, Action, log_action
from bot.control.lock import do_there_or_here
from bot.delivery import Delivery
from bot.redaction import Redactor
from bot.store import Store, access
from bot.store.access import AccessState
from bot.texts import DEFAULT, texts_for
from bot.texts.commands import unmarked

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from bot.access.editor import Change
    from bot.access.pairing import Claims
    from bot.settings import Settings
    from bot.store.access import AccessRow, SubjectKind
    from bot.store.retrying import RetryingStore
    from channels.base import Clock


STOPPED = (
    "antler is not running, but only a running one accepts claim codes: start it, or `antler access allow ID --admin`"
)
Answer = tuple[str, bool]
"""The output, and whether the request succeeded."""

COLUMNS = ("KIND", "ID", "NAME", "STATE", "SINCE", "BY")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the list. key: the config's, for entries listed there. left: seconds until a pairing code expires."""

    kind: SubjectKind
    subject: str
    state: AccessState
    name: str = ""
    key: str = ""
    since: datetime | None = None
    by: str = ""
    left: float | None = None


def entries(book: AccessStore, now: datetime, account: str | None = None) -> list[Entry]:
    """Entries of one account or all: the config's first, then grants, requests and revocations, oldest first."""
    found: list[Entry] = []
    for name in (account,) if account is not None else book.accounts:
        listed = [
            Entry(kind=kind, subject=subject, state=state, key=key) for kind, subject, state, key in book.listed(name)
        ]
        found += [entry for entry in listed if entry not in found]
        found += [_entry(row, now) for row in book.rows(name) if not _is_nothing(book, row, now)]
    return found


def table(known: list[Entry]) -> str:
    """The entries in columns, for a terminal."""
    if not known:
        return "no one has access yet, and no one is waiting"
    rows = [COLUMNS, *(_cells(entry) for entry in known)]
    widths = [max(_width(row[column]) for row in rows) for column in range(len(COLUMNS))]
    padded = ([cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)] for row in rows)
    return "\n".join("  ".join(cells).rstrip() for cells in padded)


def _width(text: str) -> int:
    """Width in terminal columns; Chinese characters take two."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def _entry(row: AccessRow, now: datetime) -> Entry:
    waits = row.state is AccessState.PENDING and row.expires_at is not None
    return Entry(
        kind=row.kind,
        subject=row.subject,
        state=row.state,
        name=row.name,
        since=row.decided_at or row.created_at,
        by=row.decided_by or "",
        left=(row.expires_at - now).total_seconds() if waits and row.expires_at is not None else None,
    )


def _is_nothing(book: AccessStore, row: AccessRow, now: datetime) -> bool:
    """Whether a row has no effect: an expired request, or a revocation overridden by the config."""
    over = (row.state is AccessState.PENDING and row.code_hash is None) or is_over(row, now)
    return over or (row.state is AccessState.BLOCKED and book.config_key(row.kind, row.subject) is not None)


def _facts(entry: Entry) -> dict[str, Any]:
    """The entry as JSON types: times in ISO 8601, `left` in seconds."""
    since = entry.since.isoformat(timespec="seconds") if entry.since is not None else None
    return asdict(entry) | {"state": str(entry.state), "since": since}


def _cells(entry: Entry) -> tuple[str, ...]:
    state = str(entry.state)
    if entry.left is not None:
        state += f", {max(1, round(entry.left / 60))} min left"
    since = entry.since.strftime("%Y-%m-%d %H:%M UTC") if entry.since is not None else ""
    by = f"config ({entry.key})" if entry.key else entry.by
    subject = "everybody" if entry.subject == "*" else entry.subject
    return entry.kind, subject, entry.name, state, since, by


class AccessTool:
    """The operations. claims, link: of the running gateway; without it claims is None and link returns None."""

    def __init__(
        self,
        editor: AccessEditor,
        store: RetryingStore | Store,
        clock: Clock,
        claims: Claims | None = None,
        link: pairing.Link = lambda account, code: None,
    ) -> None:
        self._editor = editor
        self._store = store
        self._clock = clock
        self._claims = claims
        self._link = link

    async def do(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """An operation of the control socket: {"do": ..., ...} to {"text", "done"}, and "data" for a list."""
        if request.get("do") == "list":
            known = entries(self._editor.book, self._clock.now())
            return {"text": table(known), "data": [_facts(entry) for entry in known], "done": True}
        try:
            text, done = await self._answer(request)
        except AccessRefused as refused:
            text, done = unmarked(problem(refused, texts_for(DEFAULT))).replace("`", ""), False
        return {"text": text, "done": done}

    async def _answer(self, request: Mapping[str, Any]) -> Answer:
        subject = str(request.get("subject", ""))
        match request.get("do"):
            case "pair":
                return await self._pair(str(request.get("code", "")))
            case "claim":
                return self._claim(drawn=request.get("drawn") is True)
            case "allow":
                kind, admin = kind_of(request), request.get("admin") is True
                await self._make(self._editor.allow(subject, MACHINE, kind=kind, admin=admin))
                return f"{subject} {'is now an administrator' if admin else 'now has access'}", True
            case "revoke":
                await self._make(self._editor.revoke(subject, MACHINE, kind=kind_of(request)))
                return f"{subject} no longer has access; what was running for it has been stopped", True
        return "the running antler is a different version: restart it", False

    async def _pair(self, typed: str) -> Answer:
        code = pairing.read(typed)
        applicant = self._editor.applicant(code) if code is not None else None
        if applicant is None:
            return unmarked(texts_for(DEFAULT).code_refused), False
        await self._make(self._editor.approval(applicant, MACHINE))
        return f"{applicant.name or 'someone without a name'} ({applicant.subject}) now has access", True

    def _claim(self, *, drawn: bool) -> Answer:
        if self._claims is None:
            return STOPPED, False
        accounts = pairing.unclaimed(self._editor.book)
        if not accounts:
            return "every account has an administrator: they admit others with /pair, or you with `antler pair`", False
        codes = [(account, self._claims.make(account)) for account in accounts]
        for account in accounts:
            log_action(Action.CLAIM_CODE, MACHINE, account=account)
        return pairing.frame(codes, self._link, drawn=drawn), True

    async def _make(self, change: Change) -> None:
        await self._store.write(change.write)
        change.committed()


def run(
    settings: Settings, do: Literal["pair", "claim", "list", "allow", "revoke"], *, as_json: bool = False, **more: Any
) -> int:
    """The command line: run it where the data is currently held and print the answer; returns the exit code."""
    return do_there_or_here(settings, "access", {"do": do, **more}, _do_it_here, as_json=as_json)


async def _do_it_here(settings: Settings, store: Store, request: Mapping[str, Any]) -> dict[str, Any]:
    """Run it on the store. Messages to chats are stored like any reply, and delivered at the next start."""
    delivery = Delivery(store, store.clock, Redactor(settings.secrets()))
    book = AccessStore({account: policy_of(settings, account) for account in settings.channels})
    book.load(await store.read(access.everything))
    editor = AccessEditor(book, delivery, store.clock, names_group=settings.names_group)
    answer = await AccessTool(editor, store, store.clock).do(request)
    await delivery.close(0)
    return answer


def kind_of(request: Mapping[str, Any]) -> SubjectKind | None:
    match request.get("kind"):
        case "group":
            return "group"
        case "person":
            return "person"
    return None
