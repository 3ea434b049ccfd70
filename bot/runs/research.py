"""What people type of a research: `/research [--style STYLE] [--auto] QUESTION`, what it tells and changes, and the
answers that a plan waits for. Pure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from bot.texts import LANGUAGES
from bot.texts.commands import unmarked
from harness.context import ResearchRequest
from harness.research.config import Style

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bot.settings import Settings
    from bot.store.rows import RunRow
    from bot.texts.command_line import CommandLine
    from harness.context import ResearchView

RESEARCH = "research"
STATUS, RESUME, LIST, EXPORT, CHOSEN_STYLE = "status", "resume", "list", "export", "style"
DEFAULT = "default"
"""The style of the settings."""
STYLE, AUTO = "--style", "--auto"
CHOICES = ("start", "change", "stop")
MOST_FILES = 20
"""Of those that came to the thread before, that a research is told of."""
_COLLECTION = re.compile(r"(?<![\w@./])@([^\W_][\w-]{0,63}+)(?![.@]\w)")
_ENDINGS = "pdf|docx?|xlsx?|pptx?|od[tsp]|rtf|epub|csv|tsv|txt|md|png|jpe?g"
_FILE = re.compile(rf"(?<![\w/.@:-])([\w-][\w.-]{{0,100}}?\.(?:{_ENDINGS}))(?![A-Za-z0-9_/])", re.IGNORECASE)
LONGEST_TITLE = 120
_NO_ADDRESS = str.maketrans(dict.fromkeys("./:?@。．/：“”", " "))
"""Characters of a report's title in what is said of it."""


class BadOption(ValueError):
    """An option of /research that there is not, or a style. key: of Texts.research; value: what was typed."""

    def __init__(self, key: str, value: str) -> None:
        super().__init__(f"{key}: {value}")
        self.key = key
        self.value = value


def unavailable(settings: Settings) -> str:
    """Why there is no research here, a key of Texts.research; "" where there is."""
    if not settings.research.enabled:
        return "off"
    sources = settings.web.is_on or settings.knowledge.enabled or settings.research.tools.researcher
    return "" if sources else "no_web"


def asked(line: CommandLine | None) -> tuple[ResearchRequest, str] | None:
    """The research that a command asks for, and its question; None for any other command, and where it says nothing
    that the agent has to do. Raises BadOption."""
    if line is None or line.name != RESEARCH:
        return None
    words = line.arguments.strip()
    if words.lower() == RESUME:
        return ResearchRequest(resumes=True), words
    style, auto = "", False
    while words.startswith("--"):
        option, _, words = words.partition(" ")
        words = words.strip()
        if option == AUTO:
            auto = True
        elif option == STYLE:
            named, _, words = words.partition(" ")
            style, words = _style(named), words.strip()
        else:
            raise BadOption("bad_option", option)
    if not words or told_of(line) is not None:
        return None
    return ResearchRequest(style=style, auto=auto), words


def named_collections(text: str) -> tuple[str, ...]:
    """Collections of the knowledge that a text names, `@handbook`, whether they exist or not."""
    return tuple(dict.fromkeys(_COLLECTION.findall(text)))


def missing_files(text: str, names: Iterable[str]) -> tuple[str, ...]:
    """Files that a text names and that are none of these."""
    known = [" ".join(name.split()).casefold() for name in names]
    return tuple(
        dict.fromkeys(name for name in _FILE.findall(text) if not any(_is(name.casefold(), each) for each in known))
    )


def _is(said: str, name: str) -> bool:
    """Whether these words are a file's name, or the last of its words, or stand before it without a blank, as in
    Chinese."""
    return said == name or name.endswith(f" {said}") or (said.endswith(name) and not said[: -len(name)][-1:].isascii())


def told_of(line: CommandLine) -> tuple[str, str] | None:
    """What a use of the command tells or changes, as (verb, its argument); None where it asks a question. `style` with
    more than one word behind it begins a question."""
    verb, _, rest = line.arguments.strip().partition(" ")
    verb, rest = verb.lower(), rest.strip()
    if verb in (STATUS, LIST, EXPORT) and not rest:
        return verb, ""
    if verb == CHOSEN_STYLE and len(rest.split()) < 2:
        return verb, rest
    return None


def chosen_style(named: str) -> str | None:
    """The style that a conversation is to have, None for the settings'. Raises BadOption."""
    return None if named.lower() == DEFAULT else _style(named)


def _style(named: str) -> str:
    style = named.lower().replace("-", "_")
    if style not in set(Style):
        raise BadOption("bad_style", named)
    return style


def tried_again(ended: RunRow, known: ResearchView | None) -> RunRow | None:
    """The ended run as one that goes on with its research, where it left that in the middle: what is done of it is not
    thrown away because somebody tries again. known: the newest research of its thread."""
    if known is None or not known.can_resume or known.run_id != ended.run_id:
        return None
    return replace(ended, input=replace(ended.input, research=ResearchRequest(resumes=True), choice=""))


def said_of_offer(title: str, path: str) -> str:
    """A report, as a person would name it to the agent: by its file, where there is one. Its title was written by a
    model that has read what strangers wrote, and becomes a person's words here: no address is left in it."""
    if path:
        return path
    named = " ".join(title.translate(_NO_ADDRESS).split())[:LONGEST_TITLE]
    return f"“{named}”"


def choice(text: str) -> str:
    """Which answer to a plan a text is, in whichever language; "" for any other text."""
    said = " ".join(text.split()).casefold().rstrip(".!。！")
    for texts in LANGUAGES.values():
        for each in CHOICES:
            if said == unmarked(texts.research[each]).casefold():
                return each
    return ""
