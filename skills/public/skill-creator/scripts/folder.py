"""The files of a skill's folder: what may be in a package, and what not. For validate.py and pack.py."""

from __future__ import annotations

import os
import re
from pathlib import Path

LARGEST, MOST_BYTES, MOST_FILES, DEEPEST = 5_000_000, 20_000_000, 300, 7
LARGEST_ARCHIVE = 10_000_000
PACKAGES = (".skill", ".zip", ".tar", ".tgz", ".gz", ".jar", ".whl", ".7z", ".rar", ".egg")
LEFT_OUT = {"__pycache__", ".git", ".DS_Store", ".pytest_cache", ".ruff_cache"}
"""Not part of a skill, and not packed."""
PROGRAMS = (b"\x7fELF", b"MZ", b"\xfe\xed\xfa\xcf", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\0asm")
_BAD_NAME = re.compile(r"[\x00-\x1f\x7f\\:*?\"<>|\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")


def files_of(skill: Path) -> tuple[dict[str, Path], list[str]]:
    """Path within the folder -> file, and what is wrong with any of them."""
    found: dict[str, Path] = {}
    problems: list[str] = []
    for folder, folders, names in os.walk(skill, followlinks=False):
        problems += [
            f"{_within(skill, folder, each)} is a link" for each in folders if (Path(folder) / each).is_symlink()
        ]
        folders[:] = sorted(each for each in folders if each not in LEFT_OUT and not (Path(folder) / each).is_symlink())
        for name in sorted(each for each in names if each not in LEFT_OUT):
            path = Path(folder) / name
            inside = _within(skill, folder, name)
            problems += [f"{inside} {fault}" for fault in _faults(path, inside)]
            found[inside] = path
    size = sum(path.stat().st_size for path in found.values() if path.is_file())
    if len(found) > MOST_FILES or size > MOST_BYTES:
        problems.append(
            f"{len(found)} files of {size / 1e6:.1f} MB; at most {MOST_FILES}, and {MOST_BYTES / 1e6:.0f} MB"
        )
    lower = [each.casefold() for each in found]
    problems += [
        f"{each} differs from another name in its case only" for each in found if lower.count(each.casefold()) > 1
    ]
    return found, problems


def _within(skill: Path, folder: str, name: str) -> str:
    return (Path(folder) / name).relative_to(skill).as_posix()


def _faults(path: Path, inside: str) -> list[str]:
    if path.is_symlink() or not path.is_file():
        return ["is a link or no ordinary file"]
    faults = []
    if path.name.casefold() == "skill.md" and inside != "SKILL.md":
        faults.append("is a skill within the skill")
    if path.name.startswith("."):
        faults.append("is hidden; take it out or give it another name")
    if path.suffix.lower() in PACKAGES:
        faults.append("is a package within the package; unpack it")
    if (
        _BAD_NAME.search(inside)
        or inside.count("/") > DEEPEST
        or any(part != part.strip() or part.endswith(".") for part in inside.split("/"))
    ):
        faults.append("has a name or a path that cannot be installed")
    if path.stat().st_size > LARGEST:
        faults.append(f"is larger than {LARGEST / 1e6:.0f} MB")
    with path.open("rb") as file:
        if file.read(4).startswith(PROGRAMS):
            faults.append("is a compiled program; skills hold text, scripts and pictures")
    return faults
