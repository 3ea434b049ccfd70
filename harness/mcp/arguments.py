"""Names of a tool's arguments that some providers refuse, replaced by ones that all take, and put back for the call.

Pure; for definitions.py and tools.py. Anthropic refuses the whole request for one such name ("Property keys should
match pattern"), which would take away every other tool too; those of nested objects it lets pass.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST = 64
_FIT = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_OTHERS = re.compile(r"[^a-zA-Z0-9_.-]+")
_PLAIN = frozenset(
    [
        "type",
        "properties",
        "required",
        "additionalProperties",
        "description",
        "title",
        "$defs",
        "definitions",
        "$schema",
    ]
)
"""Keys of a schema beside which an argument can be renamed; others may speak of arguments by their names."""

Renamed = tuple[tuple[str, str], ...]
"""(name for the model, the server's own)."""


class Unfit(Exception):
    """An argument's name can neither stay nor be replaced; the text says which one and why."""


def fitted(schema: dict[str, Any]) -> tuple[dict[str, Any], Renamed]:
    """The schema of an object with names that every provider takes, and those that are others now. Raises Unfit."""
    own = schema.get("properties", {})
    unfit = [name for name in own if not _FIT.fullmatch(name)]
    if not unfit:
        return schema, ()
    if (others := sorted(set(schema) - _PLAIN)) or '"#/properties/' in json.dumps(schema):
        why = f"its schema has {others[0]}" if others else "its schema refers to arguments by their names"
        raise Unfit(f"the argument {unfit[0]!r} has a name that some models' providers refuse, and {why}")
    names = _new_names(own, unfit)
    changed = {names.get(name, name): _told(value, name, renamed=name in names) for name, value in own.items()}
    schema = {**schema, "properties": changed}
    if "required" in schema:
        required = schema["required"] if isinstance(schema["required"], list) else []
        schema["required"] = [names.get(name, name) for name in required if isinstance(name, str)]
    return schema, tuple((new, old) for old, new in names.items())


def given_back(arguments: Mapping[str, Any], renamed: Renamed) -> dict[str, Any]:
    """A call's arguments as the server has them."""
    names = dict(renamed)
    return {names.get(name, name): value for name, value in arguments.items()}


def _new_names(own: Mapping[str, Any], unfit: list[str]) -> dict[str, str]:
    taken, names = set(own) - set(unfit), {}
    for name in unfit:
        base = _OTHERS.sub("_", name).strip("_")[: LONGEST - 4] or "argument"
        new, number = base, 1
        while new in taken:
            number += 1
            new = f"{base}_{number}"
        taken.add(new)
        names[name] = new
    return names


def _told(value: Any, name: str, *, renamed: bool) -> Any:
    """The model reads what the server calls it."""
    if not renamed or not isinstance(value, dict):
        return value
    about = value.get("description", "")
    return {**value, "description": f"{name}: {about}" if about else name}
