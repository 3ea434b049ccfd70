"""What a server says of its tools, checked: what the agent may have, and what is refused for which reason. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from harness.mcp.arguments import Unfit, fitted
from harness.mcp.config import HintSettings
from harness.mcp.references import problem
from harness.text.frames import described, harmless, line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.mcp.arguments import Renamed
    from harness.mcp.config import McpServerSettings

MOST_TOOLS = 500
"""Of one server."""
LONGEST_NAME = 128
LONGEST_DESCRIPTION, LONGEST_PARAMETER = 1024, 400
LARGEST_SCHEMA, DEEPEST_SCHEMA, MOST_PROPERTIES = 32_000, 16, 200
_PROPERTY = re.compile(r"[\w.$@:/ -]{1,64}")
_TEXTS = ("description", "title")
_NESTED = ("properties", "$defs", "definitions", "patternProperties")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A tool as a server offers it, before anything of it is believed."""

    name: str
    description: str
    schema: Any
    read_only: bool | None = None
    idempotent: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteTool:
    """A checked tool. name: as the server has it. schema: of its arguments, as JSON text, which nothing can change.

    read_only, idempotent: what its server or the operator says of it. destructive: unless the operator says otherwise,
    whatever its server says. renamed: arguments that the server calls otherwise. digest: changes with anything that the
    model is told of it, and with what its server says it does.
    """

    server: str
    name: str
    description: str
    schema: str
    read_only: bool
    destructive: bool
    idempotent: bool
    renamed: Renamed = ()

    @property
    def repeatable(self) -> bool:
        """Calling it twice does no more than calling it once."""
        return self.read_only or self.idempotent

    @property
    def digest(self) -> str:
        told = json.dumps([self.server, self.name, self.description, self.schema, self.read_only, self.idempotent])
        return hashlib.sha256(told.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """refused: a line for operators each."""

    tools: tuple[RemoteTool, ...]
    refused: tuple[str, ...]


class Refused(Exception):
    """A tool that the agent does not get; the text says why."""


def checked(server: str, settings: McpServerSettings, offers: Iterable[Offer]) -> Checked:
    """The tools that may be used, in the order of their names, and why others may not."""
    tools: dict[str, RemoteTool] = {}
    refused: list[str] = []
    for offer in offers:
        if not _wanted(offer.name, settings):
            continue
        try:
            if offer.name in tools:
                raise Refused("the server has it twice")
            if len(tools) >= MOST_TOOLS:
                raise Refused(f"the server has more than {MOST_TOOLS}")
            tools[offer.name] = _tool(server, offer, _hints(offer.name, settings))
        except Refused as reason:
            refused.append(f"{line(offer.name, 64)}: {reason}")
    return Checked(tools=tuple(tools[name] for name in sorted(tools)), refused=tuple(refused))


def _wanted(name: str, settings: McpServerSettings) -> bool:
    def among(patterns: tuple[str, ...]) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in patterns)

    return among(settings.tools.allow) and not among(settings.tools.deny)


def _hints(name: str, settings: McpServerSettings) -> HintSettings:
    """Those of the name itself, else of the first pattern that fits."""
    fitting = (hints for pattern, hints in settings.hints.items() if fnmatchcase(name, pattern))
    return settings.hints.get(name) or next(fitting, HintSettings())


def _tool(server: str, offer: Offer, known: HintSettings) -> RemoteTool:
    """Raises Refused."""
    if not 0 < len(offer.name) <= LONGEST_NAME:
        raise Refused(f"its name has not 1 to {LONGEST_NAME} characters")
    if not offer.name.isprintable() or not offer.name.isascii():
        raise Refused("its name has characters that cannot be seen or written")
    read_only = _first(known.read_only, offer.read_only, default=False)
    try:
        schema, renamed = fitted(_schema(offer.schema))
    except Unfit as reason:
        raise Refused(str(reason)) from None
    return RemoteTool(
        server=server,
        name=offer.name,
        description=described(offer.description, LONGEST_DESCRIPTION),
        schema=json.dumps(schema, ensure_ascii=False, sort_keys=True),
        renamed=renamed,
        read_only=read_only,
        # What a server says of itself must not mean that nobody is asked: only the operator's word counts.
        destructive=not known.read_only and _first(known.destructive, default=True),
        idempotent=_first(known.idempotent, offer.idempotent, default=False),
    )


def _first(*values: bool | None, default: bool) -> bool:
    return next((value for value in values if value is not None), default)


def _schema(schema: Any) -> dict[str, Any]:
    """A JSON schema of an object, its texts made harmless. Raises Refused."""
    if not isinstance(schema, dict):
        raise Refused("its arguments have no schema")
    try:
        size = len(json.dumps(schema))
    except (TypeError, ValueError, RecursionError):
        raise Refused("the schema of its arguments is no JSON") from None
    if size > LARGEST_SCHEMA:
        raise Refused(f"the schema of its arguments has {size} characters; at most {LARGEST_SCHEMA} are taken")
    if schema.get("type", "object") != "object":
        raise Refused("its arguments are no object")
    if not isinstance(schema.get("properties", {}), dict):
        raise Refused("the schema of its arguments is broken: properties is no object")
    clean: dict[str, Any] = _cleaned(schema, 0)
    if why := problem(clean):
        raise Refused(f"the schema of its arguments {why}")
    return {"properties": {}, **clean, "type": "object"}


def _cleaned(node: Any, depth: int) -> Any:
    if depth > DEEPEST_SCHEMA:
        raise Refused(f"the schema of its arguments is nested more than {DEEPEST_SCHEMA} times")
    if isinstance(node, list):
        return [_cleaned(item, depth + 1) for item in node]
    if isinstance(node, str):
        return harmless(node)
    if not isinstance(node, dict):
        return node
    reference = node.get("$ref")
    if reference is not None and not (isinstance(reference, str) and reference.startswith("#")):
        raise Refused("the schema of its arguments refers to another document")
    return {key: _value(key, value, depth) for key, value in node.items() if key != "$comment"}


def _value(key: str, value: Any, depth: int) -> Any:
    if key in _NESTED:
        return _properties(value, depth)
    if key in _TEXTS:
        if not isinstance(value, str):
            raise Refused(f"the schema of its arguments is broken: {key} is no text")
        return described(value, LONGEST_PARAMETER)
    return _cleaned(value, depth + 1)


def _properties(value: Any, depth: int) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Refused("the schema of its arguments is broken")
    if len(value) > MOST_PROPERTIES:
        raise Refused(f"it has more than {MOST_PROPERTIES} arguments")
    for name, item in value.items():
        if not _PROPERTY.fullmatch(name):
            raise Refused("an argument has a name that cannot be used")
        if not isinstance(item, dict | bool):
            raise Refused("the schema of its arguments is broken")
    return {name: _cleaned(item, depth + 1) for name, item in value.items()}
