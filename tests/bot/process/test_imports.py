"""What a gateway's process does not import, and that it is there as soon as it is asked for."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from bot.process.imports import DISPENSABLE, GATHERING, LONG, UNDOCUMENTED, UNUSED, Finder
from tests.simulators.process import REPO_ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

IDLE = """
import sys
from bot.process import imports
imports.install()
import bot.__main__, bot.process.app, bot.process.gateway, channels.telegram.channel, harness.run.runner
"""
"""Imports what a gateway with a Telegram account has imported when it idles."""
PAGE = """
import bot.http.server, bot.http.resources.routes, bot.http.api.langgraph, bot.http.api.responses, bot.http.page.chat
"""
"""The same for the page and the API."""
NEVER = (
    *("alembic", "asyncpg", "cryptography", "docx", "fastapi", "filetype.types", "jsonpointer", "langsmith._client"),
    *("lark_oapi", "lxml", "mcp", "telegram._inline.inlinequeryresult"),
    *("openai.types.responses.response", "opentelemetry", "pdfplumber", "PIL", "psycopg", "pydub", "pygments"),
    *("re2", "rich", "slack_sdk", "starlette", "uvicorn"),
)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of an empty package `gathers`; nothing of it stays."""
    folder = tmp_path / "gathers"
    folder.mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "gathers"]:
        del sys.modules[name]


def load(monkeypatch: pytest.MonkeyPatch, finder: Finder, name: str) -> Any:
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    return importlib.import_module(name)


def loaded() -> set[str]:
    return {name.partition(".")[2] for name in sys.modules if name.startswith("gathers.")}


def test_a_gathered_name_is_loaded_when_it_is_asked_for(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (package / "__init__.py").write_text(
        '"""Gathers."""\nfrom .one import First as Renamed\nfrom gathers.two import Second\n'
        'from os import sep\n__version__ = "1" + sep\n'
    )
    (package / "one.py").write_text("class First: pass")
    (package / "two.py").write_text("Second = 2")
    gathers = load(monkeypatch, Finder(gathering={"gathers"}), "gathers")
    assert (gathers.__doc__, gathers.__version__, loaded()) == ("Gathers.", "1/", set())
    assert gathers.Renamed.__name__ == "First"
    assert loaded() == {"one"}
    assert gathers.two.Second == 2  # a module of it, as after the import of all
    with pytest.raises(AttributeError, match="'gathers' has no attribute 'third'"):
        _ = gathers.third
    everything: dict[str, Any] = {}
    exec("from gathers import *", everything)
    assert everything["Second"] == 2


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("from .one import *", id="all-names"),
        pytest.param("from .one import First\nmade = First()", id="uses-a-name"),
        pytest.param("from .one import one", id="named-as-its-module"),
        pytest.param("from .one import First\nmade = one.First", id="uses-its-module"),
        pytest.param("from .one import First\ndef __getattr__(name): raise AttributeError(name)", id="own-getattr"),
    ],
)
def test_a_package_that_does_more_is_loaded_as_it_stands(
    package: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (package / "__init__.py").write_text(text)
    (package / "one.py").write_text("class First: pass\none = First")
    load(monkeypatch, Finder(gathering={"gathers"}), "gathers")
    assert loaded() == {"one"}


def test_a_module_does_without_what_others_have(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (package / "__init__.py").touch()
    (package / "optional.py").touch()
    for name in ("without", "needing"):
        (package / f"{name}.py").write_text(
            "try:\n    import gathers.optional\n    there = True\nexcept ImportError:\n    there = False"
        )
    finder = Finder(dispensable={"gathers.optional": ("gathers.without",)})
    assert not load(monkeypatch, finder, "gathers.without").there
    assert importlib.import_module("gathers.needing").there


@pytest.mark.parametrize("asked", ["module.Client(3).number", "module.Other(3).number", "Client(3).number"])
def test_an_unused_module_is_loaded_by_its_first_use(
    package: Path, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    (package / "__init__.py").touch()
    (package / "parts.py").touch()
    (package / "client.py").write_text(
        "import gathers.parts\nclass Client:\n    def __init__(self, number): self.number = number\nOther = Client"
    )
    module = load(monkeypatch, Finder(unused={"gathers.client": ("Client",)}), "gathers.client")
    names = {"module": module, "Client": module.Client}
    assert isinstance(module.Client, type)  # what pydantic takes for a field
    assert loaded() == {"client"}
    assert eval(asked, names) == 3
    assert loaded() == {"client", "parts"}


def test_other_threads_wait_for_a_module_that_is_executed(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (package / "__init__.py").touch()
    (package / "client.py").write_text(
        "import pytest\nbegun, goes_on = pytest.gathers_events\nbegun.set()\nassert goes_on.wait(20)\n"
        "class Client: pass\nclass Other: pass"
    )
    begun, goes_on, asked = threading.Event(), threading.Event(), threading.Event()
    monkeypatch.setattr(pytest, "gathers_events", (begun, goes_on), raising=False)
    module = load(monkeypatch, Finder(unused={"gathers.client": ("Client",)}), "gathers.client")

    def other() -> Any:
        asked.set()
        return module.Other

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(lambda: module.Client())
        assert begun.wait(20)
        second = threads.submit(other)
        assert asked.wait(20)
        threading.Timer(0.2, goes_on.set).start()
        assert second.result(20).__name__ == "Other"
        assert type(first.result(20)).__name__ == "Client"
    assert "__getattr__" not in vars(module)


DOCUMENTED = """
"Module: TEXT"
def function():
    "Function: TEXT"
    assert False
def short():
    "Short."
def says():
    "Says: TEXT"
    return "Says: TEXT"
class Thing:
    "Class: TEXT"
    def method(self):
        "Method: TEXT"
    @property
    def value(self):
        "Value: TEXT"
        return 3
class Named:
    "Named: TEXT"
    NAME = "Named: TEXT"
class Text:
    first = "First: TEXT"
called = lambda: "Lambda: TEXT"
made = ["List: TEXT" for _ in (1,)]
given = list("Generated: TEXT" for _ in (1,))
"""


def test_long_docstrings_are_not_kept_and_all_else_is(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "long " * (LONG // 5)
    (package / "__init__.py").write_text(DOCUMENTED.replace("TEXT", text))
    made = load(monkeypatch, Finder(undocumented={"gathers"}), "gathers")
    removed = (made, made.function, made.Thing, made.Thing.method, made.Thing.value)
    assert [each.__doc__ for each in removed] == [None] * 5
    assert made.short.__doc__ == "Short."
    assert made.says.__doc__ == made.says() == f"Says: {text}"
    assert made.Named.__doc__ == made.Named.NAME == f"Named: {text}"
    assert (made.Text.first, made.Thing().value) == (f"First: {text}", 3)
    assert (made.called(), made.made, made.given) == (f"Lambda: {text}", [f"List: {text}"], [f"Generated: {text}"])
    with pytest.raises(AssertionError):
        made.function()


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", IDLE + code], cwd=REPO_ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_idle_process_has_imported_nothing_for_others() -> None:
    assert run(f"print([name for name in {NEVER} if name in sys.modules])") == "[]\n"


def test_what_an_idle_process_does_not_use_waits() -> None:
    looks = f"print([name for name in {sorted(UNUSED)} if '__getattr__' not in vars(sys.modules[name])])"
    assert run(f"{PAGE}{looks}") == "[]\n"


def test_what_is_imported_later_works_in_a_process_that_does_without() -> None:
    later = ("mcp", "sse_starlette", "slack_bolt.async_app", "alembic", "psycopg", "lxml.etree")
    assert run(f"{PAGE}import {', '.join(later)}") == ""


def test_of_libraries_an_idle_process_keeps_few_docstrings() -> None:
    code = f"""
from inspect import isclass, isfunction
kept = 0
for name, module in sorted(sys.modules.items()):
    if name.partition(".")[0] in {sorted(UNDOCUMENTED)}:
        own = [each for each in list(vars(module).values()) if (isclass(each) or isfunction(each))]
        kept += sum(len(each.__doc__ or "") for each in own if each.__module__ == name)
print(kept)
"""
    assert int(run(code)) < 400_000  # characters; with the long ones 1 350 000


@pytest.mark.parametrize("name", ["run", "gateway", "worker"])
def test_every_process_that_serves_does_without(name: str, tmp_path: Path) -> None:
    code = f"""
import sys
from bot.__main__ import app
try:
    app([{name!r}, "--config", {str(tmp_path / "none.yaml")!r}])
except SystemExit:
    from bot.process.imports import Finder
    print(sum(isinstance(finder, Finder) for finder in sys.meta_path))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPO_ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "1\n", done.stderr


def test_every_package_of_the_table_is_gathered_and_has_all_its_names() -> None:
    code = f"""
import importlib
for name in {sorted(GATHERING)}:
    package = importlib.import_module(name)
    assert "__getattr__" in vars(package), f"{{name}} is loaded as it stands"
    for each in package.__all__:
        getattr(package, each)
"""
    assert run(code) == ""


def test_what_is_dispensed_with_is_there_for_others() -> None:
    code = f"import importlib\nfor name in {sorted(DISPENSABLE)}: importlib.import_module(name)"
    assert run(code) == ""
