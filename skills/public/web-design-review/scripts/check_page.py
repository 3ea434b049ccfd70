"""Checks a page's HTML and CSS without a browser: check_page.py page.html [style.css ...]. Exit code 1: errors."""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bs4 import BeautifulSoup
from styles import LARGE, TEXT, Rule, colour, contrast, pixels, rules

if TYPE_CHECKING:
    from collections.abc import Iterator

Found = tuple[str, str]
"""Level ("error": people are shut out, "warning": worth a look) and text."""
SMALLEST, WIDEST = 12.0, 400.0
HEAVY = 1_500_000
EMPTY_WORDS = {"click here", "here", "more", "read more", "link", "hier", "mehr", "weiter", "点击这里", "更多"}
FIELDS = ("text", "email", "password", "search", "tel", "url", "number", "date", "checkbox", "radio", "file", "")
SHOWN = 60


def findings(page: BeautifulSoup, text: str) -> Iterator[Found]:
    """All there is to say. text: the CSS."""
    css = rules(text)
    yield from _head(page)
    yield from _headings(page)
    yield from _pictures(page)
    yield from _controls(page)
    yield from _links(page)
    yield from _structure(page)
    yield from _colours(css)
    yield from _sizes(css)
    yield from _behaviour(page, css, text)


def _short(tag: Any) -> str:
    text = " ".join(str(tag).split())
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def _head(page: BeautifulSoup) -> Iterator[Found]:
    root = page.find("html")
    if root is None or not root.get("lang"):
        yield "error", "<html> has no lang: screen readers read it in the wrong language"
    if page.title is None or not page.title.get_text(strip=True):
        yield "error", "has no <title>"
    viewport = page.find("meta", attrs={"name": "viewport"})
    if viewport is None:
        yield "error", "has no viewport meta: phones show it tiny"
    elif re.search(r"user-scalable\s*=\s*(?:no|0)|maximum-scale\s*=\s*1\b", str(viewport.get("content", ""))):
        yield "error", "forbids zooming (viewport)"


def _headings(page: BeautifulSoup) -> Iterator[Found]:
    levels = [(int(tag.name[1]), tag) for tag in page.find_all(re.compile(r"^h[1-6]$"))]
    firsts = sum(level == 1 for level, _ in levels)
    if firsts != 1:
        yield "warning", f"has {firsts} <h1>; one says what the page is"
    last = 0
    for level, tag in levels:
        if last and level > last + 1:
            yield "warning", f"jumps from h{last} to h{level}: {_short(tag)}"
        if not tag.get_text(strip=True) and not tag.find("img", alt=True):
            yield "error", f"an empty heading: {_short(tag)}"
        last = level


def _pictures(page: BeautifulSoup) -> Iterator[Found]:
    for tag in page.find_all("img"):
        if not tag.has_attr("alt"):
            yield "error", f'no alt (alt="" if it only decorates): {_short(tag)}'
        if not (tag.get("width") and tag.get("height")) and "aspect-ratio" not in str(tag.get("style", "")):
            yield "warning", f"without width and height the page jumps while it loads: {_short(tag)}"
    for tag in page.find_all("svg"):
        named = tag.get("aria-label") or tag.get("aria-labelledby") or tag.find("title")
        if not named and tag.get("aria-hidden") != "true" and tag.get("role") != "presentation":
            yield "warning", f'an svg without a name: <title> in it, or aria-hidden="true": {_short(tag)}'


def _name(tag: Any) -> str:
    inner = tag.get_text(" ", strip=True) or " ".join(str(each.get("alt", "")) for each in tag.find_all("img"))
    return str(tag.get("aria-label") or tag.get("aria-labelledby") or tag.get("title") or inner).strip()


def _controls(page: BeautifulSoup) -> Iterator[Found]:
    targets = {tag.get("for") for tag in page.find_all("label")}
    for tag in page.find_all(["input", "select", "textarea"]):
        if tag.name == "input" and str(tag.get("type", "")).lower() not in FIELDS:
            continue
        labelled = tag.get("id") in targets - {None} or tag.find_parent("label") is not None
        if not labelled and not tag.get("aria-label") and not tag.get("aria-labelledby"):
            yield "error", f"a field without a label (a placeholder is none): {_short(tag)}"
    for tag in page.find_all("button"):
        if not _name(tag):
            yield "error", f"a button without a name: {_short(tag)}"
    for tag in page.find_all(["div", "span"], onclick=True):
        if not tag.get("role") or not tag.has_attr("tabindex"):
            yield "error", f"cannot be reached by keyboard; use <button>: {_short(tag)}"


def _links(page: BeautifulSoup) -> Iterator[Found]:
    for tag in page.find_all("a"):
        name = _name(tag)
        if not tag.has_attr("href"):
            yield "warning", f"a link without href is no link: {_short(tag)}"
        elif not name:
            yield "error", f"a link without a name: {_short(tag)}"
        elif name.lower() in EMPTY_WORDS:
            yield "warning", f'"{name}" does not say where it leads: {_short(tag)}'
        target = str(tag.get("href", ""))
        if target.startswith("#") and len(target) > 1 and page.find(id=target[1:]) is None:
            yield "error", f"leads nowhere: {_short(tag)}"


def _structure(page: BeautifulSoup) -> Iterator[Found]:
    twice = [name for name, count in Counter(tag["id"] for tag in page.find_all(id=True)).items() if count > 1]
    if twice:
        yield "error", f"ids that stand there twice: {', '.join(map(str, twice[:5]))}"
    if page.find("main") is None and page.find(attrs={"role": "main"}) is None:
        yield "warning", "has no <main>"
    for tag in page.find_all("table"):
        if tag.find("th") is None:
            yield "warning", f"a table without <th>: {_short(tag)}"
    for tag in page.find_all(tabindex=re.compile(r"^[1-9]")):
        yield "warning", f"tabindex above 0 breaks the order of the keyboard: {_short(tag)}"
    for tag in page.find_all(["video", "audio"], autoplay=True):
        if not tag.has_attr("muted"):
            yield "error", f"plays by itself with sound: {_short(tag)}"


def _colours(css: list[Rule]) -> Iterator[Found]:
    """Of rules that set both; else against the page's own ground."""
    body = next(
        (rule.values for rule in css if rule.selector in ("body", ":root", "html") and "color" in rule.values), {}
    )
    ground = colour(body.get("background-color") or body.get("background") or "white")
    for rule in css:
        text = colour(rule.values.get("color", ""))
        own = rule.values.get("background-color") or rule.values.get("background")
        behind = colour(own) if own else ground
        if text is None or behind is None:
            continue
        size = pixels(rule.values.get("font-size", "")) or 16
        has, least = contrast(text, behind), LARGE if size >= 24 else TEXT
        if has < least:
            known = "" if own else ", on the page's ground"
            yield (
                ("error" if own or has < LARGE else "warning"),
                (f"contrast {has:.1f}:1, needs {least}:1{known}: {rule.selector}"),
            )


def _sizes(css: list[Rule]) -> Iterator[Found]:
    for rule in css:
        size = pixels(rule.values.get("font-size", ""))
        if size is not None and size < SMALLEST:
            yield "warning", f"text of {size:g} pixels: {rule.selector}"
        for key in ("width", "min-width"):
            wide = pixels(rule.values.get(key, "")) if rule.values.get(key, "").endswith("px") else None
            if wide is not None and wide > WIDEST:
                yield "warning", f"{key} {wide:g}px does not fit on a phone: {rule.selector}"
    if not any("max-width" in rule.values for rule in css) and css:
        yield "warning", "no max-width: lines get too long to read on wide screens (45 to 75 characters are good)"


def _behaviour(page: BeautifulSoup, css: list[Rule], text: str) -> Iterator[Found]:
    hidden = [r for r in css if r.values.get("outline", "") in ("none", "0") and "focus" in r.selector]
    if hidden and not any("focus-visible" in rule.selector for rule in css if rule not in hidden):
        yield "error", f"takes the focus ring away and gives no other: {hidden[0].selector}"
    moving = any(key in rule.values for rule in css for key in ("animation", "transition"))
    if moving and "prefers-reduced-motion" not in text:
        yield "warning", "moves, and does not ask for prefers-reduced-motion"
    outside = sorted(
        {
            str(tag.get("src") or tag.get("href"))
            for tag in page.find_all(["script", "link", "img"])
            if str(tag.get("src") or tag.get("href") or "").startswith(("http:", "https:", "//"))
        }
    )
    if outside:
        yield "warning", f"loads {len(outside)} things from elsewhere (speed, privacy): {', '.join(outside[:3])[:120]}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks HTML and CSS: access, structure, contrast, phones, weight.")
    parser.add_argument("page", type=Path, help="the .html")
    parser.add_argument("styles", type=Path, nargs="*", help="its .css files, where they are apart")
    options = parser.parse_args()
    for path in (options.page, *options.styles):
        if not path.is_file():
            print(f"{path} does not exist", file=sys.stderr)
            return 2
    page = BeautifulSoup(options.page.read_bytes(), "html.parser")
    css = "\n".join(
        [*(tag.get_text() for tag in page.find_all("style")), *(p.read_text("utf-8") for p in options.styles)]
    )
    found = list(findings(page, css))
    size = options.page.stat().st_size
    if size > HEAVY:
        found.append(("warning", f"weighs {size / 1e6:.1f} MB: pictures smaller, or apart"))
    for level, text in sorted(dict.fromkeys(found), key=lambda each: each[0] != "error"):
        print(f"{level}: {text}")
    errors = sum(level == "error" for level, _ in dict.fromkeys(found))
    print(f"{errors} errors, {len(dict.fromkeys(found)) - errors} warnings.")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
