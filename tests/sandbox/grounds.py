"""Files of a sandbox over a folder of a test, with the rights of whoever runs the tests and with bounds of its own."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from sandbox.base import OUTPUTS, UPLOADS, WORKSPACE
from sandbox.files.local import FileThreads, Ground, LocalFiles, PathLocks
from sandbox.files.paths import Layout, Root
from sandbox.files.searching import Bounds
from sandbox.files.trees import Usage
from sandbox.files.writing import Disk, Share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LARGE = 1 << 40


@contextmanager
def local_files(
    folder: Path, *, bounds: Callable[[], Bounds] = Bounds, keep_free: int = 0, mounts: tuple[Root, ...] = ()
) -> Iterator[LocalFiles]:
    """Below folder/{workspace,uploads,outputs}, which are made."""
    roots = list(mounts)
    for virtual in (WORKSPACE, UPLOADS, OUTPUTS):
        host = folder / virtual.rpartition("/")[2]
        host.mkdir(parents=True, exist_ok=True)
        roots.append(Root(virtual=virtual, host=host, own=True))
    threads = FileThreads()
    share = Share(Usage, most_bytes=LARGE, most_inodes=LARGE, largest_file=1 << 24, keep_free=keep_free)
    ground = Ground(threads=threads, locks=PathLocks(), disk=Disk(1 << 24, keep_free), bounds=bounds)
    layout = Layout(roots)
    try:
        yield LocalFiles(lambda: layout, share, ground)
    finally:
        threads.close()
