"""What the documentation names is there: pages and their headings, commands and their options, keys of the config."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

import typer
import yaml
from markdown_it import MarkdownIt

from bot.__main__ import app
from bot.access.pairing import frame
from bot.commands.table import ALIASES
from bot.texts import texts_for
from channels.base import ChatLink
from harness.models.tour_texts import first_screen
from tests import configuration
from tests.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from markdown_it.token import Token

ROOT = configuration.ROOT
PAGES = sorted([*ROOT.glob("README*.md"), *(ROOT / "docs").rglob("*.md")])
BOT_FATHERS = {"revoke", "mybots", "newbot", "setcommands", "setjoingroups", "setprivacy"}
NOT_OURS = BOT_FATHERS | {
    "api",
    "invite",
    "bot",
    "config",
    "data",
    "healthz",
    "metrics",
    "proc",
    "readyz",
    "sys",
    "tmp",
}
"""Slack has a command of its own too; the others are paths."""
COMMAND = r"(?:^|[\s/$(])(?<!--name )(?<!-u )(?<!-n )(?<!deployment )(?<!deployment/)"
"""What stands before the command `antler`, and not before a user, a container or an object of that name."""


@cache
def tokens(page: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8"))


def inline(page: Path, kind: str) -> Iterator[Token]:
    for token in tokens(page):
        yield from (child for child in token.children or () if child.type == kind)


def code(page: Path) -> list[str]:
    """Its spans of code, and the lines of its blocks."""
    blocks = (token.content for token in tokens(page) if token.type == "fence")
    lines = (line for block in blocks for line in block.splitlines())
    return [*(span.content for span in inline(page, "code_inline")), *lines]


@cache
def anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub makes them."""
    heads = [tokens(page)[at + 1].content for at, token in enumerate(tokens(page)) if token.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_the_reference_is_that_of_the_settings() -> None:
    assert configuration.PAGE.read_text(encoding="utf-8") == configuration.page(), "python -m tests.configuration"


@table("page", PAGES)
def test_a_link_leads_somewhere(page: Path) -> None:
    links = [str(token.attrs["href"]) for token in inline(page, "link_open")]
    for link in [*links, *(str(token.attrs["src"]) for token in inline(page, "image"))]:
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{page.name}: {link}"
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there), f"{page.name}: {link}"


def test_the_index_leads_to_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {str(token.attrs["href"]).partition("#")[0] for token in inline(index, "link_open")}
    assert {page.name for page in index.parent.glob("*.md")} - linked == {index.name}


@cache
def command_line() -> Any:
    return typer.main.get_command(app)


@table("page", PAGES)
def test_a_command_of_the_command_line_is_one(page: Path) -> None:
    for line in code(page):
        for words in re.findall(rf"{COMMAND}antler (?:antler )?((?:[a-z][a-z-]*\b ?)*)([^`|;&]*)", line):
            check_command(page, words[0].split(), words[1])


def check_command(page: Path, words: list[str], rest: str) -> None:
    command = command_line()
    for word in words:
        if not hasattr(command, "commands"):
            break  # an argument
        assert word in command.commands, f"{page.name}: antler {' '.join(words)}"
        command = command.commands[word]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", rest):
        assert option in known | {"--help"}, f"{page.name}: antler {' '.join(words)} {option}"


@table("page", PAGES)
def test_a_command_of_the_chat_is_one(page: Path) -> None:
    texts = texts_for("en")
    skills = {folder.name for folder in (ROOT / "skills" / "public").iterdir()}
    known = {*texts.command_menu, *texts.admin_menu, *ALIASES, "start", "claim", "web", *NOT_OURS, *skills}
    for span in inline(page, "code_inline"):
        if found := re.fullmatch(r"/([a-z]+)(?: [^/]*)?", span.content):
            assert found[1] in known, f"{page.name}: {span.content}"


@table("page", PAGES)
def test_a_key_of_the_config_is_one(page: Path) -> None:
    for span in inline(page, "code_inline"):
        if (path := re.fullmatch(r"([a-z_]+)((?:\.[a-z_]+|\[\])+)", span.content)) and is_section(path[1]):
            assert is_key(span.content), f"{page.name}: {span.content}"
    for config in configs(page):
        for key in keys_of(config):
            assert is_key(key), f"{page.name}: {key}"


def shown(page: Path, words: str) -> list[str]:
    """The lines of the page's block that holds these words, without what is said behind ◀."""
    (block,) = [token.content for token in tokens(page) if token.type == "fence" and words in token.content]
    return [line.partition("◀")[0].rstrip() for line in block.splitlines()]


def test_the_terminal_shows_the_list_that_the_page_shows() -> None:
    page = ROOT / "docs" / "terminal.md"
    assert shown(page, "Antler, without a config.yaml") == first_screen("en").splitlines()


def test_init_asks_and_says_what_the_page_shows() -> None:
    texts = texts_for("en")
    known = [*texts.setup.values(), *texts.setup_guides.values(), *texts.setup_labels.values()]
    forms = [re.sub(r"\\{\w+\\}", ".*", re.escape(text)) for text in known]
    lines = [line.removeprefix("? ") for line in shown(ROOT / "docs" / "start.md", "This sets Antler up")]
    assert len(lines) > 20
    for line in filter(None, lines):
        assert line.startswith(" » ") or any(re.match(form, line) for form in forms), line


def test_the_claim_code_is_shown_as_the_page_shows_it() -> None:
    def link(account: str, code: str) -> ChatLink:
        return ChatLink(url=f"https://t.me/acme_antler_bot?start={code}", says=account == "telegram")

    printed = frame([("telegram", "7QKM2RXT9WBN")], link, drawn=False)
    assert shown(ROOT / "docs" / "start.md", "no administrator yet") == printed.strip().splitlines()


@table("page", sorted((ROOT / "docs").glob("setup-*.md")))
def test_the_pages_of_the_platforms_draw_what_antler_says(page: Path) -> None:
    texts, drawn = texts_for("en"), page.read_text(encoding="utf-8")
    claimed, asked = texts.claimed.partition("\n")[0], texts.group_ask["any"].partition("`")[0]
    for words in (claimed, asked, f"[ {texts.group_allow} ]  [ {texts.group_cancel} ]"):
        assert words in drawn, f"{page.name}: {words}"


def configs(page: Path) -> Iterator[dict[str, Any]]:
    """Its examples of Antler's config: not those of other files, nor what is cut out of a section."""
    for block in tokens(page):
        if block.type == "fence" and block.info.strip() == "yaml" and not block.content.startswith(" "):
            for found in yaml.safe_load_all(block.content):
                if isinstance(found, dict) and all(map(is_section, found)):
                    yield found


def is_section(name: str) -> bool:
    return any(path == name for path in configuration.paths())


@cache
def patterns() -> re.Pattern[str]:
    """Of all paths, and of their beginnings; below some keys stand names and values of people's own."""
    known: set[str] = set()
    for path, field in configuration.paths().items():
        forms = [re.escape(step).replace(r"\[\]", r"(?:\[\d*\])?") for step in re.split(r"(?=[.\[])", path)]
        forms = [form.replace(configuration.NAME, r"[\w*-]+") for form in forms]
        known |= {"".join(forms[:length]) for length in range(1, len(forms) + 1)}
        inside = {"list": r"\[\]", "text | list": r"(?:\[\])?", "keys and values": r"\..+"}
        known.add("".join(forms) + inside.get(configuration.takes(field), ""))
    return re.compile("|".join(known))


def is_key(path: str) -> bool:
    return patterns().fullmatch(path) is not None


def keys_of(value: Any, above: str = "") -> Iterator[str]:
    """The paths of a config's keys."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from keys_of(inner, f"{above}.{key}" if above else str(key))
    elif isinstance(value, list):
        for inner in value:
            yield from keys_of(inner, f"{above}[]")
    else:
        yield above
