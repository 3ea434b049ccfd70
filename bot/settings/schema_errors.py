"""Turns pydantic's errors into findings in plain words, with the nearest valid key."""

from __future__ import annotations

import re
import types
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

from pydantic import BaseModel

from bot.settings.model import COMMON_KEYS, ChannelSettings, Settings
from bot.settings.problems import Finding, did_you_mean
from bot.settings.sections import ACCOUNT_ID
from channels.registry import OWN, PLATFORMS, config_class

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

    from bot.settings.problems import Path

SECRET_LENGTH = 8
"""The shortest secret that is redacted, see bot.redaction."""
_WORDS = {
    "missing": "is missing",
    "dict_type": "should be a mapping (lines of `key: value`)",
    "model_type": "should be a mapping (lines of `key: value`)",
    "model_attributes_type": "should be a mapping (lines of `key: value`)",
    "list_type": 'should be a list: ["a", "b"]',
    "tuple_type": 'should be a list: ["a", "b"]',
    "string_type": "should be text; put it in quotes",
    "int_type": "should be a whole number",
    "int_parsing": "should be a whole number",
    "int_parsing_size": "is too large",
    "int_from_float": "should be a whole number",
    "float_type": "should be a number",
    "float_parsing": "should be a number",
    "bool_type": "should be true or false",
    "bool_parsing": "should be true or false",
    "path_type": "should be a path",
    "too_short": "has no entry",
}


def findings_of(error: ValidationError, values: Mapping[str, Any]) -> Iterator[Finding]:
    """The findings of a validation. values: the validated tree; no finding repeats a value of it."""
    errors = error.errors(include_url=False)
    for details in errors:
        if details["type"] != "platform_unknown" and not _is_consequence(details, errors):
            yield _finding(details, values)


def _is_consequence(details: ErrorDetails, errors: list[ErrorDetails]) -> bool:
    """Whether an error follows from others: pydantic treats a list as empty if all its entries are faulty."""
    place = details["loc"]
    return details["type"] == "too_short" and any(
        other["loc"][: len(place)] == place and len(other["loc"]) > len(place) for other in errors
    )


def _finding(details: ErrorDetails, values: Mapping[str, Any]) -> Finding:
    path = _path_of(details["loc"])
    kind = details["type"]
    if details["loc"][-1:] == ("[key]",):
        return Finding(path, f"an account id should match {ACCOUNT_ID[1:-1]}", _simple_id(str(path[-1])))
    if kind == "extra_forbidden":
        return Finding(path, "unknown key", did_you_mean(str(path[-1]), known_keys(path[:-1], values)))
    if kind == "missing" and len(path) == 3 and path[0] == "channels" and path[2] == "type":
        return Finding(
            path[:2], "the id does not name a platform", f"add type: one of {', '.join(sorted(PLATFORMS.keys() - OWN))}"
        )
    return Finding(path, _message(details), _nearest_word(details))


def _simple_id(account: str) -> str:
    """A suggestion of a similar valid account id, if only characters need replacing; else ""."""
    simple = re.sub(r"[ .]", "-", account.lower())
    return f"write it as {simple}" if re.match(ACCOUNT_ID, simple) else ""


def _path_of(loc: Path) -> Path:
    """pydantic's location as a path in the file, where the platform's keys are directly below the account."""
    path = tuple(step for step in loc if step != "[key]")
    return (*path[:2], *path[3:]) if path[:1] == ("channels",) and path[2:3] == ("adapter",) else path


def _message(details: ErrorDetails) -> str:
    kind = details["type"]
    if kind == "value_error":
        context = details.get("ctx", {})
        message = str(context.get("error", details["msg"]))
    else:
        message = _WORDS.get(kind) or details["msg"].replace("Input should be", "should be")
    given = details["input"]
    if not isinstance(given, str) or len(given) <= 3:
        return message
    # A platform's own validator might repeat its input. What is too short for a secret may be a part of another word.
    repeated = re.escape(given)
    return re.sub(repeated if len(given) >= SECRET_LENGTH else rf"(?<![\w/]){repeated}(?![\w/])", "...", message)


def _nearest_word(details: ErrorDetails) -> str:
    if details["type"] != "literal_error" or not isinstance(details["input"], str):
        return ""
    words = [word.strip("'") for word in details["ctx"]["expected"].replace(" or ", ", ").split(", ")]
    suggestion = did_you_mean(details["input"], words)
    return suggestion if suggestion.startswith("did") else ""


def known_keys(path: Path, values: Mapping[str, Any]) -> list[str]:
    """The valid keys below a path of the tree; [] if it is not a section."""
    if len(path) == 2 and path[0] == "channels":
        return [*COMMON_KEYS, *_adapter_keys(path, values)]
    kind: Any = Settings
    for step in path:
        kind = _step(kind, step, path, values)
    return list(kind.model_fields) if isinstance(kind, type) and issubclass(kind, BaseModel) else []


def _step(kind: Any, step: str | int, path: Path, values: Mapping[str, Any]) -> Any:
    """The type one step below `kind`."""
    if kind is ChannelSettings and step not in ChannelSettings.model_fields:
        adapter = _platform_config(path, values)
        return _plain(adapter.model_fields[step].annotation) if adapter and step in adapter.model_fields else None
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        field = kind.model_fields.get(str(step))
        return _plain(field.annotation) if field else None
    arguments = get_args(kind)
    if get_origin(kind) is dict:
        return arguments[1]
    return arguments[0] if get_origin(kind) in (tuple, list) else None


def _plain(annotation: Any) -> Any:
    """X of `X | None`, else the annotation itself."""
    if get_origin(annotation) in (types.UnionType, Union):
        return next(part for part in get_args(annotation) if part is not type(None))
    return annotation


def _adapter_keys(path: Path, values: Mapping[str, Any]) -> list[str]:
    adapter = _platform_config(path, values)
    return list(adapter.model_fields) if adapter else []


def _platform_config(path: Path, values: Mapping[str, Any]) -> type[BaseModel] | None:
    account = str(path[1])
    channel = values["channels"][account]
    platform = channel.get("type", account) if isinstance(channel, dict) else account
    return config_class(platform) if isinstance(platform, str) and platform in PLATFORMS else None
