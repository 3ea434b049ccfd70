"""A sandbox of each kind, in a process of its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.sandbox.modes import MODES, Driver, Mode

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> Mode:
    found: Mode = request.param
    found.require()
    return found


@pytest.fixture
def driver(mode: Mode, open_folder: Path) -> Driver:
    return Driver(mode, private_folder(open_folder / "data", mode))


def private_folder(path: Path, mode: Mode) -> Path:
    path.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(path, mode.gateway_user, mode.gateway_user)
    return path
