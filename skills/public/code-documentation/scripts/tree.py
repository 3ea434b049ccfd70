"""The files of a project that people wrote: nothing built, installed or hidden. For the other scripts here."""

from __future__ import annotations

import os
from pathlib import Path

LANGUAGES = {".py": "Python", ".js": "JavaScript", ".mjs": "JavaScript", ".ts": "JavaScript/TypeScript"}
LANGUAGES |= {".tsx": "JavaScript/TypeScript", ".jsx": "JavaScript", ".go": "Go", ".rs": "Rust", ".java": "Java"}
LANGUAGES |= {".kt": "Kotlin", ".rb": "Ruby", ".php": "PHP", ".cs": "C#", ".c": "C", ".cpp": "C++", ".sh": "Shell"}
LEFT_OUT = frozenset({"node_modules", "venv", "dist", "build", "target", "vendor", "__pycache__", "site-packages"})
LARGEST = 1_000_000
MOST = 5000


def files_of(root: Path) -> list[Path]:
    """Sorted; links are not followed, large ones left out."""
    found: list[Path] = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(each for each in folders if each not in LEFT_OUT and not each.startswith("."))
        paths = (Path(folder) / name for name in sorted(names))
        found += [path for path in paths if not path.is_symlink() and path.is_file() and path.stat().st_size <= LARGEST]
        if len(found) > MOST:
            break
    return found[:MOST]


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
