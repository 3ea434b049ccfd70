"""What a tool's schema refers to within itself, before it is believed: LangChain puts all of that in place for every
request, so a small schema could become gigabytes, and one reference to nothing would break every call of the model.
Pure; used by definitions.py."""

from __future__ import annotations

from typing import Any

MOST_PARTS, DEEPEST = 20_000, 100
"""Of the schema in which everything stands where it is referred to."""


def problem(schema: dict[str, Any]) -> str:
    """Why the references cannot be followed; "" when they can. A circle is none: it is broken where it closes."""
    try:
        _Walk(schema).visit(schema, frozenset(), 0)
    except _Bad as bad:
        return str(bad)
    return ""


class _Bad(Exception):
    """The text goes behind "the schema of its arguments"."""


class _Walk:
    """As langchain_core.utils.json_schema.dereference_refs goes, but with a count."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        self._left = MOST_PARTS

    def visit(self, node: Any, within: frozenset[str], depth: int) -> None:
        self._left -= 1
        if self._left < 0 or depth > DEEPEST:
            raise _Bad("is too large once its references are followed")
        if isinstance(node, list):
            parts = node
        elif isinstance(node, dict):
            parts = [value for key, value in node.items() if key not in ("$ref", "$defs")]
            if "$ref" in node and (name := self._name(node["$ref"])) not in within:
                self.visit(self._target(name), within | {name}, depth + 1)
        else:
            return
        for part in parts:
            self.visit(part, within, depth + 1)

    def _name(self, reference: Any) -> str:
        """Also of what only looks like a reference: an argument called $ref."""
        if not isinstance(reference, str):
            raise _Bad("has a reference that is none")
        return reference

    def _target(self, name: str) -> Any:
        root, *steps = name.split("/")
        found: Any = self._schema
        for step in steps:
            found = found.get(step) if isinstance(found, dict) else None
        if root != "#" or not isinstance(found, dict):
            raise _Bad("refers to something that it has not")
        return found
