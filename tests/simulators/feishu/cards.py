"""Cards: what their JSON shows, its elements, and the platform's checks of it."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tests.simulators.feishu.errors import FeishuError, card_failed
from tests.simulators.feishu.limits import CARD_BYTES, CARD_ELEMENTS, CARD_TABLES, STREAM_SECONDS

if TYPE_CHECKING:
    from tests.simulators.feishu.state import Message

Json = dict[str, Any]

ELEMENT_ID = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,19}")
TABLE_RULE = re.compile(r"\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*")
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
IMAGE = re.compile(r"!\[[^\]]*\]\(([^)\s]*)[^)]*\)")
# Elements that a person can act on; a press calls the app back.
INTERACTIVE = ("button", "select_static", "multi_select_static", "input", "checker", "overflow", "date_picker")


@dataclass
class Card:
    """A card: an entity of CardKit (card_id), or the content of one message.

    sequence: of the last operation. streaming_since: when streaming mode was switched on last, unix seconds.
    timed_out: a call already got the error that the stream had ended by itself.
    """

    app_id: str
    data: Json
    made: float
    card_id: str | None = None
    sequence: int = 0
    uuids: set[str] = field(default_factory=set)
    message: "Message | None" = None
    streaming_since: float = 0.0
    timed_out: bool = False

    @property
    def wants_streaming(self) -> bool:
        """Whether its config enables streaming, which the platform ends by itself after ten minutes."""
        return bool((self.data.get("config") or {}).get("streaming_mode"))

    def streaming(self, now: float) -> bool:
        """Whether content can be streamed into it now."""
        return self.wants_streaming and now - self.streaming_since < STREAM_SECONDS


def parse_card(text: str, refusal: FeishuError) -> Json:
    """The card as an object; raises the refusal for anything else."""
    try:
        data = json.loads(text)
    except ValueError:
        raise refusal from None
    if not isinstance(data, dict):
        raise refusal
    return data


def is_v2(data: Json) -> bool:
    """Whether it is written in card JSON 2.0."""
    return data.get("schema") == "2.0"


def size(data: Json) -> int:
    """Bytes of the card as JSON in UTF-8."""
    return len(json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))


def body(data: Json) -> list[Json]:
    """The list of top elements, of either version; it can be changed in place."""
    holder: Json = data.setdefault("body", {}) if is_v2(data) else data
    elements: list[Json] = holder.setdefault("elements", [])
    return elements


def walk(node: Any) -> Iterator[Json]:
    """Every element (object with a tag) in reading order, containers before their contents."""
    if isinstance(node, list):
        for item in node:
            yield from walk(item)
    elif isinstance(node, dict):
        if isinstance(node.get("tag"), str):
            yield node
        for name, value in node.items():
            if name not in ("value", "behaviors"):
                yield from walk(value)


def find(data: Json, element_id: str) -> tuple[list[Json], int] | None:
    """The list that holds an element, and its position there."""
    return _find(data.get("header"), element_id) or _find(body(data), element_id)


def _find(node: Any, element_id: str) -> tuple[list[Json], int] | None:
    if isinstance(node, list):
        for position, item in enumerate(node):
            if isinstance(item, dict) and item.get("element_id") == element_id:
                return node, position
    children = node if isinstance(node, list) else node.values() if isinstance(node, dict) else ()
    return next((found for child in children if (found := _find(child, element_id)) is not None), None)


def check_entity(data: Json, image_known: Any) -> None:
    """Run CardKit's checks of a whole card; raises FeishuError. image_known: whether an image key is valid."""
    if not data:
        raise FeishuError(300307, "The card DSL is empty")
    if not is_v2(data):
        raise FeishuError(300303, "Only schema 2.0 is supported")
    if (data.get("config") or {}).get("update_multi") is False:
        raise FeishuError(300302, "update_multi property is false")
    check_elements(data, FeishuError(200220, "Failed to generate card content"))
    if size(data) > CARD_BYTES:
        raise FeishuError(200860, "Card content exceeds limit.")
    check_content(data, image_known)


def check_elements(data: Json, malformed: FeishuError) -> None:
    """Check the ids and the number of elements; raises FeishuError."""
    top: list[Any] = list(body(data))
    if not all(isinstance(element, dict) and isinstance(element.get("tag"), str) for element in top):
        raise malformed
    elements = list(walk(data))
    ids = [element["element_id"] for element in elements if "element_id" in element]
    if bad := [name for name in ids if not ELEMENT_ID.fullmatch(str(name))]:
        raise FeishuError(200220, f"Failed to generate card content, invalid element_id {bad[0]}")
    if len(set(ids)) < len(ids):
        raise FeishuError(300301, "Duplicate element_id in card component.")
    if len(elements) > CARD_ELEMENTS:
        raise FeishuError(300305, "The number of card components exceeds 200")


def check_content(data: Json, image_known: Any) -> None:
    """Check tables and images of all texts; raises FeishuError 230099 with the card service's own code."""
    tables = sum(element["tag"] == "table" for element in walk(data))
    texts = [str(element["content"]) for element in walk(data) if element["tag"] in ("markdown", "lark_md")]
    if tables + sum(count_tables(text) for text in texts) > CARD_TABLES:
        raise card_failed(11310, "card table number over limit")
    keys = [str(element.get("img_key")) for element in walk(data) if element["tag"] == "img"]
    keys += [key for text in texts for key in IMAGE.findall(without_code(text))]
    if bad := [key for key in keys if not image_known(key)]:
        raise card_failed(200570, f"card contains invalid image keys: {bad[0]}")


def without_code(text: str) -> str:
    """Markdown without its fenced code blocks; an unclosed fence reaches to the end."""
    kept: list[str] = []
    fence = ""
    for line in text.split("\n"):
        mark = FENCE.fullmatch(line)
        if fence:
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
        elif mark and not (mark[1][0] == "`" and "`" in mark[2]):
            fence = mark[1]
        else:
            kept.append(line)
    return "\n".join(kept)


def count_tables(text: str) -> int:
    """Number of Markdown tables in a text: a line with a bar, then a line of dashes and bars."""
    lines = without_code(text).split("\n")
    return sum(
        "|" in head and "|" in rule and TABLE_RULE.fullmatch(rule) is not None and not TABLE_RULE.fullmatch(head)
        for head, rule in pairwise(lines)
    )


def shown_text(data: Json) -> str:
    """The text that a person reads: header, then all texts, without the labels of interactive elements."""
    title = (data.get("header") or {}).get("title") or {}
    return "\n".join([str(title["content"])] if title.get("content") else []) + _joined(body(data), bool(title))


def _joined(elements: list[Json], after_title: bool) -> str:
    texts = [text for element in elements for text in _texts(element)]
    return ("\n" if after_title and texts else "") + "\n".join(texts)


def _texts(element: Json) -> Iterator[str]:
    tag = element.get("tag")
    if tag in ("markdown", "lark_md", "plain_text"):
        yield str(element.get("content", ""))
    elif tag == "hr":
        yield "---"
    elif tag == "img":
        yield f"[image {element.get('img_key')}]"
    elif tag not in INTERACTIVE:
        for name in ("text", "header", "title", "fields", "elements", "columns", "rows"):
            child = element.get(name)
            for item in child if isinstance(child, list) else [child]:
                if isinstance(item, dict):
                    yield from _texts(item)


def buttons(data: Json) -> list[Json]:
    """The interactive elements, in reading order: {tag, text, name, element_id, value, disabled, url, options}."""
    return [_button(element) for element in walk(body(data)) if element["tag"] in INTERACTIVE]


def _button(element: Json) -> Json:
    behaviors = element.get("behaviors") or []
    callback = next((behavior.get("value") for behavior in behaviors if behavior.get("type") == "callback"), None)
    url = next((behavior.get("default_url") for behavior in behaviors if behavior.get("type") == "open_url"), None)
    return {
        "tag": element["tag"],
        "text": str((element.get("text") or element.get("placeholder") or {}).get("content", "")),
        "name": element.get("name"),
        "element_id": element.get("element_id"),
        "value": callback if callback is not None else element.get("value"),
        "disabled": bool(element.get("disabled")),
        "url": url or element.get("url"),
        "options": [option.get("value") for option in element.get("options") or ()],
    }


def summary(data: Json) -> str:
    """The line that the list of chats shows for it."""
    return str(((data.get("config") or {}).get("summary") or {}).get("content", ""))
