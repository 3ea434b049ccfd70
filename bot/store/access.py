"""Who was let in besides the lists of the config: today groups whose chat got a new id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select

from bot.store.sql import insert
from bot.store.tables import access

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Connection

ALLOWED = "allowed"
GROUP = "group"


def allow_group(tx: Connection, account: str, group: str, decided_by: str, now: datetime) -> None:
    """Let a group (`account:chat`) in; what is known of it already stays."""
    values = {
        "account": account,
        "subject_kind": GROUP,
        "subject_id": group,
        "state": ALLOWED,
        "display_name": "",
        "attempts": 0,
        "created_at": now,
        "decided_at": now,
        "decided_by": decided_by,
    }
    tx.execute(insert(tx, access).on_conflict_do_nothing(index_elements=["subject_kind", "subject_id"]), values)


def allowed_groups(tx: Connection, account: str) -> frozenset[str]:
    """The groups of an account that were let in, as `account:chat`."""
    mine = (access.c.account == account) & (access.c.subject_kind == GROUP) & (access.c.state == ALLOWED)
    return frozenset(tx.scalars(select(access.c.subject_id).where(mine)))
