"""Agents that an operator defines: one folder each, with SOUL.md (who it is) and config.yaml (what it has).

Read at startup, by `antler check-config`, and again when a file changes. Light to import, for bot/.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml
from pydantic import Field, ValidationError

from harness.config import Section
from harness.skills.config import SkillName

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

DEFAULT = "default"
NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
OWN = "own"
"""Value of `features.memory` for an agent with a memory of its own."""
LONGEST_SOUL = 20_000
"""Characters; every request begins with this text."""
SOUL_FILE, CONFIG_FILE = "SOUL.md", "config.yaml"


class Features(Section):
    """Which of the features enabled in the config the agent has. sandbox: files and commands; mcp: the MCP servers'
    tools; memory: it sees what is remembered, and can remember more; OWN: in a memory that no other agent reads;
    knowledge: it searches the collections."""

    sandbox: bool = True
    web: bool = True
    mcp: bool = True
    planning: bool = True
    memory: Literal[True, False, "own"] = True
    knowledge: bool = True


class AgentSettings(Section):
    """An agent's config.yaml; every key is optional.

    model: used unless the chat has chosen one with /models. tool_groups: of `tools`; None: all. subagents: false: none;
    or the types that it may use. skills: names of its skills; None: all. mcp_servers: names of the servers whose tools
    it has; None: all.
    """

    description: str = Field(default="", max_length=300)
    model: str | None = None
    tool_groups: tuple[str, ...] | None = None
    subagents: bool | tuple[str, ...] = True
    skills: tuple[SkillName, ...] | None = None
    mcp_servers: tuple[str, ...] | None = None
    features: Features = Features()


@dataclass(frozen=True, slots=True)
class AgentDefinition:
    """An agent as defined by its folder. soul: the text of SOUL.md, for the prompt; "" if the file is missing."""

    name: str = DEFAULT
    soul: str = ""
    settings: AgentSettings = field(default_factory=AgentSettings)


@dataclass(frozen=True, slots=True)
class AgentProblem:
    """A problem in an agent's folder. key: within the file, "" for the whole file."""

    file: Path
    key: str
    message: str


@dataclass(frozen=True, slots=True)
class LoadedAgents:
    """The agents of a folder. definitions: by name, the default one first; without those that have problems."""

    definitions: dict[str, AgentDefinition]
    problems: tuple[AgentProblem, ...] = ()


@dataclass(frozen=True, slots=True)
class Known:
    """What an agent's config.yaml may name."""

    models: Collection[str]
    groups: Collection[str]
    subagents: Collection[str]
    servers: Collection[str] = ()


def built_in_folder() -> Path:
    """The folder of Antler's own default agent: inside this package when installed, next to it in a checkout."""
    here = Path(__file__).parents[1]
    packed = here / "built_in_agents"
    return packed if packed.is_dir() else here.parent / "agents"


def load_agents(folder: Path, known: Known) -> LoadedAgents:
    """All agents of the folder, which may be missing. A folder `default` replaces Antler's own."""
    found: dict[str, AgentDefinition] = {}
    problems: list[AgentProblem] = []
    own = built_in_folder() / DEFAULT
    folders = [own] if own.is_dir() else []
    if folder.is_dir():
        folders += sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    for path in folders:
        wrong: list[AgentProblem] = []
        definition = _load(path, known, wrong)
        problems += [problem for problem in wrong if problem not in problems]
        if not wrong:
            found[path.name] = definition
    return LoadedAgents({DEFAULT: AgentDefinition(), **found}, tuple(problems))


def _load(folder: Path, known: Known, wrong: list[AgentProblem]) -> AgentDefinition:
    if NAME.fullmatch(folder.name) is None:
        wrong.append(AgentProblem(folder, "", f"should be named {NAME.pattern}"))
    soul = (_text(folder / SOUL_FILE, wrong) or "").strip()
    if not soul and not wrong:
        wrong.append(AgentProblem(folder / SOUL_FILE, "", "is missing or empty; it describes the agent"))
    elif len(soul) > LONGEST_SOUL:
        wrong.append(AgentProblem(folder / SOUL_FILE, "", f"is longer than {LONGEST_SOUL} characters"))
    settings = _settings(folder / CONFIG_FILE, wrong)
    wrong.extend(_unknown(folder / CONFIG_FILE, settings, known))
    return AgentDefinition(folder.name, soul, settings)


def _text(file: Path, wrong: list[AgentProblem]) -> str | None:
    """The file's text; None if it does not exist."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        wrong.append(AgentProblem(file, "", "is not UTF-8 text"))
    except OSError as error:
        wrong.append(AgentProblem(file, "", f"cannot be read: {error.strerror}"))
    return None


def _settings(file: Path, wrong: list[AgentProblem]) -> AgentSettings:
    text = _text(file, wrong)
    if text is None:
        return AgentSettings()
    try:
        values: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        wrong.append(AgentProblem(file, "", f"is not valid YAML: {' '.join(str(error).split())}"))
        return AgentSettings()
    try:
        return AgentSettings.model_validate({} if values is None else values)
    except ValidationError as error:
        for fault in error.errors():
            key = ".".join(str(part) for part in fault["loc"] if part not in ("bool", "tuple[str, ...]"))
            message = "unknown key" if fault["type"] == "extra_forbidden" else fault["msg"]
            wrong.append(AgentProblem(file, key, message))
    return AgentSettings()


def _unknown(file: Path, settings: AgentSettings, known: Known) -> Iterator[AgentProblem]:
    subagents = settings.subagents if isinstance(settings.subagents, tuple) else ()
    named = (
        ("model", [settings.model] if settings.model is not None else [], known.models, "is not a configured model"),
        ("tool_groups", settings.tool_groups or (), known.groups, "is not the group of any tool"),
        ("subagents", subagents, known.subagents, "is not a subagent type"),
        ("mcp_servers", settings.mcp_servers or (), known.servers, "is not in mcp_servers"),
    )
    for key, names, there, message in named:
        for name in names:
            if name not in there:
                hint = f"; known: {', '.join(sorted(there))}" if there else ""
                yield AgentProblem(file, key, f"{name} {message}{hint}")
