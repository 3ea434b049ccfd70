"""The claim code on this machine's terminal: how the first administrator comes to be. Shown by the gateway's start."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Literal

from bot.access.pairing import CLAIM_LIFE, shown

if TYPE_CHECKING:
    from bot.access.book import AccessBook
    from bot.access.pairing import Claims

log = logging.getLogger(__name__)

MINUTES = round(CLAIM_LIFE.total_seconds() / 60)


def show(book: AccessBook, claims: Claims, log_format: Literal["text", "json"]) -> None:
    """For each account without an administrator make a code and print it to stderr, past the log.

    Where the log is JSON, a machine reads and keeps stderr: there only the command that prints a code is named.
    """
    accounts = unclaimed(book)
    if accounts and log_format == "json":
        log.warning("no administrator yet on %s: run `antler pair --claim` for a code", ", ".join(accounts))
    elif accounts:
        print(frame([(account, claims.make(account)) for account in accounts]), file=sys.stderr, flush=True)


def unclaimed(book: AccessBook) -> list[str]:
    """The accounts that nobody administers."""
    return [account for account in book.accounts if not book.has_admin(account)]


def frame(codes: list[tuple[str, str]]) -> str:
    """The codes as a person reads them; each of (account, code)."""
    lines = [
        "Antler has no administrator yet. To become it, send the bot this code",
        "in a private message, in the chat of the account:",
        "",
        *(f"    {account}:  {shown(code)}" for account, code in codes),
        "",
        f"Good for one person and {MINUTES} minutes; `antler pair --claim` prints a new one.",
    ]
    width = max(len(line) for line in lines)
    edge = "+" + "-" * (width + 4) + "+"
    return "\n".join(["", edge, *(f"|  {line.ljust(width)}  |" for line in lines), edge, ""])
