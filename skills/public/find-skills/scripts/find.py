"""Finds installed skills by words: find.py WORDS ..., or find.py --all; best first."""

from __future__ import annotations

import argparse
import math
import re
import sys
from dataclasses import dataclass
from pathlib import Path

HOME = Path("/mnt/skills")
PLACES = ("mine", "custom", "public")
WEIGHTS = {"name": 6, "description": 3, "headings": 2, "body": 1}
MOST = 5
FILLERS = frozenset(
    [
        "a",
        "an",
        "and",
        "as",
        "for",
        "from",
        "i",
        "in",
        "into",
        "make",
        "me",
        "my",
        "of",
        "on",
        "or",
        "the",
        "this",
        "to",
        "with",
    ]
)
LEAST_STEM = 4
SHOWN = 300
"""Characters of a description."""
LARGEST = 256 * 1024


@dataclass(frozen=True)
class Skill:
    """parts: texts by their weight's name."""

    name: str
    place: str
    path: Path
    parts: dict[str, str]


def installed(home: Path) -> tuple[list[Skill], list[str]]:
    """Those that can be read, a person's own before the others, and what is wrong with the rest."""
    found: dict[str, Skill] = {}
    problems = []
    for place in PLACES:
        for path in sorted((home / place).glob("*/SKILL.md")):
            try:
                skill = _skill(path, place)
            except (OSError, UnicodeDecodeError, ValueError) as error:
                problems.append(f"{path}: {error}")
                continue
            found.setdefault(skill.name, skill)
    return list(found.values()), problems


def _skill(path: Path, place: str) -> Skill:
    """Raises ValueError."""
    text = path.read_text(encoding="utf-8-sig")[:LARGEST]
    split = re.match(r"---\s*\n(.*?)\n---\s*\n(.*)", text, re.DOTALL)
    if split is None:
        raise ValueError("has no front matter")
    described = re.search(r"^description:[ ]*(?:[>|][-+]?[ ]*\n)?(.*(?:\n[ ]+.*)*)", split[1], re.MULTILINE)
    description = " ".join(described[1].split()).strip("\"'") if described is not None else ""
    parts = {
        "name": path.parent.name.replace("-", " "),
        "description": description,
        "headings": " ".join(re.findall(r"^#+ (.*)$", split[2], re.MULTILINE)),
        "body": split[2],
    }
    return Skill(path.parent.name, place, path, parts)


def ranked(skills: list[Skill], words: list[str]) -> list[tuple[float, Skill]]:
    """Best first, those without any of the words left out. A word that few skills have says more."""
    points = {skill.path: 0.0 for skill in skills}
    for word in words:
        found = {skill.path: _best(skill, word) for skill in skills}
        rarity = math.log(1 + len(skills) / max(1, sum(each > WEIGHTS["body"] for each in found.values())))
        for path, best in found.items():
            points[path] += best * rarity / len(words)
    hits = [(points[skill.path], skill) for skill in skills if points[skill.path] > 0]
    return sorted(hits, key=lambda each: (-each[0], each[1].name))


def _best(skill: Skill, word: str) -> int:
    """Where the word counts most."""
    pattern = re.compile(rf"(?<!\w){re.escape(_stem(word))}" if word.isascii() else re.escape(word), re.IGNORECASE)
    return max((WEIGHTS[name] for name, text in skill.parts.items() if pattern.search(text)), default=0)


def _stem(word: str) -> str:
    """Without its ending, so that "slides" finds "slide"."""
    for ending in ("ations", "ation", "ings", "ing", "ies", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= LEAST_STEM:
            return word.removesuffix(ending)
    return word


def main() -> int:
    parser = argparse.ArgumentParser(description="Finds installed skills by words, best first.")
    parser.add_argument("words", nargs="*", help="what the work is about; in English and in the person's language")
    parser.add_argument("--all", action="store_true", help="every skill, in the order of names")
    parser.add_argument("--home", type=Path, default=HOME, help="where skills are")
    options = parser.parse_args()
    if not options.words and not options.all:
        parser.error("give words, or --all")
    skills, problems = installed(options.home)
    words = [word.lower() for text in options.words for word in text.split() if word.lower() not in FILLERS]
    hits = ranked(skills, words) if words else [(0.0, skill) for skill in sorted(skills, key=lambda one: one.name)]
    for points, skill in hits[: MOST if words else None]:
        told = f"{skill.name} ({skill.place}{f', {points:.1f}' if words else ''})"
        print(f"{told}: {skill.parts['description'][:SHOWN]}\n  {skill.path}")
    for problem in problems:
        print(f"broken: {problem}")
    print(f"{len(hits)} of {len(skills)} skills." + ("" if hits else " Try other words, or --all."))
    return 0 if hits else 1


if __name__ == "__main__":
    sys.exit(main())
