"""Merges the lists of several engines: addresses compared in a canonical form, places weighted by reciprocal rank."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.web.search.port import Found

T = TypeVar("T")
RANK = 60
"""The constant of reciprocal rank fusion: 1 / (RANK + place) for each list (Cormack, Clarke, Büttcher 2009)."""
_TRACKING = re.compile(r"utm_\w+|gclid|dclid|fbclid|msclkid|yclid|igshid|mc_cid|mc_eid|_ga|ref_src|srsltid", re.ASCII)
_PORTS = {"http": ":80", "https": ":443"}
_SAFE = "/:@!$&'()*+,;=~-._"


def normalized(url: str) -> str:
    """The canonical form of addresses that lead to the same page: without scheme, `www.`, the default port, a trailing
    slash, the fragment and parameters that only tell where a reader came from; the query sorted. An address that cannot
    be parsed is unchanged."""
    try:
        parts = urlsplit(url.strip())
        host = parts.netloc.rpartition("@")[2].lower()
        query = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=200)
    except ValueError:
        return url.strip()
    if parts.scheme.lower() not in _PORTS or not host:
        return url.strip()
    host = host.removesuffix(_PORTS[parts.scheme.lower()]).removesuffix(".").removeprefix("www.")
    path = quote(unquote(parts.path, errors="surrogateescape"), safe=_SAFE, errors="surrogateescape").rstrip("/")
    kept = sorted((name, value) for name, value in query if not _TRACKING.fullmatch(name))
    return f"{host}{path}" + (f"?{urlencode(kept, errors='surrogateescape')}" if kept else "")


def fused(lists: Iterable[Sequence[T]], most: int) -> list[T]:
    """The best of several rankings by reciprocal rank, each once; among equals, the earlier. Of hashable items."""
    scores: dict[T, float] = {}
    for ranking in lists:
        for place, key in enumerate(dict.fromkeys(ranking), 1):
            scores[key] = scores.get(key, 0.0) + 1 / (RANK + place)
    return sorted(scores, key=lambda key: -scores[key])[:most]


def merged(lists: Sequence[Sequence[Found]], most: int) -> list[Found]:
    """The best of all lists, each page once. If several have a page, the entry from the list where it ranks highest is
    kept, the first list winning; a missing text is taken from the others."""
    rankings = []
    kept: dict[str, tuple[int, Found]] = {}
    for found in lists:
        own: dict[str, Found] = {}
        for each in found:
            own.setdefault(normalized(each.url), each)
        rankings.append(list(own))
        for place, (key, each) in enumerate(own.items()):
            best, known = kept.get(key, (place, each))
            kept[key] = (place, _filled(each, known)) if place < best else (best, _filled(known, each))
    return [kept[key][1] for key in fused(rankings, most)]


def _filled(entry: Found, other: Found) -> Found:
    return replace(
        entry,
        title=entry.title or other.title,
        snippet=entry.snippet or other.snippet,
        date=entry.date or other.date,
    )
