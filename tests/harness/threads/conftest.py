"""Both databases that threads are kept in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulators.postgres import PostgresServer, postgres_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.harness.support import Bench


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    yield from postgres_server()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def database(request: pytest.FixtureRequest, bench: Bench) -> str:
    """A path or a URL; the bench uses it too."""
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        bench.database = server.database()
    return bench.database
