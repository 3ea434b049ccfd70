"""Ids in the platform's formats; the id of a DM is computed, so that tests know it in advance."""

import base64
import hashlib
import itertools

_NUMBERS = itertools.count(1)


def numbered(prefix: str) -> str:
    """A new id such as F000000001."""
    return f"{prefix}{next(_NUMBERS):09d}"


def derived(prefix: str, *parts: str) -> str:
    """An id that only depends on its parts."""
    digest = hashlib.sha256("\0".join(parts).encode()).digest()
    return prefix + base64.b32encode(digest).decode("ascii").rstrip("=")[:10]


def dm_id(bot_user_id: str, user_id: str) -> str:
    """The DM channel of a bot and a person."""
    return derived("D", bot_user_id, user_id)
