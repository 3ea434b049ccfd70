"""Approvals of skills: digests of their whole content, in one file next to the skills.

A skill without a record was put there by the operator. A skill with a record but other content is off until an
administrator turns it on again.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from harness.files.durable import write_atomically
from harness.skills.document import Problem, SkillError
from harness.skills.files import digest_on_disk
from harness.skills.places import name_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PINS = ".antler-skills.json"
MOST_REASONS = 5
KEPT = 3
"""Newest approved digests kept of a skill; a crash in mid-change leaves one of them in place."""
CHANGED = "it has changed since it was approved"
UNREADABLE = f"{PINS} cannot be read"


@dataclass(frozen=True, slots=True)
class Pin:
    """Approvals of one skill. on: digests that may be used, newest last. pending: a digest that waits for an
    administrator, "" for none. reasons: why it waits."""

    on: tuple[str, ...] = ()
    pending: str = ""
    reasons: tuple[str, ...] = ()

    def allowing(self, digest: str) -> Pin:
        """The pin with another usable digest."""
        others = tuple(known for known in self.on if known != digest)
        pending, reasons = ("", ()) if self.pending == digest else (self.pending, self.reasons)
        return Pin((*others, digest)[-KEPT:], pending, reasons)

    def holding(self, digest: str, reasons: tuple[str, ...]) -> Pin:
        """The pin with another waiting digest."""
        return replace(self, pending=digest, reasons=reasons[:MOST_REASONS])


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a skill is off until an administrator turns it on. digest: of the content to approve."""

    digest: str
    reasons: tuple[str, ...]


_PINS: TypeAdapter[dict[str, Pin]] = TypeAdapter(dict[str, Pin])


def load_pins(home: Path) -> dict[str, Pin]:
    """Pins by name. Raises SkillError for a file that cannot be read."""
    try:
        return _PINS.validate_json((home / PINS).read_bytes())
    except FileNotFoundError:
        return {}
    except (ValidationError, OSError) as error:
        raise SkillError([Problem(PINS, "", "cannot be read")]) from error


def save_pins(home: Path, pins: Mapping[str, Pin]) -> None:
    """Write the pins. The caller holds the home's lock."""
    write_atomically(home / PINS, _PINS.dump_json(dict(pins), indent=1), mode=0o644)


class PinWatch:
    """Pins of one folder, read again only when something changed on disk."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._seen: tuple[int, ...] | None = None
        self._pins: dict[str, Pin] | None = {}
        self._digests: dict[str, tuple[object, str]] = {}

    def refresh(self) -> None:
        """Read the file again if it has changed."""
        seen = signature(self._home / PINS)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._pins = load_pins(self._home)
        except SkillError:
            self._pins = None

    def waiting(self, path: str) -> Waiting | None:
        """Why the skill at this path in the folder must not be used now; None: it may. Reads the files of skills with a
        record, which are found by name."""
        if self._pins is None:
            return Waiting("", (UNREADABLE,))
        pin = self._pins.get(name_of(path))
        if pin is None:
            return None
        digest = self._digest(path)
        if digest in pin.on:
            return None
        return Waiting(digest, pin.reasons if digest == pin.pending else (CHANGED,))

    def _digest(self, path: str) -> str:
        state = _state(self._home / path)
        known = self._digests.get(path)
        if known is None or known[0] != state:
            known = self._digests[path] = (state, digest_on_disk(self._home / path))
        return known[1]


def _state(folder: Path) -> tuple[object, ...]:
    """Values that change with any file below."""
    found: list[object] = []
    for below, folders, files in os.walk(folder):
        folders.sort()
        found += [(below, name, *signature(os.path.join(below, name))) for name in sorted(files)]
        found += [(below, name) for name in folders]
    return tuple(found)


def signature(path: Path | str) -> tuple[int, ...]:
    """Values that change with a file: a change that preserves mtime and size still changes the inode's ctime."""
    try:
        seen = os.stat(path, follow_symlinks=False)
    except OSError:
        return ()
    return (stat.S_IFMT(seen.st_mode), seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size, seen.st_ino)
