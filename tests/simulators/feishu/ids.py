"""Ids in the platform's formats; those of people and direct chats are computed, so that tests know them in advance."""

import hashlib
import itertools

_NUMBERS = itertools.count(1)


def numbered(prefix: str) -> str:
    """A new id such as om_x100000001."""
    return f"{prefix}x1{next(_NUMBERS):08d}"


def card_number() -> str:
    """A new card id: digits only."""
    return f"7355{next(_NUMBERS):015d}"


def open_id(app_id: str, person: str) -> str:
    """The id of a person for one app; it differs for every app. Bots are identified by their app_id."""
    return "ou_" + _digest(app_id, person)


def union_id(person: str) -> str:
    """The id of a person for all apps of one developer."""
    return "on_" + _digest("union", person)


def direct_chat(app_id: str, person: str) -> str:
    """The chat of a person with an app's bot."""
    return "oc_" + _digest("p2p", app_id, person)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
