"""Imports that a gateway's process avoids: unused parts of large libraries, and their docstrings: 45 MB.

`install` has to be called before a library is imported. Only docstrings are lost: names that a library gathers in a
package's `__init__` are loaded on first access, and optional dependencies of a library are reported as missing.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder, SourceFileLoader
from inspect import CO_OPTIMIZED
from opcode import opmap
from threading import RLock
from types import CodeType, MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import FrameType, ModuleType

GATHERING = frozenset(
    {
        "charset_normalizer",  # guesses a response's encoding for requests
        "fastapi.security",
        "langchain.agents.middleware",
        "langchain_openai",  # embeddings, Azure
        "langchain_openai.chat_models",
        "langgraph_sdk",  # the client of LangGraph's server
        "langsmith.types",
        "openai.types",  # a pydantic model for everything that OpenAI's API accepts and returns
        "openai.types.chat",
        "openai.types.graders",
        "openai.types.responses",
        "openai.types.shared",
        "openai.types.shared_params",
        "telegram",
        "tiktoken",
    }
)
"""Packages whose `__init__` does little but import names from all their modules."""
DISPENSABLE = {
    "cryptography": ("telegram._bot", "telegram._passport.credentials"),  # for passports, which no bot here requests
    "httpx._main": ("httpx",),  # a command line, with rich and pygments
    "psutil": ("langsmith.env._runtime_env",),
}
"""Module -> modules that work without it: their import of it fails."""
UNUSED = {
    "fastapi.openapi.models": ("Example", "OpenAPI", "SecurityBase"),  # describes the API, on request
    "fastapi.security.oauth2": ("SecurityScopes",),
    "filetype": (),  # LangChain uses it to guess the type of a picture that has none
    "jsonpatch": (),
    # harness/__init__ disables it; LangChain imports it for its types.
    "langsmith.client": ("Client", "ID_TYPE", "RUN_TYPE_T", "ReplicaAuth", "_dumps_json", "_ensure_uuid"),
    "sqlalchemy.dialects.postgresql.asyncpg": (),  # drivers that Antler does not use
    "sqlalchemy.dialects.postgresql.pg8000": (),
    "sqlalchemy.dialects.postgresql.psycopg2cffi": (),
}
"""Module -> names that other modules import from it. It is loaded when one of them is called, or when any other name is
accessed."""
UNDOCUMENTED = frozenset(
    {
        *("aiohttp", "httpx", "httpx2", "langchain", "langchain_core", "langchain_openai", "langgraph", "langsmith"),
        *("openai", "requests", "sqlalchemy", "telegram", "urllib3"),
    }
)
"""Libraries whose long docstrings are dropped, 4 MB: only people read them, and `python -OO` drops them, too."""
LONG = 300
"""Minimum length in characters of a docstring that is worth removing."""
LOAD_CONST, STORE_NAME = opmap["LOAD_CONST"], opmap["STORE_NAME"]
MANY = 256
"""Number of names of a code object that the one-byte argument of an instruction can address."""
IMPORT_SYSTEM = "importlib._bootstrap"


def install() -> None:
    """Load modules imported from now on according to the tables above. Call it once."""
    sys.meta_path.insert(0, Finder(GATHERING, DISPENSABLE, UNUSED, UNDOCUMENTED))


class Finder(MetaPathFinder):
    """Finds the modules of the tables before Python's own finders do."""

    def __init__(
        self,
        gathering: Collection[str] = (),
        dispensable: Mapping[str, Collection[str]] = MappingProxyType({}),
        unused: Mapping[str, Sequence[str]] = MappingProxyType({}),
        undocumented: Collection[str] = (),
    ) -> None:
        self._gathering = gathering
        self._dispensable = dispensable
        self._unused = unused
        self._undocumented = undocumented

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raises ModuleNotFoundError for a module that the importing module can do without."""
        if name in self._dispensable and _importing(sys._getframe()) in self._dispensable[name]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        undocumented = name.partition(".")[0] in self._undocumented
        if not undocumented and name not in self._gathering and name not in self._unused:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            file = spec.loader.path
            if name in self._unused:
                spec.loader = WaitingLoader(name, file, self._unused[name])
            elif name in self._gathering:
                spec.loader = GatheringLoader(name, file)
            else:
                spec.loader = UndocumentedLoader(name, file)
        return spec


def _importing(frame: FrameType | None) -> str:
    """The module whose code triggered the import in this frame. Determined from frames, since another thread may import
    the same module concurrently and need it."""
    while frame is not None:
        name: str = frame.f_globals.get("__name__", "")
        if name != __name__ and not name.startswith(IMPORT_SYSTEM):
            return name
        frame = frame.f_back
    return ""


class GatheringLoader(SourceFileLoader):
    """Loads a package without the modules that its `__init__` imports names from; each is loaded when one of its names
    is accessed. An `__init__` that does more with those names is executed unchanged."""

    def exec_module(self, module: ModuleType) -> None:
        gathered = _gathered(module.__name__, self.path, self.get_data(self.path))
        if gathered is None:
            return super().exec_module(module)

        def load(name: str) -> Any:
            if name in gathered.names:
                origin, original = gathered.names[name]
                found = getattr(import_module(origin), original)
            elif name in gathered.modules:
                found = import_module(f"{module.__name__}.{name}")
            else:
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            setattr(module, name, found)
            return found

        vars(module).update(__getattr__=load, __all__=sorted(gathered.names))
        exec(gathered.rest, vars(module))


@dataclass(frozen=True, slots=True)
class _Gathered:
    """Contents of an `__init__`. names: name in the package -> its module and its name there. modules: the package's
    submodules that are attributes as well. rest: the remaining code of the `__init__`."""

    names: dict[str, tuple[str, str]]
    modules: frozenset[str]
    rest: CodeType


def _gathered(package: str, path: str, source: bytes) -> _Gathered | None:
    """What an `__init__` gathers, according to its source; None if it has to be executed unchanged."""
    names: dict[str, tuple[str, str]] = {}
    rest: list[ast.stmt] = []
    for statement in ast.parse(source).body:
        origin = _origin(package, statement) if isinstance(statement, ast.ImportFrom) else None
        if isinstance(statement, ast.ImportFrom) and origin is not None:
            names |= {alias.asname or alias.name: (origin, alias.name) for alias in statement.names}
        else:
            rest.append(statement)
    modules = {origin.removeprefix(f"{package}.").partition(".")[0] for origin, _ in names.values()}
    used = {node.id for statement in rest for node in ast.walk(statement) if isinstance(node, ast.Name)}
    bound = {name for statement in rest for node in ast.walk(statement) for name in _bound(node)}
    # A name equal to its module's would become the module when that is imported. Names used by the rest have to exist,
    # and a package's own __getattr__ would replace the loader's.
    if (
        "*" in names
        or used & (names.keys() | modules)
        or modules & names.keys()
        or "__getattr__" in used | bound | names.keys()
    ):
        return None
    return _Gathered(names, frozenset(modules), compile(ast.Module(rest, []), path, "exec"))


def _bound(node: ast.AST) -> tuple[str, ...]:
    """The names that a definition or an import binds."""
    if isinstance(node, ast.FunctionDef):
        return (node.name,)
    return (node.asname or node.name,) if isinstance(node, ast.alias) else ()


def _origin(package: str, statement: ast.ImportFrom) -> str | None:
    """The submodule of the package from which names are imported; None for the package itself and other modules."""
    if statement.module is None or statement.level > 1:
        return None
    module = f"{package}.{statement.module}" if statement.level else statement.module
    return module if module.startswith(f"{package}.") else None


class WaitingLoader(SourceFileLoader):
    """Loads a module with placeholders for some of its names: classes, which serve as types. See UNUSED."""

    def __init__(self, name: str, path: str, names: Sequence[str]) -> None:
        super().__init__(name, path)
        self._names = names
        self._loading = RLock()

    def exec_module(self, module: ModuleType) -> None:
        executes = False

        def missing(name: str) -> AttributeError:
            return AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

        def load(name: str) -> Any:
            nonlocal executes
            if name.startswith("__"):  # the import system accesses some
                raise missing(name)
            with self._loading:  # other threads wait here until the module has all its names
                if executes:
                    raise missing(name)
                if vars(module).get("__getattr__") is load:
                    executes = True
                    try:
                        super(WaitingLoader, self).exec_module(module)
                    finally:
                        executes = False
                    if vars(module)["__getattr__"] is load:
                        del vars(module)["__getattr__"]
            return getattr(module, name)

        def waiting(name: str) -> type:
            return type(name, (), {"__new__": lambda _, *args, **more: load(name)(*args, **more)})

        vars(module).update({name: waiting(name) for name in self._names}, __getattr__=load)


class UndocumentedLoader(SourceFileLoader):
    """Loads a module without its long docstrings. The bytecode on disk is unchanged, and assertions stay."""

    def get_code(self, fullname: str) -> CodeType | None:
        code = super().get_code(fullname)
        return None if code is None else _undocumented(code)


def _undocumented(code: CodeType) -> CodeType:
    others: dict[int, CodeType | None] = {}
    for place, constant in enumerate(code.co_consts):
        if isinstance(constant, CodeType):
            if (other := _undocumented(constant)) is not constant:
                others[place] = other
        elif place < 2 and isinstance(constant, str) and len(constant) >= LONG and _is_docstring(code, place):
            others[place] = None
    if not others:
        return code
    return code.replace(co_consts=tuple(others.get(place, each) for place, each in enumerate(code.co_consts)))


def _is_docstring(code: CodeType, place: int) -> bool:
    """Whether the constant at this index is used as the docstring and for nothing else."""
    load = bytes((LOAD_CONST, place))
    if code.co_flags & CO_OPTIMIZED:  # a function's comes first and is never loaded; <lambda> has a value there
        return place == 0 and not code.co_name.startswith("<") and load not in code.co_code
    if "__doc__" not in code.co_names[:MANY]:
        return False
    kept = load + bytes((STORE_NAME, code.co_names.index("__doc__")))  # of a class or a module
    return kept in code.co_code and code.co_code.count(load) == 1
