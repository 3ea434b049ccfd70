"""Codes that people type to get access: created, read, hashed, compared and limited. Without store and chat."""

from __future__ import annotations

import hashlib
import hmac
import io
import logging
import re
import secrets
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bot.access.store import AccessStore
    from channels.base import ChatLink, Clock


ALPHABET = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
"""32 characters without 0, 1, I and O: five bits each."""
LENGTH = 12
"""60 bits: within the limits of Tries, guessing one would take some hundred billion years."""
PAIRING_LIFE = timedelta(hours=1)
WAITING = 3
"""Maximum number of valid pairing codes of one account; one more ends the oldest."""
CLAIM_LIFE = timedelta(minutes=30)
_SEPARATORS = re.compile(r"[\s\-\u2010-\u2015]+")
_GROUPED = re.compile(r"(?<!\w)(?:[2-9A-HJ-NP-Z]{4}[\s\-\u2010-\u2015]?){2}[2-9A-HJ-NP-Z]{4}(?!\w)", re.IGNORECASE)
_AS_SHOWN = re.compile(r"(?<!\w)(?:[2-9A-HJ-NP-Z]{4}[\-\u2010-\u2015]){2}[2-9A-HJ-NP-Z]{4}(?!\w)", re.IGNORECASE)
_LONGEST = 500

log = logging.getLogger(__name__)
MINUTES = round(CLAIM_LIFE.total_seconds() / 60)


Link = Callable[[str, str], "ChatLink | None"]
"""Makes the link to the private chat with an account's bot for a code: (account, code)."""


def show(book: AccessStore, claims: Claims, account: str, log_format: Literal["text", "json"], link: Link) -> None:
    """Make a code for an account without an administrator and print it to stderr, bypassing the log; once per process.

    With a JSON log, a machine reads and keeps stderr: then only the command that prints a code is logged.
    """
    if account not in unclaimed(book) or not claims.first(account):
        return
    if log_format == "json":
        log.warning("no administrator yet on %s: run `antler pair --claim` for a code", account)
    else:
        print(frame([(account, claims.make(account))], link, drawn=draws(sys.stderr)), file=sys.stderr, flush=True)


def unclaimed(book: AccessStore) -> list[str]:
    """The accounts without an administrator."""
    return [account for account in book.accounts if not book.has_admin(account)]


def frame(codes: list[tuple[str, str]], link: Link, *, drawn: bool) -> str:
    """Text that shows codes, each (account, code). drawn: also show links as QR codes for a phone."""
    lines = ["Antler has no administrator yet. To become one, open the bot in a private chat"]
    lines += ["and send it the code of its account:", ""]
    pictures = []
    for account, code in codes:
        lines.append(f"    {account}:  {shown(code)}")
        if (found := link(account, shown(code))) is not None:
            how = "and press Start, which sends the code" if found.says else "and send the code there"
            lines += [f"    open {found.url}", f"    {how}"]
            pictures.append(f"{account}: {found.url}\n{qr_code(found.url)}" if drawn else "")
        lines.append("")
    lines.append(f"Valid for one person and {MINUTES} minutes; `antler pair --claim` prints a new one.")
    width = max(len(line) for line in lines)
    edge = "+" + "-" * (width + 4) + "+"
    return "\n".join(["", edge, *(f"|  {line.ljust(width)}  |" for line in lines), edge, *filter(None, pictures), ""])


def qr_code(text: str) -> str:
    """A text as a QR code of half blocks, for terminals with a dark background."""
    import segno  # used only once, briefly

    drawing = io.StringIO()
    segno.make(text, error="l").terminal(drawing, border=2, compact=True)
    return drawing.getvalue()


def draws(stream: TextIO) -> bool:
    """Whether drawings on a stream are visible: it is a terminal that supports block characters."""
    return stream.isatty() and "utf" in (stream.encoding or "").lower()


def new_code() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))


def shown(code: str) -> str:
    """A code as it is shown: ABCD-EFGH-JKLM."""
    return "-".join(code[start : start + 4] for start in range(0, LENGTH, 4))


def read(text: str) -> str | None:
    """The typed code, wherever its dashes are; None if it cannot be a code."""
    code = _SEPARATORS.sub("", text[:_LONGEST]).upper()
    return code if len(code) == LENGTH and set(code) <= set(ALPHABET) else None


def looks_shown(text: str) -> bool:
    """Whether a text is just a code in the form that we show, so that no ordinary word is mistaken for one."""
    return _AS_SHOWN.fullmatch(text[:_LONGEST].strip()) is not None


def shows_one(text: str) -> bool:
    """Whether a text contains something in the form of a shown code."""
    return _AS_SHOWN.search(text[:_LONGEST]) is not None


def all_in(text: str) -> Iterator[str]:
    """All parts of a text that could be codes."""
    for found in _GROUPED.finditer(text[:_LONGEST]):
        code = read(found[0])
        if code is not None:
            yield code


def offered(text: str) -> list[str]:
    """All possible codes in a line to the bot: the whole line, the part after its first word, or parts of it."""
    _, *rest = text[:_LONGEST].split(maxsplit=1) or [""]
    whole = [code for code in map(read, (text, *rest)) if code is not None]
    return [*whole, *all_in(text)]


def digest(account: str, code: str) -> str:
    """The stored hash of a code, which is valid only for that account."""
    return hashlib.sha256(f"{account}|{code}".encode()).hexdigest()


def same(one: str, other: str) -> bool:
    """Compare two digests in constant time."""
    return hmac.compare_digest(one, other)


class Tries:
    """Wrong codes of the last ten minutes: five per person, fifty in total; beyond that they are ignored."""

    PER_PERSON = 5
    IN_ALL = 50
    SECONDS = 600.0

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wrong: deque[tuple[float, str]] = deque(maxlen=self.IN_ALL)

    def exhausted(self, person: str) -> bool:
        since = self._clock.monotonic() - self.SECONDS
        while self._wrong and self._wrong[0][0] <= since:
            self._wrong.popleft()
        own = sum(who == person for _, who in self._wrong)
        return own >= self.PER_PERSON or len(self._wrong) >= self.IN_ALL

    def wrong(self, person: str) -> None:
        self._wrong.append((self._clock.monotonic(), person))


@dataclass(frozen=True, slots=True)
class _Claim:
    code_hash: str
    until: float


class Claims:
    """Codes that make their sender the administrator of an account: printed on this machine, kept in memory only."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: dict[str, _Claim] = {}
        self._told: set[str] = set()

    def first(self, account: str) -> bool:
        """Whether this is the first call for an account."""
        if account in self._told:
            return False
        self._told.add(account)
        return True

    def make(self, account: str) -> str:
        """Make a new code; an earlier one of the account becomes void."""
        code = new_code()
        until = self._clock.monotonic() + CLAIM_LIFE.total_seconds()
        self._open[account] = _Claim(digest(account, code), until)
        return code

    def is_open(self, account: str) -> bool:
        claim = self._open.get(account)
        return claim is not None and self._clock.monotonic() < claim.until

    def matches(self, account: str, codes: Iterable[str]) -> bool:
        """Whether one of the codes is the account's."""
        claim = self._open.get(account)
        if claim is None or not self.is_open(account):
            return False
        found = [same(digest(account, code), claim.code_hash) for code in codes]
        return any(found)

    def close(self, account: str) -> None:
        """Drop the account's code, which is used or void."""
        self._open.pop(account, None)
