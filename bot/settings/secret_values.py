"""Finds the secrets in a settings tree, so that they can be redacted from chats and logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, SecretStr


def secret_values(value: Any) -> Iterator[str]:
    """Every SecretStr of the tree, and the passwords in all its URLs as written and decoded."""
    if isinstance(value, SecretStr):
        text = value.get_secret_value()
        if text and not _is_plain_server(text):
            yield text
            yield from _credentials(text)
        yield from _url_passwords(text)
    elif isinstance(value, str):
        yield from _url_passwords(value)
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from secret_values(getattr(value, name))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from secret_values(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from secret_values(item)


def _credentials(text: str) -> Iterator[str]:
    """What stands behind the scheme of an Authorization header, which whoever it is sent to may repeat alone."""
    scheme, _, rest = text.partition(" ")
    if rest and scheme.lower() in ("bearer", "basic", "token"):
        yield rest.strip()


def _url_passwords(text: str) -> Iterator[str]:
    userinfo = _netloc(text).rpartition("@")[0]
    password = userinfo.partition(":")[2]
    yield from {part for part in (userinfo, password, unquote(password)) if part}


def _is_plain_server(text: str) -> bool:
    """A URL of a server and nothing more (a proxy without a password): its name in a log is no leak."""
    netloc = _netloc(text)
    return bool(netloc) and "@" not in netloc and text.rstrip("/").endswith(f"://{netloc}")


def _netloc(text: str) -> str:
    try:
        return urlsplit(text).netloc if "://" in text else ""
    except ValueError:
        return ""
