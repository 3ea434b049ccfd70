"""The list of slow tests, and the store for all tests: tests that use `url` or `store` run on both databases."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bot.clock import SystemClock
from bot.process import gc_tuning
from bot.store import Store
from tests.properties import choose_profile
from tests.simulators.postgres import PostgresServer, postgres_server
from tests.stores import hasten

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

gc_tuning.hold()  # imports and collection create a million objects, none of which are garbage
hasten()
TESTS = Path(__file__).parent
SLOW = (
    # The tests' own tools.
    "bench",
    "evals",
    "simulators",
    "torture",
    # Tests that start dozens of processes, wait for limits to take effect, or try every pattern on texts of every
    # length and every route with generated requests.
    "bot/access/test_hostile_access.py",
    "bot/cli/test_command_line.py",
    "bot/delivery/test_crash.py",
    "bot/doctor/test_online.py",
    "bot/http/test_bounds.py",
    "bot/http/test_configuration.py",
    "bot/http/test_description.py",
    "bot/http/test_guard.py",
    "bot/http/test_http.py",
    "bot/http/test_knowledge.py",
    "bot/http/test_page.py",
    "bot/http/test_research.py",
    "bot/http/test_signing.py",
    "bot/process/test_heap.py",
    "bot/process/test_imports.py",
    "bot/process/test_leftovers.py",
    "bot/process/test_tracing.py",
    "bot/setup/test_script.py",
    "bot/setup/test_wizard.py",
    "channels/feishu/test_registration.py",
    "channels/feishu/test_sdk.py",
    "channels/telegram/test_outbound_properties.py",
    "browser",
    "flow",
    "harness/mcp/test_http.py",
    "harness/mcp/test_lazy.py",
    "harness/mcp/test_runs.py",
    "harness/mcp/test_stdio.py",
    "harness/models/test_vendors.py",
    "harness/subagents/test_crash.py",
    "harness/run/test_kill.py",
    "sandbox/test_attacks.py",
    "sandbox/test_build_runtime.py",
    "sandbox/test_limits.py",
    "sandbox/test_runtime.py",
    "skills",
    "test_linear_time.py",
    # Providers other than the most common one.
    "sandbox/docker",
    "sandbox/local/test_host.py",
    "sandbox/remote",
)
"""Folders and files that `make test` leaves out."""
LONG = ("bench", "evals", "simulators")
"""The tests' own tools: not run by `make check`, which is limited to half an hour, but by `make test-all`."""
QUICK = ("flow/test_life_of_a_message.py", "skills/test_library.py")
"""Slow files that `make test` runs: a message's path through the whole gateway, and the bundled skills."""


def pytest_configure(config: pytest.Config) -> None:
    gone = [place for place in (*SLOW, *QUICK) if not (TESTS / place).exists()]
    assert not gone, f"SLOW and QUICK in {__file__} name what is not there: {gone}"
    choose_profile("quick" if config.option.markexpr.startswith("not ") else "full")


def is_slow(file: Path) -> bool:
    place = file.relative_to(TESTS)
    listed = {place.as_posix(), *(folder.as_posix() for folder in place.parents)}
    return not listed.isdisjoint(SLOW) and place.as_posix() not in QUICK


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import files that `make test` leaves out."""
    quick = config.option.markexpr == "not slow" and collection_path.name.startswith("test_")
    return True if quick and TESTS in collection_path.parents and is_slow(collection_path) else None


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_slow(item.path) or item.get_closest_marker("postgres") is not None:
            item.add_marker(pytest.mark.slow)
        if item.path.relative_to(TESTS).parts[0] in LONG:
            item.add_marker(pytest.mark.long)
    items.sort(key=lambda item: not is_slow(item.path))  # `--dist loadfile` begins in this order


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    gc_tuning.settle()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    yield from postgres_server()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database that does not exist yet (SQLite) or is empty (PostgreSQL)."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/antler.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.database()


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    opened = await Store.open(url, clock=SystemClock())
    yield opened
    await opened.close()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter, unlike pytest's."""
    folder = Path(tempfile.mkdtemp(prefix="antler-open-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)
