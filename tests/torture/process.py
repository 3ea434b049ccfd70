"""`python -m tests.torture.process run --config FILE`: the gateway as an operator starts it, with a trap in it.

TORTURE_FOLDER   the control folder: crash points, switches, records (crash.py, disturbed.py, tools.py)
TORTURE_SABOTAGE names of protections to take away (sabotage.py), separated by commas
TORTURE_LEASE    seconds of the database's lease, where there is one
TORTURE_QUIET    seconds that a process has to live before it tries what was at work at two deaths
CRASH_AT         a window and its passing, such as W5:3, armed from the start
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
    """Change what is to be changed; nothing of the product has run yet."""
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
