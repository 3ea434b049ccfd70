"""Whom TLS trusts: the system's certificates and a file of the operator's; one context for all who trust the same."""

from __future__ import annotations

import os
import ssl
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

KEPT = 4


def trust(ca_file: Path | None) -> ssl.SSLContext:
    """The context for this file of further CAs; None: the system's alone. Shared, so it is not to be changed.

    Each takes 20 ms and 0.7 MB. A file that was replaced is read again. Raises OSError for one that cannot be used.
    """
    return _made(ca_file, _stamp(ssl.get_default_verify_paths().cafile), _stamp(ca_file))


def _stamp(file: str | Path | None) -> tuple[int, int, int] | None:
    if file is None:
        return None
    try:
        found = os.stat(file)
    except OSError:
        return None  # reading it tells why
    return found.st_ino, found.st_mtime_ns, found.st_size


@lru_cache(KEPT)
def _made(ca_file: Path | None, *stamps: object) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    return context
