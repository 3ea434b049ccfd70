"""Installing a `.skill` archive into a folder of skills: for `antler skills install`. Blocking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.skills.archive import ArchiveRefused, unpack
from harness.skills.editing import Stamp, standing, write
from harness.skills.errors import Problem
from harness.skills.scan import scan_files
from harness.skills.verdict import Level

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from harness.skills.editing import SkillHome
    from harness.skills.files import Files
    from harness.skills.verdict import Verdict

    Judging = Callable[[str, Files, Verdict], Verdict]


@dataclass(frozen=True, slots=True)
class Installed:
    """digest: of its whole content, which is what was agreed to. pending: it stays off until an administrator turns it
    on. replaced: there was one of this name, kept as a former version."""

    name: str
    digest: str
    verdict: Verdict
    pending: bool
    replaced: bool


def install(
    archive: Path,
    home: SkillHome,
    *,
    built_in: Collection[str],
    at: str,
    author: str = "",
    replace: bool = False,
    judging: Judging | None = None,
) -> Installed:
    """Check an archive and put its skill into a home. built_in: names that it must not have. at: ISO time. author: who
    installs it, "" for the machine's owner. replace: a skill of this name may be there. judging: makes the verdict of
    the rules severer, asked about what they do not refuse. Raises ArchiveRefused, with every reason, and what
    `editing.write` raises."""
    unpacked = unpack(archive)
    name, verdict = unpacked.document.name, scan_files(unpacked.files)
    before = standing(home, name)
    problems = [Problem("", "name", f"{name} is the name of a built-in skill")] if name in built_in else []
    if before.digest and not replace:
        problems.append(Problem("", "name", f"{name} is there already; --replace puts this one in its place"))
    if judging is not None and not problems and verdict.level is not Level.BLOCK:
        verdict = judging(name, unpacked.files, verdict)
    if verdict.level is Level.BLOCK:
        problems += [Problem("", "", reason) for reason in verdict.reasons]
    if problems:
        raise ArchiveRefused(problems)
    stamp = Stamp(at=at, action="install", author=author, reason=archive.name[:200])
    written = write(home, name, unpacked.files, base=before.digest, stamp=stamp, verdict=verdict)
    return Installed(name, written.version.digest, verdict, written.pending, bool(before.digest))
