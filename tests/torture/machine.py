"""The modes in which the machine causes trouble: a full disk, a database that cannot be written, a clock that
jumps."""

from __future__ import annotations

import contextlib
import errno
import subprocess
from typing import TYPE_CHECKING

from tests.torture.disturbed import CLOCK_FILE, READ_ONLY_FILE
from tests.torture.storms import Disturbance, storm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.torture.campaign import Campaign

DISK_BYTES = 24 * 1024 * 1024
BYTES_PER_KILL = 1024 * 1024
"""Space for the data stored from one kill to the next, so that only the filler fills the disk."""
HOUR = 3600.0
FREED = 0.5
"""Share of troubles that end before the process is killed."""
FULL = "the disk is full"
READ_ONLY = "read-only"


class NotPossible(Exception):
    """Raised when this machine or user cannot run a mode; the text says why."""


@contextlib.contextmanager
def small_disk(folder: Path, kills: int) -> Iterator[None]:
    """Mount a small file system on the folder. Raises NotPossible."""
    folder.mkdir(parents=True, exist_ok=True)
    size = DISK_BYTES + kills * BYTES_PER_KILL
    command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "antler-torture", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except FileNotFoundError as error:
        raise NotPossible("there is no mount command") from error
    if mounted.returncode != 0:
        raise NotPossible(f"a file system cannot be mounted here ({mounted.stderr.strip()})")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], capture_output=True, timeout=10, check=True)


def fill(file: Path) -> None:
    """Fill all remaining space."""
    with file.open("ab", buffering=0) as filler:
        for size in (1024 * 1024, 4096, 1):
            try:
                while True:
                    filler.write(bytes(size))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise


class Trouble(Disturbance):
    """A problem of the machine that ends before the kill or outlasts it."""

    def begin(self, campaign: Campaign) -> None:
        raise NotImplementedError

    def end(self, campaign: Campaign) -> None:
        raise NotImplementedError

    async def strike(self, campaign: Campaign) -> None:
        await campaign.live(0.3)
        self.begin(campaign)
        campaign.disturbed = campaign.world.life.harmed = True
        await campaign.live(0.3)
        if campaign.chance.random() < FREED:
            await self.lift(campaign)

    async def lift(self, campaign: Campaign) -> None:
        self.end(campaign)
        campaign.disturbed = False


class FullDisk(Trouble):
    """A data folder without space for a single byte."""

    def begin(self, campaign: Campaign) -> None:
        fill(campaign.world.data_dir / "filler")

    def end(self, campaign: Campaign) -> None:
        (campaign.world.data_dir / "filler").unlink(missing_ok=True)


class ReadOnly(Trouble):
    """A database that accepts no writes."""

    def begin(self, campaign: Campaign) -> None:
        (campaign.world.control / READ_ONLY_FILE).touch()

    def end(self, campaign: Campaign) -> None:
        (campaign.world.control / READ_ONLY_FILE).unlink(missing_ok=True)


class JumpingClock(Disturbance):
    """A wall clock that changes often: an hour ahead, an hour behind, or right."""

    async def strike(self, campaign: Campaign) -> None:
        await campaign.live()
        self._set(campaign, campaign.chance.choice((-HOUR, HOUR)))

    async def lift(self, campaign: Campaign) -> None:
        self._set(campaign, 0.0)

    @staticmethod
    def _set(campaign: Campaign, seconds: float) -> None:
        draft = campaign.world.control / f"{CLOCK_FILE}.new"
        draft.write_text(str(seconds))
        draft.replace(campaign.world.control / CLOCK_FILE)


async def full_disk(campaign: Campaign) -> None:
    """Kill before, while and after the disk is full."""
    campaign.patient = True
    with small_disk(campaign.world.data_dir, campaign.scale.kills):
        try:
            await storm(campaign, FullDisk())
            _must_show(campaign, FULL)
            await campaign.finish()
        finally:
            await campaign.world.bury()


async def read_only(campaign: Campaign) -> None:
    """Kill before, while and after the database is read-only."""
    campaign.patient = True
    await storm(campaign, ReadOnly())
    _must_show(campaign, READ_ONLY)


async def jumping_clock(campaign: Campaign) -> None:
    """Kill while the clock jumps."""
    await storm(campaign, JumpingClock())


def _must_show(campaign: Campaign, text: str) -> None:
    """Check that the trouble reached the process, according to its log."""
    if text not in campaign.world.log:
        campaign.report.blame("missed_windows", f"the log never says {text!r}")
