"""Rich text blocks -> Markdown. Pure. What people type arrives as such blocks, more exactly than in the `text`.

Source: Block Kit reference, "Rich text block". Called by reading.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from channels.slack.mrkdwn import link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Json = Mapping[str, Any]

_MARKS = (("code", "`"), ("strike", "~~"), ("italic", "*"), ("bold", "**"))
"""Innermost first."""


def markdown(blocks: Sequence[Json], mention: Callable[[str], str]) -> str | None:
    """The text of all rich text blocks; None when there are none. mention: what to write for a person's id."""
    parts = [part for block in blocks if block.get("type") == "rich_text" for part in _objects(block.get("elements"))]
    if not any(block.get("type") == "rich_text" for block in blocks):
        return None
    text = ""
    for part in parts:
        shown = _part(part, mention)
        if text and shown and not text.endswith("\n") and (part.get("type") != "rich_text_section" or _is_block(text)):
            text += "\n"
        text += shown
    return text.strip("\n")


def _is_block(text: str) -> bool:
    """Whether the last line belongs to a list, quote or code block, below which a section begins anew."""
    last = text[text.rfind("\n") + 1 :].lstrip()
    return last.startswith((">", "- ", "```")) or last.partition(". ")[0].isdigit()


def _part(part: Json, mention: Callable[[str], str]) -> str:
    elements = _objects(part.get("elements"))
    match part.get("type"):
        case "rich_text_section":
            return _inline(elements, mention)
        case "rich_text_quote":
            return "\n".join(f"> {line}" for line in _inline(elements, mention).strip("\n").split("\n"))
        case "rich_text_preformatted":
            code = "".join(_plain(element) for element in elements).strip("\n")
            fence = "```" if "```" not in code else "````"
            return f"{fence}\n{code}\n{fence}"
        case "rich_text_list":
            return _list(part, elements, mention)
    return ""


def _list(part: Json, items: Sequence[Json], mention: Callable[[str], str]) -> str:
    indent = "    " * _number(part.get("indent"))
    first = _number(part.get("offset")) + 1
    ordered = part.get("style") == "ordered"
    lines = []
    for number, item in enumerate(items, first):
        mark = f"{number}." if ordered else "-"
        text = _inline(_objects(item.get("elements")), mention).strip("\n")
        lines.append(f"{indent}{mark} " + text.replace("\n", f"\n{indent}  "))
    return "\n".join(lines)


def _inline(elements: Iterable[Json], mention: Callable[[str], str]) -> str:
    return "".join(_element(element, mention) for element in elements)


def _element(element: Json, mention: Callable[[str], str]) -> str:
    match element.get("type"):
        case "text":
            return _styled(_plain(element), element.get("style"))
        case "link":
            return link(_string(element, "url"), _string(element, "text"))
        case "user":
            return mention(_string(element, "user_id"))
        case "channel":
            return f"#{_string(element, 'channel_id')}"
        case "usergroup":
            return f"@{_string(element, 'usergroup_id')}"
        case "broadcast":
            return f"@{_string(element, 'range')}"
        case "emoji":
            return _emoji(element)
        case "date":
            return _string(element, "fallback")
    return _plain(element)


def _plain(element: Json) -> str:
    return _string(element, "text") or _string(element, "value") or _string(element, "url")


def _styled(text: str, style: object) -> str:
    """Marks around the words, white space left outside, where Markdown would not see them as marks."""
    words = text.strip()
    if not isinstance(style, dict) or not words:
        return text
    before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    for name, mark in _MARKS:
        if style.get(name) is True:
            words = f"{mark}{words}{mark}"
    return before + words + after


def _emoji(element: Json) -> str:
    points = _string(element, "unicode")
    try:
        return (
            "".join(chr(int(point, 16)) for point in points.split("-")) if points else f":{_string(element, 'name')}:"
        )
    except (ValueError, OverflowError):
        return f":{_string(element, 'name')}:"


def _objects(value: object) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _string(element: Json, name: str) -> str:
    value = element.get(name)
    return value.replace("\0", "") if isinstance(value, str) else ""


def _number(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value <= 1000 else 0
