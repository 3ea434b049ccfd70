"""Everything that is known about who may use the bot, as a list: for /access in a chat and `antler access list`."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.access.book import is_over
from bot.store.access import AccessState

if TYPE_CHECKING:
    from datetime import datetime

    from bot.access.book import AccessBook
    from bot.store.access import AccessRow, SubjectKind

COLUMNS = ("KIND", "ID", "NAME", "STATE", "SINCE", "BY")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """key: of the config, for what is listed there. left: seconds that a pairing code is still good."""

    kind: SubjectKind
    subject: str
    state: AccessState
    name: str = ""
    key: str = ""
    since: datetime | None = None
    by: str = ""
    left: float | None = None


def entries(book: AccessBook, now: datetime, account: str | None = None) -> list[Entry]:
    """Entries of one account or all: the config first, then what was granted, requested and revoked, oldest first."""
    found: list[Entry] = []
    for name in (account,) if account is not None else book.accounts:
        listed = [
            Entry(kind=kind, subject=subject, state=state, key=key) for kind, subject, state, key in book.listed(name)
        ]
        found += [entry for entry in listed if entry not in found]
        found += [_entry(row, now) for row in book.rows(name) if not _is_nothing(book, row, now)]
    return found


def table(known: list[Entry]) -> str:
    """The entries in columns, as a terminal shows them."""
    if not known:
        return "nobody: no person and no group is let in, and nobody waits"
    rows = [COLUMNS, *(_cells(entry) for entry in known)]
    widths = [max(_width(row[column]) for row in rows) for column in range(len(COLUMNS))]
    padded = ([cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)] for row in rows)
    return "\n".join("  ".join(cells).rstrip() for cells in padded)


def _width(text: str) -> int:
    """Width in columns of a terminal, where Chinese characters take two."""
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


def _is_nothing(book: AccessBook, row: AccessRow, now: datetime) -> bool:
    """A code that ran out, or what the config decides anyway."""
    over = row.state is AccessState.PENDING and (row.code_hash is None or is_over(row, now))
    return over or (row.state is AccessState.BLOCKED and book.config_key(row.kind, row.subject) is not None)


def _cells(entry: Entry) -> tuple[str, ...]:
    state = str(entry.state)
    if entry.left is not None:
        state += f", {max(1, round(entry.left / 60))} min left"
    since = entry.since.strftime("%Y-%m-%d %H:%M UTC") if entry.since is not None else ""
    by = f"config ({entry.key})" if entry.key else entry.by
    subject = "everybody" if entry.subject == "*" else entry.subject
    return entry.kind, subject, entry.name, state, since, by
