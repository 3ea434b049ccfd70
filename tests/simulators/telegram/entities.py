"""Text rules of the Bot API: cleaning, length in UTF-16 units, and the validity of message entities.

Stricter than the real server on purpose: it repairs overlapping entities silently, this one refuses them with a 400,
so that a renderer's mistake fails a test (rules: Bot API "Formatting options").
"""

import re
from typing import Any

from tests.simulators.telegram.errors import bad_request

Entity = dict[str, Any]

MAX_HONOURED_ENTITIES = 100
COMBINABLE = frozenset({"bold", "italic", "underline", "strikethrough", "spoiler"})
QUOTES = frozenset({"blockquote", "expandable_blockquote"})
CODE = frozenset({"code", "pre"})
EXCLUSIVE = frozenset(
    {"text_link", "text_mention", "custom_emoji", "date_time"}
    | {"mention", "hashtag", "cashtag", "bot_command", "url", "email", "phone_number"}
)
ENTITY_TYPES = COMBINABLE | QUOTES | CODE | EXCLUSIVE

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f]")
# Invisible characters; a text of nothing else counts as empty.
_INVISIBLE = re.compile(r"[\s\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2800\ufeff\ufffc]*")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_MENTION_OR_COMMAND = re.compile(r"(?<![\w@/])(?:@[A-Za-z]\w{2,31}|/[A-Za-z0-9_]{1,64}(?:@\w{3,32})?)\b")


def utf16_length(text: str) -> int:
    """Length in UTF-16 code units, the Bot API's measure."""
    return len(text) + sum(1 for char in text if char > "\uffff")


def is_blank(text: str) -> bool:
    """Whether a person would see nothing at all."""
    return _INVISIBLE.fullmatch(text) is not None


def clean(text: str, entities: list[Entity]) -> tuple[str, list[Entity]]:
    """The text and entities as the server stores them; raises ApiError 400 if it would refuse them."""
    if _SURROGATE.search(text):
        raise bad_request("strings must be encoded in UTF-8")
    text = _CONTROL.sub(" ", text)
    _check_shapes(entities)
    ordered = sorted(entities, key=lambda entity: (entity["offset"], -entity["length"]))
    _check_bounds(text, ordered)
    ordered = ordered[:MAX_HONOURED_ENTITIES]
    _check_nesting(ordered)
    return _trim(text, ordered)


def detected(text: str) -> list[Entity]:
    """The mentions and bot commands that the server itself finds in a person's text."""
    return [
        {
            "type": "mention" if match[0].startswith("@") else "bot_command",
            "offset": utf16_length(text[: match.start()]),
            "length": utf16_length(match[0]),
        }
        for match in _MENTION_OR_COMMAND.finditer(text)
    ]


def _check_shapes(entities: list[Entity]) -> None:
    for entity in entities:
        kind = entity.get("type")
        if kind not in ENTITY_TYPES:
            raise bad_request(f"can't parse MessageEntity: unsupported type {kind!r}")
        for field in ("offset", "length"):
            if not isinstance(entity.get(field), int) or entity[field] < 0:
                raise bad_request(f"receive an entity with incorrect {field} {entity.get(field)}")
        if entity["length"] == 0:
            raise bad_request("receive an entity with incorrect length 0")
        if kind == "text_link" and not entity.get("url"):
            raise bad_request("can't parse MessageEntity: can't find field url")
        if kind == "text_mention" and not entity.get("user"):
            raise bad_request("can't parse MessageEntity: can't find field user")


def _check_bounds(text: str, entities: list[Entity]) -> None:
    length = utf16_length(text)
    inside = _second_halves(text) if length != len(text) else frozenset()
    for entity in entities:
        start, end = entity["offset"], entity["offset"] + entity["length"]
        if start >= length:
            raise bad_request(f"entity begins after the end of the text at UTF-16 offset {start}")
        if end > length:
            raise bad_request(
                f"entity beginning at UTF-16 offset {start} ends after the end of the text at UTF-16 offset {end}"
            )
        if start in inside:
            raise bad_request(f"entity begins in a middle of a UTF-16 symbol at UTF-16 offset {start}")
        if end in inside:
            raise bad_request(
                f"entity beginning at UTF-16 offset {start} ends in a middle of a UTF-16 symbol at UTF-16 offset {end}"
            )


def _second_halves(text: str) -> frozenset[int]:
    """UTF-16 offsets that lie between the two halves of a surrogate pair."""
    offsets: list[int] = []
    position = 0
    for char in text:
        if char > "\uffff":
            offsets.append(position + 1)
            position += 1
        position += 1
    return frozenset(offsets)


def _check_nesting(ordered: list[Entity]) -> None:
    open_entities: list[Entity] = []
    for entity in ordered:
        start, end = entity["offset"], entity["offset"] + entity["length"]
        while open_entities and open_entities[-1]["offset"] + open_entities[-1]["length"] <= start:
            open_entities.pop()
        for outer in open_entities:
            if outer["offset"] + outer["length"] < end:
                raise bad_request(f"entity at UTF-16 offset {start} overlaps the one at {outer['offset']}")
            if not _may_contain(outer["type"], entity["type"]):
                raise bad_request(f"entity {outer['type']} can't contain {entity['type']} at UTF-16 offset {start}")
        open_entities.append(entity)


def _may_contain(outer: str, inner: str) -> bool:
    """Whether an entity may be nested in another (Bot API, "Formatting options")."""
    if outer in CODE or inner in CODE:
        # Code inside a quotation is the one nesting that clients show and the server keeps.
        return outer in QUOTES and inner in CODE
    if outer in QUOTES and inner in QUOTES:
        return False
    return outer in COMBINABLE or inner in COMBINABLE or outer in QUOTES


def _trim(text: str, ordered: list[Entity]) -> tuple[str, list[Entity]]:
    """Drop white space at both ends; on the left only up to the first entity, as the server does."""
    kept = text.rstrip(" \n\t")
    limit = ordered[0]["offset"] if ordered else len(kept)
    lead = 0
    while lead < len(kept) and lead < limit and kept[lead] in " \n\t":
        lead += 1
    kept = kept[lead:]
    length = utf16_length(kept)
    trimmed: list[Entity] = []
    for entity in ordered:
        start = entity["offset"] - lead
        if start < length:
            trimmed.append({**entity, "offset": start, "length": min(entity["length"], length - start)})
    return kept, trimmed
