"""What an editor and a mail program would object to; called by build_newsletter.py."""

from __future__ import annotations

import re
import sys
from datetime import date
from typing import TYPE_CHECKING, Any, NoReturn

from _letter import LINK, html_of

if TYPE_CHECKING:
    from collections.abc import Iterator

Issue = dict[str, Any]
NEEDED = ("name", "subject", "preview", "language", "sections", "sender", "unsubscribe")
KEYS = {*NEEDED, "issue", "intro", "outro"}
ITEM_KEYS = {"title", "text", "link", "link_text", "source", "date", "image", "image_alt"}
PLACEHOLDER = re.compile(r"«|\bTODO\b|\bTBD\b|lorem ipsum|https?://\.\.\.", re.IGNORECASE)
EMPTY_WORDS = re.compile(
    r"^(?:click here|here|read more|more|link|hier|mehr|weiterlesen|点击这里|更多)$", re.IGNORECASE
)
SHOUTING = re.compile(r"[A-ZÄÖÜ]{5,}|!{2,}|(?i:100 ?%|\bfree\b|\bgratis\b)|€€|\$\$|免费")
SUBJECT, PREVIEW, ITEM_WORDS, LARGEST = (15, 60), (35, 110), 110, 100_000
"""Characters; words; bytes, beyond which a large provider cuts a mail off."""


def stop(problem: str, fix: str) -> NoReturn:
    """Ends the script with one line that says what to do."""
    sys.exit(f"error: {problem}\n  fix: {fix}")


def items_of(issue: Issue) -> Iterator[tuple[str, dict[str, Any]]]:
    """All items, with where they are."""
    for section in issue["sections"]:
        for number, item in enumerate(section.get("items", []), 1):
            yield f"{section.get('title', '?')}, item {number}", item


def errors(issue: Issue) -> list[str]:
    """What must be mended."""
    missing = [f"{key} is missing" for key in NEEDED if not issue.get(key)]
    missing += [f"unknown key {key}" for key in sorted(set(issue) - KEYS)]
    if missing:
        return missing
    found = [f"{key} still says {hit[0]}" for key in KEYS if (hit := PLACEHOLDER.search(str(issue.get(key, ""))))]
    if not str(issue["unsubscribe"]).startswith(("https://", "mailto:")):
        found.append("unsubscribe is no https or mailto address")
    for section in issue["sections"]:
        if not section.get("title") or not section.get("items"):
            found.append("a section has no title or no items")
    for place, item in items_of(issue):
        found += [f"{place}: unknown key {key}" for key in sorted(set(item) - ITEM_KEYS)]
        found += [f"{place}: {key} is missing" for key in ("title", "text") if not item.get(key)]
        if item.get("link") and not (item.get("source") and item.get("date")):
            found.append(f"{place}: a link needs its source and date")
        if item.get("image") and not item.get("image_alt"):
            found.append(f"{place}: a picture needs image_alt: many readers block pictures")
        found += _links(place, item)
    return found


def _links(place: str, item: dict[str, Any]) -> Iterator[str]:
    links = [
        *([item["link"]] if item.get("link") else []),
        *(url for _, url in LINK.findall(str(item.get("text", "")))),
    ]
    links += [item["image"]] if item.get("image") else []
    for url in links:
        if not str(url).startswith("https://"):
            yield f"{place}: {url} is not https"


def warnings(issue: Issue) -> list[str]:
    """What should be looked at."""
    found = []
    for key, (least, most) in (("subject", SUBJECT), ("preview", PREVIEW)):
        if not least <= len(issue[key]) <= most:
            found.append(f"the {key} has {len(issue[key])} characters; {least} to {most} are shown well")
    if hit := SHOUTING.search(issue["subject"]):
        found.append(f"the subject shouts or sells ({hit[0]}): filters and readers dislike it")
    if issue["preview"].strip().casefold() == issue["subject"].strip().casefold():
        found.append("the preview repeats the subject: it is the second line of the headline")
    links: dict[str, str] = {}
    for place, item in items_of(issue):
        found += _item(place, item)
        link = item.get("link")
        if link in links:
            found.append(f"{place}: the same link as {links[link]}")
        elif link:
            links[link] = place
    if (size := len(html_of(issue).encode())) > LARGEST:
        found.append(f"the mail has {size // 1000} KB: beyond 100 it is cut off")
    if not issue.get("outro"):
        found.append("no outro: end with one thing that the reader can do")
    return found


def _item(place: str, item: dict[str, Any]) -> Iterator[str]:
    words = len(re.findall(r"\w+", item["text"]))
    if words > ITEM_WORDS:
        yield f"{place}: {words} words; {ITEM_WORDS} are enough, the link has the rest"
    if item.get("link") and EMPTY_WORDS.match(item.get("link_text", "").strip() or "link"):
        yield f"{place}: link_text should say what is behind it"
    for shown, _ in LINK.findall(item["text"]):
        if EMPTY_WORDS.match(shown.strip()):
            yield f"{place}: the link {shown!r} should say what is behind it"
    if item.get("date"):
        try:
            age = (date.today() - date.fromisoformat(item["date"])).days
        except ValueError:
            yield f"{place}: {item['date']!r} is no date (2026-07-01)"
        else:
            if age > 45:
                yield f"{place}: the source is {age} days old: is it still news?"
