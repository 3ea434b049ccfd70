"""`antler upgrade --check`: against a real repository, an index that is not there, and databases of three ages."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from contextlib import closing
from importlib.metadata import version
from typing import TYPE_CHECKING

import pytest

from bot.cli import upgrade
from bot.cli.upgrade import Offer, Report, checkout_of, describe, tags_of
from bot.clock import SystemClock
from bot.settings import Settings
from bot.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *identity, "-C", str(folder), *arguments], check=True, capture_output=True, timeout=60)


@pytest.fixture
def repository(tmp_path: Path) -> Callable[..., Path]:
    """Makes a clone of a repository with these tags."""

    def make(*tags: str) -> Path:
        origin = tmp_path / "origin"
        origin.mkdir()
        git(origin, "init")
        git(origin, "commit", "--allow-empty", "-m", "first")
        for tag in tags:
            git(origin, "tag", "-a", "-m", tag, tag)
        git(tmp_path, "clone", str(origin), "clone")
        return tmp_path / "clone"

    return make


def test_the_newest_release_among_the_tags(repository: Callable[..., Path]) -> None:
    clone = repository("v0.9.0", "v0.10.0", "0.2", "v1.0.0rc1", "nightly")
    assert tags_of(clone) == Offer(place="the tags of origin", newest="0.10.0")


def test_no_tags_and_no_origin_are_told(repository: Callable[..., Path], tmp_path: Path) -> None:
    clone = repository()
    assert tags_of(clone).problem == "no release tag was found"
    (tmp_path / "origin").rename(tmp_path / "gone")
    git(clone, "remote", "set-url", "origin", f"http://me:s3cret@127.0.0.1:9{tmp_path}/gone")
    offer = tags_of(clone)
    assert (offer.newest, offer.problem.startswith("fatal:"), "s3cret" in offer.problem) == ("", True, False)


def test_a_checkout_is_known_by_what_pip_recorded(repository: Callable[..., Path], tmp_path: Path) -> None:
    clone = repository()
    assert checkout_of(json.dumps({"url": clone.as_uri(), "dir_info": {"editable": True}})) == clone
    assert checkout_of(json.dumps({"url": tmp_path.as_uri()})) is None
    assert checkout_of(json.dumps({"url": "https://example.org/antler.whl"})) is None
    assert checkout_of(None) is None


def test_without_an_index_it_says_that_it_could_not_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_RETRIES": "0",
        "PIP_CONFIG_FILE": "/dev/null",
    }.items():
        monkeypatch.setenv(name, value)
    offer = upgrade._index()
    assert (offer.newest, bool(offer.problem)) == ("", True)


def report_of(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    settings = Settings.model_validate({"channels": {"console": {}}, "data_dir": folder})
    upgrade.check(settings, as_json=True)
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


async def test_the_database_is_compared_with_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = report_of(tmp_path, capsys)
    assert (found["installed"], found["revision"], found["fits"]) == (version("antler"), None, True)
    await (await Store.open(f"sqlite:///{tmp_path}/antler.db", clock=SystemClock())).close()
    found = report_of(tmp_path, capsys)
    assert (found["revision"], found["fits"]) == (found["expected"], True)
    with closing(sqlite3.connect(tmp_path / "antler.db")) as database, database:
        database.execute("UPDATE alembic_version SET version_num = '2000'")
    found = report_of(tmp_path, capsys)
    assert (found["revision"], found["fits"]) == ("2000", False)


@pytest.mark.parametrize(
    ("newer", "revision", "fits", "said"),
    [
        (True, "2", True, ["0.2.0 from the tags: newer; see docs/upgrading.md", "revision 2, as this version expects"]),
        (False, "1", True, ["nothing newer", "the next start upgrades it to 2; `antler backup` first"]),
        (None, None, True, ["the tags could not be queried: no network", "none yet"]),
        (False, "3", False, ["is unknown to this version"]),
    ],
)
def test_what_people_read(newer: bool | None, revision: str | None, fits: bool, said: list[str]) -> None:
    offer = Offer(place="the tags", newest="" if newer is None else "0.2.0", problem="no network")
    report = Report(installed="0.1.0", offer=offer, newer=newer, revision=revision, expected="2", fits=fits)
    assert all(each in describe(report) for each in said)
    assert report.nothing_to_do == (newer is False and fits)


@pytest.mark.parametrize(
    ("older", "newer"), [("0.9", "0.10"), ("1.0.0", "1.0.1"), ("1.0.0.dev3", "1.1"), ("0.0", "0.0.1")]
)
def test_versions_are_compared_as_numbers(older: str, newer: str) -> None:
    assert upgrade._release(older) < upgrade._release(newer)
    assert upgrade._release("1.2") == upgrade._release("1.2.0")
