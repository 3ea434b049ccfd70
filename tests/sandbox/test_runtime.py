"""The runtime for the agent's code, as commands find it in every sandbox of this machine."""

from __future__ import annotations

import os
from base64 import b64encode
from typing import TYPE_CHECKING

import pytest

from sandbox.config import SandboxSettings
from sandbox.files.workspace import Workspaces
from sandbox.local.bubblewrap import BubblewrapProvider
from sandbox.policy import CHECKOUT, DEFAULT_FOLDER, RUNTIME, STAMP, complete
from tests.parts import missing
from tests.sandbox.conftest import private_folder
from tests.sandbox.modes import BUBBLEWRAP_USER, MODES, Driver, Mode

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 80.0

OFFICE = """
import docx, pandas, pptx, matplotlib
matplotlib.use("pdf")
from matplotlib import pyplot

letter = docx.Document(); letter.add_paragraph("of a letter"); letter.save("a.docx")
slides = pptx.Presentation()
slides.slides.add_slide(slides.slide_layouts[0]).shapes.title.text = "of a slide"; slides.save("a.pptx")
pandas.DataFrame({"of a table": [1, 2]}).to_excel("a.xlsx")
pyplot.title("of a drawing"); pyplot.savefig("a.pdf")
"""


@pytest.fixture(params=[*MODES, pytest.param(Mode("host", as_root=False), id="host")])
def driver(request: pytest.FixtureRequest, open_folder: Path) -> Driver:
    """Of the provider `host` too, which is not among the modes of the other tests: it holds nothing."""
    mode: Mode = request.param
    mode.require()
    runtime = complete(DEFAULT_FOLDER)
    if runtime is None:
        missing("the runtime is not built: make sandbox-runtime")
    return Driver(mode, private_folder(open_folder / "data", mode), runtime=str(runtime))


def test_pandas_is_there(driver: Driver) -> None:
    (result,) = driver.run(('python3 -c "import pandas"', SECONDS))["results"]
    assert (result["exit_code"], result["output"]) == (0, "")


def test_the_report_names_its_packages_and_what_commands_reach(driver: Driver) -> None:
    report = driver.run(("true", SECONDS))["report"]
    built = {
        line.split("==")[0].lower().replace("_", "-")
        for line in (CHECKOUT / "constraints-sandbox.txt").read_text().splitlines()
        if "==" in line
    }
    named = {name.replace(".", "-") for name in report["packages"]}
    assert {name.replace(".", "-") for name in built} == named
    assert report["hosts"] == (None if driver.mode.provider == "host" else [])


@pytest.mark.parametrize("driver", [pytest.param(BUBBLEWRAP_USER, id="bubblewrap-user")], indirect=True)
def test_without_a_runtime_no_packages_are_named_and_hosts_are_those_of_the_config(driver: Driver) -> None:
    driver.runtime = ""
    driver.settings = {"network": {"mode": "egress", "allow": ["pypi.org"]}}
    report = driver.run(("true", SECONDS))["report"]
    assert (report["packages"], report["hosts"]) == ([], ["pypi.org"])


@pytest.mark.parametrize("driver", [pytest.param(BUBBLEWRAP_USER, id="bubblewrap-user")], indirect=True)
def test_office_files_are_written_and_read(driver: Driver) -> None:
    driver.files = {"office.py": OFFICE}
    where, written, *read = driver.run(
        ("command -v python3 markitdown", SECONDS),
        ("python3 office.py", SECONDS),
        *(
            (f"markitdown a.{kind} 2>/dev/null | grep -o 'of a [a-z]*'", SECONDS)
            for kind in ("docx", "pptx", "xlsx", "pdf")
        ),
    )["results"]
    assert where["output"].split() == [f"{RUNTIME}/bin/python3", f"{RUNTIME}/bin/markitdown"]
    assert (written["exit_code"], written["output"]) == (0, "")
    assert [each["output"].strip() for each in read] == ["of a letter", "of a slide", "of a table", "of a drawing"]


@pytest.mark.parametrize("driver", MODES, indirect=True)
def test_it_cannot_be_changed_and_does_not_tell_of_the_host(driver: Driver) -> None:
    # Neither path is written out: where this checkout is below /tmp, landlock's commands would mean another folder.
    here = "cd $(dirname $(dirname $(command -v markitdown))) && "
    host = b64encode(os.fsencode(DEFAULT_FOLDER.parent)).decode()
    telling = f"{here} grep -rlF $(echo {host} | base64 -d) .; ls | wc -l"
    changed, told = driver.run((f"{here} : >new", SECONDS), (telling, SECONDS))["results"]
    assert changed["exit_code"] != 0
    assert not (DEFAULT_FOLDER / "new").exists()
    assert int(told["output"]) > 0  # and no file before that number


async def test_a_runtime_that_is_built_later_is_used_from_then_on(open_folder: Path) -> None:
    Mode("bubblewrap", as_root=os.geteuid() == 0).require()
    settings = SandboxSettings()
    folder = open_folder / "runtime"
    workspaces = Workspaces(lambda thread: open_folder / thread / "user-data", settings)
    provider = BubblewrapProvider(settings, workspaces, instance=f"later-{os.getpid()}", runtime=folder)
    await provider.start()
    sandbox = await provider.acquire("t")
    assert (await sandbox.execute_command("ls /opt/antler", timeout=SECONDS)).exit_code != 0
    folder.mkdir()
    assert (await sandbox.execute_command("ls /opt/antler", timeout=SECONDS)).exit_code != 0
    (folder / STAMP).touch()
    assert (await sandbox.execute_command("ls /opt/antler", timeout=SECONDS)).output == f"{STAMP}\n"
    await provider.shutdown()
