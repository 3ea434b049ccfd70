"""Writes skills to disk for the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def front(name: str, description: str = "Use it for tests.", **more: str) -> str:
    lines = [f"name: {name}", f"description: {description}"]
    lines += [f"{key.replace('_', '-')}: {value}" for key, value in more.items()]
    return "---\n" + "\n".join(lines) + "\n---\n"


def put_skill(
    folder: Path, name: str, description: str = "Use it for tests.", *, body: str = "1. Do it.", **more: str
) -> Path:
    """A skill below a folder of skills; returns its SKILL.md."""
    file = folder / name / "SKILL.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{front(name, description, **more)}\n{body}\n")
    return file
