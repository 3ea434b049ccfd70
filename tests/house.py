"""`python -m tests.house`: size and shape of the production code, with the limits that the tests enforce.

This covers `antler`, `bot`, `channels`, `harness` and `sandbox` without the store's migrations. A room is a folder or
module directly below a package; imports for type checking count for the users of a module, but not for floors.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGES = ("antler", "bot", "channels", "harness", "sandbox")
CRUMB_LINES = 80
"""A shorter module with only one importer could be part of that one."""
LONGEST_FUNCTION = 60
PREPOSITIONS = {
    "about", "against", "as", "at", "behind", "beside", "by", "for", "from", "in",
    "of", "on", "over", "to", "under", "with", "within", "without",
}  # fmt: skip

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Aim(NamedTuple):
    """A limit and a goal. limit: enforced by the test, to be lowered as the figure falls. aim: the long-term goal."""

    limit: float
    aim: float


LIMITS: dict[str, Aim] = {
    "files": Aim(670, 450),
    "lines": Aim(125_550, 70_000),
    "longest file": Aim(500, 450),
    "modules at the root of bot": Aim(4, 8),
    "modules at the root of harness": Aim(7, 8),
    "modules at the root of channels": Aim(9, 11),
    "modules at the root of sandbox": Aim(5, 8),
    "modules at the root of antler": Aim(6, 8),
    "floors of antler": Aim(4, 5),
    "floors of bot": Aim(7, 7),
    "floors of harness": Aim(7, 7),
    "floors of channels": Aim(4, 4),
    "floors of sandbox": Aim(4, 7),
    "crumbs": Aim(11, 25),
    "import lines, %": Aim(8.0, 7),
    "parameters of the widest function": Aim(11, 10),
    "functions over 60 lines, %": Aim(0.05, 0.05),
    "broad excepts per 1000 lines": Aim(0.67, 0.6),
    "docstrings that open with a preposition": Aim(0, 0),
}


@dataclass(frozen=True)
class Module:
    """A module of the code. name: dotted; for a package, that of its folder."""

    name: str
    path: Path
    source: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        return self.source.count("\n")

    @property
    def room(self) -> str:
        return ".".join(self.name.split(".")[:2])

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @cached_property
    def functions(self) -> list[Function]:
        return [node for node in self.nodes if isinstance(node, Function)]

    @cached_property
    def imports(self) -> dict[str, bool]:
        """Imported names, of modules or their contents -> whether at run time, not only for type checking."""
        found: dict[str, bool] = {}
        unseen = {id(node) for block in self.nodes if _checks_types(block) for node in ast.walk(block)}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            else:
                continue
            for name in names:
                found[name] = found.get(name, False) or id(node) not in unseen
        return found

    @property
    def import_lines(self) -> int:
        nodes = (node for node in self.nodes if isinstance(node, ast.Import | ast.ImportFrom))
        return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in nodes)


def _checks_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


class House:
    """The production code below a folder."""

    def __init__(self, root: Path = ROOT) -> None:
        self.modules: dict[str, Module] = {}
        for path in sorted(path for package in PACKAGES for path in (root / package).rglob("*.py")):
            if "versions" in path.parts:
                continue
            source = path.read_text()
            name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
            self.modules[name] = Module(name, path, source, ast.parse(source))

    def figures(self) -> dict[str, float]:
        """The figures, one for each of LIMITS."""
        modules = self.modules.values()
        lines = sum(module.lines for module in modules)
        functions = [function for module in modules for function in module.functions]
        long = sum((node.end_lineno or 0) - node.lineno + 1 > LONGEST_FUNCTION for node in functions)
        found: dict[str, float] = {
            "files": len(modules),
            "lines": lines,
            "longest file": max(module.lines for module in modules if not module.name.startswith("bot.texts.")),
            "crumbs": len(self.crumbs()),
            "import lines, %": round(100 * sum(module.import_lines for module in modules) / lines, 1),
            "parameters of the widest function": max(_parameters(node) for node in functions),
            "functions over 60 lines, %": round(100 * long / len(functions), 2),
            "broad excepts per 1000 lines": round(1000 * sum(map(_broad_excepts, modules)) / lines, 2),
            "docstrings that open with a preposition": sum(len(_prepositions(module)) for module in modules),
        }
        for package in PACKAGES:
            loose = [module for module in modules if module.path.parent.name == package and module.name != package]
            found[f"modules at the root of {package}"] = sum(
                module.path.name != "__init__.py" and module.path.parent.parent.name not in PACKAGES for module in loose
            )
            found[f"floors of {package}"] = self.floors(package)
        return found

    def crumbs(self) -> list[str]:
        """Small modules with one importer."""
        users: dict[str, set[str]] = defaultdict(set)
        for module in self.modules.values():
            for name in module.imports.keys() & self.modules.keys() - {module.name}:
                users[name].add(module.name)
        return [
            module.name
            for module in self.modules.values()
            if len(users[module.name]) == 1 and module.lines < CRUMB_LINES and module.path.name != "__init__.py"
        ]

    def floors(self, package: str) -> int:
        """The longest chain of imports between rooms of a package. Raises ValueError if imports form a cycle."""
        rooms: dict[str, set[str]] = defaultdict(set)
        for module in self.modules.values():
            if module.name.split(".")[0] == package:
                used = {name for name, at_run_time in module.imports.items() if at_run_time and name in self.modules}
                below = {self.modules[name].room for name in used if name.split(".")[0] == package}
                rooms[module.room] |= below - {module.room}

        height: dict[str, int] = {}
        try:
            for room in TopologicalSorter(rooms).static_order():
                height[room] = 1 + max((height[each] for each in rooms[room]), default=0)
        except CycleError as error:
            raise ValueError(f"these import in a circle: {' -> '.join(reversed(error.args[1]))}") from None
        return max(height.values())


def _parameters(node: Function) -> int:
    names = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def _broad_excepts(module: Module) -> int:
    handlers = (node for node in module.nodes if isinstance(node, ast.ExceptHandler))
    return sum(node.type is None or ast.unparse(node.type) in ("Exception", "BaseException") for node in handlers)


def _prepositions(module: Module) -> list[str]:
    documented = [*module.functions, *(node for node in module.nodes if isinstance(node, ast.ClassDef))]
    first = ((ast.get_docstring(node) or "").split(maxsplit=1)[:1] for node in documented)
    return [word for words in first for word in words if word.lower().strip(".,:") in PREPOSITIONS]


def main() -> None:
    """Print the figures with their limits and aims."""
    figures = House().figures()
    width = max(map(len, LIMITS))
    print(f"{'':{width}}      now    limit      aim")
    for name, (limit, aim) in LIMITS.items():
        print(f"{name:{width}} {figures[name]:8g} {limit:8g} {aim:8g}")


if __name__ == "__main__":
    main()
