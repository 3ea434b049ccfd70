"""Generates docs/configuration.md from the settings and their descriptions in config.yaml.example.

`python -m tests.configuration` writes it; tests/test_docs.py compares it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic_core import PydanticUndefined

from bot.settings import Settings
from bot.settings.model import ChannelSettings
from channels.registry import PLATFORMS, config_class

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "config.yaml.example"
PAGE = ROOT / "docs" / "configuration.md"
HEAD = """\
# Configuration

Every key of `config.yaml`, with its type and default. [Operating](operating.md#configuration) explains environment
variables, the command line, and which changes apply without a restart. `config.yaml.example` has the same keys as a
file. `NAME` stands for a name that you choose, `[]` for each entry of a list.

<!-- Made by `python -m tests.configuration`. -->
"""
TABLE = "| key | type | default | meaning |\n|---|---|---|---|"
NAME, SECTION = "NAME", "section"
COMMON = {
    "type": "the platform, if the account's name is not one",
    "access": "like `access` below, for this account only",
    "conversations": "like `conversations` below, for this account only",
    "locale": "like `locale` above, for this account only",
    "agent": "the agent that answers here",
    "proxy": "overrides `network.proxy` and `network.no_proxy`; `direct`: none",
}
"""Keys that every account may have."""
_KEY = re.compile(r"(?P<indent> *)(?P<off># ?)?(?P<more> *)(?P<item>- )?(?P<key>\w+):(?: (?P<value>.*))?")
_MORE = re.compile(r" {30,}# (?P<text>.+)|# {30,}# (?P<other>.+)")
"""A comment that continues the one above."""
KINDS = {bool: "`true` | `false`", int: "whole number", float: "number", Path: "path", SecretStr: "text, a secret"}


@dataclass(frozen=True, slots=True)
class Told:
    """The example's description of one key. shown: its value there."""

    shown: str
    meaning: str


def page() -> str:
    rows: dict[str, list[str]] = {"General": []}
    said = told()
    for path, field in paths().items():
        top = re.split(r"[.\[]", path)[0]
        if row := _row(path, field, said.get(path, Told("", ""))):
            rows.setdefault(top if _is_section(top) else "General", []).append(row)
    return HEAD + "".join(f"\n## {name}\n\n{TABLE}\n" + "\n".join(found) + "\n" for name, found in rows.items())


def _is_section(name: str) -> bool:
    return name == "channels" or any(True for _ in _models(Settings.model_fields[name].annotation))


@cache
def paths() -> dict[str, FieldInfo]:
    """All keys by path, such as models[].name and mcp_servers.NAME.url."""
    return dict(_walk(Settings, ""))


def _walk(model: type[BaseModel], above: str) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        path = above + name
        if model is Settings and name == "channels":
            yield path, field
            for platform in PLATFORMS:
                yield from _walk(config_class(platform), f"channels.{platform}.")
            yield from ((f"channels.{NAME}.{key}", of) for key, of in _common().items())
            continue
        yield path, field
        for inner, join in _models(field.annotation):
            yield from _walk(inner, path + join)


def _common() -> dict[str, FieldInfo]:
    return {name: field for name, field in ChannelSettings.model_fields.items() if name != "adapter"}


def _models(annotation: Any) -> Iterator[tuple[type[BaseModel], str]]:
    """The models that a value contains, each with the path between the value and the model's keys."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, "."
    elif origin in (Union, UnionType, Annotated):
        for kind in inner[: 1 if origin is Annotated else None]:
            yield from _models(kind)
    elif origin is tuple:
        yield from ((model, "[]" + join) for model, join in _models(inner[0]))
    elif origin in (dict, Mapping):
        yield from ((model, f".{NAME}" + join) for model, join in _models(inner[1]))


def told() -> dict[str, Told]:
    """The descriptions in the example, by path of the key."""
    known, found = paths(), dict[str, Told]()
    above: list[tuple[int, str]] = []
    last = ""
    for line in EXAMPLE.read_text(encoding="utf-8").splitlines():
        more, seen = _MORE.fullmatch(line), _KEY.fullmatch(line)
        if more is not None and last:
            found[last] = Told(found[last].shown, f"{found[last].meaning} {more['text'] or more['other']}")
        if more is not None or seen is None:
            continue
        indent = len(seen["indent"]) + len(seen["more"] or "") + len(seen["item"] or "")
        above = [each for each in above if each[0] < indent]
        path = _path(above[-1][1] if above else "", seen["key"], known)
        above.append((indent, path))
        shown, _, meaning = f" {seen['value'] or ''}".partition(" #")
        last = path if path in known else ""
        if last:
            found[path] = Told(shown.strip(), meaning.strip())
    return found


def _path(above: str, key: str, known: Mapping[str, FieldInfo]) -> str:
    """The path of a key in the example. A word that is no key, such as one in a comment, gets a path of no key."""
    if not above:
        return key
    for path in (f"{above}.{key}", f"{above}[].{key}", f"{above}.{NAME}"):
        if path in known or any(each.startswith(f"{path}.") for each in known):
            return path
    return f"{above}.{key}"


def _row(path: str, field: FieldInfo, said: Told) -> str:
    """A row of the table; "" for a section without a description of its own."""
    kind, meaning = takes(field), said.meaning
    if path.startswith(f"channels.{NAME}."):
        meaning = COMMON[field_name(path)]
    if kind == SECTION and not meaning:
        return ""
    alternatives = kind.replace("`", "")
    meaning = meaning.removeprefix(alternatives).removeprefix(":").strip() if alternatives else meaning
    cells = (f"`{path}`", kind, _default(field, said), meaning)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def field_name(path: str) -> str:
    return path.rpartition(".")[2]


def _default(field: FieldInfo, said: Told) -> str:
    default = field.get_default(call_default_factory=True, validated_data={})
    if default is PydanticUndefined:
        return "" if "default " in said.meaning else "required"
    if isinstance(default, BaseModel):
        return f"`{said.shown}`" if said.shown.startswith("{") else ""
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if default is None or default in ((), {}, "", frozenset()):
        return ""
    if isinstance(default, tuple | Path):
        return f"`{said.shown}`" if said.shown else ""
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


def takes(field: FieldInfo) -> str:
    """The type of a field in words, with its bounds."""
    bounds = []
    for each in field.metadata:
        low, high = getattr(each, "ge", None), getattr(each, "le", None)
        over = getattr(each, "gt", None)
        bounds += [f"{_figure(low)} or more"] if low is not None and high is None else []
        bounds += [f"more than {_figure(over)}"] if over is not None else []
        bounds += [f"at most {_figure(high)}"] if high is not None else []
    return " ".join(filter(None, [_kind(field.annotation), ", ".join(bounds)]))


def _figure(value: float) -> str:
    return f"{value:f}".rstrip("0").rstrip(".")


def _kind(annotation: Any) -> str:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(inner[0])
    if origin is Literal:
        return " | ".join(f"`{str(each).lower() if isinstance(each, bool) else each}`" for each in inner)
    if origin in (Union, UnionType):
        return " | ".join(_kind(each) for each in inner if each is not type(None))
    if origin in (tuple, frozenset, list):
        return "list"
    if origin in (dict, Mapping):
        return "keys and values"
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return " | ".join(f"`{each.value}`" for each in annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return SECTION
    return KINDS.get(annotation, "text")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
