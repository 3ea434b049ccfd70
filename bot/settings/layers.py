"""The sources of the configuration, strongest first, and which of them is to blame for a value."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bot.settings.problems import ConfigProblem, dotted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bot.settings.problems import Finding, Path

ENV_PREFIX = "ANTLER__"


@dataclass(slots=True)
class Layer:
    """One source. lines: of a file's keys. names: what a value is called there (a variable, an option)."""

    source: str
    values: dict[str, Any] = field(default_factory=dict)
    lines: Mapping[Path, int] = field(default_factory=dict)
    names: dict[Path, str] = field(default_factory=dict)

    def depth_of(self, path: Path) -> int:
        """How many steps of the path are in this source."""
        value: Any = self.values
        for depth, step in enumerate(path):
            if not _has(value, step):
                return depth
            value = value[step]
        return len(path)


def _has(value: Any, step: str | int) -> bool:
    if isinstance(value, list):
        return isinstance(step, int) and step < len(value)
    return isinstance(value, dict) and step in value


def merge(layers: Sequence[Layer]) -> dict[str, Any]:
    """One tree; mappings are joined key by key, everything else is taken from the strongest source that has it."""
    merged: dict[str, Any] = {}
    for layer in reversed(layers):
        merged = _joined(merged, layer.values)
    return merged


def _joined(weak: dict[str, Any], strong: Mapping[str, Any]) -> dict[str, Any]:
    joined = dict(weak)
    for key, value in strong.items():
        old = joined.get(key)
        joined[key] = _joined(old if isinstance(old, dict) else {}, value) if isinstance(value, dict) else value
    return joined


def blame(finding: Finding, layers: Sequence[Layer]) -> ConfigProblem:
    """Name the source, the line and the key.

    layers: strongest first, the file last. A value is the fault of the strongest source that gives it; what nobody
    gives is missing where most of its path is, which is the file's fault among equals.
    """
    path = finding.path
    layers = _not_replaced(layers, path)
    givers = [layer for layer in layers if layer.depth_of(path) == len(path)]
    layer = givers[0] if givers else max(reversed(layers), key=lambda candidate: candidate.depth_of(path))
    name = _name_in(layer, path)
    line = next((layer.lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in layer.lines), None)
    return ConfigProblem(
        file=layer.source,
        key=name or dotted(path),
        message=finding.message,
        line=line,
        suggestion=finding.suggestion,
    )


def _not_replaced(layers: Sequence[Layer], path: Path) -> Sequence[Layer]:
    """The sources that count for a place: where one gives a list as a whole, the weaker ones have no say below it."""
    lists = [end for end, step in enumerate(path) if isinstance(step, int)]
    for number, layer in enumerate(layers):
        if lists and layer.depth_of(path) >= lists[0]:
            return layers[: number + 1]
    return layers


def _name_in(layer: Layer, path: Path) -> str | None:
    """The variable or option that gives the value, or a part of it."""
    related = (given for given in layer.names if given[: len(path)] == path or path[: len(given)] == given)
    return next((layer.names[given] for given in related), None)


def environment(env: Mapping[str, str], accounts: Sequence[str]) -> Layer:
    """ANTLER__A__B=value becomes a.b; a value that starts with [ or { is JSON, all others are plain text.

    accounts: ids of the file; one with a dash is meant by the same name with an underscore.
    """
    layer = Layer("environment")
    spelled = {account.replace("-", "_"): account for account in accounts}
    for variable in sorted(env):
        if not variable.startswith(ENV_PREFIX):
            continue
        path = tuple(variable.removeprefix(ENV_PREFIX).lower().split("__"))
        if path[0] == "channels" and len(path) > 1:
            path = ("channels", spelled.get(path[1], path[1]), *path[2:])
        _put(layer.values, path, _parse(env[variable]))
        layer.names[path] = variable
    return layer


def command_line(options: Mapping[str, Any]) -> Layer:
    """options: dotted key -> value, those that were given."""
    layer = Layer("command line")
    for key, value in options.items():
        path = tuple(key.split("."))
        _put(layer.values, path, value)
        layer.names[path] = f"--{key.replace('.', '-').replace('_', '-')}"
    return layer


def _parse(text: str) -> Any:
    if text.lstrip()[:1] not in ("[", "{"):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _put(values: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    *parents, last = path
    for step in parents:
        inner = values.get(step)
        values[step] = inner = inner if isinstance(inner, dict) else {}
        values = inner
    values[last] = value
