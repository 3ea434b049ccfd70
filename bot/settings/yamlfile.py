"""Reads a YAML file into plain values and records the line of every key; its errors never quote the file.

Intentionally narrower than YAML 1.1: only true and false are booleans (`off` stays a word), only plain decimals are
numbers (0123, 12:34 and more than 100 digits stay text), no anchors and no tags.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from bot.settings.problems import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bot.settings.problems import Path

_QUOTE = "put it in quotes"
_SYNTAX = (
    ("'\\t'", "a tab is used for indentation; YAML requires spaces"),
    ("alias", f"a value begins with *; {_QUOTE}"),
    ("anchor", f"a value begins with &; {_QUOTE}"),
    ("tag", f"a value begins with !; {_QUOTE}"),
    (
        "cannot start any token",
        f"a value begins with a character that is special in YAML (@ ` % and others); {_QUOTE}",
    ),
    (
        "mapping values are not allowed",
        "a colon is not allowed here; put the value that contains it in quotes, fix the indentation, "
        "or add the space that is missing after the colon above",
    ),
    ("quoted scalar", "a quote is not closed, or contains an unknown \\ sequence"),
    ("unexpected end of stream", "a quote is not closed"),
    ("flow", "a bracket [ or { is not closed, or a comma is missing; inside { } put ${NAME} in quotes"),
    ("could not find expected ':'", "a key has no colon, or the indentation is wrong"),
    ("expected <block end>", "the indentation is wrong"),
    ("single document", "there is more than one document (---) in the file"),
)
_PLAIN_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null", "map", "seq")}


class _NotSupported(Exception):
    """An anchor or an alias. line: from 1, None if unknown."""

    def __init__(self, kind: str, line: int | None) -> None:
        super().__init__(kind)
        self.kind = kind
        self.line = line


class _Loader(yaml.SafeLoader):
    """SafeLoader with fewer implicit types, and without anchors."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own protocol

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            kind = "alias" if isinstance(event, yaml.AliasEvent) else "anchor"
            raise _NotSupported(kind, event.start_mark.line + 1 if event.start_mark else None)
        return super().compose_node(parent, index)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^-?(?:0|[1-9][0-9]{0,99})$"), list("-0123456789"))
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^-?(?:0|[1-9][0-9]*)\.[0-9]+$"), list("-0123456789")
)


@dataclass(slots=True)
class YamlTree:
    """A parsed file. values: plain Python. lines: path -> line, from 1. findings: faults; see lines for their place."""

    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[Path, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


class YamlSyntaxError(Exception):
    """The text is not YAML. line: from 1, None if unknown."""

    def __init__(self, message: str, line: int | None) -> None:
        super().__init__(message)
        self.line = line


def read_yaml(text: str) -> YamlTree:
    """Parse YAML. Raises YamlSyntaxError; faults that leave the rest readable (a duplicate key) become findings."""
    try:
        return _Reader().read(text)
    except _NotSupported as error:
        raise YamlSyntaxError(_explain(error.kind), error.line) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        # Not chained: the error and its mark contain the file's text.
        raise YamlSyntaxError(
            _explain(f"{error.problem or ''} {error.context or ''}"), mark.line + 1 if mark else None
        ) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1 if isinstance(error.position, int) else None
        raise YamlSyntaxError("contains a control character", line) from None
    except RecursionError:
        raise YamlSyntaxError("is nested too deeply", None) from None


def _explain(text: str) -> str:
    return next((message for part, message in _SYNTAX if part in text), "is not valid YAML")


@dataclass(frozen=True, slots=True)
class Scalar:
    """A key or a scalar value. path: of the value, or of what the key names. start, end: its position in the text, with
    quotes and block indicators, without trailing blanks and line ends."""

    path: Path
    value: str
    is_key: bool
    start: int
    end: int


def scalars(text: str) -> list[Scalar] | None:
    """All keys, and all values that are not collections, in the order of the text; None if it is not YAML."""
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        return sorted(_scalars(node, (), text), key=lambda each: each.start) if node is not None else []
    except (_NotSupported, yaml.YAMLError, RecursionError):
        return None
    finally:
        loader.dispose()


def _scalars(node: yaml.Node, path: Path, text: str, *, is_key: bool = False) -> Iterator[Scalar]:
    if isinstance(node, yaml.ScalarNode):
        start, end = node.start_mark.index, node.end_mark.index
        yield Scalar(path, node.value, is_key, start, start + len(text[start:end].rstrip()))
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _scalars(item, (*path, index), text, is_key=is_key)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*path, str(key.value) if isinstance(key, yaml.ScalarNode) else "")
            yield from _scalars(key, here, text, is_key=True)
            yield from _scalars(value, here, text, is_key=is_key)


class _Reader:
    def __init__(self) -> None:
        self._tree = YamlTree()
        self._loader: _Loader

    def read(self, text: str) -> YamlTree:
        self._loader = _Loader(text)
        try:
            node = self._loader.get_single_node()
            if node is None or (isinstance(node, yaml.ScalarNode) and not node.value):
                raise YamlSyntaxError("is empty; `antler config example` shows what belongs in it", None)
            if not isinstance(node, yaml.MappingNode):
                raise YamlSyntaxError("should be a mapping (lines of `key: value`)", node.start_mark.line + 1)
            self._tree.values = self._mapping(node, ())
        finally:
            self._loader.dispose()
        return self._tree

    def _value(self, node: yaml.Node, path: Path) -> Any:
        self._tree.lines.setdefault(path, node.start_mark.line + 1)
        if node.tag not in _PLAIN_TAGS:
            self._tree.findings.append(Finding(path, f"begins with !; {_QUOTE}"))
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._loader.construct_object(node)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise YamlSyntaxError("a key is not a word", key_node.start_mark.line + 1)
            key, line = str(key_node.value), key_node.start_mark.line + 1
            here = (*path, key)
            if key in values:
                first = self._tree.lines[here]
                self._tree.findings.append(_given_twice(here, first, line))
                continue
            self._tree.lines[here] = line
            values[key] = self._value(value_node, here)
        return values


def _given_twice(path: Path, first: int, second: int) -> Finding:
    lines = f"(lines {first} and {second})"
    if len(path) == 2 and path[0] == "channels":
        return Finding(path, f"this account is configured twice {lines}", "give each account its own id")
    return Finding(path, f"this key is given twice {lines}")
