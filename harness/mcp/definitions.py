"""Checks a server's tool definitions: which tools the agent may have, and which are refused for what reason. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from harness.mcp.config import HintSettings
from harness.text.frames import described, harmless, line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.mcp.config import McpServerSettings


MOST_TOOLS = 500
"""Number of tools of one server."""
LONGEST_NAME = 128
LONGEST_DESCRIPTION, LONGEST_PARAMETER = 1024, 400
LARGEST_SCHEMA, DEEPEST_SCHEMA, MOST_PROPERTIES = 32_000, 16, 200
_PROPERTY = re.compile(r"[\w.$@:/ -]{1,64}")
_TEXTS = ("description", "title")
_NESTED = ("properties", "$defs", "definitions", "patternProperties")
MOST_PARTS, DEEPEST = 20_000, 100
"""Limits of a schema once its references are resolved."""

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
"""Keys allowed in a schema whose arguments are to be renamed; others may refer to arguments by name."""
_PARTS = ("allOf", "anyOf", "oneOf")
_REFUSED = frozenset([*_PARTS, "not", "enum", "$ref"])
"""Keys at the top of a schema for which OpenAI or Anthropic rejects the whole request, with all other tools."""
Renamed = tuple[tuple[str, str], ...]
"""(name for the model, the server's own)."""


class Unfit(Exception):
    """An argument's name can be neither kept nor replaced; the text says which one and why."""


def fitted(schema: dict[str, Any]) -> tuple[dict[str, Any], Renamed]:
    """The schema of an object with names that every provider accepts, and the renamed ones. Raises Unfit.

    Anthropic rejects the whole request for one bad name ("Property keys should match pattern"), which would disable all
    other tools too; it accepts such names in nested objects.
    """
    own = schema.get("properties", {})
    unfit = [name for name in own if not _FIT.fullmatch(name)]
    if not unfit:
        return schema, ()
    if (others := sorted(set(schema) - _PLAIN)) or '"#/properties/' in json.dumps(schema):
        why = f"its schema has {others[0]}" if others else "its schema refers to arguments by their names"
        raise Unfit(f"the argument {unfit[0]!r} has a name that some model providers reject, and {why}")
    names = _new_names(own, unfit)
    changed = {names.get(name, name): _told(value, name, renamed=name in names) for name, value in own.items()}
    schema = {**schema, "properties": changed}
    if "required" in schema:
        required = schema["required"] if isinstance(schema["required"], list) else []
        schema["required"] = [names.get(name, name) for name in required if isinstance(name, str)]
    return schema, tuple((new, old) for old, new in names.items())


def given_back(arguments: Mapping[str, Any], renamed: Renamed) -> dict[str, Any]:
    """A call's arguments under the server's names."""
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
    """The argument's schema, with the server's name for it in the description."""
    if not renamed or not isinstance(value, dict):
        return value
    about = value.get("description", "")
    return {**value, "description": f"{name}: {about}" if about else name}


def problem(schema: dict[str, Any]) -> str:
    """Why the references cannot be resolved; "" if they can. A cycle is no problem: it is broken where it closes."""
    try:
        _Walk(schema).visit(schema, frozenset(), 0)
    except _Bad as bad:
        return str(bad)
    return ""


class _Bad(Exception):
    """The schema is bad. The text follows "the schema of its arguments"."""


class _Walk:
    """The traversal of langchain_core.utils.json_schema.dereference_refs, with a limit on parts and depth.

    LangChain expands all references for every request: a small schema could become gigabytes, and one dangling
    reference would break every model call.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        self._left = MOST_PARTS

    def visit(self, node: Any, within: frozenset[str], depth: int) -> None:
        self._left -= 1
        if self._left < 0 or depth > DEEPEST:
            raise _Bad("is too large once its references are resolved")
        if isinstance(node, list):
            parts = node
        elif isinstance(node, dict):
            parts = [value for key, value in node.items() if key not in ("$ref", "$defs")]
            if "$ref" in node and (name := self._name(node["$ref"])) not in within:
                self.visit(self.target(name), within | {name}, depth + 1)
        else:
            return
        for part in parts:
            self.visit(part, within, depth + 1)

    def _name(self, reference: Any) -> str:
        """The name in a reference, also for an argument called $ref, which only looks like one."""
        if not isinstance(reference, str):
            raise _Bad("has an invalid reference")
        return reference

    def target(self, name: str) -> Any:
        root, *steps = name.split("/")
        found: Any = self._schema
        for step in steps:
            found = found.get(step) if isinstance(found, dict) else None
        if root != "#" or not isinstance(found, dict):
            raise _Bad("refers to something that it does not contain")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A tool as a server offers it, before any check."""

    name: str
    description: str
    schema: Any
    read_only: bool | None = None
    idempotent: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteTool:
    """A checked tool. name: the server's. schema: of its arguments, as JSON text, which is immutable.

    read_only, idempotent: as declared by its server or the operator. destructive: unless the operator says otherwise;
    the server's word does not count. renamed: arguments with another name on the server. digest: changes with
    everything that the model sees of it, and with its declared effects. agents: see McpServerSettings.add_to_agents.
    """

    server: str
    name: str
    description: str
    schema: str
    read_only: bool
    destructive: bool
    idempotent: bool
    renamed: Renamed = ()
    agents: tuple[str, ...] | None = None

    def is_for(self, agent: str) -> bool:
        """Whether the operator lets an agent have it, subject to the agent's type."""
        return self.agents is None or agent in self.agents

    def is_given(self, agent: str) -> bool:
        """Whether the operator gave it to an agent by name, even if the lead agent does not have it."""
        return self.agents is not None and agent in self.agents

    @property
    def repeatable(self) -> bool:
        """Whether calling it twice has the same effect as calling it once."""
        return self.read_only or self.idempotent

    @property
    def digest(self) -> str:
        told = json.dumps([self.server, self.name, self.description, self.schema, self.read_only, self.idempotent])
        return hashlib.sha256(told.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The result of a check. refused: one line for operators each."""

    tools: tuple[RemoteTool, ...]
    refused: tuple[str, ...]


class Refused(Exception):
    """A tool is withheld from the agent; the text says why."""


def checked(server: str, settings: McpServerSettings, offers: Iterable[Offer]) -> Checked:
    """The usable tools, sorted by name, and why others are not."""
    tools: dict[str, RemoteTool] = {}
    refused: list[str] = []
    for offer in offers:
        if not _wanted(offer.name, settings):
            continue
        try:
            if offer.name in tools:
                raise Refused("the server lists it twice")
            if len(tools) >= MOST_TOOLS:
                raise Refused(f"the server has more than {MOST_TOOLS}")
            known = _hints(offer.name, settings)
            agents = settings.add_to_agents if known.add_to_agents is None else known.add_to_agents
            tools[offer.name] = replace(_tool(server, offer, known), agents=agents)
        except Refused as reason:
            refused.append(f"{line(offer.name, 64)}: {reason}")
    return Checked(tools=tuple(tools[name] for name in sorted(tools)), refused=tuple(refused))


def _wanted(name: str, settings: McpServerSettings) -> bool:
    def among(patterns: tuple[str, ...]) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in patterns)

    return among(settings.tools.allow) and not among(settings.tools.deny)


def _hints(name: str, settings: McpServerSettings) -> HintSettings:
    """The hints for the name itself, else for the first matching pattern."""
    fitting = (hints for pattern, hints in settings.hints.items() if fnmatchcase(name, pattern))
    return settings.hints.get(name) or next(fitting, HintSettings())


def _tool(server: str, offer: Offer, known: HintSettings) -> RemoteTool:
    """Check a tool. Raises Refused."""
    if not 0 < len(offer.name) <= LONGEST_NAME:
        raise Refused(f"its name does not have 1 to {LONGEST_NAME} characters")
    if not offer.name.isprintable() or not offer.name.isascii():
        raise Refused("its name has invisible or invalid characters")
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
        # A server must not be able to switch off approvals for itself: only the operator's word counts.
        destructive=not known.read_only and _first(known.destructive, default=True),
        idempotent=_first(known.idempotent, offer.idempotent, default=False),
    )


def _first(*values: bool | None, default: bool) -> bool:
    return next((value for value in values if value is not None), default)


def _schema(schema: Any) -> dict[str, Any]:
    """The JSON schema of an object with its texts made harmless. Raises Refused."""
    if not isinstance(schema, dict):
        raise Refused("its arguments have no schema")
    try:
        size = len(json.dumps(schema))
    except (TypeError, ValueError, RecursionError):
        raise Refused("the schema of its arguments is not JSON") from None
    if size > LARGEST_SCHEMA:
        raise Refused(f"the schema of its arguments has {size} characters; at most {LARGEST_SCHEMA} are allowed")
    if schema.get("type", "object") != "object":
        raise Refused("its arguments are not an object")
    if not isinstance(schema.get("properties", {}), dict):
        raise Refused("the schema of its arguments is broken: properties is not an object")
    clean: dict[str, Any] = _cleaned(schema, 0)
    if why := problem(clean):
        raise Refused(f"the schema of its arguments {why}")
    return _flat(clean)


def _flat(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without the keys that providers refuse. What its parts say of arguments is joined, and left to the
    server to check: those of alternatives are optional."""
    own: dict[str, Any] = {}
    parts, followed = [schema], {"#"}
    for part in parts:  # it grows
        own = part.get("properties", {}) | own
        if (name := part.get("$ref", "#")) not in followed:
            followed.add(name)
            parts.append(_Walk(schema).target(name))
        for key in _PARTS:
            alternatives = part.get(key)
            parts += [each for each in alternatives if isinstance(each, dict)] if isinstance(alternatives, list) else []
    return {key: value for key, value in schema.items() if key not in _REFUSED} | {"properties": own, "type": "object"}


def _cleaned(node: Any, depth: int) -> Any:
    if depth > DEEPEST_SCHEMA:
        raise Refused(f"the schema of its arguments is nested more than {DEEPEST_SCHEMA} levels deep")
    if isinstance(node, list):
        return [_cleaned(item, depth + 1) for item in node]
    if isinstance(node, str):
        return harmless(node)
    if not isinstance(node, dict):
        return node
    reference = node.get("$ref")
    if reference is not None and not (isinstance(reference, str) and reference.startswith("#")):
        raise Refused("the schema of its arguments refers to another document")
    if node.get("type") == "array":
        node = {"items": {}} | node  # without it OpenAI rejects the whole request
    return {key: _value(key, value, depth) for key, value in node.items() if key != "$comment"}


def _value(key: str, value: Any, depth: int) -> Any:
    if key in _NESTED:
        return _properties(value, depth)
    if key in _TEXTS:
        if not isinstance(value, str):
            raise Refused(f"the schema of its arguments is broken: {key} is not a string")
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
