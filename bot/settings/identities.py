"""Lists of persons and groups in the access section: exact strings `account:native id`, and nothing that is a name."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator

ANYBODY = "*"
ACCOUNT_ID = r"^[a-z0-9][a-z0-9_-]{0,31}$"

_FORM = 'should be "account:id", for example as /whoami prints it'
_ODD_NUMBER = re.compile(r"[+-]?0\d+|\+\d+|-0")


def check_identity(value: Any) -> str:
    """The value, if it is an exact `account:native id`. Raises ValueError with a text that does not repeat it."""
    if isinstance(value, Mapping):
        raise ValueError(f"is a mapping: take out the space after the colon, or put it in quotes; it {_FORM}")
    if not isinstance(value, str):
        raise ValueError(f"has no account in front; it {_FORM}")
    if value == ANYBODY:
        return value
    if any(c.isspace() or not c.isprintable() for c in value):
        raise ValueError("contains a space or an invisible character")
    if unicodedata.normalize("NFKC", value) != value:
        raise ValueError("contains look-alike characters; copy the id from /whoami")
    account, colon, native = value.partition(":")
    if account.startswith("@") or native.startswith("@"):
        raise ValueError("is a name, and names change hands; write the id that /whoami tells")
    if not colon or not native or not re.match(ACCOUNT_ID, account):
        raise ValueError(_FORM)
    if native == ANYBODY:
        raise ValueError("does not take a pattern: name each one")
    if _ODD_NUMBER.fullmatch(native):
        raise ValueError("is not written as the platform writes it (a leading zero or plus sign)")
    return value


def _check_named(value: Any) -> str:
    if value == ANYBODY:
        raise ValueError("does not take *: name each one")
    return check_identity(value)


def _nobody(value: Any) -> Any:
    """null, "" and [] all mean nobody."""
    return () if value is None or value == "" else value


Identity = Annotated[str, BeforeValidator(check_identity)]
NamedIdentity = Annotated[str, BeforeValidator(_check_named)]
Identities = Annotated[tuple[Identity, ...], BeforeValidator(_nobody)]
"""Persons or groups, or "*" for everybody."""
NamedIdentities = Annotated[tuple[NamedIdentity, ...], BeforeValidator(_nobody)]
"""Persons, never "*"."""


def with_account(account: str, value: Any) -> Any:
    """An entry of one channel's own list: there a bare id means that channel's account, be it written 12 or "12"."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{account}:{value}"
    if isinstance(value, str) and value and value != ANYBODY and ":" not in value:
        return f"{account}:{value}"
    return value
