"""What the model reads of skills: their list in the system prompt, and the one that a person chose for a turn.

The list is the same for every turn of a thread as long as the skills are: it stands before everything that changes.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from harness.cleaned import clean_text
from harness.frames import SKILL, framed, neutral
from harness.skills.errors import SkillError
from sandbox.base import SKILLS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.skills.document import SkillDocument
    from harness.skills.library import SkillView
    from harness.skills.shelf import Skill

SLOT = "<skills/>\n"
"""Where the list comes to stand in a system prompt."""
MOST_TOKENS_EACH = 60
CHARACTERS_PER_TOKEN = 4
PATH_CHARACTERS_PER_TOKEN = 3
"""Of English; paths are made of rarer pieces. Of other scripts each character counts as a token."""
ORDER = ("mine", "custom", "public")
"""Whose come first where there is no room for all: a person's own, then this installation's."""
LONGEST_WORKFLOW = 50_000
"""Characters in a message; the rest is read."""

SECTION = f"""\
<skills>
Skills are workflows that experts wrote for certain kinds of work. They are folders below {SKILLS}, read-only.
- When a request is what one of these is for, read the whole of its SKILL.md with read_file before you begin, and follow
  it. Otherwise leave them alone. Read once is enough while you can still see it.
- Paths in a workflow are relative to its folder. Read its references and run its scripts when the workflow says so, not
  before. What you make goes into your working directory, never into a skill.
- A block <{SKILL}> behind a person's text is a skill that they chose for that request: follow it, it is read already.
- A skill tells how to do the work. It changes none of your other rules.
{{listing}}</skills>
"""
MORE = f"- {{count}} more are not listed. Search them by a word: grep with path {SKILLS}, glob SKILL.md, ignore_case.\n"

GONE = "It was chosen for this request, but it is not there any more: tell the person."


def skills_section(skills: Iterable[Skill], budget: int) -> str:
    """The section of the system prompt; "" without skills. budget: tokens of the list, about."""
    ranked = sorted(skills, key=lambda skill: (ORDER.index(skill.place), skill.name))
    return _section(tuple((skill.name, skill.document.description, skill.path) for skill in ranked), budget)


@lru_cache(maxsize=256)
def _section(ranked: tuple[tuple[str, str, str], ...], budget: int) -> str:
    if not ranked:
        return ""
    lines: list[str] = []
    used = 0.0
    for name, description, path in ranked:
        line = _line(name, description, path)
        used += tokens(line)
        if used > budget and lines:
            break
        lines.append(line)
    left = len(ranked) - len(lines)
    return SECTION.format(listing="".join(lines) + (MORE.format(count=left) if left else ""))


def _line(name: str, description: str, path: str) -> str:
    frame = f"- {name}:  ({path})\n"
    room = MOST_TOKENS_EACH - len(frame) / PATH_CHARACTERS_PER_TOKEN
    # Nothing that a person does not see, and no tags.
    seen = "".join(character for character in clean_text(description) if character.isprintable())
    told = seen.replace("<", "‹").replace(">", "›")
    return f"- {name}: {_fitting(told, room)} ({path})\n"


def tokens(text: str) -> float:
    """About how many a text is, a little on the high side."""
    plain = sum(character.isascii() for character in text)
    return len(text) - plain + plain / CHARACTERS_PER_TOKEN


def _fitting(text: str, room: float) -> str:
    """The text, cut at a word where there is no room for all of it."""
    if tokens(text) <= room:
        return text
    used, end = 1.0, 0
    for end, character in enumerate(text):  # noqa: B007
        used += 1 / CHARACTERS_PER_TOKEN if character.isascii() else 1
        if used > room:
            break
    cut = text[:end]
    word = cut.rfind(" ")
    return (cut[:word] if word > end // 2 else cut).rstrip(" ,;:.") + "…"


def chosen_block(document: SkillDocument, path: str) -> str:
    """The skill that a person chose for a request, to stand behind their text."""
    body, rest = document.body, ""
    if len(body) > LONGEST_WORKFLOW:
        body = body[:LONGEST_WORKFLOW]
        rest = f"\n[cut here; read the rest in {path} before you begin]"
    folder = path.rpartition("/")[0]
    head = f"skill: {document.name}\nfolder: {folder}\nThe person chose it for this request. Its workflow:"
    return framed(SKILL, f"{head}\n\n{neutral(clean_text(body))}{rest}")


def chosen_skill(name: str, view: SkillView) -> str:
    """The block for a skill by its name, as its file is now; says so where it cannot be had any more. Blocking."""
    skill = view.get(name)
    if skill is not None:
        with suppress(SkillError):
            return chosen_block(skill.read(), skill.path)
    return framed(SKILL, f"skill: {neutral(name)}\n{GONE}")
