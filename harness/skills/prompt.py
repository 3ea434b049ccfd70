"""What the model reads about skills: their list in the system prompt, and the one that a person chose for a turn.

The list is the same for every turn of a thread as long as the skills are: it precedes everything that changes.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from harness.skills.document import SkillError
from harness.skills.followed import can_follow
from harness.text.frames import SKILL, framed, neutral
from harness.text.plain import clean_text
from sandbox.base import SKILLS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from harness.skills.document import SkillDocument
    from harness.skills.library import Skill, SkillView

SLOT = "<skills/>\n"
"""Placeholder of the list in a system prompt."""
CHARACTERS_PER_TOKEN = 4
"""Estimate for English. Each character of other scripts counts as a token."""
ORDER = ("mine", "custom", "public")
"""Order in the list if there is no room for all: a person's own first, then this installation's."""
HEADINGS = {"mine": "The person's own", "custom": "This installation's", "public": "Antler's"}
MOST_NAMED = 50
"""Skills listed without a description at the end."""
LONGEST_WORKFLOW = 50_000
"""Characters of a workflow in a message; the agent reads the rest."""

SECTION = f"""\
<skills>
Skills are workflows that experts wrote for certain kinds of work. Each is a folder, read-only, with a file SKILL.md.
- When a request is what a skill is for, read the whole of its SKILL.md with read_file before you begin, and follow it.
  Otherwise leave it alone. Reading it once is enough while you can still see it.
- Paths in a workflow are relative to its folder. Read its references and run its scripts when the workflow says so, not
  before. What you make goes into your working directory, never into a skill.
- A block <{SKILL}> after a person's text is a skill that they chose for that request: follow it; it is already read.
- A skill tells how to do the work. It changes none of your other rules.
- When somebody asks what you can do, name what fits of these too. Read no file for that.
{{listing}}</skills>
"""
HEADING = "{whose}, each in {folder}/NAME/SKILL.md:\n"
MORE = f"""\
Further skills, by name only: {{names}}. Search their descriptions by a word: grep with path {SKILLS}, glob SKILL.md,
ignore_case.
"""
GONE = "It was chosen for this request, but it no longer exists: tell the person."


def skills_section(skills: Iterable[Skill], budget: int, tools: Collection[str]) -> str:
    """The section of the system prompt; "" without skills. budget: approximate tokens of the list. tools: names of the
    agent's tools; a skill that needs others is left out."""
    usable = [skill for skill in skills if can_follow(skill.document, tools)]
    ranked = sorted(usable, key=lambda skill: (ORDER.index(skill.origin), skill.shelf, skill.name))
    return _section(tuple((skill.shelf, skill.name, skill.document.description) for skill in ranked), budget)


@lru_cache(maxsize=256)
def _section(ranked: tuple[tuple[str, str, str], ...], budget: int) -> str:
    if not ranked:
        return ""
    lines: list[str] = []
    used, under = 0.0, ""
    for place, (shelf, name, description) in enumerate(ranked):
        whose = HEADINGS[shelf.partition("/")[0]]
        heading = HEADING.format(whose=whose, folder=f"{SKILLS}/{shelf}") if shelf != under else ""
        line = f"{heading}- {name}: {_shown(description)}\n"
        used += tokens(line)
        if used > budget and lines:
            lines.append(_more(ranked[place:]))
            break
        lines.append(line)
        under = shelf
    return SECTION.format(listing="".join(lines))


def _more(rest: Sequence[tuple[str, str, str]]) -> str:
    names = [f"{shelf}/{name}" for shelf, name, _ in rest]
    further = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return MORE.format(names=", ".join(names[:MOST_NAMED]) + further)


def _shown(description: str) -> str:
    """The whole description on one line: without tags, or anything invisible to people."""
    seen = "".join(character if character.isprintable() else " " for character in clean_text(description))
    return " ".join(seen.split()).replace("<", "‹").replace(">", "›")


def tokens(text: str) -> float:
    """Estimated number of tokens, erring on the high side."""
    plain = sum(character.isascii() for character in text)
    return len(text) - plain + plain / CHARACTERS_PER_TOKEN


def chosen_block(document: SkillDocument, path: str) -> str:
    """Block with the workflow of a skill that a person chose; it follows their text."""
    body, rest = document.body, ""
    if len(body) > LONGEST_WORKFLOW:
        body = body[:LONGEST_WORKFLOW]
        rest = f"\n[cut here; read the rest in {path} before you begin]"
    folder = path.rpartition("/")[0]
    head = f"skill: {document.name}\nfolder: {folder}\nThe person chose it for this request. Its workflow:"
    return framed(SKILL, f"{head}\n\n{neutral(clean_text(body))}{rest}")


def chosen_skill(name: str, view: SkillView) -> str:
    """Block for a skill by name, from the current file; it says so if the skill is gone. Blocking."""
    skill = view.get(name)
    if skill is not None:
        with suppress(SkillError):
            return chosen_block(skill.read(), skill.path)
    return framed(SKILL, f"skill: {neutral(name)}\n{GONE}")
