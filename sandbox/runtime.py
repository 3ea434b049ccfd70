"""The Python packages that the agent's code finds in its sandbox: where they are on this machine, and whether they are
complete.

`make sandbox-runtime` builds them (build_runtime.py) into a folder that every provider shows read-only at
`policy.RUNTIME`, with its bin/ first in PATH. The gateway imports nothing of it.
"""

from __future__ import annotations

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
DEFAULT_FOLDER = CHECKOUT / ".sandbox-venv"
STAMP = "antler-runtime"
"""A file in the folder: the digest of what it was built from, written last."""
MISSING = "commands find no pandas, matplotlib and the like: `make sandbox-runtime` builds them"
"""What to say at the start, in doctor and in /status while there is no complete one."""


def complete(folder: Path | None) -> Path | None:
    """The folder, if the runtime in it is whole. One look at the disk, so that each command can ask again: one that was
    built meanwhile is used."""
    return folder if folder is not None and (folder / STAMP).is_file() else None


def built_from(folder: Path) -> str:
    """The digest of what the runtime was built from; "" while there is no complete one."""
    try:
        return (folder / STAMP).read_text().strip()
    except FileNotFoundError:
        return ""
