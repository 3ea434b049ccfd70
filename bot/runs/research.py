"""Parses what people type about a research: `/research [--style STYLE] [--auto] QUESTION`, the verbs of the command,
and the answers to a plan. Pure."""

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
"""Names the style of the settings."""
STYLE, AUTO = "--style", "--auto"
CHOICES = ("start", "change", "stop")
MOST_FILES = 20
"""Most files received earlier in the thread that are listed to a research."""
_COLLECTION = re.compile(r"(?<![\w@./])@([^\W_][\w-]{0,63}+)(?![.@]\w)")
_ENDINGS = "pdf|docx?|xlsx?|pptx?|od[tsp]|rtf|epub|csv|tsv|txt|md|png|jpe?g"
_FILE = re.compile(rf"(?<![\w/.@:-])([\w-][\w.-]{{0,100}}?\.(?:{_ENDINGS}))(?![A-Za-z0-9_/])", re.IGNORECASE)
LONGEST_TITLE = 120
_NO_ADDRESS = str.maketrans(dict.fromkeys("./:?@。．/：“”", " "))
"""Removes the characters that make addresses and quotations from a report's title."""


class BadOption(ValueError):
    """An unknown option or style of /research. key: of Texts.research; value: what was typed."""

    def __init__(self, key: str, value: str) -> None:
        super().__init__(f"{key}: {value}")
        self.key = key
        self.value = value


def unavailable(settings: Settings) -> str:
    """Why research is unavailable here, as a key of Texts.research; "" if it is available."""
    if not settings.research.enabled:
        return "off"
    sources = settings.web.is_on or settings.knowledge.enabled or settings.research.tools.researcher
    return "" if sources else "no_web"


def asked(line: CommandLine | None) -> tuple[ResearchRequest, str] | None:
    """The research that a command asks for, and its question; None for any other command, and if the agent has nothing
    to do. Raises BadOption."""
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
    """Knowledge collections that a text names, such as `@handbook`, whether they exist or not."""
    return tuple(dict.fromkeys(_COLLECTION.findall(text)))


def missing_files(text: str, names: Iterable[str]) -> tuple[str, ...]:
    """Files that a text names but that are not among `names`."""
    known = [" ".join(name.split()).casefold() for name in names]
    return tuple(
        dict.fromkeys(name for name in _FILE.findall(text) if not any(_is(name.casefold(), each) for each in known))
    )


def _is(said: str, name: str) -> bool:
    """Whether the words are a file's name, or the last part of it after a space, or end with it after a non-ASCII
    character, as in Chinese."""
    return said == name or name.endswith(f" {said}") or (said.endswith(name) and not said[: -len(name)][-1:].isascii())


def told_of(line: CommandLine) -> tuple[str, str] | None:
    """The verb of a command that shows or changes something, as (verb, its argument); None if it asks a question.
    `style` followed by more than one word begins a question."""
    verb, _, rest = line.arguments.strip().partition(" ")
    verb, rest = verb.lower(), rest.strip()
    if verb in (STATUS, LIST, EXPORT) and not rest:
        return verb, ""
    if verb == CHOSEN_STYLE and len(rest.split()) < 2:
        return verb, rest
    return None


def chosen_style(named: str) -> str | None:
    """The style chosen for a conversation, None for that of the settings. Raises BadOption."""
    return None if named.lower() == DEFAULT else _style(named)


def _style(named: str) -> str:
    style = named.lower().replace("-", "_")
    if style not in set(Style):
        raise BadOption("bad_style", named)
    return style


def tried_again(ended: RunRow, known: ResearchView | None) -> RunRow | None:
    """The ended run as one that resumes its unfinished research, so that a retry does not discard completed work; None
    if it has none. known: the newest research of its thread."""
    if known is None or not known.can_resume or known.run_id != ended.run_id:
        return None
    return replace(ended, input=replace(ended.input, research=ResearchRequest(resumes=True), choice=""))


def said_of_offer(title: str, path: str) -> str:
    """A report's name in a message to the agent: its file, if there is one, else its title. The title comes from a
    model that has read untrusted text, and is used as a person's words here: it must not contain an address."""
    if path:
        return path
    named = " ".join(title.translate(_NO_ADDRESS).split())[:LONGEST_TITLE]
    return f"“{named}”"


def choice(text: str) -> str:
    """The answer to a plan that a text gives, in any supported language; "" for any other text."""
    said = " ".join(text.split()).casefold().rstrip(".!。！")
    for texts in LANGUAGES.values():
        for each in CHOICES:
            if said == unmarked(texts.research[each]).casefold():
                return each
    return ""
