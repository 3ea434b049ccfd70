"""Access granted, refused or pending beyond the lists in the config. bot/access/store.py caches these rows."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import delete, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from bot.store.errors import StoreError
from bot.store.sql import insert
from bot.store.tables import access

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Connection, Row

log = logging.getLogger(__name__)

SubjectKind = Literal["person", "group"]


class AccessState(StrEnum):
    """PENDING: requests access, a person with a pairing code. REFUSED: was refused, and may ask again after
    `expires_at`. PAIRED: admitted by a code. ALLOWED and ADMIN: granted explicitly. BLOCKED: no access, even if a list
    admits everybody."""

    PENDING = "pending"
    REFUSED = "refused"
    PAIRED = "paired"
    ALLOWED = "allowed"
    ADMIN = "admin"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRow:
    """The access of one subject. subject: `account:native id` of a person, `account:chat` of a group.

    name: untrusted text, for the admin. chat and language: where and in which language the person is notified, None and
    "" if unknown. code_hash: of the pairing code while pending; for a pending group, a name for the request.
    expires_at: end of the code, request or refusal. decided_by: a person's id, or a word for how it was decided.
    """

    account: str
    kind: SubjectKind
    subject: str
    state: AccessState
    name: str = ""
    chat: str | None = None
    language: str = ""
    code_hash: str | None = None
    created_at: datetime
    expires_at: datetime | None = None
    decided_at: datetime | None = None
    decided_by: str | None = None


_NAMES = {"kind": "subject_kind", "subject": "subject_id", "name": "display_name"}
_COLUMNS = {field.name: _NAMES.get(field.name, field.name) for field in fields(AccessRow)}


class AccessUnreadable(StoreError):
    """The access rows cannot be read, so nobody may be admitted."""


def everything(tx: Connection) -> list[AccessRow]:
    """All rows, oldest first. A row with an unknown state blocks its subject. Raises AccessUnreadable."""
    try:
        return [_row(row) for row in tx.execute(select(access).order_by(access.c.created_at, access.c.subject_id))]
    except (SQLAlchemyError, TypeError, ValueError) as error:
        why = error.orig if isinstance(error, DBAPIError) else error
        raise AccessUnreadable(
            f"the access list cannot be read, so nobody is admitted and nothing starts: {why}"
        ) from error


def put(tx: Connection, row: AccessRow) -> None:
    """Write a row, replacing any earlier row of its subject."""
    values = {_COLUMNS[name]: value for name, value in asdict(row).items()}
    key = ["subject_kind", "subject_id"]
    changes = {name: value for name, value in values.items() if name not in key}
    tx.execute(insert(tx, access).values(values).on_conflict_do_update(index_elements=key, set_=changes))


def remove(tx: Connection, row: AccessRow, code_hash: str | None) -> None:
    """Delete a subject's row, unless its code has changed since."""
    mine = (access.c.subject_kind == row.kind) & (access.c.subject_id == row.subject)
    tx.execute(delete(access).where(mine, access.c.code_hash.is_not_distinct_from(code_hash)))


def _row(row: Row[*tuple[Any, ...]]) -> AccessRow:
    values = {name: getattr(row, column) for name, column in _COLUMNS.items()}
    if values["state"] not in set(AccessState):
        log.error("access of %s has the unknown state %r: treated as blocked", values["subject"], values["state"])
        values["state"] = AccessState.BLOCKED
    return AccessRow(**values | {"state": AccessState(values["state"])})
