"""$VAR, ${VAR:-default} and $$ in the string values of a configuration file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from bot.settings.problems import Finding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bot.settings.problems import Path

_REFERENCE = re.compile(r"\$(?:(?P<dollar>\$)|(?P<name>[A-Za-z_]\w*)|(?P<brace>\{(?P<inner>[^}]*)\}?))", re.ASCII)
_BRACED = re.compile(r"([A-Za-z_]\w*)(?::-(.*))?", re.ASCII | re.DOTALL)
_DOLLAR = "write $$ for a dollar sign"


def expand(value: Any, env: Mapping[str, str], path: Path, findings: list[Finding]) -> Any:
    """The value with all references replaced; what cannot be replaced stays as it is and becomes a finding."""
    if isinstance(value, str):
        return _expand_text(value, env, path, findings) if "$" in value else value
    if isinstance(value, dict):
        return {key: expand(item, env, (*path, key), findings) for key, item in value.items()}
    if isinstance(value, list):
        return [expand(item, env, (*path, index), findings) for index, item in enumerate(value)]
    return value


def _expand_text(text: str, env: Mapping[str, str], path: Path, findings: list[Finding]) -> str:
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


def _unset(name: str, *, is_certain: bool, path: Path) -> Finding:
    # `pa$sword` is a password with a dollar sign rather than a variable: its second half must not be printed.
    subject = f"environment variable {name}" if is_certain else "the environment variable named after its $"
    return Finding(path, f"{subject} is not set", f"set it, or {_DOLLAR}" if not is_certain else "")
