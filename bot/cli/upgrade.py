"""`antler upgrade --check`: the installed version, the newest one at its source, and whether the database fits."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from packaging.version import Version
from sqlalchemy import inspect, select
from sqlalchemy.exc import DBAPIError

from bot.store import migrations, sql
from bot.store.schema import alembic_version

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bot.settings import Settings

SECONDS = 30
RELEASE = re.compile(r"v?(\d+(?:\.\d+)*)")
CREDENTIALS = re.compile(r"//[^/@\s]+@")
HOW = "see docs/upgrading.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The newest version at a source. place: what was queried. newest: "" where it is unknown; problem says why."""

    place: str
    newest: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Result of the check. newer: whether a newer version is offered, None when that is unknown. revision: of the
    database, None when there is none yet; expected: that of this program. fits: a start would accept the database."""

    installed: str
    offer: Offer
    newer: bool | None
    revision: str | None
    expected: str
    fits: bool
    database_problem: str = ""

    @property
    def nothing_to_do(self) -> bool:
        return self.newer is False and self.fits


def check(settings: Settings, *, as_json: bool) -> int:
    """Print the report; returns 0 when the newest version is installed and fits the database, else 1."""
    report = _report(settings)
    print(json.dumps(asdict(report), indent=2) if as_json else describe(report))
    return 0 if report.nothing_to_do else 1


def _report(settings: Settings) -> Report:
    package = distribution("antler")
    checkout = checkout_of(package.read_text("direct_url.json"))
    offer = tags_of(checkout) if checkout is not None else _index()
    newer = _release(offer.newest) > _release(package.version) if offer.newest else None
    revision, problem = _revision(settings)
    return Report(
        installed=package.version,
        offer=offer,
        newer=newer,
        revision=revision,
        expected=migrations.REVISIONS[-1],
        fits=not problem and (revision is None or revision in migrations.REVISIONS),
        database_problem=problem,
    )


def describe(report: Report) -> str:
    """The report as lines for people."""
    offer = report.offer
    if report.newer is None:
        offered = f"{offer.place} could not be queried: {offer.problem}"
    else:
        offered = f"{offer.newest} from {offer.place}" + (f": newer; {HOW}" if report.newer else ": nothing newer")
    if report.database_problem:
        database = f"cannot be read: {report.database_problem}"
    elif report.revision is None:
        database = "none yet"
    elif report.revision == report.expected:
        database = f"revision {report.revision}, as this version expects"
    elif report.fits:
        database = f"revision {report.revision}: the next start upgrades it to {report.expected}; `antler backup` first"
    else:
        database = f"revision {report.revision} is unknown to this version: a newer one wrote it; install that one"
    return f"installed  {report.installed}\noffered    {offered}\ndatabase   {database}"


def checkout_of(direct_url: str | None) -> Path | None:
    """The git checkout that was installed (PEP 610), None for a package."""
    url = urlsplit(json.loads(direct_url)["url"]) if direct_url else None
    if url is None or url.scheme != "file":
        return None
    folder = Path(unquote(url.path))
    return folder if (folder / ".git").exists() else None


def tags_of(checkout: Path) -> Offer:
    """The newest release among the tags of the repository that the checkout came from."""
    place = "the tags of origin"
    try:
        found = _output("git", "-C", str(checkout), "ls-remote", "--tags", "--refs", "origin")
    except OSError as error:
        return Offer(place=place, problem=str(error))
    newest = _newest(line.rpartition("refs/tags/")[2] for line in found.splitlines())
    return Offer(place=place, newest=newest, problem="" if newest else "no release tag was found")


def _index() -> Offer:
    """The newest release on the package index that pip is configured to use."""
    place = "the package index"
    try:
        found = _output(sys.executable, "-m", "pip", "index", "versions", "antler", "--disable-pip-version-check")
    except OSError as error:
        return Offer(place=place, problem=str(error))
    newest = _newest(found.partition("Available versions:")[2].partition("\n")[0].replace(",", " ").split())
    return Offer(place=place, newest=newest, problem="" if newest else "no release was found")


def _output(*command: str) -> str:
    """The output of a program. Raises OSError with a line that says why there is none."""
    environment = os.environ | {"GIT_TERMINAL_PROMPT": "0", "PIP_NO_INPUT": "1"}
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise OSError(f"no answer within {SECONDS} s") from None
    if done.returncode:
        lines = CREDENTIALS.sub("//", done.stderr).strip().splitlines() or [f"exit code {done.returncode}"]
        raise OSError(next((line for line in lines if line.startswith(("fatal:", "ERROR:"))), lines[-1]))
    return done.stdout


def _newest(names: Iterable[str]) -> str:
    """The highest release among them, "" if there is none; pre-releases do not count."""
    releases = [found[1] for name in names if (found := RELEASE.fullmatch(name))]
    return max(releases, key=_release, default="")


def _release(version: str) -> Version:
    """The release that a version is of, or leads to; 1.2 and 1.2.0 are the same."""
    return Version(Version(version).base_version)


def _revision(settings: Settings) -> tuple[str | None, str]:
    """The database's revision, None if there is none, and why it cannot be read."""
    url = sql.parse(settings.database_url)
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").exists():
        return None, ""
    engine = sql.reader_engine(url)
    try:
        with engine.connect() as tx, tx.begin():
            if not inspect(tx).has_table(alembic_version.name):
                return None, ""
            return tx.scalar(select(alembic_version.c.version_num)), ""
    except DBAPIError as error:
        return None, type(error.orig).__name__
    finally:
        engine.dispose()
