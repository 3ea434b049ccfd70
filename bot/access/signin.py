"""Signing in to the page and the API: one-time links, browser sessions, and tokens of programs.

A session or token has the current rights of its person; revoked access is revoked here, too. Only digests are stored;
all of them are kept in memory, since each request needs them.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from cachetools import LRUCache

from bot.access.admission import OPERATOR, SharedRules
from bot.access.store import is_over
from bot.store import sessions
from bot.store.identity import OWN_ACCOUNTS
from bot.store.retrying import every
from bot.store.sessions import SessionRow, TokenRow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from bot.access.store import AccessStore
    from bot.settings.http import HttpSettings
    from bot.store.retrying import RetryingStore

SCOPES = ("read", "threads", "runs", "operate", "admin")
"""Scopes. read: one's own data. threads: create, change and delete one's own conversations. runs: have them answered.
operate: see and control what the gateway does. admin: change its configuration and who may use it."""
OWN_SCOPES = frozenset({"read", "threads", "runs"})
"""Scopes of everyone who signs in; an administrator has all SCOPES."""
LINK_LIFE = timedelta(minutes=10)
LINKS = 1000
"""Maximum number of unused links; the oldest are dropped first."""
PREFIX = "ant"
USED_EVERY = timedelta(hours=1)
TIDY_SECONDS = 3600.0
LONGEST_AGENT = 200
LONGEST_NAME = 64


class NoToken(ValueError):
    """A token cannot be made; the text says why."""


@dataclass(frozen=True, slots=True)
class _Link:
    person: str
    until: datetime


class SignIns:
    """Links, sessions and tokens. http: returns the current settings of the service. book: who may use the bot."""

    def __init__(self, store: RetryingStore, book: AccessStore, http: Callable[[], HttpSettings]) -> None:
        self._store = store
        self._clock = store.clock
        self._book = book
        self._http = http
        self._links: LRUCache[str, _Link] = LRUCache(LINKS)
        self._sessions: dict[str, SessionRow] = {}
        self._tokens: dict[str, TokenRow] = {}

    async def load(self) -> None:
        """Load what is stored; before that nobody is signed in."""
        self._sessions = {row.id: row for row in await self._store.read(sessions.all_sessions)}
        self._tokens = {row.digest: row for row in await self._store.read(sessions.all_tokens)}

    async def tidy(self) -> None:
        """Remove what has expired; runs until cancelled."""

        async def forget() -> None:
            now = self._clock.now()
            await self._store.write(lambda tx: sessions.prune(tx, now))
            self._sessions = {key: row for key, row in self._sessions.items() if row.expires_at > now}
            self._tokens = {key: row for key, row in self._tokens.items() if not is_over(row, now)}

        await every(TIDY_SECONDS, self._clock, "removing expired sessions", forget)

    # Rights.

    def admits(self, person: str) -> bool:
        """Whether the person may use the bot now."""
        account = person.partition(":")[0]
        if account not in self._book.accounts:
            return False
        own = account if account in OWN_ACCOUNTS else "web"
        rules = self._book.policy(own).access if own in self._book.accounts else None
        return isinstance(rules, SharedRules) and rules.admits(person)

    def name_of(self, person: str) -> str:
        """A person's name as last reported by their platform; else the last part of their id."""
        row = self._book.row("person", person)
        return (row.name if row is not None else "") or person.rpartition(":")[2]

    def is_admin(self, person: str) -> bool:
        """Whether the person is an administrator now."""
        if "web" not in self._book.accounts:
            return False
        return self._book.policy("web").access.is_admin(person)

    # Links.

    def has_page(self) -> bool:
        return self._http().listen is not None

    def link(self, person: str = OPERATOR) -> str | None:
        """A link that signs this person in, once and within LINK_LIFE; None if there is no page."""
        http = self._http()
        if http.listen is None:
            return None
        code = secrets.token_urlsafe(24)
        self._links[_digest(code)] = _Link(person, self._clock.now() + LINK_LIFE)
        return f"{http.root}/signin/{code}"

    def is_open(self, code: str) -> bool:
        """Whether a link's code is still valid."""
        link = self._links.get(_digest(code))
        return link is not None and link.until > self._clock.now()

    async def redeem(self, code: str, agent: str) -> str | None:
        """Sign in with a link's code; returns the cookie's value, None if the code is invalid."""
        link, now = self._links.pop(_digest(code), None), self._clock.now()
        if link is None or link.until <= now or not self.admits(link.person):
            return None
        return await self._begin(link.person, agent, now)

    # Sessions.

    async def _begin(self, person: str, agent: str, now: datetime) -> str:
        cookie = secrets.token_urlsafe(32)
        row = SessionRow(
            id=_digest(cookie),
            person=person,
            agent=agent[:LONGEST_AGENT],
            created_at=now,
            expires_at=now + timedelta(days=self._http().session_days),
        )
        await self._store.write(lambda tx: sessions.add_session(tx, row))
        self._sessions[row.id] = row
        return cookie

    def session(self, cookie: str) -> SessionRow | None:
        """The session of a cookie's value, if its person may use the bot."""
        row = self._sessions.get(_digest(cookie))
        if row is None or row.expires_at <= self._clock.now() or not self.admits(row.person):
            return None
        return row

    async def sign_out(self, session_id: str) -> None:
        self._sessions.pop(session_id, None)
        await self._store.write(lambda tx: sessions.end_session(tx, session_id))

    async def sign_out_everywhere(self, person: str) -> int:
        """End all sessions, tokens and unused links of a person; returns the number of sessions and tokens."""
        for key in [key for key, link in self._links.items() if link.person == person]:
            del self._links[key]
        self._sessions = {key: row for key, row in self._sessions.items() if row.person != person}
        self._tokens = {key: row for key, row in self._tokens.items() if row.person != person}
        return await self._store.write(lambda tx: sessions.end_all_of(tx, person))

    # Tokens.

    async def make_token(
        self, name: str, scopes: Sequence[str], person: str = "", days: int | None = None
    ) -> tuple[TokenRow, str]:
        """Make a token; returns it with its secret, which is not stored. person: "": a new one. Raises NoToken."""
        name = name.strip()
        if not re.fullmatch(r"[\w][\w .-]*", name) or len(name) > LONGEST_NAME:
            raise NoToken(f"a name has at most {LONGEST_NAME} letters, digits, spaces, dots and dashes")
        if unknown := [scope for scope in scopes if scope not in SCOPES]:
            raise NoToken(f"{', '.join(unknown)}: no such scope; available: {', '.join(SCOPES)}")
        if any(row.name == name for row in self._tokens.values()):
            raise NoToken(f"a token {name} already exists: revoke it first, or use another name")
        person = person or f"api:{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-') or secrets.token_hex(4)}"
        if not self.admits(person):
            raise NoToken(f"{person} has no access; antler access list shows who has")
        now, token_id = self._clock.now(), secrets.token_hex(4)
        secret = f"{PREFIX}_{token_id}_{secrets.token_urlsafe(32)}"
        row = TokenRow(
            id=token_id,
            digest=_digest(secret),
            name=name,
            person=person,
            scopes=tuple(scope for scope in SCOPES if scope in scopes) or ("read", "threads", "runs"),
            created_at=now,
            expires_at=None if days is None else now + timedelta(days=days),
        )
        await self._store.write(lambda tx: sessions.add_token(tx, row))
        self._tokens[row.digest] = row
        return row, secret

    def token(self, secret: str) -> TokenRow | None:
        """The row of a valid token."""
        row = self._tokens.get(_digest(secret))
        if row is None or is_over(row, self._clock.now()) or not self.admits(row.person):
            return None
        return row

    async def note_use(self, row: TokenRow) -> None:
        """Record that a token was used, to the hour."""
        now = self._clock.now()
        if row.used_at is None or now - row.used_at >= USED_EVERY:
            self._tokens[row.digest] = replace(row, used_at=now)
            await self._store.write(lambda tx: sessions.used(tx, row.id, now))

    @property
    def tokens(self) -> list[TokenRow]:
        """All tokens, oldest first."""
        return list(self._tokens.values())

    def holds(self, key: str) -> bool:
        """Whether the session or token with this id is still valid; for work that outlasts the check of its request."""
        now = self._clock.now()
        session = self._sessions.get(key)
        if session is not None:
            return session.expires_at > now and self.admits(session.person)
        return any(row.id == key and not is_over(row, now) and self.admits(row.person) for row in self.tokens)

    async def revoke(self, name: str) -> bool:
        """Revoke a token by its name or id; False if there is none."""
        row = next((each for each in self._tokens.values() if name in (each.id, each.name)), None)
        if row is None:
            return False
        del self._tokens[row.digest]
        await self._store.write(lambda tx: sessions.end_token(tx, row.id))
        return True

    def scopes(self, row: TokenRow | SessionRow) -> frozenset[str]:
        """The current scopes of the session or token."""
        admin = self.is_admin(row.person)
        if isinstance(row, SessionRow):
            return frozenset(SCOPES) if admin else OWN_SCOPES
        # A program's own person is no administrator anywhere, but the person who made the token is.
        trusted = admin or row.person.startswith("api:")
        return frozenset(row.scopes) if trusted else frozenset(row.scopes) & OWN_SCOPES


def csrf_of(cookie: str) -> str:
    """The token with which a page of that session proves to be ours: other sites can neither read nor guess it."""
    return hmac.new(cookie.encode(), b"antler csrf", hashlib.sha256).hexdigest()


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
