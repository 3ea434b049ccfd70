"""The sources of the configuration for pydantic-settings, and which of them is to blame for a value."""

from __future__ import annotations

import json
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from pydantic_settings import EnvSettingsSource, InitSettingsSource, PydanticBaseSettingsSource

from bot.settings.problems import ConfigProblem, dotted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic.fields import FieldInfo
    from pydantic_settings import BaseSettings

    from bot.settings.problems import Finding, Path

ENV_PREFIX = "ANTLER__"

SOURCES: ContextVar[tuple[PydanticBaseSettingsSource, ...]] = ContextVar("sources", default=())
"""The sources of Settings while `load` makes them, strongest first."""


class Layer(InitSettingsSource):
    """One source. lines: of a file's keys. names: the name of a value there (a variable, an option)."""

    def __init__(
        self,
        settings: type[BaseSettings],
        source: str,
        values: dict[str, Any],
        *,
        lines: Mapping[Path, int] | None = None,
        names: Mapping[Path, str] | None = None,
    ) -> None:
        super().__init__(settings, values)
        self.source = source
        self.values = values
        self.lines = lines or {}
        self.names = names or {}

    def depth_of(self, path: Path) -> int:
        """The number of leading steps of the path that exist in this source."""
        value: Any = self.values
        for depth, step in enumerate(path):
            if not _has(value, step):
                return depth
            value = value[step]
        return len(path)


class Merged(PydanticBaseSettingsSource):
    """The weakest source. It provides nothing itself, but records the merged values of all others."""

    values: Mapping[str, Any]

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        self.values = self.current_state
        return {}


class _Environment(EnvSettingsSource):
    """Variables of `env`. Where the tree continues, a value that starts with [ or { is JSON; all others are text."""

    def __init__(self, settings: type[BaseSettings], env: Mapping[str, str], accounts: Sequence[str]) -> None:
        self._env = env
        self._accounts = {account.replace("-", "_"): account for account in accounts}
        self.names: dict[Path, str] = {}
        super().__init__(settings, case_sensitive=False, env_prefix=ENV_PREFIX, env_nested_delimiter="__")

    def _load_env_vars(self) -> Mapping[str, str | None]:
        found: dict[str, str | None] = {}
        for variable in sorted(self._env):
            if variable.startswith(ENV_PREFIX):
                path = tuple(variable.removeprefix(ENV_PREFIX).lower().split("__"))
                if path[0] == "channels" and len(path) > 1:
                    path = ("channels", self._accounts.get(path[1], path[1]), *path[2:])
                self.names[path] = variable
                found[ENV_PREFIX.lower() + "__".join(path)] = self._env[variable]
        return found

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        """Parse JSON. Other text is returned as it is: its faults are reported together with all others."""
        if value.lstrip()[:1] not in ("[", "{"):
            return value
        try:
            return json.loads(value)
        except ValueError:
            return value

    def __call__(self) -> dict[str, Any]:
        """All variables, including the unknown keys that the base class omits."""
        return {str(path[0]): {} for path in self.names} | super().__call__()


def environment(settings: type[BaseSettings], env: Mapping[str, str], accounts: Sequence[str]) -> Layer:
    """The environment as a source: ANTLER__A__B=value becomes a.b. accounts: the file's ids; an underscore stands for a
    dash in them."""
    source = _Environment(settings, env, accounts)
    return Layer(settings, "environment", source(), names=source.names)


def command_line(settings: type[BaseSettings], options: Mapping[str, Any]) -> Layer:
    """The command line as a source. options: dotted key -> value, for the given ones."""
    values: dict[str, Any] = {}
    names: dict[Path, str] = {}
    for key, value in options.items():
        *parents, last = key.split(".")
        inner = values
        for step in parents:
            inner = inner.setdefault(step, {})
        inner[last] = value
        names[(*parents, last)] = f"--{key.replace('.', '-').replace('_', '-')}"
    return Layer(settings, "command line", values, names=names)


def blame(finding: Finding, layers: Sequence[Layer]) -> ConfigProblem:
    """Name the source, the line and the key of a fault.

    layers: strongest first, the file last. A value is the fault of the strongest source that provides it; a missing
    one is attributed to the source with most of its path, or to the file among equals.
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
    """The sources that count for a path: below a list given by one source, weaker ones are ignored."""
    lists = [end for end, step in enumerate(path) if isinstance(step, int)]
    for number, layer in enumerate(layers):
        if lists and layer.depth_of(path) >= lists[0]:
            return layers[: number + 1]
    return layers


def _name_in(layer: Layer, path: Path) -> str | None:
    """The variable or option that provides the value, or a part of it."""
    related = (given for given in layer.names if given[: len(path)] == path or path[: len(given)] == given)
    return next((layer.names[given] for given in related), None)


def _has(value: Any, step: str | int) -> bool:
    if isinstance(value, list):
        return isinstance(step, int) and step < len(value)
    return isinstance(value, dict) and step in value
