"""What the sandboxes over folders of this machine have in common: an id, and the files. The local providers' base."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox.base import sandbox_id

if TYPE_CHECKING:
    from sandbox.files.local import LocalFiles


class LocalSandbox:
    """One thread's. Its file half is LocalFiles', whose methods it has as its own; who inherits it runs commands."""

    def __init__(self, thread_id: str, files: LocalFiles) -> None:
        self._id = sandbox_id(thread_id)
        self.read_file = files.read_file
        self.fetch = files.fetch
        self.write_file = files.write_file
        self.update_file = files.update_file
        self.list_dir = files.list_dir
        self.glob = files.glob
        self.grep = files.grep

    @property
    def id(self) -> str:
        return self._id
