"""A possible next version of Antler: `python -m tests.flow.next_version`, like bot, with one more schema migration.

NEXT_STEPS: the folder of its migrations. NEXT_EXPANDS: set if workers of the previous version may keep running with it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from bot.store.schema import STEPS

REVISION = "9999"
STEP = f'''
"""A step as one of the future might be."""
import sqlalchemy as sa
from alembic import op
revision = "{REVISION}"
down_revision = "{STEPS.revisions[-1]}"

def upgrade():
    op.add_column("threads", sa.Column("colour", sa.Text(), nullable=True))
'''


def prepared(folder: Path, *, expands: bool) -> dict[str, str]:
    """Create that version's migrations below the folder; return its environment."""
    scripts = folder / "migrations"
    shutil.copytree(STEPS.scripts, scripts, ignore=shutil.ignore_patterns("__pycache__"))
    (scripts / "versions" / "r9999_more.py").write_text(STEP)
    return {"NEXT_STEPS": str(scripts)} | ({"NEXT_EXPANDS": "1"} if expands else {})


def become() -> None:
    """Make this process the next version."""
    added = {REVISION} if "NEXT_EXPANDS" in os.environ else set()
    now = {
        "revisions": (*STEPS.revisions, REVISION),
        "scripts": Path(os.environ["NEXT_STEPS"]),
        "expanding": STEPS.expanding | added,
    }
    for name, value in now.items():
        object.__setattr__(STEPS, name, value)  # all modules share this object


if __name__ == "__main__":
    become()
    from bot.__main__ import main

    main()
