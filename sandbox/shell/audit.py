"""The assessment of a shell command before it runs: pass, warn or block, according to a table.

Defense in depth, never the boundary: the sandbox confines commands whatever they do. This keeps a manipulated agent
from destroying its own files and overloading the machine, and leaves a trace of its attempts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from sandbox.shell import suspicious as found
from sandbox.shell.reader import LONGEST, Unreadable, names, parsed
from sandbox.shell.script import all_pipelines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox.shell.reader import Command
    from sandbox.shell.suspicious import Found


class Verdict(StrEnum):
    PASS = "pass"
    WARN = "warn"
    """It runs, and is recorded."""
    BLOCK = "block"


@dataclass(frozen=True, slots=True)
class Assessment:
    """The result. rule: the row that applied, "" for a pass. reason: one sentence, for the model and the audit log."""

    verdict: Verdict
    rule: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    verdict: Verdict
    rule: str
    reason: str
    found: Found


_EXPANSION = 4
_ALWAYS_READ = 20_000
"""Characters read in addition to _EXPANSION times those of the command: programs that run programs repeat text."""

_FORK_BOMB = re.compile(r"(?<![\w:.])([\w:.]{1,40})\(\)\{(?:\1\|\1|\1&\1)")


def assess(command: str) -> Assessment:
    """The most severe matching row; the first among equals."""
    if _FORK_BOMB.search("".join(command[:LONGEST].split())):
        return Assessment(Verdict.BLOCK, "fork-bomb", "It starts endless copies of itself.")
    try:
        pipelines = list(_pipelines(command))
    except Unreadable as error:
        # Nobody writes something too long or too deep by hand; an open quote is a common mistake that shells report.
        verdict = Verdict.WARN if error.unfinished else Verdict.BLOCK
        return Assessment(verdict, "unreadable", f"It cannot be checked: {error}. Put long scripts into a file.")
    fitting = [row for row in TABLE if any(row.found(pipeline) for pipeline in pipelines)]
    row = next((row for row in fitting if row.verdict is Verdict.BLOCK), fitting[0] if fitting else None)
    return Assessment(row.verdict, row.rule, row.reason) if row else Assessment(Verdict.PASS)


def _pipelines(command: str) -> Iterator[list[Command]]:
    """All pipelines that it runs. Raises Unreadable, also if it expands to far more text than its own."""
    room = _EXPANSION * len(command) + _ALWAYS_READ
    for pipeline in all_pipelines(parsed(command)):
        room -= sum(len(word.text) + 1 for run in pipeline for word in run.words)
        if room < 0:
            raise Unreadable("it expands to too much text")
        yield pipeline


B, W = Verdict.BLOCK, Verdict.WARN
# fmt: off
TABLE: tuple[Row, ...] = (
    Row(B, "delete-root", "It deletes a whole system folder, or everything.",
        found.some(found.deletes_a_root)),
    Row(B, "format-disk", "It writes directly to a disk.", found.some(found.formats)),
    Row(B, "fill-disk", "It writes endlessly until the disk is full.", found.fills_disk),
    Row(B, "download-and-run", "It runs what it downloads, without review.", found.piped_into_shell(found.DOWNLOADERS)),
    Row(B, "miner", "It mines a cryptocurrency.", found.named(found.MINERS)),
    Row(B, "miner", "It mines a cryptocurrency.", found.contains(found.POOL)),
    Row(B, "process-secrets", "It reads the memory, environment or keys of programs and users.",
        found.mentions(found.SECRETS)),
    Row(B, "reverse-shell", "It gives another machine a shell.", found.some(found.opens_reverse_shell)),
    Row(B, "write-system", "It writes to a system folder.", found.some(found.writes_system)),
    Row(B, "container-socket", "It talks to the machine's container service.", found.mentions(found.SOCKETS)),
    Row(B, "cloud-metadata", "It asks the machine's cloud for its credentials.", found.contains(found.METADATA)),
    Row(B, "namespaces", "It tries to change its own isolation.", found.named(found.NAMESPACES)),
    Row(B, "kernel", "It changes the kernel or stops the machine.", found.named(found.KERNEL)),
    Row(B, "kill-everything", "It kills all processes, including its own shell.", found.some(found.kills_everything)),
    Row(W, "empty-folder", "It deletes everything in a folder of the conversation.",
        found.some(found.empties_a_folder)),
    Row(W, "decode-and-run", "It runs what it decodes, which cannot be reviewed first.",
        found.piped_into_shell(found.DECODERS)),
    Row(W, "upload", "It sends a file to another machine.", found.some(found.uploads)),
    Row(W, "wide-rights", "It gives a file broader permissions than it needs.", found.some(found.sets_wide_rights)),
    Row(W, "privilege", "It asks for another user's rights.", found.named(names("su passwd chpasswd visudo"))),
    Row(W, "schedule", "It schedules commands to run later.", found.named(names("crontab at batch systemctl"))),
    Row(W, "package", "It installs a package from the internet.", found.some(found.installs)),
)
# fmt: on
"""Checked from the top; the first of the most severe rows applies."""
