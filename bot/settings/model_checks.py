"""What is wrong with `models:` beyond its schema: classes, names, fallbacks, arguments without use; for checks.py."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from bot.settings.problems import Finding, did_you_mean
from harness.config import SAME
from harness.extra_packages import install_command, package_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

CLASS_PATH = re.compile(r"([A-Za-z_]\w*)(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
ONE_CALL = re.compile(r"(?<=[^/])/(chat/completions|completions|responses|embeddings|messages|models)/*$")
"""Where examples and dashboards show the address of a call, which is often pasted for that of the service."""
THINKING = ("show_thinking", "return_thinking", "when_thinking_enabled", "when_thinking_disabled")


def model_names(values: Mapping[str, Any]) -> list[str]:
    """The names that other sections may use."""
    models = values.get("models")
    listed = [str(model.get("name")) for model in models if isinstance(model, dict)] if isinstance(models, list) else []
    return listed or ["demo"]


def check_models(values: Mapping[str, Any]) -> Iterator[Finding]:
    models = values.get("models")
    known = model_names(values)
    seen: dict[Any, int] = {}
    for index, model in enumerate(models if isinstance(models, list) else ()):
        if not isinstance(model, dict):
            continue
        name = model.get("name")
        if isinstance(name, str):
            if name in seen:
                yield Finding(("models", index, "name"), f"is the same as that of models[{seen[name]}]")
            seen.setdefault(name, index)
        yield from _model_class(index, model)
        yield from _fallbacks(index, model, known)
        yield from _thinking(index, model)
        yield from _service(index, model)


def check_helpers(values: Mapping[str, Any]) -> Iterator[Finding]:
    """The models that work beside the conversations: of titles, of memories, and the judge of skills."""
    known = model_names(values)
    for name in ("title", "memory", "skill_evolution"):
        section = values.get(name)
        model = section.get("model") if isinstance(section, dict) else None
        words = [SAME] if name in ("title", "memory") else []
        if isinstance(model, str) and model and model not in (*known, *words):
            yield Finding((name, "model"), "names no model", did_you_mean(model, [*known, *words]))


def _model_class(index: int, model: Mapping[str, Any]) -> Iterator[Finding]:
    use = model.get("use", "langchain_openai:ChatOpenAI")
    if use == "demo" or not isinstance(use, str):
        return
    if not model.get("model"):
        yield Finding(("models", index, "model"), "is missing: the name that the provider gives the model")
    path = ("models", index, "use")
    form = CLASS_PATH.fullmatch(use)
    if form is None:
        yield Finding(path, "should be module:Class, for example langchain_openai:ChatOpenAI, or demo")
    elif find_spec(form[1]) is None:
        yield Finding(path, "its Python package is not installed", f"perhaps: {install_command(package_of(use))}")


def _service(index: int, model: Mapping[str, Any]) -> Iterator[Finding]:
    """The address and the key of its provider."""
    if model.get("api_key") == "":
        hint = "put the provider's key there, or leave the line out for a server that wants none"
        yield Finding(("models", index, "api_key"), "is empty", hint)
    base_url = model.get("base_url")
    if isinstance(base_url, str) and (call := ONE_CALL.search(base_url)):
        hint = f"leave out the /{call[1]} at its end: calls are added to it"
        yield Finding(("models", index, "base_url"), "is the address of one call, not of the service", hint)


def _fallbacks(index: int, model: Mapping[str, Any], known: Sequence[str]) -> Iterator[Finding]:
    """Only the list of the model that was asked for counts, so a loop is a model that is in it twice."""
    given, name = model.get("fallbacks"), model.get("name")
    listed = given if isinstance(given, list) else []
    for place, other in enumerate(listed):
        path = ("models", index, "fallbacks", place)
        if other == name:
            yield Finding(path, "is the model itself", "name another one")
        elif other in listed[:place]:
            yield Finding(path, "stands in the list twice")
        elif isinstance(other, str) and other not in known:
            yield Finding(path, "names no model", did_you_mean(other, [each for each in known if each != name]))


def _thinking(index: int, model: Mapping[str, Any]) -> Iterator[Finding]:
    if model.get("supports_thinking") in (None, False):
        for key in THINKING:
            if model.get(key):
                yield Finding(("models", index, key), "means nothing without supports_thinking: true")
