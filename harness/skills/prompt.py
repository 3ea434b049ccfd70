"""What the model reads of skills: their list in the system prompt, and the one that a person chose for a turn.

The list is the same for every turn of a thread as long as the skills are: it stands before everything that changes.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from harness.skills.document import SkillError
from harness.text.frames import SKILL, framed, neutral
from harness.text.plain import clean_text
from sandbox.base import SKILLS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.skills.document import SkillDocument
    from harness.skills.library import Skill, SkillView

SLOT = "<skills/>\n"
"""Placeholder of the list in a system prompt."""
MOST_TOKENS_EACH = 60
CHARACTERS_PER_TOKEN = 4
PATH_CHARACTERS_PER_TOKEN = 3
"""Estimates for English; paths are made of rarer pieces. Each character of other scripts counts as a token."""
ORDER = ("mine", "custom", "public")
"""Order in the list when there is no room for all: a person's own first, then this installation's."""
LONGEST_WORKFLOW = 50_000
"""Characters of a workflow that a message carries; the agent reads the rest."""

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
    """Section of the system prompt; "" without skills. budget: approximate tokens of the list."""
    ranked = sorted(skills, key=lambda skill: (ORDER.index(skill.origin), skill.name))
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
    # The model gets nothing that a person cannot see, and no tags.
    seen = "".join(character for character in clean_text(description) if character.isprintable())
    told = seen.replace("<", "‹").replace(">", "›")
    return f"- {name}: {_fitting(told, room)} ({path})\n"


def tokens(text: str) -> float:
    """Estimated number of tokens, rather too high than too low."""
    plain = sum(character.isascii() for character in text)
    return len(text) - plain + plain / CHARACTERS_PER_TOKEN


def _fitting(text: str, room: float) -> str:
    """The text, cut at a word if it is too long."""
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
    """Block with the workflow of the skill that a person chose; it follows their text."""
    body, rest = document.body, ""
    if len(body) > LONGEST_WORKFLOW:
        body = body[:LONGEST_WORKFLOW]
        rest = f"\n[cut here; read the rest in {path} before you begin]"
    folder = path.rpartition("/")[0]
    head = f"skill: {document.name}\nfolder: {folder}\nThe person chose it for this request. Its workflow:"
    return framed(SKILL, f"{head}\n\n{neutral(clean_text(body))}{rest}")


def chosen_skill(name: str, view: SkillView) -> str:
    """Block for a skill by its name, as its file is now; it says so when the skill is gone. Blocking."""
    skill = view.get(name)
    if skill is not None:
        with suppress(SkillError):
            return chosen_block(skill.read(), skill.path)
    return framed(SKILL, f"skill: {neutral(name)}\n{GONE}")
