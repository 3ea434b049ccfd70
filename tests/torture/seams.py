"""Wraps functions of modules that may not be loaded yet, right after their import."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class AfterImport:
    """A finder before all others; it delegates to them and changes a module once it has been executed."""

    def __init__(self) -> None:
        self._changes: dict[str, list[Callable[[ModuleType], None]]] = defaultdict(list)
        self._looking: set[str] = set()

    def install(self) -> None:
        sys.meta_path.insert(0, self)

    def change(self, module: str, change: Callable[[ModuleType], None]) -> None:
        """Call `change` with the module, at once if it is already loaded."""
        if module in sys.modules:
            change(sys.modules[module])
        else:
            self._changes[module].append(change)

    def replace(self, target: str, replace: Callable[[Any], Any]) -> None:
        """Replace "module:Class.name" or "module:name" by what `replace` returns for it."""
        module, _, path = target.partition(":")
        self.change(module, lambda loaded: _replace(loaded, path, replace))

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in self._changes or name in self._looking:
            return None
        self._looking.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._looking.discard(name)
        if spec is not None and spec.loader is not None:
            self._hook(spec, self._changes.pop(name))
        return spec

    @staticmethod
    def _hook(spec: ModuleSpec, changes: list[Callable[[ModuleType], None]]) -> None:
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            for change in changes:
                change(module)

        loader.exec_module = exec_module


def _replace(module: ModuleType, path: str, replace: Callable[[Any], Any]) -> None:
    owner: Any = module
    *above, name = path.split(".")
    for part in above:
        owner = getattr(owner, part)
    setattr(owner, name, replace(getattr(owner, name)))


def resolve(target: str) -> Any:
    """Import the function "module:Class.name". Raises ImportError or AttributeError if it no longer exists."""
    module, _, path = target.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found
