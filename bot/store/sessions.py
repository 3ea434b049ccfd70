"""Sessions on the web page and API tokens of programs: digests only, as the secrets themselves are shown just once."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from sqlalchemy import delete, select, update

from bot.store.rows import value_of
from bot.store.sql import insert
from bot.store.tables import sessions, tokens

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """A row of the table `sessions`."""

    id: str
    person: str
    agent: str
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRow:
    """A row of the table `tokens`."""

    id: str
    digest: str
    name: str
    person: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None = None
    used_at: datetime | None = None


def all_sessions(tx: Connection) -> list[SessionRow]:
    """All sessions, oldest first."""
    return [value_of(SessionRow, row) for row in tx.execute(select(sessions).order_by(sessions.c.created_at))]


def all_tokens(tx: Connection) -> list[TokenRow]:
    """All tokens, oldest first."""
    rows = tx.execute(select(tokens).order_by(tokens.c.created_at, tokens.c.id))
    return [value_of(TokenRow, row, scopes=tuple(json.loads(row.scopes))) for row in rows]


def add_session(tx: Connection, row: SessionRow) -> None:
    tx.execute(insert(tx, sessions).values(asdict(row)))


def add_token(tx: Connection, row: TokenRow) -> None:
    tx.execute(insert(tx, tokens).values(asdict(row) | {"scopes": json.dumps(row.scopes)}))


def used(tx: Connection, token_id: str, at: datetime) -> None:
    """Record a use of a token."""
    tx.execute(update(tokens).where(tokens.c.id == token_id).values(used_at=at))


def end_session(tx: Connection, session_id: str) -> None:
    tx.execute(delete(sessions).where(sessions.c.id == session_id))


def end_token(tx: Connection, token_id: str) -> None:
    tx.execute(delete(tokens).where(tokens.c.id == token_id))


def end_all_of(tx: Connection, person: str) -> int:
    """End all sessions and tokens of a person; return how many there were."""
    return sum(tx.execute(delete(table).where(table.c.person == person)).rowcount for table in (sessions, tokens))


def prune(tx: Connection, now: datetime, limit: int = 5000) -> int:
    """Delete expired sessions and tokens, at most `limit` of each; return how many."""
    gone = 0
    for table in (sessions, tokens):
        old = select(table.c.id).where(table.c.expires_at <= now).limit(limit)
        gone += tx.execute(delete(table).where(table.c.id.in_(old))).rowcount
    return gone
