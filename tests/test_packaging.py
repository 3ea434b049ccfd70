"""The project installs from pinned versions, and its packaging files agree with each other."""

from __future__ import annotations

import re
import subprocess
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bot.settings.load import load
from sandbox.remote.server.config import ServerSettings
from tests.tables import table

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PINS = dict(
    line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")
)
GROUPS = PROJECT["dependency-groups"]
EXTRAS = PROJECT["project"]["optional-dependencies"]
DEPENDENCIES = [
    *PROJECT["project"]["dependencies"],
    *EXTRAS["tracing"],
    *(requirement for group in ("dev", "browser", "real-model") for requirement in GROUPS[group]),
]


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
        "config.yaml.example",
        "README.md",
        "LICENSE",
    }


COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())


def _services() -> dict[str, Any]:
    """Those that run the image of this repository, by name."""
    return {name: each for name, each in COMPOSE["services"].items() if each["image"] == "antler"}


def test_every_profile_of_compose_is_told_and_has_a_service() -> None:
    profiles = [profile for each in COMPOSE["services"].values() for profile in each["profiles"]]
    told = re.findall(r"docker compose --profile (\w+)", (ROOT / "docs/docker.md").read_text())
    assert set(profiles) == set(told) == {"demo", "bot", "postgres", "sandbox"}


def test_no_service_of_compose_has_privileges() -> None:
    for name, service in _services().items():
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"]), name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert not {"privileged", "cap_add", "user", "ports", "devices"} & set(service), name
        others = [option for option in service["security_opt"] if not option.startswith("no-new")]
        assert not others or name == "sandbox"
    assert COMPOSE["networks"]["sandboxes"] == {"internal": True}
    assert COMPOSE["services"]["sandbox"]["networks"] == ["sandboxes"]


@pytest.mark.parametrize("name", _services())
def test_what_compose_sets_is_a_setting(name: str) -> None:
    words = {"POSTGRES_PASSWORD": "secret", "SANDBOX_TOKEN": "0123456789abcdef"}
    given = {key: _interpolated(value, words) for key, value in _services()[name].get("environment", {}).items()}
    dockerfile = re.findall(r"(ANTLER__\w+)=(\S+)", (ROOT / "Dockerfile").read_text())
    settings = load(None, dict(dockerfile) | given)
    assert settings.data_dir == Path("/data")
    assert settings.sandbox.use == ("remote" if name == "bot-sandbox" else "landlock")
    assert (settings.database.url is not None) == (name == "bot-postgres")


def test_the_sandbox_server_of_compose_can_read_its_settings() -> None:
    text = _interpolated(COMPOSE["configs"]["sandbox"]["content"], {"SANDBOX_TOKEN": "0123456789abcdef"})
    settings = ServerSettings.model_validate(yaml.safe_load(text))
    assert (settings.sandbox.use, settings.data_dir) == ("bubblewrap", Path("/data"))
    remote = COMPOSE["services"]["bot-sandbox"]["environment"]["ANTLER__SANDBOX__REMOTE__URL"]
    assert remote == f"http://sandbox:{settings.listen.port}"


def _interpolated(text: str, words: dict[str, str]) -> str:
    return re.sub(r"\$\{(\w+):-\}", lambda found: words[found[1]], text)


def test_the_wheel_holds_what_the_page_is_made_of() -> None:
    """hatchling leaves out what git ignores; everything else below a package is in the wheel."""
    files = [*(ROOT / "bot/http/page/static").iterdir(), *(ROOT / "bot/http/page/templates").rglob("*.html")]
    assert len(files) > 15
    ignored = subprocess.run(
        ["git", "check-ignore", *map(str, files)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=10
    )
    assert ignored.stdout == ""
