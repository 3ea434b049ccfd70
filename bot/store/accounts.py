"""Which bot stands behind an account's name. Filled at the first connection, checked at each one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from sqlalchemy import select, update

from bot.store.errors import StoreError
from bot.store.rekey import rename as rename
from bot.store.sql import insert
from bot.store.tables import accounts

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Connection


class AccountConflict(StoreError):
    """kind "other_bot": `name` was always another bot, whose platform:id is `known`.

    kind "renamed": this bot was always the account `known`; `antler account rename` is the way.
    """

    def __init__(self, kind: Literal["other_bot", "renamed"], name: str, known: str) -> None:
        super().__init__(
            f"account {name} belongs to the bot {known}"
            if kind == "other_bot"
            else f"the bot of {name} is account {known}"
        )
        self.kind = kind
        self.name = name
        self.known = known


def bind(tx: Connection, name: str, platform: str, bot_id: str, now: datetime) -> None:
    """Record or confirm that account `name` is that bot. Raises AccountConflict."""
    row = tx.execute(select(accounts.c.platform, accounts.c.bot_id).where(accounts.c.name == name)).first()
    if row is not None:
        if (row.platform, row.bot_id) != (platform, bot_id):
            raise AccountConflict("other_bot", name, f"{row.platform}:{row.bot_id}")
        tx.execute(update(accounts).where(accounts.c.name == name).values(last_seen=now))
        return
    same_bot = select(accounts.c.name).where(accounts.c.platform == platform, accounts.c.bot_id == bot_id)
    other = tx.scalar(same_bot)
    if other is not None:
        raise AccountConflict("renamed", name, other)
    values = {"name": name, "platform": platform, "bot_id": bot_id, "first_seen": now, "last_seen": now}
    tx.execute(insert(tx, accounts), values)
