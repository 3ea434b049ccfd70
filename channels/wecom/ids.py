"""Ids that carry what an answer needs after a restart, and those of persons. Pure.

A message is "msgid|req_id": WeCom lets a bot answer a message under the req_id of its callback only.
"""

from __future__ import annotations

_BETWEEN = "|"
_OF_CORP = "/"


def message_id(msgid: str, req_id: str) -> str:
    """The platform_message_id of a message that came with this req_id."""
    return f"{msgid}{_BETWEEN}{req_id}"


def press_id(req_id: str, key: str) -> str:
    """The callback_id of a press: its req_id, and the key of the button, which says what its card shows."""
    return f"{req_id}{_BETWEEN}{key}"


def of_press(callback_id: str) -> tuple[str, str]:
    """(req_id, key) of a press."""
    req_id, _, key = callback_id.partition(_BETWEEN)
    return req_id, key


def req_id_of(message: str | None) -> str | None:
    """The req_id in a message's id, None for an id that has none."""
    return None if message is None else message.partition(_BETWEEN)[2] or None


def person(user: str, corp: str | None) -> str:
    """The id of a person. WeCom names the corp only where one robot serves several, whose user ids may be equal."""
    return f"{corp}{_OF_CORP}{user}" if corp else user


def native_user(person_id: str) -> str:
    """The user id in a person's id, as the platform wants it."""
    return person_id.rpartition(_OF_CORP)[2]
