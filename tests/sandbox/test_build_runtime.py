"""How the runtime for the agent's code is built: whole or not at all, once, and movable. With a package of our own."""

from __future__ import annotations

import fcntl
import os
import subprocess
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from sandbox.policy import CHECKOUT, RUNTIME, built_from, complete

if TYPE_CHECKING:
    from pathlib import Path

SYSTEM_PYTHON = "/usr/bin/python3"
SECONDS = 100
WHEEL = {
    "antlers.py": "def main():\n    print('of an elk', __file__)\n",
    "antlers-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: antlers\nVersion: 1.0\n",
    "antlers-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "antlers-1.0.dist-info/entry_points.txt": "[console_scripts]\nshow-antlers = antlers:main\n",
    "antlers-1.0.dist-info/RECORD": "",
}

pytestmark = pytest.mark.skipif(
    subprocess.run([SYSTEM_PYTHON, "-c", "import sys, ensurepip, venv; assert sys.version_info >= (3, 11)"]).returncode
    != 0,
    reason=f"{SYSTEM_PYTHON} cannot make environments",
)


@dataclass
class Ground:
    """A folder with a runtime, and the only packages that there are."""

    folder: Path

    @property
    def runtime(self) -> Path:
        return self.folder / "runtime"

    def build(self, wanted: str = "antlers==1.0", *more: str) -> subprocess.CompletedProcess[str]:
        packages = self.folder / "packages.txt"
        packages.write_text(f"# comment\n{wanted}\n")
        return subprocess.run(
            [SYSTEM_PYTHON, "-B", "-m", "sandbox.build_runtime", *self._options(packages), *more],
            cwd=CHECKOUT,
            env={"PATH": os.environ["PATH"], "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.folder), "HOME": "/"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )

    def _options(self, packages: Path) -> list[str]:
        return ["--folder", str(self.runtime), "--packages", str(packages)]


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    with zipfile.ZipFile(tmp_path / "antlers-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in WHEEL.items():
            wheel.writestr(name, text)
    return Ground(tmp_path)


def test_what_was_built_works_wherever_it_is_and_is_built_once(ground: Ground, tmp_path: Path) -> None:
    built = ground.build()
    assert built.returncode == 0, built.stderr
    assert "ready" in built.stderr
    assert built.stdout == ""
    assert complete(ground.runtime) == ground.runtime
    first = ground.runtime.stat().st_ino

    again = ground.build()
    assert (again.returncode, again.stderr) == (0, "")
    assert ground.runtime.stat().st_ino == first

    moved = tmp_path / "moved"
    ground.runtime.rename(moved)
    shown = subprocess.run(["show-antlers"], env={"PATH": f"{moved}/bin:/usr/bin:/bin"}, stdout=subprocess.PIPE)
    assert shown.stdout.decode() == f"of an elk {next(moved.glob('lib/*/site-packages'))}/antlers.py\n"
    (bytecode,) = moved.rglob("antlers.*.pyc")
    assert f"{RUNTIME}/lib/".encode() in bytecode.read_bytes()
    assert not [each for each in moved.rglob("*") if each.is_file() and os.fsencode(tmp_path) in each.read_bytes()]


def test_a_failure_says_why_and_leaves_the_old_one(ground: Ground) -> None:
    assert ground.build().returncode == 0
    before = built_from(ground.runtime)
    failed = ground.build("no-such-package==1.0")
    assert failed.returncode == 1
    assert "no-such-package" in failed.stderr
    assert "make sandbox-runtime" in failed.stderr
    assert built_from(ground.runtime) == before
    assert {each.name for each in ground.folder.iterdir() if each.name.startswith("runtime")} == {
        "runtime",
        "runtime.lock",
        "runtime.log",
    }


def test_in_the_background_it_gives_way_to_another_build(ground: Ground) -> None:
    with (ground.folder / "runtime.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        other = ground.build("antlers==1.0", "--background")
    assert other.returncode == 0
    assert complete(ground.runtime) is None


def test_in_the_background_it_does_not_hold_the_output_of_who_started_it(ground: Ground) -> None:
    built = ground.build("antlers==1.0", "--background")
    assert built.returncode == 0
    assert built.stderr.count("\n") == 1
    assert "runtime.log" in built.stderr
    assert "ready" in (ground.folder / "runtime.log").read_text()
    assert complete(ground.runtime)


def test_half_of_one_is_none(ground: Ground) -> None:
    (ground.runtime / "bin").mkdir(parents=True)
    assert complete(ground.runtime) is None
    assert complete(None) is None
    leftover = ground.folder / "runtime.new"
    leftover.mkdir()
    (leftover / "rubbish").touch()
    assert ground.build().returncode == 0
    assert complete(ground.runtime)
    assert not list(ground.runtime.rglob("rubbish"))


@pytest.mark.parametrize("python", ["/bin/false", "/no/such/python"])
def test_without_a_python_it_says_what_is_needed(python: str) -> None:
    made = subprocess.run(
        ["make", "sandbox-runtime", f"SANDBOX_PYTHON={python}"], cwd=CHECKOUT, capture_output=True, text=True
    )
    assert made.returncode != 0
    assert "apt install python3" in made.stderr


@pytest.mark.parametrize(("target", "own"), [("run", "antler run"), ("test", "-m pytest")])
def test_it_is_begun_behind_what_people_start_and_waits_for_no_input(target: str, own: str) -> None:
    made = subprocess.run(["make", "-n", target], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    build, start = made.stdout.index("sandbox.build_runtime --background"), made.stdout.rindex(own)
    assert build < start
    assert made.stdout[build:].splitlines()[0].endswith("</dev/null >/dev/null &")
