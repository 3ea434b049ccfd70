"""The findings of checks, and their presentation: as lines for people, as JSON, and as an exit code."""

from __future__ import annotations

import json
import re
import textwrap
from collections import Counter
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from bot.settings import Settings
    from bot.settings.problems import ConfigProblem

VERSION = 1
"""Version of the JSON form."""
EXIT_ERRORS = 1
EXIT_WARNINGS = 3
WIDTH = 100
_INDENT = " " * 6


class Severity(IntEnum):
    """OK: works. NOTE: no fault, good to know. WARNING: works, but not as well as it could. ERROR: does not work."""

    OK = 0
    NOTE = 1
    WARNING = 2
    ERROR = 3

    @property
    def word(self) -> str:
        return self.name.lower()


_SIGNS = {Severity.OK: "✓", Severity.NOTE: "·", Severity.WARNING: "!", Severity.ERROR: "✗"}
_PLAIN_SIGNS = {Severity.OK: "+", Severity.NOTE: "-", Severity.WARNING: "!", Severity.ERROR: "x"}


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check. what: the subject, mostly a key of the config or a file. says: its state. remedy: what to
    do, "" where nothing is needed. fixed: what --fix did about it, "" for nothing."""

    severity: Severity
    what: str
    says: str
    remedy: str = ""
    fixed: str = ""

    def cleaned(self, redact: Callable[[str], str]) -> Finding:
        """The same with every text redacted, on one line, without control characters: some are written by others."""
        texts = (self.what, self.says, self.remedy, self.fixed)
        return Finding(self.severity, *(_printable(redact(text)) for text in texts))


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in " ".join(text.split()))


def ok(what: str, says: str) -> Finding:
    return Finding(Severity.OK, what, says)


def note(what: str, says: str, remedy: str = "") -> Finding:
    return Finding(Severity.NOTE, what, says, remedy)


def warning(what: str, says: str, remedy: str) -> Finding:
    return Finding(Severity.WARNING, what, says, remedy)


def error(what: str, says: str, remedy: str) -> Finding:
    return Finding(Severity.ERROR, what, says, remedy)


def of_config(problem: ConfigProblem, severity: Severity) -> Finding:
    """The finding of a problem of the config, with its line."""
    where = problem.file if problem.line is None else f"{problem.file}:{problem.line}"
    if not problem.key:
        return Finding(severity, where, problem.message, problem.suggestion or f"correct {where}")
    section = re.split(r"[.\[]", problem.key, maxsplit=1)[0]
    remedy = problem.suggestion or f"correct it; config.yaml.example has an example of `{section}`"
    return Finding(severity, f"{where}: {problem.key}", problem.message, remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """The input of the checks.

    file: of the config, None for the built-in default. served: a process holds the data folder. gateway: its status,
    None when there is none or it does not answer. fix: repair what is safe to repair.
    """

    settings: Settings
    file: Path | None
    gateway: Mapping[str, Any] | None
    served: bool
    fix: bool


@dataclass(frozen=True, slots=True)
class Group:
    """The findings about one subject."""

    title: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """All findings. online: the platforms and models were queried too."""

    antler: str
    online: bool
    groups: Sequence[Group]

    @property
    def exit_code(self) -> int:
        """0 without a warning or an error, EXIT_WARNINGS with warnings alone, else EXIT_ERRORS. What was fixed does not
        count."""
        worst = max((finding.severity for finding in self._left()), default=Severity.OK)
        return {Severity.WARNING: EXIT_WARNINGS, Severity.ERROR: EXIT_ERRORS}.get(worst, 0)

    @property
    def fixed(self) -> list[str]:
        """What --fix repaired, by the name of each finding."""
        return [finding.what for group in self.groups for finding in group.findings if finding.fixed]

    def to_json(self) -> str:
        """The findings in order, an object each: group, severity (a word), what, says, remedy, fixed."""
        findings = [
            {"group": group.title, **asdict(finding), "severity": finding.severity.word}
            for group in self.groups
            for finding in group.findings
        ]
        told = {"version": VERSION, "antler": self.antler, "online": self.online, "findings": findings}
        return json.dumps(told, ensure_ascii=False, indent=2)

    def to_text(self, encoding: str) -> str:
        """Lines for people, with symbols that the terminal's encoding has."""
        signs = _SIGNS if _shows("".join(_SIGNS.values()), encoding) else _PLAIN_SIGNS
        lines = [f"antler {self.antler}"]
        for group in self.groups:
            lines += ["", group.title]
            for finding in group.findings:
                lines += _lines(finding, signs)
        text = "\n".join([*lines, "", self._summary()])
        return text.encode(encoding, "replace").decode(encoding)

    def _left(self) -> Iterable[Finding]:
        return (finding for group in self.groups for finding in group.findings if not finding.fixed)

    def _summary(self) -> str:
        counts = Counter(finding.severity for finding in self._left())
        bad = [Severity.ERROR, Severity.WARNING, Severity.NOTE]
        told = [f"{counts[s]} {s.word}{'s' if counts[s] != 1 else ''}" for s in bad if counts[s]]
        summary = f"{', '.join(told)}." if told else "All is well."
        if self.fixed:
            summary += f" {len(self.fixed)} fixed."
        if not self.online:
            summary += " Nothing was queried over the network: `antler doctor --online` also does that."
        return summary


def _lines(finding: Finding, signs: Mapping[Severity, str]) -> list[str]:
    told = f"{finding.what}: {finding.says}"
    first, *more = textwrap.wrap(told, WIDTH - 4, break_long_words=False, break_on_hyphens=False) or [""]
    lines = [f"  {signs[finding.severity]} {first}", *(f"    {line}" for line in more)]
    for text in (f"fixed: {finding.fixed}" if finding.fixed else finding.remedy,):
        lines += textwrap.wrap(
            text,
            WIDTH,
            initial_indent=f"{_INDENT}-> ",
            subsequent_indent=f"{_INDENT}   ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines


def _shows(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
