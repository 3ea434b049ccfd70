"""A small root file system from this machine's own programs: a shell, the usual tools, python3 and what these need."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_PROGRAMS = (
    "bash sh awk cat chmod chown cp cut date dd df du echo env false find grep head id kill ln ls mkdir mkfifo mknod "
    "mount mv nohup nproc od printf ps pwd python3 rm rmdir sed seq setpriv setsid sha256sum sleep sort stat sync tail "
    "tee timeout touch tr true truncate umount uname uniq unshare wc xargs yes"
)
_FOLDERS = "dev etc mnt proc root run sys tmp usr usr/bin usr/lib usr/lib64 usr/sbin var"
_LEFT_OUT = re.compile(
    r"/(__pycache__|test|idlelib|tkinter|lib2to3|ensurepip|dist-packages|config-[^/]*|pydoc_data)(/|$)"
)
_PLACES = "/usr/bin:/bin:/usr/sbin:/sbin"


def write_image(file: IO[bytes], more: Callable[[tarfile.TarFile], None] | None = None) -> None:
    """As a tar for `POST /images/create?fromSrc=-`. more: adds to it."""
    programs = {name: path for name in _PROGRAMS.split() if (path := shutil.which(name, path=_PLACES))}
    library = Path(_ask_python(programs["python3"]))
    with tarfile.open(fileobj=file, mode="w") as tar:
        for folder in _FOLDERS.split():
            _add_folder(tar, folder)
        for link in ("bin", "sbin", "lib", "lib64"):
            _add_link(tar, link, f"usr/{link}")
        for name, path in programs.items():
            tar.add(os.path.realpath(path), f"usr/bin/{name}")
        extensions = [str(path) for path in (library / "lib-dynload").glob("*.so")]
        for path in _libraries([*programs.values(), *extensions]):
            tar.add(os.path.realpath(path), ("usr" + path if not path.startswith("/usr/") else path).lstrip("/"))
        tar.add(library, str(library).lstrip("/"), filter=lambda each: None if _LEFT_OUT.search(each.name) else each)
        if more is not None:
            more(tar)


def _ask_python(program: str) -> str:
    command = [program, "-I", "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip()


def _libraries(programs: list[str]) -> set[str]:
    """What ldd(1) names; it fails for scripts and static programs, which need none."""
    said = subprocess.run(["ldd", *programs], capture_output=True, text=True, timeout=60, check=False).stdout
    return set(re.findall(r"(?:=> |^\t)(/\S+) \(0x", said, re.MULTILINE))


def _add_folder(tar: tarfile.TarFile, name: str) -> None:
    folder = tarfile.TarInfo(name)
    folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
    tar.addfile(folder)


def _add_link(tar: tarfile.TarFile, name: str, target: str) -> None:
    link = tarfile.TarInfo(name)
    link.type, link.linkname = tarfile.SYMTYPE, target
    tar.addfile(link)
