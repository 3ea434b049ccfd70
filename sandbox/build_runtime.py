"""Builds the runtime for the agent's code: `make sandbox-runtime`, in the background of `make run` and `make test`.

Run by the system's Python, which commands also have in their sandbox. Imports only the standard library. It builds next
to the old runtime and renames, so that an incomplete one is never visible.
"""

from __future__ import annotations

import argparse
import compileall
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from sandbox.policy import CHECKOUT, DEFAULT_FOLDER, RUNTIME, STAMP, built_from

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

VISIBLE = Path("/usr")
"""The only part of the system visible to commands, so the interpreter has to be there."""

_FORMAT = "1"
"""Version of the folder's format. A change makes every runtime be rebuilt."""
_NOT_NEEDED = ("activate", "activate.csh", "activate.fish", "Activate.ps1", "__pycache__")
_WITHOUT_TESTS = ("pandas", "numpy", "matplotlib")
"""Packages whose tests are removed: they take a sixth of the space."""
_LAST_LINES = 3


class BuildFailed(Exception):
    """The build failed; the text says why."""


class Builder:
    """Builds a runtime in a folder. packages: a file of exact requirements. Log of the tools: `<folder>.log`."""

    def __init__(self, folder: Path, packages: Path) -> None:
        self.folder = folder
        self.log = _beside(folder, ".log")
        self._packages = packages
        self._new = _beside(folder, ".new")
        self._old = _beside(folder, ".old")

    def is_current(self) -> bool:
        return built_from(self.folder) == self._digest()

    @contextmanager
    def alone(self, *, wait: bool) -> Iterator[bool]:
        """Lock out other builds. wait: until another build has ended; otherwise yields False while one is running."""
        with _beside(self.folder, ".lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            yield True

    def build(self) -> None:
        """Replace the runtime. Raises BuildFailed, which leaves the old one unchanged."""
        if not Path(sys.base_prefix).is_relative_to(VISIBLE):
            raise BuildFailed(f"it needs a Python below {VISIBLE}, not {sys.executable}: make SANDBOX_PYTHON=...")
        os.umask(0o022)  # if Antler is root, commands run as another user
        for leftover in (self._new, self._old):
            shutil.rmtree(leftover, ignore_errors=True)
        try:
            with self.log.open("w") as log:
                self._fill(log)
            (self._new / STAMP).write_text(self._digest() + "\n")
            self._swap()
        finally:
            shutil.rmtree(self._new, ignore_errors=True)

    def _digest(self) -> str:
        # A newer patch release of the interpreter replaces the old one and runs the same packages.
        parts = (_FORMAT, sys.base_prefix, *platform.python_version_tuple()[:2], self._packages.read_text())
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def _fill(self, log: TextIO) -> None:
        python = str(self._new / "bin" / "python3")
        say(f"1 of 3: virtual environment for {sys.executable}")
        self._run([sys.executable, "-m", "venv", str(self._new)], log)
        pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-input"]
        say(f"2 of 3: {_count(self._packages)} packages; may take a minute or two; log: {self.log.name}")
        # Only wheels: no code of a package runs while it is installed.
        self._run([*pip, "install", "--no-compile", "--only-binary", ":all:", "-r", str(self._packages)], log)
        self._run([*pip, "uninstall", "--yes", "setuptools"], log)
        self._run([*pip, "check"], log)
        say("3 of 3: bytecode")
        make_movable(self._new)
        for tests in self._tests():
            shutil.rmtree(tests)
        # The bytecode names its sources at the paths visible to commands, so as not to reveal host paths.
        compileall.compile_dir(
            self._new / "lib",
            quiet=2,
            stripdir=str(self._new),
            prependdir=RUNTIME,
            force=True,
            workers=os.cpu_count() or 1,
        )

    def _tests(self) -> list[Path]:
        packages = [found for name in _WITHOUT_TESTS for found in self._new.glob(f"lib/*/site-packages/{name}")]
        return [found for package in packages for found in package.rglob("tests") if found.is_dir()]

    def _run(self, command: Sequence[str], log: TextIO) -> None:
        log.write(f"$ {' '.join(command)}\n")
        log.flush()
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=self.folder.parent, check=False
        )
        if done.returncode:
            raise BuildFailed(" / ".join(self.log.read_text().strip().splitlines()[-_LAST_LINES:]))

    def _swap(self) -> None:
        with suppress(FileNotFoundError):
            self.folder.rename(self._old)
        self._new.rename(self.folder)
        shutil.rmtree(self._old, ignore_errors=True)


def make_movable(folder: Path) -> None:
    """Remove the path of its creation from an environment: commands see it at another one."""
    for name in _NOT_NEEDED:
        unneeded = folder / "bin" / name
        if unneeded.is_dir():
            shutil.rmtree(unneeded)
        else:
            unneeded.unlink(missing_ok=True)
    for script in (folder / "bin").iterdir():
        if script.is_symlink() or not script.is_file():
            continue
        first, newline, rest = script.read_bytes().partition(b"\n")
        if first.startswith(b"#!") and os.fsencode(folder) in first:
            script.write_bytes(b"#!/usr/bin/env python3" + newline + rest)
    config = folder / "pyvenv.cfg"
    kept = [line for line in config.read_text().splitlines(keepends=True) if not line.startswith("command")]
    config.write_text("".join(kept))


def say(text: str) -> None:
    with suppress(OSError):  # the terminal may be gone; the log contains the rest
        print(f"Sandbox runtime: {text}", file=sys.stderr, flush=True)


def main() -> None:
    options = _options()
    builder = Builder(options.folder, options.packages)
    if builder.is_current():
        return
    if options.background:
        _go_to_the_background(builder.log)
    begun = time.monotonic()
    with builder.alone(wait=not options.background) as alone:
        if not alone or builder.is_current():
            return
        try:
            builder.build()
        except (BuildFailed, OSError) as error:
            say(f"not built: {error}")
            say(f"Antler works without it, but the agent's code has no pandas, matplotlib etc. Log: {builder.log}")
            say("Run `make sandbox-runtime` to try again.")
            sys.exit(1)
    say(f"ready in {options.folder.name} after {time.monotonic() - begun:.0f} s")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="build_runtime", description="Build the runtime for the agent's code.")
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER, help="where to build it")
    parser.add_argument("--packages", type=Path, default=CHECKOUT / "constraints-sandbox.txt", help="what to install")
    parser.add_argument("--background", action="store_true", help="run at low priority, with output to a log")
    return parser.parse_args()


def _go_to_the_background(log: Path) -> None:
    """Detach, so as not to be stopped with sibling processes, and close the output, whose readers wait for its end."""
    with suppress(PermissionError):  # it already leads a group
        os.setsid()
    os.nice(19)
    if not sys.stderr.isatty():
        say(f"being built in the background; log: {log.name}")
        with log.open("a") as steps:
            for descriptor in (1, 2):
                os.dup2(steps.fileno(), descriptor)


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _count(packages: Path) -> int:
    return sum(not line.startswith("#") for line in packages.read_text().splitlines())


if __name__ == "__main__":
    main()
