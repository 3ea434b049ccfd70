"""The database: inbox, conversations, runs, outbox and what else must survive. Used by bot/ only, through `Store`.

The other modules hold plain functions over a connection, to be composed in one `store.write(...)`.
"""

from bot.store.errors import Fenced, StoreBusy, StoreClosed, StoreError, StoreNewer, StoreTooOld, StoreUnavailable
from bot.store.sql import Bulk
from bot.store.store import Store

__all__ = [
    "Bulk",
    "Fenced",
    "Store",
    "StoreBusy",
    "StoreClosed",
    "StoreError",
    "StoreNewer",
    "StoreTooOld",
    "StoreUnavailable",
]
