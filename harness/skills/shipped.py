"""Where the skills are that ship with Antler; asked by bot/skills.py and `antler skills`."""

from __future__ import annotations

from pathlib import Path


def shipped_folder() -> Path:
    """Inside this package when the wheel has them there, else `skills/public` beside the packages, as in a checkout."""
    packages = Path(__file__).resolve().parents[2]
    packed = packages / "harness" / "built_in_skills"
    return packed if packed.is_dir() else packages / "skills" / "public"
