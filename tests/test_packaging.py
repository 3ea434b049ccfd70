"""The project installs from pinned versions, and its packaging files agree with each other."""

from __future__ import annotations

import re
import subprocess
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.tables import table

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PINS = dict(
    line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")
)
GROUPS = PROJECT["dependency-groups"]
EXTRAS = PROJECT["project"]["optional-dependencies"]
DEPENDENCIES = [*PROJECT["project"]["dependencies"], *EXTRAS["tracing"], *GROUPS["dev"], *GROUPS["real-model"]]


@pytest.mark.parametrize("name", ["constraints.txt", "constraints-sandbox.txt"])
def test_constraints_hold_names_and_versions_only(name: str) -> None:
    for line in (ROOT / name).read_text().splitlines():
        assert line.startswith("#") or re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9.]+", line)


@table("dependency", DEPENDENCIES)
def test_each_dependency_is_pinned_to_a_version_that_it_allows(dependency: str) -> None:
    requirement = Requirement(dependency)
    pins = {canonicalize_name(name): pinned for name, pinned in PINS.items()}
    assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)])


def test_the_build_backend_is_pinned_too() -> None:
    assert {"hatchling", "pip"} <= set(PINS)


@pytest.mark.parametrize(
    "name", ["Makefile", "Dockerfile", ".ci/run", "constraints.txt", "constraints-sandbox.txt", "pyproject.toml"]
)
def test_no_index_and_no_host_in_it(name: str) -> None:
    text = (ROOT / name).read_text()
    assert not re.search(r"https?://|--(extra-)?index-url|--find-links|--trusted-host", text)


def test_one_version() -> None:
    assert version("antler") == PROJECT["project"]["version"]


def test_the_ci_script_is_executable_and_parses() -> None:
    script = ROOT / ".ci/run"
    assert script.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", script], check=True, timeout=10)


def test_the_image_is_given_the_sources_only() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    packages = set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    assert allowed == packages | {
        "agents",
        "skills",
        "pyproject.toml",
        "constraints.txt",
        "constraints-sandbox.txt",
        "README.md",
        "LICENSE",
    }
