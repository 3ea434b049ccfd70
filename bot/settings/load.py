"""Reads the configuration: command line over environment over file over defaults; reports all faults at once."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from bot.settings.checks import check_tree
from bot.settings.layers import SOURCES, Layer, Merged, blame, command_line, environment
from bot.settings.model import BUILT_IN, Settings
from bot.settings.problems import ConfigError, ConfigProblem, Finding
from bot.settings.schema_errors import findings_of
from bot.settings.yamlfile import YamlSyntaxError, read_yaml
from harness.agents.profiles import DEFAULT, Known, load_agents
from harness.subagents.config import BASH, GENERAL_PURPOSE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pydantic_settings import PydanticBaseSettingsSource

    from bot.settings.problems import Path as TreePath
    from harness.agents.profiles import LoadedAgents


_BUILT_IN = "built-in default"
_RELATIVE_TO_FILE: tuple[TreePath, ...] = (
    *(("data_dir",), ("agents_dir",), ("network", "ca_file")),
    *(("http", "tls", "cert"), ("http", "tls", "key"), ("skills", "custom")),
)


def load(
    path: Path | None, env: Mapping[str, str], options: Mapping[str, Any] | None = None, text: str | None = None
) -> Settings:
    """Return the settings. Raises ConfigError with every problem found.

    path: the config file, None for the built-in default (the terminal and the demo model). env: the process's
    environment. options: dotted key -> value from the command line. text: used instead of the file's content. Relative
    paths in the file are relative to it, all others to the working directory.
    """
    file, findings = _read(path, env, text) if path is not None else (_built_in(), [])
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
    """The settings, or the error: what people see must not be chained to the error that contains the values."""
    token = SOURCES.set(sources)
    try:
        return Settings(), None  # type: ignore[call-arg] # its sources give what it needs
    except ValidationError as error:
        return None, error
    finally:
        SOURCES.reset(token)


def data_dir_of(path: Path | None, env: Mapping[str, str], options: Mapping[str, Any] | None = None) -> Path | None:
    """The data_dir of `load`, even if there are other faults; None if it cannot be determined."""
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
    """All sources, strongest first."""
    accounts = file.values.get("channels")
    known = list(accounts) if isinstance(accounts, dict) else []
    return [command_line(Settings, options), environment(Settings, env, known), file]


def _read(path: Path, env: Mapping[str, str], text: str | None = None) -> tuple[Layer, list[Finding]]:
    """The file, and its faults before any validation."""
    try:
        tree = read_yaml(_text(path) if text is None else text)
    except YamlSyntaxError as error:
        raise ConfigError([ConfigProblem(file=str(path), key="", message=str(error), line=error.line)]) from None
    findings = list(tree.findings)
    # A section whose keys are all commented out is null, which counts as omitted.
    given = {key: value for key, value in tree.values.items() if value is not None}
    values = expand(given, env, (), findings)
    values.setdefault("data_dir", "data")
    values.setdefault("agents_dir", "agents")
    for place in _RELATIVE_TO_FILE:
        _anchor(values, place, path.absolute().parent)
    return Layer(Settings, str(path), values, lines=tree.lines), findings


def _built_in() -> Layer:
    return Layer(Settings, _BUILT_IN, {"data_dir": str(Path("data").absolute()), **BUILT_IN})


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
    """Keep the first finding of each path: the later ones are consequences."""
    kept: dict[TreePath, Finding] = {}
    for finding in findings:
        kept.setdefault(finding.path, finding)
    return list(kept.values())


def _sorted(problems: Iterable[ConfigProblem]) -> list[ConfigProblem]:
    return sorted(problems, key=lambda problem: (problem.line or 0, problem.key))


# $VAR, ${VAR:-default} and $$ in the string values of a file.

_REFERENCE = re.compile(r"\$(?:(?P<dollar>\$)|(?P<name>[A-Za-z_]\w*)|(?P<brace>\{(?P<inner>[^}]*)\}?))", re.ASCII)
_BRACED = re.compile(r"([A-Za-z_]\w*)(?::-(.*))?", re.ASCII | re.DOTALL)
_DOLLAR = "write $$ for a dollar sign"


def expand(value: Any, env: Mapping[str, str], path: TreePath, findings: list[Finding]) -> Any:
    """The value with all references replaced; one that cannot be replaced stays and becomes a finding."""
    if isinstance(value, str):
        return _expand_text(value, env, path, findings) if "$" in value else value
    if isinstance(value, dict):
        return {key: expand(item, env, (*path, key), findings) for key, item in value.items()}
    if isinstance(value, list):
        return [expand(item, env, (*path, index), findings) for index, item in enumerate(value)]
    return value


def _expand_text(text: str, env: Mapping[str, str], path: TreePath, findings: list[Finding]) -> str:
    def replace(match: re.Match[str]) -> str:
        if match["dollar"]:
            return "$"
        if match["name"]:
            name, default = match["name"], None
        else:
            braced = _BRACED.fullmatch(match["inner"]) if match[0].endswith("}") else None
            if braced is None:
                findings.append(Finding(path, "has a ${ that is not of the form ${NAME} or ${NAME:-default}", _DOLLAR))
                return match[0]
            name, default = braced[1], braced[2]
        found = env.get(name)
        if found or (found is not None and default is None):
            return found
        if default is not None:
            return default
        findings.append(_unset(name, is_certain=match[0] == text or bool(match["brace"]) or name.isupper(), path=path))
        return match[0]

    return _REFERENCE.sub(replace, text)


def _unset(name: str, *, is_certain: bool, path: TreePath) -> Finding:
    # `pa$sword` is probably a password with a dollar sign, not a variable: its second half must not be printed.
    subject = f"environment variable {name}" if is_certain else "the environment variable named after its $"
    return Finding(
        path, f"{subject} is not set", f"set it, or {_DOLLAR}" if not is_certain else "set it where antler starts"
    )


# The origin of the settings, for reloads while the gateway runs.

ENV_FILE = ".env"
"""A file next to the config: variables missing in the environment, as NAME=value lines (python-dotenv)."""


def variables(path: Path | None, env: Mapping[str, str]) -> Mapping[str, str]:
    """The environment, completed by the .env file next to the config. Raises ConfigError if the file is unreadable."""
    file = _env_file(path)
    if file is None:
        return env
    from dotenv import dotenv_values  # not at the top: most starts without a config do not need it

    try:
        found = dotenv_values(file, interpolate=False)
    except (OSError, UnicodeDecodeError) as error:
        why = os.strerror(error.errno or 0) if isinstance(error, OSError) else "is not UTF-8 text"
        raise ConfigError([ConfigProblem(file=str(file), key="", message=f"cannot be read: {why}")]) from None
    return {name: value for name, value in found.items() if value is not None} | dict(env)


def exposed(path: Path | None) -> str | None:
    """A warning if other users of the machine can read the .env file, with the remedy; else None."""
    file = _env_file(path)
    mode = 0 if file is None else stat.S_IMODE(file.stat().st_mode)
    if not mode & 0o077:
        return None
    return f"{file} contains secrets and other users can read it (mode {mode:o}): chmod 600 {file}"


def _env_file(path: Path | None) -> Path | None:
    file = None if path is None else path.absolute().parent / ENV_FILE
    return file if file is not None and os.path.isfile(file) else None  # False where the folder may not be read


Signature = tuple[tuple[str, int, int, int], ...]


@dataclass(slots=True)
class SettingsSource:
    """The origin of the settings. path: the config file, None for the built-in default. options: from the command line,
    see load. seen: the signature of what was read last."""

    path: Path | None
    options: Mapping[str, Any] = field(default_factory=dict)
    seen: Signature = ()

    def read(self) -> Settings:
        """Read the current settings. Raises ConfigError with every problem."""
        settings = load(self.path, variables(self.path, os.environ), self.options)
        self.seen = self.signature(settings.agents_dir)
        return settings

    def would_be(self, text: str) -> Settings:
        """The settings if the file contained this text. Raises ConfigError with every problem. Changes nothing."""
        return load(self.path, variables(self.path, os.environ), self.options, text)

    def data_dir(self) -> Path | None:
        """The data folder, even of a faulty config; None if it cannot be determined."""
        try:
            env = variables(self.path, os.environ)
        except ConfigError:
            env = os.environ
        return data_dir_of(self.path, env, self.options)

    def signature(self, agents_dir: Path) -> Signature:
        """A value that changes whenever the config, .env or an agent's file was written. Blocking, but quick."""
        try:
            return tuple(_signed(path) for path in self._files(agents_dir))
        except OSError:  # a folder was removed while it was listed
            return ()

    def _files(self, agents_dir: Path) -> Iterator[Path]:
        if self.path is not None:
            yield self.path
            yield self.path.absolute().parent / ENV_FILE
            yield from sorted(agents_dir.glob("*/*"))


def _signed(path: Path) -> tuple[str, int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return str(path), 0, 0, 0
    return str(path), found.st_mtime_ns, found.st_size, found.st_ino


# The folder of agents named in the settings.

USUAL = "agents"
"""The default folder, which need not exist."""


def agents_of(settings: Settings) -> LoadedAgents:
    """All agents without faults, and the problems of the others."""
    known = Known(
        models=[model.name for model in settings.models],
        groups={tool.group for tool in settings.tools if tool.group},
        subagents={GENERAL_PURPOSE, BASH, *settings.subagents.types},
        servers=settings.mcp_servers.keys(),
    )
    return load_agents(settings.agents_dir, known)


def agent_problems(settings: Settings, file: Path | None) -> Iterator[ConfigProblem]:
    """Problems of the agents. file: the config file, named in problems of its own keys."""
    config = str(file) if file is not None else "built-in default"
    if settings.agents_dir.name != USUAL and not settings.agents_dir.is_dir():
        yield ConfigProblem(file=config, key="agents_dir", message="is not a folder")
    loaded = agents_of(settings)
    for problem in loaded.problems:
        yield ConfigProblem(file=str(problem.file), key=problem.key, message=problem.message)
    named = {"conversations.agent": settings.conversations.agent}
    for account, channel in settings.channels.items():
        named[f"channels.{account}.agent"] = channel.agent or DEFAULT
        named[f"channels.{account}.conversations.agent"] = settings.conversations_for(account).agent
    broken = {problem.file.name for problem in loaded.problems} | {p.file.parent.name for p in loaded.problems}
    for key, name in named.items():
        if name not in loaded.definitions and name not in broken:
            known = ", ".join(loaded.definitions)
            yield ConfigProblem(file=config, key=key, message="unknown agent", suggestion=f"known: {known}")
            return
