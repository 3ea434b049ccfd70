"""Politeness towards other servers: the rules of their robots.txt (RFC 9309), and time between two requests."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from cachetools import LRUCache

from harness.web.addresses import WebError, port_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import httpx

    from harness.ports import Clock

AGENT = "antler"
"""Our name in robots.txt, case-insensitive."""
MOST_ROBOTS = 512 * 1024
"""Bytes of a robots.txt that are read; the RFC requires at least 500 KiB."""
MOST_RULES = 2000
MOST_STARS = 10
"""Wildcards of a rule; one with more, which takes time and memory for each, is ignored."""
KEPT_SECONDS = 3600.0
MOST_HOSTS = 2000
"""Hosts whose next turn is remembered."""
MOST_KNOWN = 200
"""Hosts whose rules are remembered."""
MOST_WAIT = 15.0
"""Seconds that a request waits for its host's turn; a longer wait is refused."""
_LINE = re.compile(r"\s*([A-Za-z-]+)\s*:\s*([^#\r\n]*)")
_TOKEN = re.compile(r"[A-Za-z_-]+")
_PLAIN = "-._~/?&=:@!$'()*+,;%"


class NotAsked(WebError):
    """A page was not requested, out of politeness: whether it answers is unknown."""


class NotNow(NotAsked):
    """Too many pages of its host are waiting; it may be requested later."""


class Crowded(Exception):
    """Too many are waiting for the same turn."""


class Pace:
    """Turns per key. interval: seconds between two turns of one key. most_wait: maximum seconds to wait for a turn."""

    def __init__(self, interval: float, most_wait: float, clock: Clock) -> None:
        self._interval = interval
        self._most_wait = most_wait
        self._clock = clock
        self._next: LRUCache[str, float] = LRUCache(MOST_HOSTS)

    async def turn(self, key: str) -> None:
        """Wait for a turn. Raises Crowded, without using up a turn."""
        if self._interval <= 0:
            return
        now = self._clock.monotonic()
        at = max(now, self._next.get(key, now))
        if at - now > self._most_wait:
            raise Crowded
        self._next[key] = at + self._interval
        if at > now:
            await self._clock.sleep(at - now)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. allow: its verdict on matching paths. length: of the pattern; the longest one counts."""

    allow: bool
    parts: tuple[str, ...]
    anchored: bool
    length: int

    def matches(self, path: str) -> bool:
        """Whether a path matches, in linear time for each part: a stranger's text is no regular expression."""
        first, *others = self.parts
        if not path.startswith(first):
            return False
        at = len(first)
        if self.anchored:
            if not others:
                return at == len(path)
            *others, last = others
            if len(path) - len(last) < at or not path.endswith(last):
                return False
            path = path[: len(path) - len(last)] if last else path
        for part in others:
            found = path.find(part, at)
            if found < 0:
                return False
            at = found + len(part)
        return True


class Robots:
    """The rules of one robots.txt for Antler."""

    def __init__(self, text: str) -> None:
        self._rules = _rules_for(text)

    def allows(self, target: str) -> bool:
        """Whether a target is allowed: its path and query, as requested. The most specific rule decides, and among
        equals one that allows; /robots.txt itself is always allowed."""
        path = _canonical(target)
        matching = [rule for rule in self._rules if rule.matches(path)]
        best = max(matching, key=lambda rule: (rule.length, rule.allow), default=None)
        return best is None or best.allow or path == "/robots.txt"


def _rules_for(text: str) -> list[Rule]:
    """The rules of all groups that name Antler; if there are none, those of all groups for everyone. Groups for other
    names cost nothing."""
    ours: list[Rule] | None = None
    everybody: list[Rule] = []
    for_us = for_all = in_rules = False
    count = 0
    for line in text.removeprefix("\ufeff").splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        key, value = found[1].lower(), found[2].strip()
        if key == "user-agent":
            if in_rules:
                for_us = for_all = in_rules = False
            token = _TOKEN.match(value)
            for_all = for_all or value == "*"
            if token is not None and token[0].lower() == AGENT:
                for_us, ours = True, ours or []
        elif key in ("allow", "disallow"):
            in_rules = True
            count += 1
            if value and count <= MOST_RULES and value.count("*") <= MOST_STARS and (for_us or for_all):
                rule = _rule(value, allow=key == "allow")
                if for_us and ours is not None:
                    ours.append(rule)
                if for_all:
                    everybody.append(rule)
    return everybody if ours is None else ours


def _rule(pattern: str, *, allow: bool) -> Rule:
    anchored = pattern.endswith("$")
    plain = pattern[:-1] if anchored else pattern
    parts = tuple(_canonical(part) for part in plain.split("*"))
    return Rule(allow=allow, parts=parts, anchored=anchored, length=len(pattern))


def _canonical(path: str) -> str:
    """The canonical percent-encoding: unreserved characters plain, all others encoded except the delimiters."""
    return quote(unquote(path, errors="surrogateescape"), safe=_PLAIN, errors="surrogateescape")


class Manners:
    """Consulted before every page request. read: fetches a robots.txt, "" if a host has none; raises WebError if that
    is currently unavailable. robots: whether they are honoured. interval: seconds between two requests to a host."""

    def __init__(self, read: Callable[[str], Awaitable[str]], clock: Clock, *, robots: bool, interval: float) -> None:
        self._read = read
        self._clock = clock
        self._robots = robots
        self._pace = Pace(interval, MOST_WAIT, clock)
        self._known: LRUCache[str, tuple[float, Robots]] = LRUCache(MOST_KNOWN)

    async def before(self, url: httpx.URL) -> None:
        """Wait until the page may be requested. Raises WebError."""
        host = url.raw_host.decode("ascii")
        if self._robots and not (await self._rules(url, host)).allows(url.raw_path.decode("ascii", "replace")):
            raise NotAsked(
                f"{host} asks programs not to read this page (robots.txt). Use another source, or ask the person for "
                "its content."
            )
        try:
            await self._pace.turn(host)
        except Crowded:
            raise NotNow(f"Too many pages of {host} are being read right now. Try again later.") from None

    async def _rules(self, url: httpx.URL, host: str) -> Robots:
        origin = f"{url.scheme}://{f'[{host}]' if ':' in host else host}:{port_of(url)}"
        now = self._clock.monotonic()
        known = self._known.get(origin)
        if known is None or known[0] <= now:
            text = await self._read(f"{origin}/robots.txt")
            known = self._known[origin] = (now + KEPT_SECONDS, Robots(text))
        return known[1]
