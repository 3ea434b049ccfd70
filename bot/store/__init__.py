"""The database: inbox, conversations, runs, outbox and other durable state. Used only by bot/, through `Store`.

The other modules contain plain functions over a connection, to be combined in one `store.write(...)`.
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
