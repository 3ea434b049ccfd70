"""Reads the configuration: command line over environment over file over defaults; all faults at once or none."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from bot.settings.agent_folders import agent_problems
from bot.settings.checks import check_tree
from bot.settings.layers import Layer, blame, command_line, environment, merge
from bot.settings.model import Settings
from bot.settings.problems import ConfigError, ConfigProblem, Finding
from bot.settings.schema_errors import findings_of
from bot.settings.variables import expand
from bot.settings.yamlfile import YamlSyntaxError, read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bot.settings.problems import Path as TreePath

_BUILT_IN = "built-in default"
_RELATIVE_TO_FILE: tuple[TreePath, ...] = (
    *(("data_dir",), ("agents_dir",), ("network", "ca_file")),
    ("skills", "custom"),
)


@dataclass(slots=True)
class _File:
    """The file's layer and what was wrong with it before anything was validated."""

    layer: Layer
    findings: list[Finding] = field(default_factory=list)


def load(path: Path | None, env: Mapping[str, str], options: Mapping[str, Any] | None = None) -> Settings:
    """The settings, or ConfigError with every problem found.

    path: the config file, None for the built-in default (the terminal and the demo model). env: the process's
    environment. options: dotted key -> value from the command line. Relative paths in the file are relative to it,
    all others to the working directory.
    """
    file = _read(path, env) if path is not None else _built_in()
    layers = _layers(file, env, options or {})
    values = merge(layers)
    findings = [*file.findings, *check_tree(values)]
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        findings += findings_of(error, values)
    else:
        if not findings:
            if problems := list(agent_problems(settings, path)):
                raise ConfigError(problems)
            return settings
    # Outside the handler: the error that people see must not carry the one that knows the values.
    raise ConfigError(_sorted(blame(finding, layers) for finding in _first_of_each_place(findings)))


def data_dir_of(path: Path | None, env: Mapping[str, str], options: Mapping[str, Any] | None = None) -> Path | None:
    """What `load` says of data_dir, whatever else is wrong; None where that cannot be known either."""
    try:
        file = _read(path, env) if path is not None else _built_in()
    except ConfigError:
        file = _File(Layer(str(path), {}))
    if any(finding.path == ("data_dir",) for finding in file.findings):
        file.layer.values.pop("data_dir", None)
    value = merge(_layers(file, env, options or {})).get("data_dir")
    return Path(value).expanduser().absolute() if isinstance(value, str) and value else None


def _layers(file: _File, env: Mapping[str, str], options: Mapping[str, Any]) -> list[Layer]:
    """The strongest first."""
    accounts = file.layer.values.get("channels")
    known = list(accounts) if isinstance(accounts, dict) else []
    return [command_line(options), environment(env, known), file.layer]


def _read(path: Path, env: Mapping[str, str]) -> _File:
    try:
        tree = read_yaml(_text(path))
    except YamlSyntaxError as error:
        raise ConfigError([ConfigProblem(file=str(path), key="", message=str(error), line=error.line)]) from None
    findings = list(tree.findings)
    # A section whose keys are all commented out is null: the same as left out.
    given = {key: value for key, value in tree.values.items() if value is not None}
    values = expand(given, env, (), findings)
    values.setdefault("data_dir", "data")
    values.setdefault("agents_dir", "agents")
    for place in _RELATIVE_TO_FILE:
        _anchor(values, place, path.absolute().parent)
    return _File(Layer(str(path), values, tree.lines), findings)


def _built_in() -> _File:
    return _File(Layer(_BUILT_IN, {"data_dir": str(Path("data").absolute()), "channels": {"console": {}}}))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise YamlSyntaxError("is not UTF-8 text", None) from None
    except OSError as error:
        raise YamlSyntaxError(f"cannot be read: {os.strerror(error.errno or 0)}", None) from None


def _anchor(values: dict[str, Any], place: TreePath, folder: Path) -> None:
    *sections, key = place
    inner: Any = values
    for section in sections:
        inner = inner.get(section) if isinstance(inner, dict) else None
    if isinstance(inner, dict) and isinstance(inner.get(key), str) and inner[key]:
        inner[key] = str(folder / Path(inner[key]).expanduser())


def _first_of_each_place(findings: list[Finding]) -> list[Finding]:
    """The first finding of a place explains it; the later ones are its consequences."""
    kept: dict[TreePath, Finding] = {}
    for finding in findings:
        kept.setdefault(finding.path, finding)
    return list(kept.values())


def _sorted(problems: Iterable[ConfigProblem]) -> list[ConfigProblem]:
    return sorted(problems, key=lambda problem: (problem.line or 0, problem.key))
