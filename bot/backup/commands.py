"""`antler backup` and `antler restore`: a copy of everything a gateway stores, and a data folder made from one."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from bot.backup import archive, databases
from bot.backup.archive import BadArchive, Manifest
from bot.clock import SystemClock
from bot.control import logs
from bot.control.actions import MACHINE, Action, log_action, tell
from bot.control.lock import FILE as LOCK
from bot.control.lock import DataDirInUse, DataDirLock
from bot.control.server import SOCKET
from bot.redaction import Redactor
from bot.settings.sections import LOG_FILE
from bot.store.errors import StoreError

if TYPE_CHECKING:
    from bot.settings import Settings

DATA, DATABASES, CONFIG, AGENTS, SKILLS = "data", "databases", "config", "agents", "skills"
"""The folders of an archive. AGENTS and SKILLS: those of the config that are outside the data folder."""
THREADS = frozenset({"threads", "spool"})
TOKENS = "mcp"
"""The folder of the tokens of MCP servers."""
OWN = frozenset({LOCK, SOCKET, "antler.db", "checkpoints.db"})
PASSING = ("antler.db-", "antler.db.", "checkpoints.db-", ".antler-", ".restore-", "replaced-", LOG_FILE)
"""Prefixes of names in the data folder that are not copied: parts and copies of databases, unfinished work, what a
restore has set aside, the log."""
RESTORED = "restored"
NOT_EMPTY = "{folder} is not empty ({names}): choose another folder with --to, or set its content aside with --force"
SHOWN_EVERY = 0.2
MEGABYTE = 1_000_000


class Progress:
    """A progress line on the terminal; nothing is shown where the error output is no terminal."""

    def __init__(self) -> None:
        self.bytes = 0
        self._shown = 0.0

    def __call__(self, name: str, size: int) -> None:
        self.bytes += size
        now = time.monotonic()
        if sys.stderr.isatty() and now - self._shown > SHOWN_EVERY:
            self._shown = now
            print(f"\r\033[K{self.bytes / MEGABYTE:8.1f} MB  {name[-60:]}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def backup(
    settings: Settings, config: Path | None, target: Path, *, files: bool, secrets: bool, config_is_secret: bool
) -> int:
    """Write an archive, whether a gateway runs or not; returns the exit code.

    config: the file of the settings. files: include those of the threads. secrets: include the tokens of MCP servers,
    `.env` beside the config, and a config that has secrets written into it (config_is_secret).
    """
    progress = Progress()
    try:
        if target.absolute().is_relative_to(settings.data_dir):
            raise BadArchive(f"{target} is inside the data folder: choose a place outside it")
        if not settings.data_dir.is_dir():
            raise BadArchive(f"{settings.data_dir} does not exist, so there is nothing to back up")
        with (
            archive.writing(target.absolute(), progress) as writer,
            tempfile.TemporaryDirectory(prefix=".antler-backup-", dir=settings.data_dir) as folder,
        ):
            # First, so that files known to the databases are found below, unless they were deleted since.
            known = databases.snapshot(settings, Path(folder), progress)
            for copy in sorted(Path(folder).iterdir()):
                writer.add_file(copy, f"{DATABASES}/{copy.name}")
            _add_files(writer, settings, threads=files, secrets=secrets)
            if config is not None:
                _add_config(writer, config, secrets=secrets, is_secret=config_is_secret)
            if not secrets and (settings.data_dir / TOKENS).is_dir():
                writer.left_out.append("tokens of MCP servers (--with-secrets)")
            if not files:
                writer.left_out.append("files of threads (--no-files)")
            manifest = Manifest(
                version=version("antler"),
                made_at=SystemClock().now().isoformat(timespec="seconds"),
                data_dir=str(settings.data_dir),
                databases=known,
            )
            manifest = writer.finish(manifest)
    except (BadArchive, StoreError, OSError) as error:
        progress.end()
        return logs.complain(_text(error, settings))
    progress.end()
    tell(settings, Action.BACKUP, what=target.name)
    size = target.stat().st_size / MEGABYTE
    print(f"{target}: {len(manifest.entries)} files, {size:.1f} MB, schema revision {known.revision}")
    for each in manifest.left_out:
        print(f"  left out: {each}")
    return 0


def restore(settings: Settings, source: Path, *, force: bool) -> int:
    """Create the data folder of these settings from an archive, once all of it is checked; returns the exit code.

    force: the folder's content is moved to a separate folder in it, and that of PostgreSQL is replaced.
    """
    progress = Progress()
    try:
        with DataDirLock(settings.data_dir):
            there = _contents(settings.data_dir)
            if there and not force:
                raise BadArchive(NOT_EMPTY.format(folder=settings.data_dir, names=", ".join(there[:3])))
            with tempfile.TemporaryDirectory(prefix=".restore-", dir=settings.data_dir) as staging:
                manifest = archive.extract(source, Path(staging), progress)
                databases.check(manifest.databases, settings)
                if manifest.databases.kind == "postgresql":
                    databases.fill(settings, manifest.databases, Path(staging, DATABASES), replace=force)
                aside = _set_aside(settings.data_dir, there)
                notes = _put(settings, Path(staging), manifest)
                databases.move_paths(settings, Path(manifest.data_dir))
                with logs.written(settings):
                    log_action(Action.RESTORE, MACHINE, what=source.name)
    except DataDirInUse as error:
        progress.end()
        return logs.complain(error)
    except (BadArchive, StoreError, OSError) as error:
        progress.end()
        return logs.complain(_text(error, settings))
    progress.end()
    print(f"{settings.data_dir}: restored as it was at {manifest.made_at}, by antler {manifest.version}")
    for note in [*notes, *([f"the previous content is in {aside}; delete it when it is not needed"] if aside else [])]:
        print(f"  {note}")
    return 0


def _add_files(writer: archive.Writer, settings: Settings, *, threads: bool, secrets: bool) -> None:
    """Add the data folder without its databases, and the folders that the config has elsewhere."""
    folder = settings.data_dir
    passing = {entry.name for entry in os.scandir(folder) if entry.name.startswith(PASSING)}
    skip = OWN | passing | (frozenset() if threads else THREADS) | (frozenset() if secrets else {TOKENS})
    writer.add_tree(folder, DATA, frozenset(skip))
    for name, place in _elsewhere(settings).items():
        if place.is_dir():
            writer.add_tree(place, name)


def _elsewhere(settings: Settings) -> dict[str, Path]:
    """The folders of agents and skills outside the data folder, by their names in an archive."""
    places = {AGENTS: settings.agents_dir, SKILLS: settings.custom_skills}
    return {name: place for name, place in places.items() if not place.is_relative_to(settings.data_dir)}


def _add_config(writer: archive.Writer, config: Path, *, secrets: bool, is_secret: bool) -> None:
    """Add the config, unless it is secret; with `secrets` in any case, together with `.env` beside it."""
    if secrets or not is_secret:
        writer.add_file(config, f"{CONFIG}/{config.name}")
    else:
        writer.left_out.append(f"{config.name}, which contains secrets (--with-secrets)")
    variables = config.with_name(".env")
    if variables.exists() and secrets:
        writer.add_file(variables, f"{CONFIG}/.env")
    elif variables.exists():
        writer.left_out.append(".env (--with-secrets)")


def _contents(folder: Path) -> list[str]:
    """The names in a folder but for the lock: all that a gateway would miss or be confused by."""
    return sorted(entry.name for entry in os.scandir(folder) if entry.name != LOCK)


def _set_aside(folder: Path, names: list[str]) -> Path | None:
    if not names:
        return None
    aside = Path(tempfile.mkdtemp(prefix=time.strftime("replaced-%Y%m%d-%H%M%S-"), dir=folder))
    _hand_over(aside, folder)
    for name in names:
        (folder / name).rename(aside / name)
    return aside


def _hand_over(new: Path, folder: Path) -> None:
    """Give what root has just made in the data folder to the folder's owner."""
    if os.geteuid() == 0:
        standing = folder.stat()
        os.chown(new, standing.st_uid, standing.st_gid)


def _put(settings: Settings, staging: Path, manifest: Manifest) -> list[str]:
    """Move everything to its place; returns notes on what has no place here."""
    data, copies, notes = staging / DATA, staging / DATABASES, []
    if os.geteuid() == 0:
        # The gateway's user, even if root made the copy, or has just created the folder.
        standing = settings.data_dir.stat()
        owner = standing if standing.st_uid else data.stat()
        for mine in (settings.data_dir, settings.data_dir / LOCK, *_entries(copies)):
            os.chown(mine, owner.st_uid, owner.st_gid)
    for entry in [*_entries(data), *(_entries(copies) if manifest.databases.kind == "sqlite" else [])]:
        entry.rename(settings.data_dir / entry.name)
    beside = settings.data_dir / RESTORED
    for name in (AGENTS, SKILLS, CONFIG):
        if not (staging / name).is_dir():
            continue
        place = _elsewhere(settings).get(name)
        if place is not None and not _entries(place):
            with suppress(FileNotFoundError):
                place.rmdir()
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(staging / name, place)
        else:
            beside.mkdir(mode=0o700, exist_ok=True)
            _hand_over(beside, settings.data_dir)
            (staging / name).rename(beside / name)
            wanted = f", compare them with {place}" if place is not None else ", compare it with yours"
            notes.append(f"{name} of that time: {beside / name}{wanted}")
    return [*notes, *(f"not in the backup: {each}" for each in manifest.left_out)]


def _entries(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _text(error: Exception, settings: Settings) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return Redactor(settings.secrets())(str(error))
