"""Trust in TLS: the system's certificates and an operator's file; one context for each set of trusted CAs."""

from __future__ import annotations

import os
import ssl
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

KEPT = 4


def trust(ca_file: Path | None) -> ssl.SSLContext:
    """The context for a file of additional CAs; None: only the system's. It is shared, so do not change it.

    Each takes 20 ms and 0.7 MB. A replaced file is read again. Raises OSError for one that cannot be used.
    """
    return _made(ca_file, _stamp(ssl.get_default_verify_paths().cafile), _stamp(ca_file))


def _stamp(file: str | Path | None) -> tuple[int, int, int] | None:
    if file is None:
        return None
    try:
        found = os.stat(file)
    except OSError:
        return None  # reading it reports the reason
    return found.st_ino, found.st_mtime_ns, found.st_size


@lru_cache(KEPT)
def _made(ca_file: Path | None, *stamps: object) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    return context
