"""Reads the configuration: command line over environment over file over defaults; all faults at once or none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from bot.settings.agent_folders import agent_problems
from bot.settings.checks import check_tree
from bot.settings.layers import SOURCES, Layer, Merged, blame, command_line, environment
from bot.settings.model import Settings
from bot.settings.problems import ConfigError, ConfigProblem
from bot.settings.schema_errors import findings_of
from bot.settings.variables import expand
from bot.settings.yamlfile import YamlSyntaxError, read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pydantic_settings import PydanticBaseSettingsSource

    from bot.settings.problems import Finding
    from bot.settings.problems import Path as TreePath

_BUILT_IN = "built-in default"
_RELATIVE_TO_FILE: tuple[TreePath, ...] = (
    *(("data_dir",), ("agents_dir",), ("network", "ca_file")),
    ("skills", "custom"),
)


def load(path: Path | None, env: Mapping[str, str], options: Mapping[str, Any] | None = None) -> Settings:
    """The settings, or ConfigError with every problem found.

    path: the config file, None for the built-in default (the terminal and the demo model). env: the process's
    environment. options: dotted key -> value from the command line. Relative paths in the file are relative to it,
    all others to the working directory.
    """
    file, findings = _read(path, env) if path is not None else (_built_in(), [])
    layers, merged = _layers(file, env, options or {}), Merged(Settings)
    settings, faults = _made((*layers, merged))
    findings += check_tree(merged.values)
    findings += findings_of(faults, merged.values) if faults is not None else ()
    if settings is None or findings:
        raise ConfigError(_sorted(blame(finding, layers) for finding in _first_of_each_place(findings)))
    if problems := list(agent_problems(settings, path)):
        raise ConfigError(problems)
    return settings


def _made(sources: tuple[PydanticBaseSettingsSource, ...]) -> tuple[Settings | None, ValidationError | None]:
    """The settings, or why there are none: the error that people see must not carry the one that knows the values."""
    token = SOURCES.set(sources)
    try:
        return Settings(), None  # type: ignore[call-arg] # its sources give what it needs
    except ValidationError as error:
        return None, error
    finally:
        SOURCES.reset(token)


def data_dir_of(path: Path | None, env: Mapping[str, str], options: Mapping[str, Any] | None = None) -> Path | None:
    """What `load` says of data_dir, whatever else is wrong; None where that cannot be known either."""
    try:
        file, findings = _read(path, env) if path is not None else (_built_in(), [])
    except ConfigError:
        file, findings = Layer(Settings, str(path), {}), []
    if any(finding.path == ("data_dir",) for finding in findings):
        file.values.pop("data_dir", None)
    layers = _layers(file, env, options or {})
    value = next((layer.values["data_dir"] for layer in layers if "data_dir" in layer.values), None)
    return Path(value).expanduser().absolute() if isinstance(value, str) and value else None


def _layers(file: Layer, env: Mapping[str, str], options: Mapping[str, Any]) -> list[Layer]:
    """The strongest first."""
    accounts = file.values.get("channels")
    known = list(accounts) if isinstance(accounts, dict) else []
    return [command_line(Settings, options), environment(Settings, env, known), file]


def _read(path: Path, env: Mapping[str, str]) -> tuple[Layer, list[Finding]]:
    """The file, and what is wrong with it before anything is validated."""
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
    return Layer(Settings, str(path), values, lines=tree.lines), findings


def _built_in() -> Layer:
    return Layer(Settings, _BUILT_IN, {"data_dir": str(Path("data").absolute()), "channels": {"console": {}}})


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
