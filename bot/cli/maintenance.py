"""Operations on the data while the gateway is stopped."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy.exc import IntegrityError

from bot.clock import SystemClock
from bot.control import logs
from bot.control.actions import MACHINE, Action, log_action
from bot.control.lock import DataDirInUse, DataDirLock, DataDirUnusable
from bot.memory.keeper import make_kept, rename_owners
from bot.settings.sections import ACCOUNT_ID
from bot.skills.folders import move_owner
from bot.store import Store, accounts, conversations, space
from bot.store.errors import StoreError
from harness.memory.store import MemoryUnavailable

if TYPE_CHECKING:
    from bot.settings import Settings

MEGABYTE = 1_000_000


def rename_account(settings: Settings, old: str, new: str) -> int:
    """`antler account rename`: move the account's conversations, files and rights to the new name; returns 0 or 1."""
    if not re.fullmatch(ACCOUNT_ID, new):
        return logs.complain(f"{new!r} is not a valid account id: use letters, digits, - and _")
    try:
        with DataDirLock(settings.data_dir), logs.written(settings):
            asyncio.run(_rename(settings, old, new))
            log_action(Action.RENAME_ACCOUNT, MACHINE, account=new, what=f"{old} to {new}")
    except (DataDirInUse, DataDirUnusable) as error:
        return logs.complain(error)
    except LookupError:
        return logs.complain(f"no account {old!r} has ever been connected")
    except IntegrityError:
        return logs.complain(f"an account {new!r} already exists")
    except (StoreError, MemoryUnavailable) as error:
        return logs.complain(error)
    print(f"{old} is now {new}; use that name in `channels` of the config")
    return 0


async def _rename(settings: Settings, old: str, new: str) -> None:
    store = await Store.open(settings.database_url, clock=SystemClock())
    try:
        await store.write(lambda tx: accounts.rename(tx, old, new))
        for owner in await store.read(lambda tx: conversations.owners(tx, new)):
            move_owner(settings.data_dir, old + owner.removeprefix(new), owner)
        await rename_owners(make_kept(settings, store), old, new)
    finally:
        await store.close()


def compact(settings: Settings) -> int:
    """`antler compact`: rewrite the database files to reclaim the space of deleted rows; returns 0 or 1."""
    if not settings.database_files:
        return logs.complain("PostgreSQL reclaims the space of deleted rows by itself (autovacuum)")
    try:
        with DataDirLock(settings.data_dir):
            for file in filter(Path.exists, settings.database_files):
                before, after = space.compact(file)
                print(f"{file.name}: {after / MEGABYTE:.1f} MB, was {before / MEGABYTE:.1f} MB")
    except (DataDirInUse, DataDirUnusable, StoreError) as error:
        return logs.complain(error)
    return 0
