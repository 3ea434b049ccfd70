"""`python -m tests.torture.process run --config FILE`: the gateway as an operator starts it, with crash windows.

TORTURE_FOLDER   the control folder: crash points, switches, records (crash.py, disturbed.py, tools.py)
TORTURE_SABOTAGE names of protections to remove (sabotage.py), separated by commas
TORTURE_LEASE    seconds of the database's lease, if it has one
TORTURE_QUIET    seconds that a process has to live before it retries runs that were active at two deaths
CRASH_AT         a window and its nth passing, such as W5:3, armed from the start
"""

from __future__ import annotations

import os
from pathlib import Path

from bot.__main__ import main
from tests.torture.crash import ARMED_FILE, Trap
from tests.torture.disturbed import disturb, shorten_lease, shorten_quiet
from tests.torture.sabotage import commit_sabotage
from tests.torture.seams import AfterImport


def prepare() -> None:
    """Install all changes, before any code of the product has run."""
    folder = Path(os.environ["TORTURE_FOLDER"])
    seams = AfterImport()
    seams.install()
    for name in filter(None, os.environ.get("TORTURE_SABOTAGE", "").split(",")):
        commit_sabotage(seams, name)
    if lease := os.environ.get("TORTURE_LEASE"):
        shorten_lease(seams, int(lease))
    if quiet := os.environ.get("TORTURE_QUIET"):
        shorten_quiet(seams, float(quiet))
    disturb(seams, folder)
    Trap(folder).set(seams)
    if armed := os.environ.get("CRASH_AT"):
        (folder / ARMED_FILE).write_text(armed)


if __name__ == "__main__":
    prepare()
    main()
