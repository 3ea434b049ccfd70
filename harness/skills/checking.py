"""The whole check of what a skill would hold: static rules, then the model; for managing.py."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING

from harness.skills.document import SKILL_FILE
from harness.skills.files import digest_of, write_atomically
from harness.skills.judge import Opinion
from harness.skills.scan import scan_files
from harness.skills.verdict import Finding, Level, verdict_of

if TYPE_CHECKING:
    from pathlib import Path

    from harness.skills.files import Files
    from harness.skills.judge import Judge, TellUsage
    from harness.skills.verdict import Verdict

OPINIONS = "opinions.json"
MOST_OPINIONS = 50
NO_OPINION = "no model has looked at it"


class Checker:
    """judge: None: there is none."""

    def __init__(self, judge: Judge | None) -> None:
        self._judge = judge

    async def check(self, name: str, files: Files, history: Path, tell: TellUsage | None) -> Verdict:
        """history: the folder of the home's history, where opinions are kept. tell: is told what a model costs; None:
        no model is asked, so that a change which was shown to a person is not judged otherwise when it is made."""
        verdict = await asyncio.to_thread(scan_files, files)
        if verdict.level is Level.BLOCK:
            return verdict
        digest = f"{name}:{digest_of(files)}"
        opinion = await asyncio.to_thread(_known, history, digest)
        if opinion is None and self._judge is not None and tell is not None:
            opinion = await self._judge.opinion(name, files, verdict, tell)
            if opinion is not None:
                await asyncio.to_thread(_keep, history, digest, opinion)
        return with_opinion(verdict, opinion)


def with_opinion(verdict: Verdict, opinion: Opinion | None, *, without: Level = Level.BLOCK) -> Verdict:
    """Never milder than the rules were. without: an opinion, this is what becomes of scripts."""
    if opinion is None:
        level = without if verdict.scripts else Level.WARN
        file = verdict.scripts[0] if verdict.scripts else SKILL_FILE
        found = Finding(level, "not-judged", file, excerpt=NO_OPINION)
    elif opinion.level is Level.ALLOW:
        return verdict
    else:
        found = Finding(opinion.level, "judged", SKILL_FILE, excerpt=opinion.reason)
    return verdict_of([*verdict.findings, found], verdict.scripts)


def _known(history: Path, digest: str) -> Opinion | None:
    level, reason = _all(history).get(digest, (None, ""))
    return None if level is None else Opinion(Level(level), reason)


def _keep(history: Path, digest: str, opinion: Opinion) -> None:
    known = _all(history)
    known[digest] = (int(opinion.level), opinion.reason)
    newest = dict(list(known.items())[-MOST_OPINIONS:])
    history.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(history / OPINIONS, json.dumps(newest).encode())


def _all(history: Path) -> dict[str, tuple[int | None, str]]:
    """A file that is missing or damaged costs one more question."""
    with suppress(OSError, ValueError, TypeError):
        found = json.loads((history / OPINIONS).read_bytes())
        return {str(digest): (int(level), str(reason)) for digest, (level, reason) in found.items()}
    return {}
